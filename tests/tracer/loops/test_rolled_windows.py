"""Loops whose rounds read windows that move with their number: rolled where rounds are alike, and eager's."""

from __future__ import annotations

import pytest
from rolled_loops import ROUNDS, Loop, check, given, rounds_that_run

import fusegrad as fg


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def windows(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS - 3):
        h = fg.tanh(x[t : t + 3].mean(0) @ w + h)
    return h.sum()


def windows_before(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(2, ROUNDS):
        h = fg.tanh(x[t - 2 : t].sum(0) * x[t] + h @ w)
    return h.sum()


def windows_backwards(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    n, turned = len(x), x.T
    for t in range(n - 4):
        h = fg.tanh((turned[:, n - 4 - t : n - t] * w).sum(1) + h)
    return h.sum()


def windows_side_by_side(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS // 2):
        h = fg.tanh((x[2 * t : 2 * t + 2] @ w).sum(0) + h)
    return h.sum()


def windows_from_both_ends(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t - 30 : t - 28].sum(0) + h @ w)
    return h.sum()


ROLLED = [windows, windows_before, windows_backwards, windows_side_by_side, windows_from_both_ends]


@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_loops_over_windows_are_rolled(function: Loop, ran: list[int]) -> None:
    jitted = check(function)
    assert "rounds of a loop" in str(jitted.explain()), jitted.explain()
    ran.clear()
    fg.jit(function)(*given())
    assert len(ran) <= (24 if "both_ends" in function.__name__ else 8), ran


# What must not be left out, or not to the end.


def windows_that_end(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t : t + 20].sum(0) + h @ w)
    return h.sum()


def windows_that_grow(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(1, ROUNDS):
        h = fg.tanh(x[:t].sum(0) + x[t : 2 * t + 1].sum(0) + h @ w)
    return h.sum()


def windows_of_many_steps(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t : t + 5 : 2].sum(0) + h @ w)
    return h.sum()


def windows_that_are_written(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    out = x * 1
    for t in range(ROUNDS - 3):
        h = fg.tanh(x[t] @ w + h)
        out[t : t + 3] = h
    return (out * x).sum()


@pytest.mark.parametrize(
    "function",
    [windows_that_end, windows_that_grow, windows_of_many_steps, windows_that_are_written],
    ids=lambda f: f.__name__,
)
def test_windows_that_are_not_alike(function: Loop) -> None:
    jitted = check(function, 2)
    assert ("rounds of a loop" in str(jitted.explain())) == (function is windows_that_end)
