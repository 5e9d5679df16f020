"""Loops whose rounds set attributes of objects from outside: handed on like variables, left as in eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, given, rounds_that_run

import fusegrad as fg
from fusegrad import nn
from fusegrad.tracer.loops import turns


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


class Cell(nn.Module):
    """What keeps its state to itself."""

    def __init__(self) -> None:
        super().__init__()
        fg.manual_seed(0)
        self.linear = nn.Linear(4, 4, dtype=fg.float64)
        self.h, self.last, self.steps, self.kept = fg.zeros(4, dtype=fg.float64), None, 0, 3.5

    def step(self, row: Any) -> Any:
        self.h = fg.tanh(self.linear(row) + self.h)
        return self.h


def states(cell: Cell, x: Any) -> Any:
    for row in x:
        cell.h = fg.tanh(cell.linear(row) + cell.h)
    return cell.h.sum()


def counted(cell: Cell, x: Any) -> Any:
    for t in range(len(x)):
        cell.h = fg.tanh(cell.linear(x[t]) + cell.h)
        cell.steps += 1
        cell.steps += 2
    return cell.h.sum()


def by_methods(cell: Cell, x: Any) -> Any:
    outs = []
    for row in x:
        outs.append(cell.step(row))
    return (fg.stack(outs) * x).sum()


def made_anew(cell: Cell, x: Any) -> Any:
    cell.h = x[0] * 0
    for row in x:
        cell.last = cell.h
        cell.h = fg.sin(cell.linear(row) + cell.h)
        cell.kept = 3.5
    return (cell.last * cell.h).sum()


def in_two_loops(cell: Cell, x: Any) -> Any:
    for row in x:
        cell.h = fg.tanh(cell.linear(row) + cell.h)
    for t in range(len(x)):
        cell.last = cell.h
        cell.h = fg.tanh(cell.linear(x[t]) - cell.h)
        cell.steps -= 1
    return cell.h.sum()


def no_longer(cell: Cell, x: Any) -> Any:
    for t in range(len(x)):
        cell.h = fg.tanh(cell.linear(x[t]) + cell.h)
        if t < 30:
            cell.last = cell.h * 2
    return cell.h.sum() + cell.last.sum()


def looked_at(cell: Cell, x: Any) -> Any:
    for row in x:
        cell.h = fg.tanh(cell.linear(row) + cell.h)
        cell.steps += 1
        if cell.steps == 40:
            cell.h = cell.h * 0.5
    return cell.h.sum()


def number_of_the_round(cell: Cell, x: Any) -> Any:
    for t in range(len(x)):
        cell.h = fg.tanh(cell.linear(x[t]) + cell.h)
        cell.kept = t
    return cell.h.sum() * cell.kept


def half_the_time(cell: Cell, x: Any) -> Any:
    for t in range(len(x)):
        cell.h = fg.tanh(cell.linear(x[t]) + cell.h)
        if t >= 30:
            cell.steps += 1
    return cell.h.sum()


def found_by_name(cell: Cell, x: Any) -> Any:
    for row in x:
        cell.h = fg.tanh(cell.linear(row) + cell.h)
        setattr(cell, "last", getattr(cell, "h") * 2)  # noqa: B009, B010
    return vars(cell)["last"].sum()


ROLLED = [states, counted, by_methods, made_anew]
ALL = [*ROLLED, in_two_loops, no_longer, looked_at, number_of_the_round, half_the_time, found_by_name]


def _state(cell: Cell) -> list[Any]:
    return [cell.h, cell.last, cell.steps, cell.kept]


def check(function: Any, rounds: int = ROUNDS, calls: int = 4) -> Any:
    """The jitted function, which leaves what eager leaves, with and without gradients."""
    x = given(rounds)[0]
    for derives in (False, True):
        cells = Cell(), Cell()

        def step(cell: Cell, x: Any, derives: bool = derives) -> Any:
            if not derives:
                with fg.no_grad():
                    return function(cell, x)
            cell.h = cell.h.detach()
            return fg.value_and_grad(lambda x, _: function(cell, x), (0,))(x, 1)

        jitted = fg.jit(step)
        for call in range(calls):
            ours, theirs = jitted(cells[0], x), step(cells[1], x)
            for results in (ours, theirs), map(_state, cells):
                found = [fg.utils._pytree.tree_leaves(r) for r in results]
                for a, b in zip(*found, strict=True):
                    if isinstance(b, fg.Tensor):
                        a, b = (t.detach().numpy() for t in (a, b))
                    np.testing.assert_equal(type(a), type(b))
                    np.testing.assert_allclose(
                        a, b, rtol=1e-9, atol=1e-11, err_msg=str((derives, call))
                    ) if b is not None else None
    return jitted


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_attributes_are_left_as_eager_leaves_them(function: Any, ran: list[int]) -> None:
    jitted = check(function)
    if function in ROLLED:
        assert "rounds of a loop" in str(jitted.explain()), jitted.explain()
        ran.clear()
        fg.jit(function)(Cell(), given()[0])
        assert len(ran) <= 8, ran


@pytest.mark.parametrize("rounds", [30, 41, 200])
def test_states_of_several_sizes(rounds: int) -> None:
    check(counted, rounds)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that are not gone on with."""
    monkeypatch.setattr(turns, "counted_up", lambda looks: [])
    monkeypatch.setattr("fusegrad.tracer.loops.rolling.counted_up", lambda looks: [])
    with pytest.raises(AssertionError):
        check(counted)
