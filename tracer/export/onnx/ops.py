"""The table of the ONNX export: what each op that is not elementwise is in ONNX.

An entry takes the equation and its operands as handles, and gives the result's handle, or one for
each result. Where ONNX or onnxruntime differs from NumPy (NaN in `ReduceMax`) the entry says what
NumPy does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import REGISTRY, TensorType, wrap
from fusegrad.eager.core.sizes import Symbol, has_symbols
from fusegrad.eager.ops.create.creation import Creation
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.export.onnx.builder import BOOL, FLOAT64, INT32, INT64, Builder, Handle
from fusegrad.tracer.export.onnx.picks import PICKS
from fusegrad.tracer.export.onnx.scalars import Scalars
from fusegrad.tracer.export.onnx.windows import WINDOWED
from fusegrad.tracer.ir.graph import Equation, Value


def _type(equation: Equation, index: int = 0) -> TensorType:
    operand = equation.inputs[index]
    assert isinstance(operand, Value)
    return operand.type


# Reductions, by what combines their elements.


def _axes(equation: Equation) -> list[int]:
    """The reduced dimensions; `dim` is one, several, or None for all."""
    dim = equation.params["dim"]
    return list(range(_type(equation).ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _reduced(kind: str, x: Handle, equation: Equation) -> Handle:
    return x.shaped(kind, _axes(equation), keepdims=int(equation.params["keepdim"]))


def _sum(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(e.output.dtype), e)


def _prod(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceProd", x.to(e.output.dtype), e)


def _any(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(BOOL).to(INT64), e) > 0


def _all(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(BOOL).negated().to(INT64), e).equals(0)


def _extreme(kind: str) -> Callable[[Equation, Handle], Handle]:
    """onnxruntime loses a NaN that does not come first; NumPy gives it."""

    def emit(e: Equation, x: Handle) -> Handle:
        result = _reduced(kind, x, e)
        if x.dtype.kind != "f":
            return result
        poisoned = _reduced("ReduceMax", x.node("IsNaN").to(INT32), e).to(BOOL)
        return poisoned.where(math.nan, result)

    return emit


REDUCTIONS: dict[str, Callable[[Equation, Handle], Handle]] = {
    "add": _sum,
    "mul": _prod,
    "or": _any,
    "and": _all,
    "max": _extreme("ReduceMax"),
    "min": _extreme("ReduceMin"),
}

# Choosing by order.


def _place(kind: str) -> Callable[[Equation, Handle], Handle]:
    """The first extreme's index; a NaN is more extreme than any number."""

    def find(x: Handle, kind: str, e: Equation) -> Handle:
        dim, keep = e.params["dim"], e.params["keepdim"]
        if dim is None:
            x = x.shaped("Reshape", [-1])
        supported = x if x.dtype.char in "Bbilefd" else x.to(INT32)
        axis = 0 if dim is None else dim
        found = x.builder.node(kind, [supported], INT64, axis=axis, keepdims=int(keep and dim is not None))
        return _reshaped(found, e.outputs[-1].shape)

    def emit(e: Equation, x: Handle) -> Handle:
        if not _type(e).shape:
            return x.builder.constant(0, INT64)
        found = find(x, kind, e)
        if x.dtype.kind != "f":
            return found
        nan = x.node("IsNaN").to(INT32)
        poisoned = _reduced("ReduceMax", nan, e).to(BOOL)
        return poisoned.where(find(nan, "ArgMax", e), found)

    return emit


def _extreme_with_place(kind: str) -> Callable[[Equation, Handle], tuple[Handle, Handle]]:
    return lambda e, x: (_extreme(f"Reduce{kind}")(e, x), _place(f"Arg{kind}")(e, x))


def _picked(x: Handle, index: Handle, dim: int) -> Handle:
    return x.builder.node("GatherElements", [x, index], x.dtype, axis=dim)


def _order(x: Handle, dim: int, size: int, largest: bool) -> Handle:
    """The indices that sort along `dim`; equal elements keep their order, NaN counts as the largest."""

    def sorting(key: Handle) -> Handle:
        key = key.to(key.computed("TopK"))
        count = x.builder.constant([size], INT64)
        return x.builder.node("TopK", [key, count], INT64, place=1, axis=dim, largest=int(largest))

    if x.dtype.kind != "f":
        return sorting(x)
    nan = x.node("IsNaN")
    numbers = sorting(nan.where(math.inf, x))
    return _picked(numbers, sorting(_picked(nan.to(INT32), numbers, dim)), dim)


def _first(order: Handle, dim: int, start: int, count: int) -> Handle:
    return order.shaped("Slice", [start], [start + count], [dim], [1])


def _sort(e: Equation, x: Handle) -> tuple[Handle, Handle]:
    dim = e.params["dim"]
    order = _order(x, dim, _type(e).shape[dim], e.params["descending"])
    return _picked(x, order, dim), order


def _topk(e: Equation, x: Handle) -> tuple[Handle, Handle]:
    dim = e.params["dim"]
    order = _order(x, dim, _type(e).shape[dim], e.params["largest"])
    order = _first(order, dim, 0, e.params["k"])
    return _picked(x, order, dim), order


def _median(e: Equation, x: Handle) -> tuple[Handle, Handle]:
    """The lower median; the first NaN where there is one."""
    dim = e.params["dim"]
    size = _type(e).shape[dim]
    order = _order(x, dim, size, False)
    index = _first(order, dim, (size - 1) // 2, 1)
    if x.dtype.kind == "f":
        nan = x.node("IsNaN")
        first = x.builder.node("ArgMax", [nan.to(INT32)], INT64, axis=dim, keepdims=1)
        index = _picked(nan, first, dim).where(first, index)
    value = _picked(x, index, dim)
    return _reshaped(value, e.output.shape), _reshaped(index, e.output.shape)


def _nanmedian(e: Equation, x: Handle) -> tuple[Handle, Handle]:
    """The lower median of what is not NaN: those come first in order."""
    dim = e.params["dim"]
    size = _type(e).shape[dim]
    if x.dtype.kind != "f":
        return _median(e, x)
    numbers = x.node("IsNaN").negated().to(INT64).shaped("ReduceSum", [dim], keepdims=1)
    index = _picked(_order(x, dim, size, False), (numbers - 1) / 2, dim)
    return _reshaped(_picked(x, index, dim), e.output.shape), _reshaped(index, e.output.shape)


def _kthvalue(e: Equation, x: Handle) -> tuple[Handle, Handle]:
    dim = e.params["dim"]
    index = _first(_order(x, dim, _type(e).shape[dim], False), dim, e.params["k"] - 1, 1)
    return _reshaped(_picked(x, index, dim), e.output.shape), _reshaped(index, e.output.shape)


def _cumsum(e: Equation, x: Handle) -> Handle:
    x = x.to(e.output.dtype)
    wide = x.to(x.computed("CumSum"))
    axis = x.builder.constant(e.params["dim"], INT64)
    return x.builder.node("CumSum", [wide, axis], wide.dtype).to(x.dtype)


# Views, and their gradients.


def _reshaped(x: Handle, shape: tuple[int, ...]) -> Handle:
    return x.shaped("Reshape", shape, allowzero=int(0 in shape))


def _getitem(e: Equation, x: Handle) -> Handle:
    """Slices first, whole numbers as slices of one; the reshape drops these and adds new dimensions."""
    entries = [i for i in e.params["index"] if i is not None]
    slices = [i if isinstance(i, Slice) else Slice(i, i + 1, 1) for i in entries]
    cut = [(axis, s) for axis, s in enumerate(slices) if s != Slice(0, _type(e).shape[axis], 1)]
    if cut:
        starts, stops, steps = ([s[k] for _, s in cut] for k in range(3))
        x = x.shaped("Slice", starts, stops, [axis for axis, _ in cut], steps)
    return _reshaped(x, e.output.shape)


def _placed(x: Handle, shape: Sequence[int], index: tuple[Any, ...]) -> Handle:
    """A part put into zeros: padding; for steps above 1 each element first gets zeros behind it."""
    entries = [i if isinstance(i, Slice) else Slice(i, i + 1, 1) for i in index if i is not None]
    counts = [s.stop - s.start if s.step == 1 else len(range(*s)) for s in entries]
    x = _reshaped(x, tuple(counts))
    for axis, (s, count) in enumerate(zip(entries, counts, strict=True)):
        if s.step > 1 and count:
            apart = _reshaped(x, (*counts[: axis + 1], 1, *counts[axis + 1 :]))
            behind = [0] * (axis + 1) + [s.step - 1] + [0] * (len(counts) - axis - 1)
            counts[axis] *= s.step
            x = _reshaped(apart.shaped("Pad", [0] * len(behind) + behind), tuple(counts))
            spare = counts[axis] - (shape[axis] - s.start)
            if spare > 0:
                counts[axis] -= spare
                x = x.shaped("Slice", [0], [counts[axis]], [axis], [1])
    before = [s.start for s in entries]
    after = [n - b - c for n, b, c in zip(shape, before, counts, strict=True)]
    return x.shaped("Pad", before + after)


def _embed(e: Equation, x: Handle) -> Handle:
    return _placed(x, e.params["shape"], e.params["index"])


def _assign(e: Equation, x: Handle, value: Handle) -> Handle:
    """`value` where it belongs, `x` elsewhere."""
    shape, index = _type(e).shape, e.params["index"]
    part = x.builder.constant(True, BOOL).shaped("Expand", _type(e, 1).shape)
    return _placed(part, shape, index).where(_placed(value, shape, index), x)


def _flip(e: Equation, x: Handle) -> Handle:
    dims = list(e.params["dims"])
    if not dims:
        return x
    return x.shaped("Slice", [-1] * len(dims), [np.iinfo(np.int64).min] * len(dims), dims, [-1] * len(dims))


def _positions(e: Equation) -> np.ndarray:
    shape = _type(e).shape
    return np.arange(math.prod(shape)).reshape(shape)


def rearranged(e: Equation, x: Handle) -> Handle:
    """Any op that only moves elements: what it does to their positions says which it takes."""
    places = x.builder.constant(e.op.evaluate((wrap(_positions(e)),), dict(e.params)), INT64)
    return x.builder.node("Gather", [x.shaped("Reshape", [-1]), places], x.dtype)


def _diagonal_scatter(e: Equation, x: Handle, value: Handle) -> Handle:
    places = REGISTRY["diagonal"].evaluate((wrap(_positions(e)),), dict(e.params))
    index = x.builder.constant(places.reshape(-1), INT64)
    written = _written(x.shaped("Reshape", [-1]), index, value.to(x.dtype).shaped("Reshape", [-1]), 0, False)
    return _reshaped(written, e.output.shape)


def _cat(e: Equation, *tensors: Handle) -> Handle:
    parts = [t.to(e.output.dtype) for t in tensors]
    return parts[0].builder.node("Concat", parts, e.output.dtype, axis=e.params["dim"])


def _matmul(e: Equation, x: Handle, y: Handle) -> Handle:
    return x.node("MatMul", y)


def _permute(e: Equation, x: Handle) -> Handle:
    dims = list(e.params["dims"])
    return x.builder.node("Transpose", [x], x.dtype, perm=dims) if dims else x


# Reading and writing by index tensors. Negative indices count from the end in ONNX, too.


def _take(e: Equation, x: Handle, index: Handle) -> Handle:
    return x.builder.node("Gather", [x, index.to(INT64)], x.dtype, axis=e.params["dim"])


def _put(e: Equation, x: Handle, value: Handle, index: Handle) -> Handle:
    """Whole slices, element by element: unlike ScatterND, the last of several for one place stays."""
    shape, places, dim = _type(e).shape, _type(e, 2).shape, e.params["dim"]
    sizes = (*shape[:dim], math.prod(places), *shape[dim + 1 :])
    column = _reshaped(index.to(INT64), tuple(n if d == dim else 1 for d, n in enumerate(sizes)))
    return _scattered(e, x, _reshaped(value, sizes), column.shaped("Expand", sizes))


def _gather(e: Equation, x: Handle, index: Handle) -> Handle:
    return _picked(x, index.to(INT64), e.params["dim"])


def _scatter(e: Equation, x: Handle, source: Handle, index: Handle) -> Handle:
    return _scattered(e, x, source, index.to(INT64))


def _scattered(e: Equation, x: Handle, source: Handle, index: Handle) -> Handle:
    """`source` written (or added) into `x` at `index` along a dimension."""
    return _written(x, index, source, e.params["dim"], e.params["accumulate"])


def _written(x: Handle, index: Handle, source: Handle, dim: int, accumulate: bool) -> Handle:
    dtype = x.computed("ScatterElements")
    operands = [x.to(dtype), index, source.to(dtype)]
    reduction = "add" if accumulate else "none"
    made = x.builder.node("ScatterElements", operands, dtype, axis=dim, reduction=reduction)
    return made.to(x.dtype)


def _flat_index(e: Equation, *indices: Handle) -> Handle:
    """Several indices as one over the merged dimensions, row by row."""
    total = indices[0].to(INT64) * 0
    for index, size in zip(indices, e.params["sizes"], strict=True):
        at_least_one = total.like(size).node("Max", 1) if isinstance(size, Symbol) else max(size, 1)
        total = total * size + index.to(INT64).node("Mod", at_least_one)
    return total


# Tensors from nothing.


def creation(b: Builder, e: Equation) -> Handle:
    """One number spread out, the elements, or how each follows from its place."""
    if e.op.name == "full":
        number = b.constant(e.params["value"], e.output.dtype)
        return number.shaped("Expand", e.output.shape) if e.output.shape else number
    if has_symbols(e.output.shape):
        assert isinstance(e.op, Creation)
        places = [_along(b, e.output.shape, axis) for axis in range(e.output.type.ndim)]
        return e.op.scalar(_Placed(b), places, **e.params).to(e.output.dtype).shaped("Expand", e.output.shape)
    return b.constant(e.op.evaluate((), dict(e.params)), e.output.dtype)


def _along(b: Builder, shape: tuple[Any, ...], axis: int) -> Handle:
    """The places along an axis, which broadcast over the others."""
    zero, count, one = (b.constant(n, INT64) for n in (0, shape[axis], 1))
    places = b.node("Range", [zero, count, one], INT64)
    return places.shaped("Reshape", [-1] + [1] * (len(shape) - 1 - axis))


class _Placed(Scalars):
    """What elements that follow from their places are written against."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def constant(self, value: Any, dtype: Any) -> Handle:
        """A number."""
        return self._builder.constant(value, dtypes.as_dtype(dtype).numpy)

    def progression(self, place: Handle, start: Any, step: Any, dtype: Any) -> Handle:
        """`start + step * place`, of whole numbers or in float64."""
        whole = isinstance(start, int) and isinstance(step, int)
        exact = place if whole else place.to(FLOAT64)
        return (exact * step + start).to(dtypes.as_dtype(dtype).numpy)


OTHERS: dict[str, Callable[..., Handle | tuple[Handle, ...]]] = {
    "detach": lambda e, x: x,
    "contiguous": lambda e, x: x,
    "rewritten": lambda e, x, value: value,
    "overwritten": lambda e, x, value: value,
    "reshape": lambda e, x: _reshaped(x, e.output.shape),
    "permute": _permute,
    "expand": lambda e, x: x.shaped("Expand", e.output.shape),
    "getitem": _getitem,
    "flip": _flip,
    "embed": _embed,
    "assign": _assign,
    "cat": _cat,
    "matmul": _matmul,
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "max_dim": _extreme_with_place("Max"),
    "min_dim": _extreme_with_place("Min"),
    "median_dim": _median,
    "nanmedian_dim": _nanmedian,
    "kthvalue": _kthvalue,
    "sort": _sort,
    "topk": _topk,
    "cumsum": _cumsum,
    "take": _take,
    "select_at": _take,
    "put": _put,
    "gather": _gather,
    "scatter": _scatter,
    "flat_index": _flat_index,
    "as_strided": rearranged,
    "diagonal_scatter": _diagonal_scatter,
    **WINDOWED,
    **PICKS,
}
