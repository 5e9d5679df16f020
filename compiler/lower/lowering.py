"""Lowering: a graph goes in; an equal one, of the ops that kernels are made of, comes out.

A pass over a program's graph, before it is divided into steps: gathers, shifted reads and writes of slices
become `fetch`, what picks by order becomes comparisons and reductions. Indices that eager would refuse become
*checks*: values that must be true after the run, else eager answers the call and raises the error.

    v1: f32[8] = assign(v0, x, index=(slice(1, 7, 1),))      # v0 is full of zeros

becomes, where an element beyond 0 to 5 is that of v0,

    l0: f32[8] = fetch(x, v0, shape=(8,), where=((6, 0, -1, 1, None),))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.lower import (
    convolutions,
    linear_algebra,
    ordering,
    pooling,
    resampling,
    thin_products,
)
from fusegrad.compiler.lower.partial_writes import write_in_range
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.compiler.lower.sign_analysis import sign
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Value

# Concatenations of more tensors than this copy each of them to its place, so many in one kernel.
FEW_PARTS = 3
MOST_PARTS = 16


def lower(graph: Graph) -> tuple[Graph, list[Value]]:
    """The graph with what kernels can say expressed so, and its checks."""
    if not any(e.op.name in LOWERED for e in graph.equations):
        return graph, []
    rewriter = Rewriter(graph, LOWERED)
    for equation in graph.equations:
        rewriter.put(equation)
    if not rewriter.changed:
        return graph, []
    outputs = tuple(rewriter.now(v) for v in graph.outputs)
    whole = Graph(graph.inputs, tuple(rewriter.equations), (*outputs, *rewriter.checks))
    return Graph(graph.inputs, passes.dead_code(whole).equations, outputs), rewriter.checks


def _all_of(shape: Sequence[int], offset: int = 0) -> list[Along]:
    """Each dimension along one of the result, counted from `offset`."""
    return [Along(n, d + offset) for d, n in enumerate(shape)]


# By index tensors.


def _one_hot(b: Rewriter, condition: Operand, rank: int) -> tuple[int, Value, list[Value]] | None:
    """The dimension, the index and the other conditions of `position == index and ...`, of some rank.

    The index and the other conditions do not vary along the dimension.
    """
    equation = b.producer.get(condition)
    if equation is None:
        return None
    if equation.op.name == "logical_and":
        for hit, rest in (equation.inputs, equation.inputs[::-1]):
            found = _one_hot(b, hit, rank)
            if found is not None and _size_at(rest, found[0], rank) == 1:
                return found[0], found[1], [*found[2], rest]
        return None
    if equation.op.name != "eq":
        return None
    for positions, index in (equation.inputs, equation.inputs[::-1]):
        origin = b.origin(positions)
        if not isinstance(index, Value) or index.dtype.kind != "i" or origin is None:
            continue
        dims = [d for d, n in enumerate(positions.shape) if n != 1]
        if len(dims) == 1 and _counts_up(b, positions, origin):
            dim = dims[0] + rank - len(positions.shape)
            if _size_at(index, dim, rank) == 1:
                return dim, index, []
    return None


def _counts_up(b: Rewriter, positions: Value, origin: Equation) -> bool:
    """Whether the values are 0, 1, ... one for each position."""
    reshaped = b.producer[positions]
    plain = reshaped is origin or (reshaped.op.name == "reshape" and reshaped.inputs[0] == origin.output)
    return plain and origin.op.name == "arange" and (origin.params["start"], origin.params["step"]) == (0, 1)


def _size_at(value: Operand, dim: int, rank: int) -> int:
    """The size of an operand along a dimension of the result that it broadcasts to."""
    shape = value.shape if isinstance(value, Value) else ()
    place = dim - (rank - len(shape))
    return shape[place] if place >= 0 else 1


def _sum(b: Rewriter, x: Value, dim: tuple[int, ...] | None, keepdim: bool) -> Value | None:
    """The sum of what is zero but at one place in each row is the element there."""
    chosen = b.producer.get(x)
    if chosen is None or chosen.op.name != "where" or dim is None or len(dim) != 1:
        return None
    condition, value, zero = chosen.inputs
    found = _one_hot(b, condition, len(x.shape))
    if not b.is_zeros(zero) or found is None or found[0] != dim[0] or x.dtype.kind != "f":
        return None
    d, index, conditions = found
    shape = (*x.shape[:d], 1, *x.shape[d + 1 :])
    rank = len(shape)
    if not isinstance(value, Value) or _size_at(value, d, rank) == 1:
        inside = [b.op("ge", index, 0), b.op("lt", index, x.shape[d])]
        picked, conditions = b.operand(value, x.dtype), [*conditions, *inside]
    else:
        value = b.cast(value, x.dtype)
        extra = rank - len(value.shape)
        where = [
            Along(n, i + extra) if n == x.shape[i + extra] else Along(n) for i, n in enumerate(value.shape)
        ]
        where[d - extra] = Along(x.shape[d], by=0)
        picked = b.fetch(value, 0, [index], shape, where)
    for condition in conditions:
        picked = b.op("where", condition, picked, b.full((), 0, x.dtype))
    picked = b.expand(picked, shape)
    return picked if keepdim else b.reshape(picked, (*shape[:d], *shape[d + 1 :]))


def _take(b: Rewriter, x: Value, index: Value, dim: int, name: str) -> Value:
    size = x.shape[dim]
    counts_from_end = name not in ("IndexSelect", "Embedding")
    b.within(index, -size if counts_from_end else 0, size)
    apart = _apart(b, x, index, dim)
    if apart is not None:
        return apart
    place = b.from_zero(index, size) if counts_from_end else index
    count, after = len(index.shape), len(x.shape) - dim - 1
    place = b.reshape(place, (*index.shape, *(1,) * after))
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    where = [
        *_all_of(x.shape[:dim]),
        Along(size, by=0),
        *_all_of(x.shape[dim + 1 :], dim + count),
    ]
    return b.fetch(x, 0, [place], shape, where)


def _apart(b: Rewriter, x: Value, index: Value, dim: int) -> Value | None:
    """A read by several index tensors that eager made one of, by each of them."""
    joined, several = b.producer.get(x), b.flat.get(index)
    if joined is None or joined.op.name != "reshape" or several is None:
        return None
    indices, sizes = several
    (source,) = joined.inputs
    rest = len(x.shape) - dim - 1
    if source.shape != (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]):
        return None
    rank = dim + len(index.shape) + rest
    where = _all_of(x.shape[:dim])
    places: list[Value] = []
    for each, size in zip(indices, sizes, strict=True):
        along = _position(b, each, size, dim, len(index.shape))
        where.append(along or Along(size, by=len(places)))
        if along is None:
            place = b.from_zero(each, size)
            places.append(b.reshape(place, (*place.shape, *(1,) * rest)))
    where += _all_of(x.shape[dim + 1 :], rank - rest)
    return b.fetch(source, 0, places, (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), where)


def _position(b: Rewriter, index: Value, size: int, offset: int, rank: int) -> Along | None:
    """How an index that only counts along one dimension reads, without looking at it."""
    origin = b.origin(index)
    dims = [d for d, n in enumerate(index.shape) if n != 1]
    if origin is None or len(dims) != 1 or not _counts_up(b, index, origin) or index.shape[dims[0]] > size:
        return None
    return Along(size, offset + rank - len(index.shape) + dims[0])


def _gather(b: Rewriter, x: Value, index: Value, dim: int) -> Value:
    b.within(index, 0, x.shape[dim])
    where = [Along(n, d) for d, n in enumerate(x.shape)]
    where[dim] = Along(x.shape[dim], by=0)
    return b.fetch(x, 0, [index], index.shape, where)


def _flat_index(b: Rewriter, *indices: Value, sizes: tuple[int, ...]) -> Value:
    shape = broadcast_shapes(*(i.shape for i in indices))
    if 0 in shape:
        return b.full(shape, 0, np.dtype(np.int64))
    flat: Value | None = None
    for index, size in zip(indices, sizes, strict=True):
        b.within(index, -size, size)
        place = b.from_zero(b.cast(index, np.dtype(np.int64)), size)
        flat = place if flat is None else b.op("add", b.op("mul", flat, size), place)
    assert flat is not None
    flat = b.expand(flat, shape)
    b.flat[flat] = indices, sizes
    return flat


def _scatter(b: Rewriter, x: Value, source: Value, index: Value, dim: int, accumulate: bool) -> Value | None:
    """Where each row has one index, the element there is found by comparing positions."""
    shape = x.shape
    b.within(index, 0, shape[dim])
    if index.shape != (*shape[:dim], 1, *shape[dim + 1 :]):
        return b.op("scatter", x, source, index, dim=dim, accumulate=accumulate)
    hit = b.op("eq", b.arange(shape[dim], dim, len(shape)), index)
    return _written(b, x, hit, source, accumulate)


def _put(b: Rewriter, x: Value, value: Value, index: Value, dim: int, accumulate: bool) -> Value | None:
    """Slices put or added at an index."""
    found = _put_in_rows(b, x, value, index, dim, accumulate)
    if found is not None:
        return found
    size = x.shape[dim]
    b.within(index, -size, size)
    index = b.from_zero(index, size)
    return b.op("put", x, value, index, dim=dim, accumulate=accumulate)


def _put_in_rows(
    b: Rewriter, x: Value, value: Value, index: Value, dim: int, accumulate: bool
) -> Value | None:
    """What several index tensors name, of which all but one only count: one element in each row."""
    several = b.flat.get(index)
    if several is None:
        return None
    indices, sizes = several
    counted = [_position(b, each, n, 0, len(index.shape)) for each, n in zip(indices, sizes, strict=True)]
    rows = [a for a in counted if a is not None]
    if len(rows) != len(sizes) - 1 or [a.dim for a in rows] != list(range(len(index.shape))):
        return None
    if any(index.shape[d] != a.size for d, a in enumerate(rows)):
        return None
    place = counted.index(None)
    before, after = (1,) * dim, (1,) * (len(x.shape) - dim - 1)
    shape = (*x.shape[:dim], *sizes, *x.shape[dim + 1 :])
    rank = len(shape)
    hit = b.from_zero(b.expand(indices[place], index.shape), sizes[place])
    hit = b.reshape(hit, (*before, *index.shape[:place], 1, *index.shape[place:], *after))
    hit = b.op("eq", b.arange(sizes[place], dim + place, rank), hit)
    value = b.reshape(value, (*shape[: dim + place], 1, *shape[dim + place + 1 :]))
    return b.reshape(_written(b, b.reshape(x, shape), hit, value, accumulate), x.shape)


def _scatter_reduce(
    b: Rewriter, x: Value, source: Value, index: Value, dim: int, reduce: str, include_self: bool
) -> Value | None:
    """Combined where they meet; a mean is a sum, divided by how many there are."""
    if x.dtype.kind == "b" or (reduce == "mean" and x.dtype.kind != "f"):
        return None
    b.within(index, 0, x.shape[dim])
    how = "sum" if reduce == "mean" else reduce
    params = {"dim": dim, "reduce": how, "include_self": include_self}
    result = b.op("scatter_reduce", x, source, index, **params)
    if reduce != "mean":
        return result
    ones = b.full(index.shape, 1, x.dtype)
    counts = b.full(x.shape, int(include_self), x.dtype)
    counts = b.op("scatter", counts, ones, index, dim=dim, accumulate=True)
    return b.op("div", result, b.op("maximum", counts, b.full((), 1, x.dtype)))


def _written(b: Rewriter, x: Value, hit: Value, value: Value, accumulate: bool) -> Value:
    """`x` with `value` where it is hit, or added there."""
    if not accumulate:
        return b.op("where", hit, value, x)
    zero = b.full((), 0, x.dtype)
    if b.is_zeros(x):
        # What is added to 0 is not -0.
        return b.op("where", hit, b.op("add", value, zero), zero)
    return b.op("add", x, b.op("where", hit, value, zero))


def _reshape(b: Rewriter, x: Value, shape: tuple[int, ...]) -> Value | None:
    """A reshape of a reshape is one of what that shows."""
    origin = b.producer.get(x)
    return b.reshape(origin.inputs[0], shape) if origin is not None and origin.op.name == "reshape" else None


# By slices.


def _spread(x_shape: Sequence[int], index: Sequence[Any]) -> list[int]:
    """The shape of what a basic index gives with a dimension for each of the tensor's."""
    shape = [e.length if isinstance(e, Slice) else 1 for e in index if e is not None]
    return [*shape, *x_shape[len(shape) :]]


def _in_slice(b: Rewriter, value: Value, other: Operand, shape: Any, index: Sequence[Any]) -> Value | None:
    """A tensor of `shape` that is `value` at a basic index, and `other` elsewhere."""
    entries = [e for e in index if e is not None]
    part = _spread(shape, index)
    if not math.prod(part):
        return other if isinstance(other, Value) else b.full(shape, other, value.dtype)
    where: list[Along] = []
    indices: list[Value] = []
    value = b.reshape(value, part)
    for dim, size in enumerate(part):
        entry = entries[dim] if dim < len(entries) else Slice(0, shape[dim], 1)
        if not isinstance(entry, Slice):
            where.append(Along(1, dim, -entry))
        elif entry.step == 1 or size == 1:
            where.append(Along(size, dim, -entry.start))
        else:
            where.append(Along(size, by=len(indices)))
            indices.append(b.counted(entry, shape[dim], dim, len(shape)))
    return b.fetch(value, other, indices, shape, where)


def _embed(b: Rewriter, x: Value, shape: tuple[int, ...], index: tuple[Any, ...]) -> Value | None:
    return _in_slice(b, x, 0, shape, index)


def _assign(b: Rewriter, x: Value, value: Value, index: tuple[Any, ...]) -> Value | None:
    part = _spread(x.shape, index)
    value = b.cast(value, x.dtype)
    # What is neither a slice nor new is a position, which may be open.
    given = [e.length if isinstance(e, Slice) else 1 for e in index if e is None or isinstance(e, Slice)]
    given += x.shape[len([e for e in index if e is not None]) :]
    return _in_slice(b, b.reshape(b.expand(value, given), part), x, x.shape, index)


def _diagonal_scatter(b: Rewriter, x: Value, value: Value, offset: int, dim1: int, dim2: int) -> Value:
    """`x` with values on a diagonal, where two positions say that an element lies there."""
    shape, rank = x.shape, len(x.shape)
    rows, columns = b.arange(shape[dim1], dim1, rank), b.arange(shape[dim2], dim2, rank)
    hit = b.op("eq", b.op("add", rows, offset), columns)
    where = [Along(shape[d], d) for d in range(rank) if d not in (dim1, dim2)]
    where.append(Along(value.shape[-1], dim1 if offset >= 0 else dim2))
    return b.op("where", hit, b.fetch(b.cast(value, x.dtype), 0, [], shape, where), x)


# Side by side.


def _cat(b: Rewriter, *parts: Value, dim: int) -> Value:
    """A few are chosen among where they are read; more are copied to their places."""
    dtype = dtypes_of(parts)
    shape = list(parts[0].shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    given = [b.cast(p, dtype) for p in parts if p.shape[dim]]
    if not given:
        return b.full(shape, 0, dtype)
    if len(given) > FEW_PARTS:
        while len(given) > MOST_PARTS:
            runs = [given[i : i + MOST_PARTS] for i in range(0, len(given), MOST_PARTS)]
            given = [b.op("cat", *run, dim=int(dim)) if len(run) > 1 else run[0] for run in runs]
        return b.op("cat", *given, dim=int(dim))
    result: Operand = 0
    start = shape[dim]
    for part in reversed(given):
        start -= part.shape[dim]
        where = [Along(n, d) for d, n in enumerate(part.shape)]
        where[dim] = Along(part.shape[dim], dim, -start)
        result = b.fetch(part, result, [], shape, where)
    assert isinstance(result, Value)
    return result


def dtypes_of(parts: Sequence[Value]) -> np.dtype:
    """The dtype that tensors side by side have."""
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = dtypes.promote(dtype, part.dtype)
    return dtype


# By order.


def _first_place(b: Rewriter, x: Value, dim: int, extreme: str) -> tuple[Value, Value]:
    """The extreme along `dim`, and the first place where it is: both with the dimension kept."""
    best = b.op(extreme, x, dim=(dim,), keepdim=True)
    hit = b.op("eq", x, best)
    if x.dtype.kind == "f":
        # The extreme of what has a NaN is NaN, and equals nothing.
        hit = b.op("logical_or", hit, b.op("isnan", x))
    size = x.shape[dim]
    place = b.op("where", hit, b.arange(size, dim, len(x.shape)), b.full((), size, np.dtype(np.int64)))
    return best, b.op("amin", place, dim=(dim,), keepdim=True)


def _arg(extreme: str) -> Callable[..., Value | None]:
    def rule(b: Rewriter, x: Value, dim: int | None, keepdim: bool) -> Value | None:
        shape = x.shape
        if dim is None or not shape:
            flat = b.reshape(x, (math.prod(shape),))
            _, place = _first_place(b, flat, 0, extreme)
            return b.reshape(place, (1,) * len(shape) if keepdim else ())
        _, place = _first_place(b, x, dim, extreme)
        return place if keepdim else b.reshape(place, (*shape[:dim], *shape[dim + 1 :]))

    return rule


def _with_place(extreme: str) -> Callable[..., tuple[Value, Value]]:
    def rule(b: Rewriter, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
        best, place = _first_place(b, x, dim, extreme)
        _, asked = b.original.outputs
        if x.dtype.kind == "f" and b.readers(asked):
            # What stands there may be a zero of the other sign, and has the NaN's own bits. Where nobody asks
            # for the place, looking for it would take three times as long as the extreme does.
            where = [Along(n, d) for d, n in enumerate(x.shape)]
            where[dim] = Along(x.shape[dim], by=0)
            best = b.fetch(x, 0, [place], place.shape, where)
        if keepdim:
            return best, place
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        return b.reshape(best, shape), b.reshape(place, shape)

    return rule


# What costs less otherwise.


class _OfNonpositive(Elementwise):
    """An op on what has no element above 0. Not in the registry of ops: eager does not know it."""

    def __init__(self, name: str) -> None:
        vars(self).update(vars(REGISTRY[name]))
        self.name = self.scalar = f"{name}_nonpositive"


EXP_NONPOSITIVE = _OfNonpositive("exp")


def _exp(b: Rewriter, x: Value) -> Value | None:
    """exp of a log_softmax: the exponentials that were summed, over their sum. exp of what is nowhere above
    0, such as what the largest element was taken from, takes fewer instructions.
    """
    less = b.producer.get(x)
    if less is not None and less.op.name == "sub":
        shift, log = (b.producer.get(v) if isinstance(v, Value) else None for v in less.inputs)
        if shift is not None and log is not None and (shift.op.name, log.op.name) == ("sub", "log"):
            made = _exp_of_log_softmax(b, shift, log)
            if made is not None:
                return made
    return b.equation(EXP_NONPOSITIVE, (x,), {}) if sign(b.producer, x) < 0 else None


def _exp_of_log_softmax(b: Rewriter, shift: Equation, log: Equation) -> Value | None:
    """exp(shift - log).

    With the largest element taken away the exponentials are at most 1, and their sum is at least 1.
    """
    total, largest = (
        b.producer.get(v) if isinstance(v, Value) else None for v in (log.inputs[0], shift.inputs[1])
    )
    if total is None or largest is None or (total.op.name, largest.op.name) != ("sum", "amax"):
        return None
    summed = b.producer.get(total.inputs[0]) if isinstance(total.inputs[0], Value) else None
    same = summed is not None and (summed.op, summed.inputs) == (EXP_NONPOSITIVE, shift.outputs)
    if not same or total.params != largest.params:
        return None
    return b.op("mul", total.inputs[0], b.op("div", 1, total.output))


LOWERED: dict[str, Callable[..., Any]] = {
    "take": _take,
    "select_at": lambda b, x, index, dim: _take(b, x, index, dim, "Index"),
    "gather": _gather,
    "sum": _sum,
    "flat_index": _flat_index,
    "scatter": _scatter,
    "put": _put,
    "write": write_in_range,
    "scatter_reduce": _scatter_reduce,
    "reshape": _reshape,
    "embed": _embed,
    "assign": _assign,
    "diagonal_scatter": _diagonal_scatter,
    "cat": _cat,
    **dict.fromkeys(("handed_on", "handed_on_kept"), lambda b, x, node: b.op("clone", x)),
    **pooling.RULES,
    **resampling.RULES,
    **convolutions.RULES,
    **thin_products.RULES,
    **linear_algebra.RULES,
    **ordering.RULES,
    "argmax": _arg("amax"),
    "argmin": _arg("amin"),
    "max_dim": _with_place("amax"),
    "min_dim": _with_place("amin"),
    "exp": _exp,
}
