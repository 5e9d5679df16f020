"""Order in short rows and sorted tables: sorts, the largest few and binary searches go in, nests come out.

What stands in a row is counted: an element's place in order is how many come before it, and the s-th in order
is what has the place s. That is a number of comparisons by the square of the row, but of whole vectors, and
part of the nests around it; NumPy goes row by row. Equal ones keep their order, and NaN comes last, or first
where the largest do.

    values, indices = topk(x, k=2, dim=1)     x: f32[64, 10]

becomes, with i and j along the row,

    before[_, i, j] = x[_, i] > x[_, j], or equal and i < j
    place[_, j] = sum of before over i
    indices[_, s] = sum of where(place[_, j] == s, j, 0) over j

A binary search is its halvings written out, each of which reads the table once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.core import dtypes
from fusegrad.tracer.ir.graph import Value

# Rows of so many elements at most are counted through, and tables of so many searched.
LONGEST_ROW, LONGEST_TABLE = 128, 1 << 24
_FLOAT, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


def _is_short(x: Value, dim: int) -> bool:
    """Whether a row is counted through: one of a size that is known, or is it from now on."""
    n = x.shape[dim] if x.shape else 0
    return x.dtype.kind in "fi" and 1 < n <= LONGEST_ROW and operator.index(n) > 1


def _along(b: Rewriter, x: Value, dim: int, place: int) -> Value:
    """x with one dimension more, so that `dim` runs along that or the next one (place: 0 or 1)."""
    shape = [*x.shape]
    shape[dim : dim + 1] = [shape[dim], 1] if place == 0 else [1, shape[dim]]
    return b.reshape(x, shape)


def _less(b: Rewriter, x: Value, y: Value) -> Value:
    """x < y, NaN being larger than any number."""
    if x.dtype.kind != "f":
        return b.op("lt", x, y)
    return b.op("logical_and", b.op("logical_not", b.op("le", y, x)), b.op("eq", x, x))


def _places(b: Rewriter, x: Value, dim: int, descending: bool) -> Value:
    """For each element its place in the order of its row, as a number of float32."""
    n, rank = x.shape[dim], len(x.shape) + 1
    one, other = _along(b, x, dim, 0), _along(b, x, dim, 1)  # i along dim, j behind it
    # i comes before j if it is less; or, where it stands before j, if it is not more.
    strictly, loosely = (b.op(name, one, other) for name in (("gt", "ge") if descending else ("lt", "le")))
    if x.dtype.kind == "f":
        nan = b.op("ne", x, x)
        last, first = (_along(b, nan, dim, place) for place in ((0, 1) if descending else (1, 0)))
        loosely = b.op("logical_or", loosely, last)
        strictly = b.op("logical_or", strictly, b.op("logical_and", last, b.op("logical_not", first)))
    earlier = b.op("lt", _numbers(b, n, dim, rank), _numbers(b, n, dim + 1, rank))
    before = b.op("where", earlier, loosely, strictly)
    one_or_none = b.op("where", before, b.full((), 1, _FLOAT), b.full((), 0, _FLOAT))
    return b.op("sum", b.expand(one_or_none, _whole(x, dim, n)), dim=(dim,), keepdim=False)


def _whole(x: Value, dim: int, count: int) -> tuple[Any, ...]:
    return (*x.shape[:dim], x.shape[dim], count, *x.shape[dim + 1 :])


def _numbers(b: Rewriter, count: int, along: int, rank: int) -> Value:
    return b.arange(count, along, rank, dtypes.float32)


def _in_order(b: Rewriter, x: Value, dim: int, count: int, descending: bool) -> tuple[Value, Value]:
    """The first `count` of each row in order, and which they are."""
    rank = len(x.shape) + 1
    places = _along(b, _places(b, x, dim, descending), dim, 0)
    chosen = b.op("eq", places, _numbers(b, count, dim + 1, rank))
    numbers = b.expand(_numbers(b, x.shape[dim], dim, rank), _whole(x, dim, count))
    picked = b.op("where", chosen, numbers, b.full((), 0, _FLOAT))
    indices = b.cast(b.op("sum", picked, dim=(dim,), keepdim=False), _INT64)
    # Read, and not summed like the indices: a zero keeps its sign, and a NaN its bits.
    where = [Along(n, d) for d, n in enumerate(x.shape)]
    where[dim] = Along(x.shape[dim], by=0)
    return b.fetch(x, 0, [indices], indices.shape, where), indices


def _sort(b: Rewriter, x: Value, dim: int, keepdim: bool, descending: bool) -> tuple[Value, Value] | None:
    return _in_order(b, x, dim, x.shape[dim], descending) if _is_short(x, dim) else None


def _topk(
    b: Rewriter, x: Value, dim: int, keepdim: bool, k: int, largest: bool
) -> tuple[Value, Value] | None:
    return _in_order(b, x, dim, operator.index(k), largest) if _is_short(x, dim) and k else None


def _searchsorted(b: Rewriter, *tensors: Value, right: bool, out_int32: bool) -> Value | None:
    if len(tensors) != 2 or len(tensors[0].shape) != 1 or out_int32:
        return None
    table, values = tensors
    (size,) = table.shape
    if not 0 < size <= LONGEST_TABLE or table.dtype != values.dtype:
        return None
    n = operator.index(size)
    place = b.full((), 0, _INT64)
    for step in (1 << i for i in reversed(range(int(math.log2(n)) + 1))):
        probe = b.op("add", place, step - 1)
        found = b.fetch(table, 0, [b.expand(probe, values.shape)], values.shape, [Along(n, by=0)])
        passed = b.op("logical_not", _less(b, values, found)) if right else _less(b, found, values)
        inside = b.op("logical_and", b.op("lt", probe, n), passed)
        place = b.op("where", inside, b.op("add", place, step), place)
    return b.expand(place, values.shape)


RULES: dict[str, Callable[..., Value | Sequence[Value] | None]] = {
    "sort": _sort,
    "topk": _topk,
    "searchsorted": _searchsorted,
}
