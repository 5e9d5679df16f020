"""Loops that are rolled: how many of their rounds ran in Python, and whether their results are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.ir import passes, rolled
from fusegrad.tracer.loops import rolling

ROUNDS = 60
Loop = Callable[..., fg.Tensor]


def rounds_that_run(monkeypatch: pytest.MonkeyPatch, few: bool = True) -> list[int]:
    """The numbers of the rounds that run to their end. few: few rounds are enough to roll a loop."""
    found: list[int] = []
    ended = rolling.Rounds.ended

    def noted(self: Any, *carried: Any) -> Any:
        found.append(self._next - 1)
        return ended(self, *carried)

    monkeypatch.setattr(rolling.Rounds, "ended", noted)
    monkeypatch.setattr(passes, "CHECK", True)
    if few:
        monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
        monkeypatch.setattr(rolled, "MANY", 100)
    return found


def given(rounds: int = ROUNDS) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor]:
    """What loops are called with: as many rows, a square matrix, and a row."""
    draw = np.random.default_rng(0)
    shapes = (rounds, 4), (4, 4), (4,)
    return tuple(fg.from_numpy(draw.standard_normal(s) * 0.5) for s in shapes)  # type: ignore[return-value]


def check(function: Loop, calls: int = 3, args: tuple[fg.Tensor, ...] | None = None) -> Any:
    """The jitted function, whose values and gradients are eager's, and whose values are without gradients."""
    args = given() if args is None else args
    derived = fg.value_and_grad(function, (0, 1, 2))
    value, gradients = derived(*args)
    expected = [t.detach().numpy().copy() for t in (value, *gradients)]
    jitted, plain = fg.jit(derived), fg.jit(function)
    for _ in range(calls):
        value, gradients = jitted(*args)
        for ours, theirs in zip((value, *gradients), expected, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(plain(*args).detach().numpy(), expected[0], rtol=1e-9, atol=1e-11)
    return jitted


def check_rolled(function: Loop, ran: list[int], most: int = 8) -> None:
    """The results are eager's, and at most so many rounds ran (`ran` is what `rounds_that_run` gave)."""
    jitted = check(function)
    assert "rounds of a loop" in str(jitted.explain()), jitted.explain()
    assert "not rolled" not in str(jitted.explain()), jitted.explain()
    ran.clear()
    fg.jit(fg.value_and_grad(function, (0, 1, 2)))(*given())
    assert len(ran) <= most, ran


def walk(round_: Callable[[fg.Tensor, fg.Tensor], fg.Tensor]) -> Loop:
    """A loop that takes a row in each round, and the sum of squares of what it hands on in the end."""

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(len(x)):
            h = round_(h, x[t])
        return (h * h).sum()

    return function


def check_over_rows(function: Loop, derived: bool, rounds: int, rtol: float = 1e-9) -> Any:
    """The jitted function of so many rows of three numbers, and of one, or its gradients: it has eager's
    results for other numbers each time.
    """
    called: Any = fg.value_and_grad(function, (0, 1)) if derived else function
    jitted = fg.jit(called)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        x = fg.tensor(draw.standard_normal((rounds, 3))), fg.tensor(draw.standard_normal(3))
        expected, found = called(*x), jitted(*x)
        pairs = zip(expected[1], found[1], strict=True) if derived else [(expected, found)]
        for a, b in pairs:
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=rtol, atol=1e-12)
    return jitted
