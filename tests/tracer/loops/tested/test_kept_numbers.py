"""Numbers of rounds that branches on data keep: `if loss < best: at = t`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 60


def step(h: Any, row: Any) -> Any:
    return 0.9 * h + 0.3 * fg.sin(row * 2 + h)


def where_the_best_was(h: Any, x: Any) -> Any:
    best, at = fg.tensor(-1e9, dtype=h.dtype), -1
    for t in range(len(x)):
        h = step(h, x[t])
        score = h.sum()
        if score > best:
            best = score
            at = t
    return h * at, best, at


def of_floats(h: Any, x: Any) -> Any:
    best, at, half = -1e9, None, 0.0
    for i, row in enumerate(x):
        h = step(h, row)
        score = float(h.sum())
        if score > best:
            best, at, half = score, i + 1, 0.5 * i
    return h, best, at, half


def where_it_left(h: Any, x: Any) -> Any:
    at = None
    for t in range(len(x)):
        h = step(h, x[t])
        if h.sum() > 1.3:
            at = t
            break
    return h, at


def where_it_returned(h: Any, x: Any) -> Any:
    for t in range(len(x) - 1, -1, -2):
        h = step(h, x[t])
        if h.sum() > 1.2:
            return h, t
    return h, -1


def how_long_since(h: Any, x: Any) -> Any:
    last = 0
    for t in range(len(x)):
        h = step(h, x[t])
        if h.sum() > 0.5:
            last = t
        if t - last > 7:
            break
    return h, last, t


def on_both_sides(h: Any, x: Any) -> Any:
    above = below = times = 0
    for t in range(len(x)):
        h = step(h, x[t])
        if h.mean() > 0:
            if h[0] > h[1]:
                above, times = t, times + 1
        else:
            below = -t
    return h, above, below, times


def computed_with_in_rounds(h: Any, x: Any) -> Any:
    rate = 0.5
    for t in range(len(x)):
        if h.mean() > 0:
            rate = 1 / (1 + t)
        h = step(h, x[t]) * rate
    return h, rate


def looked_up_behind(h: Any, x: Any) -> Any:
    at = 0
    for t in range(len(x)):
        h = step(h, x[t])
        if h.mean() > 0.2:
            at = t
    return h, x[at] * 2, at


def of_a_number_that_is_known(h: Any, x: Any) -> Any:
    at, k = 0, 3
    for t in range(len(x)):
        h = step(h, x[t])
        if k > 2:
            at = t
    return h, at


LOOPS = [
    where_the_best_was, of_floats, where_it_left, where_it_returned, how_long_since, on_both_sides,
    computed_with_in_rounds, looked_up_behind, of_a_number_that_is_known,
]  # fmt: skip


def results(function: Callable[..., Any], seed: int, derived: bool) -> Any:
    draw = np.random.default_rng(seed)
    args = [fg.from_numpy(draw.normal(size=3) * 0.5), fg.from_numpy(draw.normal(size=(ROUNDS, 3)))]
    found = function(*(t.requires_grad_(derived) for t in args))
    if derived:
        sum(t.sum() for t in found if isinstance(t, fg.Tensor) and t.requires_grad).backward()
    values = [t.detach().numpy() if isinstance(t, fg.Tensor) else t for t in found]
    return values, [t.grad for t in args]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("function", LOOPS)
def test_numbers_of_rounds_are_kept(function: Callable[..., Any], derived: bool) -> None:
    jitted = fg.jit(function)
    for seed in (0, 1, 2, 3, 0, 1, 2, 3):
        expected, found = (results(called, seed, derived) for called in (function, jitted))
        assert [*map(type, found[0])] == [*map(type, expected[0])]
        for ours, theirs in zip(found[0], expected[0], strict=True):
            if theirs is None:
                continue
            np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)
        for mine, other in zip(found[1], expected[1], strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-7, 1e-10)
    assert jitted.stats.compiled_calls >= 2
    if function is not of_a_number_that_is_known:
        assert "rounds of a loop, until a test fails" in str(jitted.explain())


def test_the_round_is_not_what_is_guarded() -> None:
    """Other rounds may be the best in a replay."""
    jitted, ends = fg.jit(where_the_best_was), set()
    for seed in range(24):
        ends.add(results(jitted, seed, False)[0][-1])
    assert len(ends) > 4
    assert jitted.stats.compiled_calls > 12


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "first", [2**53 + 1, 1_700_000_000_000_000_007, 2**60 + 1, -(2**60) - 1, 10**25, 10**400]
)
def test_numbers_that_no_float64_holds(first: int) -> None:
    def kept(h: Any, x: Any) -> Any:
        at = of = None
        for t in range(first, first + ROUNDS):
            h = fg.sin(h + x[0])
            if h.sum() > 0:
                at, of = t, t - first
        return at, of

    def left(h: Any, x: Any) -> Any:
        n = first
        for t in range(first, first + ROUNDS):
            h = step(h, x[t - first])
            if h.sum() > 1.3:
                break
            n += 1
        return t, n

    for function in (kept, left):
        jitted = fg.jit(function)
        for seed in (0, 1, 2, 0, 1, 2):
            draw = np.random.default_rng(seed)
            args = fg.from_numpy(draw.normal(size=3)), fg.from_numpy(draw.normal(size=(ROUNDS, 3)))
            assert jitted(*args) == function(*args)
