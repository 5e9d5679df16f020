"""Composite ops that ONNX has a node for: an equation goes in, and that node comes out if it says the same.

Elsewhere, as for normalisation over other dimensions than the last ones, the op is taken apart before it is
written (`ir/passes.decompose`).
"""

from __future__ import annotations

from collections.abc import Callable

from fusegrad.tracer.export.onnx.builder import Handle
from fusegrad.tracer.ir.graph import Equation, Value


def is_one_node(equation: Equation) -> bool:
    """Whether the equation is written as it stands."""
    name, operands = equation.op.name, equation.values()
    if name not in NODES or any(v.dtype.char not in "fd" for v in operands):
        return False
    x = operands[0]
    if name == "linear":
        return x.type.ndim == 2
    if name == "mean":
        return bool(x.shape) and bool(_axes(equation, x))
    if name in ("softmax", "log_softmax"):
        return bool(x.shape)
    dims = _axes(equation, x)
    last = tuple(x.shape[d] for d in dims)
    return dims == tuple(range(x.type.ndim))[-len(dims) :] and all(v.shape == last for v in operands[1:])


def _axes(equation: Equation, x: Value) -> tuple[int, ...]:
    """The dimensions that an equation is about, all of them if it says none."""
    given = equation.params["dims"] if "dims" in equation.params else equation.params["dim"]
    return tuple(range(x.type.ndim)) if given is None else tuple(given)


def _along(kind: str) -> Callable[..., Handle]:
    return lambda e, x: x.node(kind, axis=e.params["dim"])


def _linear(e: Equation, x: Handle, *weight_and_bias: Handle) -> Handle:
    return x.node("Gemm", *weight_and_bias, transB=1)


def _mean(e: Equation, x: Handle) -> Handle:
    return x.shaped("ReduceMean", _axes(e, e.values()[0]), keepdims=int(e.params["keepdim"]))


def _standardize(e: Equation, x: Handle, *scale_and_bias: Handle) -> Handle:
    """Of mean 0 and variance 1 over the last dimensions, then scaled and moved."""
    dims = e.params["dims"]
    if not scale_and_bias:
        sizes = [e.values()[0].shape[d] for d in dims]
        scale_and_bias = (x.builder.constant(1, x.dtype).shaped("Expand", sizes),)
    return x.node("LayerNormalization", *scale_and_bias, axis=dims[0], epsilon=e.params["eps"])


NODES: dict[str, Callable[..., Handle]] = {
    "softmax": _along("Softmax"),
    "log_softmax": _along("LogSoftmax"),
    "linear": _linear,
    "mean": _mean,
    "standardize": _standardize,
    "standardize_affine": _standardize,
}
