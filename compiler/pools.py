"""Pools: the windows read as shifted reads of the input, and gradients sent back to them by a native nest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.domain import Sources
from fusegrad.compiler.fetch import Along
from fusegrad.compiler.loops import BoundKernel
from fusegrad.compiler.nests import Nest
from fusegrad.compiler.rewriter import Rewriter
from fusegrad.compiler.scalar import short_name
from fusegrad.eager.ops.windows import Sizes, Window
from fusegrad.tracer.graph import Equation, Value

# Windows of more elements than this are left to NumPy: each element is a read of its own.
LARGEST_WINDOW = 32

_INT64 = np.dtype(np.int64)


def _elements(window: Window) -> int:
    return math.prod(k for k, _, _, _ in window)


def _places(window: Window) -> Iterator[tuple[int, ...]]:
    """The places within a window, in row-major order."""
    return itertools.product(*(range(k) for k, _, _, _ in window))


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
    return [_seen(b, x, other, count, window, place) for place in _places(window)]


def max_pool(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value | None:
    """The largest of each window; NaN where there is one."""
    if _elements(window) > LARGEST_WINDOW:
        return None
    result, *rest = _all_seen(b, x, _lowest(x.dtype), count, window)
    for other in rest:
        result = b.op("maximum", result, other)
    return result


def max_pool_place(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value | None:
    """Where in its window the largest is: the first of equals, but the last NaN."""
    uneven = any(p and dilation > 1 for _, _, p, dilation in window)
    if uneven or _elements(window) > LARGEST_WINDOW:
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
    if _elements(window) > LARGEST_WINDOW:
        return None
    result = b.full(places.shape, 0, x.dtype)
    for number, seen in enumerate(_all_seen(b, x, 0, count, window)):
        result = b.op("where", b.op("eq", places, number), seen, result)
    return result


def avg_pool(
    b: Rewriter, x: Value, count: Sizes, window: Window, include: bool, divisor: int | None
) -> Value | None:
    """The mean of each window."""
    if _elements(window) > LARGEST_WINDOW or x.dtype.kind != "f":
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
    if _elements(window) > LARGEST_WINDOW or x.dtype.kind != "f":
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
# What sends values back to the windows that they belong to.
SPREADS = frozenset({"max_pool_put", "avg_pool_spread"})


def spreads(equation: Equation) -> bool:
    """Whether a nest sends the values of this equation back: not those that are still to be divided."""
    params = equation.params
    return _elements(params["window"]) <= LARGEST_WINDOW and params.get("divisor", 1) == 1


def spread_kernel(equation: Equation, sources: Sources) -> BoundKernel:
    """The kernel of `max_pool_put` and `avg_pool_spread`: a task for each plane, one place of the windows
    after the other, so that no two values meet at once.
    """
    nest, window = Nest(sources), equation.params["window"]
    result, dtype = equation.output, short_name(equation.output.dtype)
    rank = len(window)
    lead = [nest.axis(n) for n in result.shape[: len(result.shape) - rank]]
    size, count = result.shape[len(lead) :], equation.inputs[0].shape[len(lead) :]
    whole, windows = [nest.axis(n) for n in size], [nest.axis(n) for n in count]
    filled = nest.output(result, [*lead, *whole])
    values = nest.input(equation.inputs[0], [*lead, *windows])
    chosen = nest.input(equation.inputs[1], [*lead, *windows]) if len(equation.inputs) > 1 else None
    # Where no two windows meet, what is there is 0 still, to which -0.0 is added as well.
    apart = all(s > (k - 1) * dilation for k, s, _, dilation in window)
    with nest.loop(lead, "parallel"):
        with nest.loop(whole[:-1], "serial"), nest.loop(whole[-1:], "vector"):
            nest.store(filled, nest.number(0, dtype))
        for number, place in enumerate(_places(window)):
            starts = [(d, o * w[3] - w[2], w[1]) for d, (o, w) in enumerate(zip(place, window, strict=True))]
            target = nest.output(
                result, [*lead, *windows], steps=[(len(lead) + d, f, s) for d, f, s in starts]
            )
            with nest.loop(windows[:-1], "serial"), nest.loop(windows[-1:], "vector"):
                inside = _inside(nest, windows, size, starts)
                if chosen is not None:
                    hit = nest.builder.eq(nest.load(chosen), nest.number(number, chosen.dtype))
                    inside = nest.builder.and_(inside, hit)
                value = nest.load(values)
                if apart:
                    nest.store(target, nest.builder.add(value, nest.number(0, dtype)), when=inside)
                else:
                    nest.store(target, value, when=inside, combine="add")
    return nest.bound()


def _inside(nest: Nest, windows: Sequence[str], size: Sizes, starts: Sequence[tuple[int, int, int]]) -> str:
    """Whether a place of a window lies within the input."""
    b = nest.builder
    inside: str | None = None
    for axis, n, (_, first, step) in zip(windows, size, starts, strict=True):
        moved = b.mul(nest.position(axis), nest.number(step, "i64"))
        test = nest.within(b.add(moved, nest.number(first, "i64")), n)
        inside = test if inside is None else b.and_(inside, test)
    assert inside is not None
    return inside
