"""Long rounds are tried one by one: half of the rounds run, and half is compiled; in twos where that is not
enough. What they do besides is what `test_rolled_*` has of turns of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled_loops import check_rolled, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops import rolling, turns
from fusegrad.tracer.record import later

ROUNDS = 60
ONE_BY_ONE, IN_TWOS = [0, 1, 2, ROUNDS - 1], [0, 1, 2, 3, 4, 5, ROUNDS - 2, ROUNDS - 1]


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    monkeypatch.setattr(rolling, "MANY_ROUNDS", 16)
    return rounds_that_run(monkeypatch)


def stepped(x: Any, w: Any, h: Any) -> Any:
    """Many steps within a round."""
    for _ in range(turns.LONG_ROUND // 3 + 1):
        h = h + 0.01 * fg.sin(h @ w)
    return h


def states(x: Any, w: Any, h: Any) -> Any:
    for _ in range(ROUNDS):
        h = stepped(x, w, h)
    return h.sum()


def rows(x: Any, w: Any, h: Any) -> Any:
    outs, out = [], fg.zeros_like(x)
    for t in range(ROUNDS):
        h = stepped(x, w, h) + x[t]
        outs.append(h * (0.1 * t))
        out[t] = h
    return (fg.stack(outs) * x).sum() + (out * out).mean()


def backwards(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS - 1, -1, -1):
        h = stepped(x, w, h) * 0.9 + x[t]
    return h.sum()


def the_first_differs(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = stepped(x, w, h) + (x[t] if t > 0 else fg.sin(h))
    return h.sum()


@pytest.mark.parametrize("function", [states, rows, backwards, the_first_differs], ids=lambda f: f.__name__)
def test_one_by_one(function: Any, ran: list[int]) -> None:
    check_rolled(function, ran, 4)
    assert ran == ONE_BY_ONE


def change_places(x: Any, w: Any, h: Any) -> Any:
    other = h * 0.5
    for _ in range(ROUNDS):
        h, other = other, stepped(x, w, h)
    return (h * other).sum()


def the_one_before(x: Any, w: Any, h: Any) -> Any:
    before = h
    for t in range(ROUNDS):
        before, h = h, stepped(x, w, h) + before * x[t]
    return (before * h).sum()


def the_first_two_differ(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = stepped(x, w, h) + (x[t] if t > 1 else fg.sin(h))
    return h.sum()


@pytest.mark.parametrize(
    "function", [change_places, the_one_before, the_first_two_differ], ids=lambda f: f.__name__
)
def test_in_twos(function: Any, ran: list[int]) -> None:
    check_rolled(function, ran)
    assert ran == IN_TWOS


def test_short_rounds_and_short_loops_are_taken_in_twos(
    ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(x: Any, w: Any, h: Any) -> Any:
        for t in range(ROUNDS):
            h = fg.tanh(h @ w + x[t])
        return h.sum()

    check_rolled(short, ran)
    assert ran == IN_TWOS
    monkeypatch.setattr(rolling, "MANY_ROUNDS", ROUNDS)
    check_rolled(states, ran)
    assert ran == IN_TWOS


def shifted(x: Any, y: Any) -> None:
    y[1:] = 0.5 * y[1:] + x[:-1]
    y[:-1] = 0.9 * y[:-1] - 0.1 * x[1:]


def test_memory_that_is_written(ran: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "LARGE", 1)

    def function(x: Any) -> Any:
        y = x + 1
        for _ in range(2 * ROUNDS):
            shifted(x, y)
            shifted(x, y)
            shifted(x, y)
        return y

    x = fg.tensor(np.random.default_rng(0).standard_normal((6, 5)))
    jitted = fg.jit(function)
    for _ in range(2):
        np.testing.assert_allclose(jitted(x).numpy(), function(x).numpy(), rtol=1e-9, atol=1e-11)
    assert ran == [0, 1, 2, 2 * ROUNDS - 1]
    assert f"rounds of a loop, {2 * ROUNDS - 2} times" in str(jitted.explain())
