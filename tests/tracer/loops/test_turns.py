"""Long rounds are tried one by one: half of the rounds run, and half is compiled; in twos where that is not
enough. What they do besides is what `test_rolled_*` has of turns of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled_loops import check_rolled, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops import rolling, turns
from fusegrad.tracer.record import later

ROUNDS = 60
ONE_BY_ONE, IN_TWOS = [0, 1, 2, ROUNDS - 1], [0, 1, 2, 3, 4, 5, ROUNDS - 2, ROUNDS - 1]


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    monkeypatch.setattr(rolling, "LONG", 16)
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
    monkeypatch.setattr(rolling, "LONG", ROUNDS)
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


class Held:
    """What keeps a state, and a part of it."""

    def __init__(self, state: Any) -> None:
        self.state, self.part = state, state[:2]


def shares_memory(x: Any, w: Any, h: Any, rounds: int) -> Any:
    h = h * 1
    part = h[:2]
    for t in range(rounds):
        if t == rounds - 1:
            part.mul_(2)
        h = stepped(x, w, h) * 0.5 + x[t]
        part = h[:2]
    return h


def shares_memory_behind(x: Any, w: Any, h: Any, rounds: int) -> Any:
    h = h * 1
    part = h[:2]
    for t in range(rounds):
        before, part_before = h, part
        h = stepped(x, w, h) * 0.5 + x[t] + part.sum() * 0.1
        part = h.view(4)
    part_before.mul_(2)
    return before


def shares_memory_of_attributes(x: Any, w: Any, h: Any, rounds: int) -> Any:
    held = Held(h * 1)
    for t in range(rounds):
        if t == rounds - 1:
            held.part.mul_(2)
        held.state = stepped(x, w, held.state) * 0.5 + x[t]
        held.part = held.state[:2]
    return held.state


@pytest.mark.one_in(6)
@pytest.mark.parametrize("function", [shares_memory, shares_memory_behind, shares_memory_of_attributes])
@pytest.mark.parametrize("rounds", range(ROUNDS, ROUNDS + 4))
def test_tensors_that_share_memory_still_do(function: Any, rounds: int) -> None:
    draw = np.random.default_rng(0)
    x, w, h = (fg.tensor(draw.standard_normal(s)) for s in ((ROUNDS + 4, 4), (4, 4), (4,)))
    wanted, jitted = function(x, w, h, rounds), fg.jit(function)
    for _ in range(2):
        np.testing.assert_allclose(jitted(x, w, h, rounds).numpy(), wanted.numpy(), rtol=1e-9)


def test_rows_of_what_is_written_later() -> None:
    def function(x: Any, w: Any, h: Any) -> Any:
        y = x * 1
        for t, row in enumerate(y):
            h = fg.tanh(h @ w) + row
            y[t] = h * 2
        return h, row, y

    args = [t.clone().requires_grad_() for t in given()]
    for called in (function, fg.jit(function)):
        with pytest.raises(RuntimeError, match="modified inplace"):
            called(*args)
    for ours, theirs in zip(fg.jit(function)(*given()), function(*given()), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.numpy(), rtol=1e-9)
