"""Variables that only some rounds of a loop assign: what they hold when it is over, or is left."""

from __future__ import annotations

from typing import Any

import pytest
from rolled_loops import ROUNDS, Loop, check, check_rolled, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.observe import loops
from fusegrad.tracer.twin import scopes


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def until_some_round(x: Any, w: Any, h: Any) -> Any:
    last = h
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 30:
            last = h * 2
    return h.sum() + (last**2).sum()


def of_two(x: Any, w: Any, h: Any) -> Any:
    early = late = h
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 30:
            early = h * 2
        else:
            late = fg.sin(h)
    return h.sum() + (early * late).sum()


def from_some_round(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if t >= 2:
            h = fg.tanh(x[t] @ w + h)
    return h.sum()


def only_within(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if w.dim() == 2:
            product = x[t] @ w
            h = h + product * 0.1
    return fg.tanh(h).sum()


@pytest.mark.parametrize(
    "function", [until_some_round, of_two, from_some_round, only_within], ids=lambda f: f.__name__
)
def test_variables_that_some_rounds_assign(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran, 16)


def unset_at_first(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 40:
            last = h * 2
    return h.sum() + (last**2).sum()


def deleted_before(x: Any, w: Any, h: Any) -> Any:
    last = h
    del last
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 40:
            last = h * 2
    return h.sum() + (last**2).sum()


@pytest.mark.parametrize("function", [unset_at_first, deleted_before], ids=lambda f: f.__name__)
def test_variables_without_a_value(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LONG", ROUNDS)
    assert "do not all give `last` a value" in str(check(function, 2).explain())


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are taken to be used nowhere else."""
    monkeypatch.setattr(scopes.Scope, "is_used_elsewhere", lambda *_: False)

    def loop(x: Any, w: Any, h: Any) -> Any:
        last = h
        for t in range(ROUNDS):
            h = fg.tanh(x[t] @ w + h)
            if t < 30:
                last = h * 2
        return h.sum() + (last**2).sum()

    with pytest.raises(AssertionError):
        check(loop, 1)
