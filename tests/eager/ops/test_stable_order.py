"""The stable order beside NumPy's, of all dtypes, along all axes, both ways."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fusegrad.eager.ops.stable_order import stable_order

KINDS = [*"bBhHiIlLefd", "?"]
SHAPES = ((1000,), (40, 50), (50, 40, 3), (600, 1), (3, 0), (2, 3))


def numbers(kind: str, shape: tuple[int, ...], has_ties: bool) -> np.ndarray:
    draw = np.random.default_rng(len(shape))
    if kind in "efd":
        drawn = np.round(draw.normal(size=shape) * 2) if has_ties else draw.normal(size=shape) * 100
        for odd in (np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf) if has_ties else ():
            drawn[draw.random(shape) < 0.05] = odd
        return drawn.astype(kind)
    if kind == "?":
        return draw.random(shape) < 0.5
    limits = np.iinfo(kind)
    least, most = (0, 3) if has_ties else (limits.min, limits.max)
    return draw.integers(least, most, shape, dtype=kind, endpoint=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_ties", [False, True])
def test_it_is_numpys(kind: str, has_ties: bool) -> None:
    for shape in SHAPES:
        for axis, descending in itertools.product(range(-len(shape), len(shape)), (False, True)):
            x = numbers(kind, shape, has_ties)
            expected = np.argsort(np.flip(x, axis) if descending else x, axis=axis, kind="stable")
            if descending:
                expected = np.flip(shape[axis] - 1 - expected, axis)
            found = stable_order(x, axis, descending)
            assert found.dtype == np.int64 and found.flags.c_contiguous
            np.testing.assert_array_equal(found, expected)
            for start, stop in ((0, min(2, shape[axis])), (shape[axis] // 2, shape[axis])):
                some = stable_order(x, axis, descending, start, stop)
                np.testing.assert_array_equal(some, np.take(expected, np.arange(start, stop), axis))
