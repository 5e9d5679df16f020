"""Arithmetic, rounding and conversions, element by element.

Each op is declared once: NumPy function, dtype rule, scalar expression, gradient.
Gradient rules are written with the public ops, so they can be traced, compiled and derived again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import (
    ANY,
    FLOAT,
    NUMBER,
    ONLY_REAL_FLOAT,
    REAL,
    REAL_NUMBER,
    Elementwise,
)
from fusegrad.eager.core.memory_order import (
    LAST,
    asked_for,
    channels_innermost,
    contiguous_format,
    has_channels_last,
    preserve_format,
    rows,
)
from fusegrad.eager.core.names import attach, internal
from fusegrad.eager.core.op import REGISTRY, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import OpenArray
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.inplace import IN_ITS_MEMORY, ONE_OP, OneOp
from fusegrad.eager.ops.pointwise.declare_pointwise import (
    Unary,
    binary,
    operand,
    tensor_operand,
    unary,
)
from fusegrad.eager.ops.precision import rounded_once

_BOOL = np.dtype(bool)

# Arithmetic.

_add = binary(
    "add", np.add, ANY, "add", (lambda g: g, lambda g: g), "x + y.", operator="add", alone=True, named=False
)


class _SubOp(Elementwise):
    """A difference: of bools it would be ambiguous, so that PyTorch refuses them."""

    def compute_dtype(self, operands: Any) -> np.dtype:
        if any(isinstance(x, bool) or getattr(x, "dtype", None) == _BOOL for x in operands):
            raise RuntimeError("subtraction with a bool is not supported; use ^ or logical_not()")
        return super().compute_dtype(operands)


_sub = binary(
    "sub",
    np.subtract,
    NUMBER,
    "sub",
    (lambda g: g, lambda g: neg(g)),
    "x - y.",
    operator="sub",
    alone=True,
    family=_SubOp,
    named=False,
)
mul = binary(
    "mul",
    np.multiply,
    ANY,
    "mul",
    (lambda g, y: g * y, lambda g, x: g * x),
    "x * y.",
    operator="mul",
    alone=True,
    aliases=("multiply",),
)
_div = binary(
    "div",
    np.true_divide,
    FLOAT,
    "div",
    (lambda g, y: g / y, lambda g, x, y: -g * ((x / y) / y)),
    "x / y; integers give floats.",
    operator="truediv",
    alone=True,
    named=False,
)


@public(method=True, inplace=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other. Shapes broadcast. Source: `torch.add`.

    Raises RuntimeError for a fraction as `alpha` of integers.
    """
    return _add(input, other) if type(alpha) is int and alpha == 1 else _of_scaled(_add, input, other, alpha)


@public(aliases=("subtract",), method=True, inplace=True)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other. Shapes broadcast. Source: `torch.sub`."""
    return _sub(input, other) if type(alpha) is int and alpha == 1 else _of_scaled(_sub, input, other, alpha)


@public(method=True)
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input. Shapes broadcast. Source: `torch.rsub`."""
    return sub(other, tensor_operand(input), alpha=alpha)


def _of_scaled(op: Callable[..., Tensor], input: Any, other: Any, alpha: Any) -> Tensor:
    """`op(input, alpha * other)`; with half types the product is not rounded, as in PyTorch."""
    dtype = dtypes.result_type([x.array if isinstance(x, Tensor) else x for x in (input, other)])
    if not dtypes.is_half(dtype) or isinstance(alpha, (Tensor, bool)):
        return op(input, _scaled(input, other, alpha))
    few = dtypes.in_digits_of(dtype, dtypes.held(alpha, dtype))
    return rounded_once(lambda x, y: op(x, _scaled(x, y, few)), input, other)


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """`alpha * other` for an `alpha` that the result's dtype can hold."""
    dtype = dtypes.result_type([x.array if isinstance(x, Tensor) else x for x in (input, other)])
    kind = dtype.kind
    if isinstance(alpha, bool) and kind != "b":
        raise failure(RuntimeError, "Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and kind in "bui":
        raise failure(
            RuntimeError, "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and kind != "c":
        raise failure(
            RuntimeError, "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if not isinstance(alpha, Tensor):
        dtypes.held(alpha, dtype)
    return mul(other, bool(alpha) if kind == "b" else alpha)


@public(aliases=("divide", "true_divide"), method=True, inplace=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, rounded by `rounding_mode` (None, "floor", "trunc"). Source: `torch.div`.

    Raises RuntimeError for another mode, and for integers divided by 0 with a rounding mode.
    """
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise failure(
            RuntimeError,
            f"expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}",
        )
    kind = dtypes.result_type([x.array if isinstance(x, Tensor) else x for x in (input, other)])
    return trunc(_div(input, other)) if kind.kind in "fV" else _truncated_quotient(input, other)


ONE_OP[add], ONE_OP[sub] = (OneOp(ONE_OP[f].op, _scaled) for f in (_add, _sub))
ONE_OP[div] = ONE_OP[_div]


def _truncated_quotient(x: Any, y: Any) -> Tensor:
    """Integer division toward 0."""
    quotient = floor_divide(x, y)
    inexact = ops.logical_and(ops.ne(mul(quotient, y), x), ops.lt(quotient, 0))
    return ops.where(inexact, quotient + 1, quotient)


neg: Unary = unary(
    "neg", np.negative, NUMBER, "neg", lambda g: neg(g), "-x.", operator="neg", aliases=("negative",)
)


def _negated_in_memory(x: np.ndarray, out: np.ndarray) -> None:
    """NumPy 2.4 with AVX-512 reads other elements than it writes, where it negates every fourth in place."""
    np.negative(x if x.flags.c_contiguous else x.copy(), out=out)


IN_ITS_MEMORY[ONE_OP[neg].op] = _negated_in_memory
reciprocal = unary(
    "reciprocal",
    lambda x: 1 / x,
    FLOAT,
    lambda b, x: b.div(1.0, x),
    lambda g, out: -g * (out * out),
    "1 / x.",
)


class _SquareOp(Elementwise):
    """A square: PyTorch gives that of bools as integers."""

    def compute_dtype(self, operands: Any) -> np.dtype:
        return dtypes.int64.numpy if operands[0].dtype == _BOOL else super().compute_dtype(operands)


square = unary(
    "square",
    np.square,
    NUMBER,
    lambda b, x: b.mul(x, x),
    lambda g, x: g * (x * 2),
    "x * x; bools give integers.",
    "PowBackward0",
    family=_SquareOp,
)


@public(method=True)
def positive(input: Tensor) -> Tensor:
    """The tensor itself. Source: `torch.positive`. Raises RuntimeError for bools."""
    if tensor_operand(input).array.dtype.kind == "b":
        raise failure(RuntimeError, "the + operator on a bool tensor is not supported")
    return input


attach(positive, "__pos__")


class _AbsOp(Elementwise):
    """The absolute value: of complex numbers it is real."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, np.zeros((), self.compute_dtype(types)).real.dtype)


abs: Unary = unary(
    "abs",
    np.abs,
    NUMBER,
    "abs",
    lambda g, x: g * ops.sgn(x),
    "The absolute value.",
    operator="abs",
    family=_AbsOp,
    aliases=("absolute",),
)


def _sign(x: Any) -> Any:
    if x.dtype.kind == "b":
        return x.copy()
    return np.where(np.isnan(x), x.dtype.type(0), np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


sign: Unary = unary(
    "sign",
    _sign,
    REAL,
    lambda b, x: b.select(b.eq(x, x), b.sign(x), 0),
    lambda g: ops.zeros_like(g),
    "-1, 0 or 1 by the sign of x; 0 for NaN.",
)


# Division with a remainder.


def _divisor(x: Any, y: Any) -> Any:
    """The divisor `y` of `x`, refused where integers would be divided by 0."""
    if np.result_type(x, y).kind in "iu" and not np.all(y):
        raise ZeroDivisionError("ZeroDivisionError: integer division by zero")
    return y


def _remainder(x: Any, y: Any) -> Any:
    """C's remainder moved to the divisor's sign; unlike NumPy's, a zero keeps the dividend's."""
    if np.result_type(x, y).kind != "f":
        return np.remainder(x, _divisor(x, y))
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (np.asarray(y) < 0)), rest + y, rest)


floor_divide = binary(
    "floor_divide",
    lambda x, y: np.floor_divide(x, _divisor(x, y)),
    REAL_NUMBER,
    lambda b, x, y: b.floor_div(x, y),
    (lambda g: ops.zeros_like(g), lambda g: ops.zeros_like(g)),
    "Quotient rounded down.",
    operator="floordiv",
    alone=True,
    refuses="iu",  # division by zero
)
remainder = binary(
    "remainder",
    _remainder,
    REAL_NUMBER,
    lambda b, x, y: b.remainder(x, y),
    (lambda g: g, lambda g, x, y: -g * floor_divide(x, y)),
    "The remainder with the divisor's sign.",
    operator="mod",
    refuses="iu",
)
fmod = binary(
    "fmod",
    lambda x, y: np.fmod(x, _divisor(x, y)),
    REAL_NUMBER,
    lambda b, x, y: b.mul(b.remainder(b.abs(x), b.abs(y)), b.sign(x)),
    (lambda g: g, lambda g, x, y: -g * trunc(x / y)),
    "The remainder with the dividend's sign.",
    numbers="y",
    refuses="iu",
)


def _divides_by_number(operands: Sequence[Any], params: Params) -> tuple[()] | None:
    """Only zeros among divisors are refused."""
    return () if type(operands[1]) is int and operands[1] else None


for _name in ("floor_divide", "remainder", "fmod"):
    REGISTRY[_name].positions = _divides_by_number
    REGISTRY[_name].second_if_tensor = "" if _name == "floor_divide" else "y"

# Rounding: gradients are zero.

floor = unary("floor", np.floor, REAL_NUMBER, "floor", lambda g: ops.zeros_like(g), "Rounded down.")
ceil = unary("ceil", np.ceil, REAL_NUMBER, "ceil", lambda g: ops.zeros_like(g), "Rounded up.")
trunc: Unary = unary(
    "trunc",
    np.trunc,
    REAL_NUMBER,
    "trunc",
    lambda g: ops.zeros_like(g),
    "Rounded toward 0.",
    aliases=("fix",),
)


def _rint(x: Any) -> Any:
    return np.rint(x) if x.dtype.kind == "f" else x.copy()  # NumPy would make floats of integers


_round = unary(
    "round",
    _rint,
    REAL_NUMBER,
    "round",
    lambda g: ops.zeros_like(g),
    "Rounded to nearest, halves to even.",
    named=False,
)


@public(method=True, inplace=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to `decimals` places, halves to even. Source: `torch.round`.

    Raises NotImplementedError for decimals of integers.
    """
    if not decimals:
        return _round(input)
    if input.array.dtype.kind not in "fV":
        raise failure(NotImplementedError, f"decimals of {input.array.dtype.name}; use a floating dtype")
    scale = 10.0 ** builtins.abs(decimals)
    return _round(input * scale) / scale if decimals > 0 else _round(input / scale) * scale


frac = unary(
    "frac",
    lambda x: x - np.trunc(x),
    ONLY_REAL_FLOAT,
    lambda b, x: b.sub(x, b.trunc(x)),
    lambda g: g,
    "x - trunc(x).",
)


# Conversions.


class _CastOp(Elementwise):
    """A change of dtype; the only elementwise op whose result dtype is a parameter."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, dtypes.as_dtype(params["dtype"]).numpy)

    def evaluate(self, args: Any, params: Any) -> Any:
        return self.ordered(args[0].array, params["dtype"].numpy)


_cast = _CastOp(
    "cast",
    "x",
    dtypes.converted,
    ANY,
    lambda b, x, dtype: b.cast(x, dtype),
    {"x": lambda g, x_type: cast(g, x_type.dtype)},
    "ToCopyBackward0",
)


@internal
def cast(input: Tensor, dtype: Any) -> Tensor:
    """`input` converted to `dtype` (itself where it has it already)."""
    target = dtypes.as_dtype(dtype)
    return input if input.array.dtype == target.numpy else bind(_cast, (input,), {"dtype": target})


_clone = Elementwise("clone", "x", lambda x: np.array(x, copy=True), ANY, lambda b, x: x, {"x": lambda g: g})


@public(method=True)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, in the order of `memory_format`. Source: `torch.clone`."""
    if memory_format is None or memory_format is preserve_format:
        return bind(_clone, (input,))
    if memory_format is contiguous_format:
        return bind(_contiguous, (input,))
    asked_for(memory_format, input.array.shape)
    return bind(_channels_last, (input,))


def _rows_of_channels(x: np.ndarray) -> np.ndarray:
    order = channels_innermost(x.shape)
    return np.array(x.transpose(order), order="C").transpose(np.argsort(order))


_contiguous, _channels_last = [
    Elementwise(name, "x", copied, ANY, lambda b, x: x, {"x": lambda g: g}, "CloneBackward0", order=order)
    for name, copied, order in (
        ("contiguous", lambda x: np.array(x, order="C"), rows),
        ("channels_last", _rows_of_channels, channels_innermost),
    )
]


@method
def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """Itself where it lies in this order, else a copy that does. Source: `torch.Tensor.contiguous`."""
    if memory_format is preserve_format:
        raise failure(RuntimeError, "preserve memory format is unsupported by the contiguous operator")
    if memory_format is contiguous_format:
        return input if input.array.flags.c_contiguous else bind(_contiguous, (input,))
    asked_for(memory_format, input.array.shape)
    return input if input.is_contiguous(memory_format) else clone(input, memory_format=memory_format)


@internal
def lying_as_images(result: Tensor, input: Tensor) -> Tensor:
    """`result`, with its channels innermost where those of the images, or volumes, of `input` are."""
    form = {rank: form for form, rank in LAST.items()}.get(input.array.ndim)
    if form is None or isinstance(input.array, OpenArray) or not has_channels_last(input.array):
        return result
    return contiguous(result, form)


@public
def result_type(tensor1: Any, tensor2: Any) -> dtypes.DType:
    """The dtype that arithmetic on two tensors or numbers gives. Source: `torch.result_type`."""
    operands = [x.array if isinstance(x, Tensor) else x for x in (operand(tensor1), operand(tensor2))]
    return dtypes.FROM_NUMPY[dtypes.result_type(operands)]
