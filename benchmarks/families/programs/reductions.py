"""Reductions over the last, first, middle and all axes, with extents from 2 to 100,000."""

from __future__ import annotations

from typing import Any

from families.declare import programs

PLACES = (("last", -1), ("first", 0), ("middle", 1), ("all", None))


def place_of(axis: str, shape: tuple[int, ...]) -> Any:
    """The dimension of an axis, or all of them."""
    found = dict(PLACES)[axis]
    return tuple(range(len(shape))) if found is None else found


@programs(
    "reduction",
    "axis shape",
    *("last 100x2 float32", "last 1000x3 float32", "last 33x1000 float64", "last 100000 float32"),
    *("first 1000x33 float32", "first 100000x2 float32", "first 3x1000 float64"),
    *("middle 8x33x100 float32", "middle 16x1000x5 float32", "all 5x8 float32", "all 1000x100 float64"),
)
def sum(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """Sums, squared."""
    total, dim = ops.sum, place_of(axis, shape)

    def loss(x):
        return total(total(x * x, dim=dim) ** 2)

    return loss, [draw.normal(*shape)]


@programs(
    "reduction",
    "axis shape",
    *("last 1000x5 float32", "last 8x100000 float32", "last 100x8 float64", "first 33x1000 float32"),
    *("first 1000x16 float64", "middle 5x8x33 float32", "middle 33x100x16 float32", "all 100x100 float32"),
)
def max(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """The largest of each slice."""
    largest, dim = ops.amax, place_of(axis, shape)

    def loss(x):
        return (largest(x, dim=dim) * 2).mean()

    return loss, [draw.normal(*shape)]


@programs(
    "reduction",
    "axis shape",
    *("last 1000x2 float32", "last 256x100 float32", "last 100000 float64", "first 16x1000 float32"),
    *("first 1000x8 float32", "middle 8x33x1000 float32", "middle 100x3x33 float64", "all 33x33 float32"),
)
def logsumexp(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """A smooth maximum of each slice."""
    smooth, dim = ops.logsumexp, place_of(axis, shape)

    def loss(x):
        return smooth(x, dim=dim).mean()

    return loss, [draw.normal(*shape)]


@programs(
    "reduction",
    "axis shape",
    *("last 1000x3 float32", "last 64x33 float32", "last 100x1000 float32", "last 2x100000 float64"),
    *("first 8x1000 float32", "first 1000x5 float64", "middle 16x100x33 float32", "middle 33x2x100 float32"),
)
def softmax(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """Weights that sum to one, and a mean by them."""
    weights, dim = ops.softmax, place_of(axis, shape)

    def loss(x, y):
        return (weights(x, dim=dim) * y).sum()

    return loss, [draw.normal(*shape), draw.normal(*shape)]


@programs(
    "reduction",
    "axis shape",
    *("last 1000x8 float32", "last 33x1000 float32", "last 100000 float32", "first 100x16 float32"),
    *("first 1000x100 float64", "middle 8x100x33 float32", "middle 5x1000x3 float64", "all 100x33 float32"),
)
def variance(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """The spread of each slice."""
    spread, sqrt, dim = ops.var, ops.sqrt, place_of(axis, shape)

    def loss(x):
        return sqrt(spread(x, dim=dim, correction=0) + 1e-5).sum()

    return loss, [draw.normal(*shape)]


@programs(
    "reduction",
    "axis shape",
    *("last 1000x16 float32", "last 100x5 float64", "last 100000 float32", "first 8x33 float32"),
    *(
        "first 1000x1000 float32",
        "middle 16x33x8 float32",
        "middle 3x1000x100 float64",
        "all 1000x33 float32",
    ),
)
def norm(ops: Any, draw: Any, axis: str, shape: Any) -> Any:
    """Euclidean lengths."""
    length, dim = ops.vector_norm, place_of(axis, shape)

    def loss(x):
        return length(x, dim=dim).sum()

    return loss, [draw.normal(*shape)]


@programs("reduction", "shape", "64x33 float32", "8x16x100 float32", "100x1000 float64")
def standardised(ops: Any, draw: Any, shape: Any) -> Any:
    """Mean and variance of the last axis taken out, with a gain: layer norm by hand."""
    mean, rsqrt = ops.mean, ops.rsqrt

    def loss(x, gain, shift):
        center = x - mean(x, dim=-1, keepdim=True)
        y = center * rsqrt(mean(center * center, dim=-1, keepdim=True) + 1e-5)
        return ((y * gain + shift) ** 3).mean()

    return loss, [draw.normal(*shape), draw.positive(shape[-1]), draw.normal(shape[-1])]


@programs("reduction", "shape", "33 float32", "1000x100 float64")
def weighted_correlation(ops: Any, draw: Any, shape: Any) -> Any:
    """Pearson's correlation of the last axis."""
    total, sqrt = ops.sum, ops.sqrt

    def loss(x, y):
        x = x - ops.mean(x, dim=-1, keepdim=True)
        y = y - ops.mean(y, dim=-1, keepdim=True)
        return (total(x * y, dim=-1) / sqrt(total(x * x, dim=-1) * total(y * y, dim=-1))).sum()

    return loss, [draw.normal(*shape), draw.normal(*shape)]
