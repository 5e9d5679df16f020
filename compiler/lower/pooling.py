"""Pools: one goes in, reads of the input's windows, shifted, come out; gradients go to `pooling_nests.py`.

    v0: f32[1, 3, 4] = max_pool(x, count=(4,), window=((2, 2, 0, 1),))

becomes two reads in steps of 2, from 0 and from 1 on, of which x's strides say where they lie:

    l1: f32[1, 3, 4] = fetch(x, l0, ..., where=(..., (8, 2, 0, 2, None)))
    l2: f32[1, 3, 4] = fetch(x, l0, ..., where=(..., (8, 2, 1, 2, None)))
    l3: f32[1, 3, 4] = maximum(l1, l2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.fuse.pooling_nests import LARGEST_WINDOW
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.ops.shape.windows import Sizes, Window, elements_of, places_of
from fusegrad.tracer.ir.graph import Value

_INT64 = np.dtype(np.int64)


def _lowest(dtype: np.dtype) -> Any:
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _seen(b: Rewriter, x: Value, other: Any, count: Sizes, window: Window, place: Sequence[int]) -> Value:
    """The element at one place of every window; `other` where that is padding."""
    lead = len(x.shape) - len(window)
    where = [Along(n, d) for d, n in enumerate(x.shape[:lead])]
    for d, (o, (_, s, p, dilation)) in enumerate(zip(place, window, strict=True), lead):
        where.append(Along(x.shape[d], d, o * dilation - p, s))
    padding = 0 if other == 0 else b.full((), other, x.dtype)
    return b.fetch(x, padding, [], (*x.shape[:lead], *count), where)


def _all_seen(b: Rewriter, x: Value, other: Any, count: Sizes, window: Window) -> list[Value]:
    return [_seen(b, x, other, count, window, place) for place in places_of(window)]


def max_pool(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value | None:
    """The largest of each window; NaN where there is one."""
    if elements_of(window) > LARGEST_WINDOW:
        return None
    result, *rest = _all_seen(b, x, _lowest(x.dtype), count, window)
    for other in rest:
        result = b.op("maximum", result, other)
    return result


def max_pool_place(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value | None:
    """Where in its window the largest is: the first of equals, but the last NaN."""
    uneven = any(p and dilation > 1 for _, _, p, dilation in window)
    if uneven or elements_of(window) > LARGEST_WINDOW:
        return None
    lowest, int32 = _lowest(x.dtype), np.dtype(np.int32)
    best, places = b.full((), lowest, x.dtype), _first_inside(b, len(x.shape), count, window)
    for number, seen in enumerate(_all_seen(b, x, lowest, count, window)):
        better = b.op("gt", seen, best)
        if x.dtype.kind == "f":
            better = b.op("logical_or", better, b.op("isnan", seen))
        best = b.op("where", better, seen, best)
        places = b.op("where", better, b.full((), number, int32), places)
    return places


def _first_inside(b: Rewriter, rank: int, count: Sizes, window: Window) -> Value:
    """The first place of each window that is not padding."""
    first = b.full((), 0, _INT64)
    for d, (c, (k, s, p, _)) in enumerate(zip(count, window, strict=True), rank - len(window)):
        first = b.op("mul", first, k)
        if p:
            before = b.op("sub", p, b.op("mul", b.arange(c, d, rank), s))
            first = b.op("add", first, b.op("maximum", before, b.full((), 0, _INT64)))
    return b.cast(first, np.dtype(np.int32))


def max_pool_pick(b: Rewriter, x: Value, places: Value, count: Sizes, window: Window) -> Value | None:
    """The element at the given place of each window."""
    if elements_of(window) > LARGEST_WINDOW:
        return None
    result = b.full(places.shape, 0, x.dtype)
    for number, seen in enumerate(_all_seen(b, x, 0, count, window)):
        result = b.op("where", b.op("eq", places, number), seen, result)
    return result


def avg_pool(
    b: Rewriter, x: Value, count: Sizes, window: Window, include: bool, divisor: int | None
) -> Value | None:
    """The mean of each window."""
    if elements_of(window) > LARGEST_WINDOW or x.dtype.kind != "f":
        return None
    total, *rest = _all_seen(b, x, 0, count, window)
    for other in rest:
        total = b.op("add", total, other)
    size = x.shape[len(x.shape) - len(window) :]
    return b.op("div", total, _divisor(b, x, size, count, window, include, divisor))


def _divisor(
    b: Rewriter, x: Value, size: Sizes, count: Sizes, window: Window, include: bool, divisor: int | None
) -> Any:
    """What the sums are divided by: a number, or how many elements each window has."""
    if divisor is not None:
        return divisor
    result, rank = b.full((), 1, _INT64), len(x.shape)
    for d, (n, c, (k, s, p, _)) in enumerate(zip(size, count, window, strict=True), rank - len(window)):
        start = b.op("sub", b.op("mul", b.arange(c, d, rank), s), p)
        stop = b.op("minimum", b.op("add", start, k), b.full((), n + p, _INT64))
        if not include:
            start = b.op("maximum", start, b.full((), 0, _INT64))
            stop = b.op("minimum", stop, b.full((), n, _INT64))
        result = b.op("mul", result, b.op("sub", stop, start))
    return b.cast(result, x.dtype)


def avg_pool_spread(
    b: Rewriter, x: Value, size: Sizes, window: Window, include: bool, divisor: int | None
) -> Value | None:
    """Each mean's share given back to its window."""
    if elements_of(window) > LARGEST_WINDOW or x.dtype.kind != "f":
        return None
    count = x.shape[len(x.shape) - len(window) :]
    share = b.op("div", x, _divisor(b, x, size, count, window, include, divisor))
    return b.op("avg_pool_spread", share, size=size, window=window, include=include, divisor=1)


RULES: dict[str, Callable[..., Value | None]] = {
    "max_pool": max_pool,
    "max_pool_place": max_pool_place,
    "max_pool_pick": max_pool_pick,
    "avg_pool": avg_pool,
    "avg_pool_spread": avg_pool_spread,
}
