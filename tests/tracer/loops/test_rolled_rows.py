"""Loops whose rounds find rows by their number, or leave rows: rolled where rounds are alike, and eager's."""

from __future__ import annotations

import numpy as np
import pytest
from rolled_loops import ROUNDS, Loop, check, given, rounds_that_run

import fusegrad as fg
from fusegrad import nn
from fusegrad.tracer.loops import items
from fusegrad.tracer.observe.operations import COMPARE


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


# Rows.


def by_number(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(len(x)):
        h = fg.tanh(x[t] @ w + h)
    return h.sum()


def columns(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    turned = x.T
    for t in range(ROUNDS):
        h = fg.tanh(turned[:, t] @ w + h)
    return h.sum()


def part_of_a_row(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.sin(x[t, 1:3].sum() + h * x[t, -1])
    return h.sum()


def the_next_row(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS - 1):
        h = fg.tanh(x[t] * x[t + 1] + h @ w)
    return h.sum()


def backwards(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    n = len(x)
    for t in range(n):
        h = fg.tanh(x[n - 1 - t] + h @ w) + x[-1 - t] * 0.1
    return h.sum()


def from_the_last(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in reversed(range(ROUNDS)):
        h = fg.tanh(x[t] @ w + h)
    return h.sum()


def by_twos(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS // 2):
        h = fg.tanh(x[2 * t] @ w + h * x[t * 2 + 1])
    return h.sum()


def from_both_ends(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t - 30] @ w + h)
    return h.sum()


def over_rows(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for row in x:
        h = fg.tanh(row @ w + h)
    return h.sum()


def numbered_rows(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t, row in enumerate(x):
        h = fg.tanh(row @ w + h) + x[-1 - t]
    return h.sum()


def two_at_once(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    y = fg.cos(x)
    for a, b in zip(x, y):  # noqa: B905
        h = fg.tanh(a * b + h @ w)
    return h.sum()


def two_states(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    c = h * 0.5
    for t in range(ROUNDS):
        h, c = c, fg.tanh(x[t] @ w + h)
    return (h * c).sum()


# What rounds leave.


def stacked(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states = []
    for row in x:
        h = fg.tanh(row @ w + h)
        states.append(h)
    return (fg.stack(states, -1) ** 2).sum() + (fg.stack(states)[::7] ** 3).sum()


def joined(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states, products = [w[:2, :2]], []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        states.append(h.reshape(2, 2))
        products.append(h * x[t])
        states.append(fg.sin(h).reshape(2, 2))
    weights = fg.linspace(0, 1, 4 * ROUNDS, dtype=fg.float64)
    return (fg.cat(states, 1)[0, 2:] * weights).sum() + (fg.cat(products) * weights).sum()


def mapped(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    found: list[fg.Tensor] = []
    for row in x:
        found.append(fg.tanh(row @ w))
    return (fg.stack(found) ** 2 * h).sum()


def handed_on_first(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    before = []
    for t in range(ROUNDS):
        before.append(h)
        h = fg.tanh(x[t] @ w + h)
        before.append(w[0])
    return (fg.stack(before) ** 2 * fg.linspace(0, 1, 2 * ROUNDS, dtype=fg.float64)[:, None]).sum()


def from_both_ends_stacked(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states = []
    for t in range(ROUNDS):
        h = fg.tanh(x[t - 30] @ w + h)
        states.append(h)
    return (fg.stack(states) * x).sum()


class Cell(nn.Module):
    """A module of modules, which a loop calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()

    def forward(self, row: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        return fg.tanh(self.inner(row) + self.outer(h))


CELL, LSTM, GRU = Cell(), nn.LSTMCell(4, 4).double(), nn.GRUCell(4, 4).double()


def modules(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states = []
    for t in range(len(x)):
        h = CELL(x[t], h)
        states.append(h @ w)
    return (fg.stack(states) ** 2).sum()


def lstm(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    h = c = h[None]
    states = []
    for row in x.unsqueeze(1):
        h, c = LSTM(row @ w, (h, c))
        states.append(h)
    return (fg.cat(states) ** 2).sum() + c.sum()


def gru(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(len(x)):
        h = GRU(fg.cat([x[t], x[-1 - t]])[1:5], h)
    return (h @ w).sum()


# Branches, and attributes of what the run has made.


def branches(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    scaled = len(x) > 10
    for t in range(ROUNDS):
        if scaled:
            h = fg.tanh(x[t] @ w + h)
        else:
            h = h + x[t]
        h = h * 0.5 if x.shape[1] == 3 or not scaled else h * 0.9
    return h.sum()


def another_first_round(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states = []
    for t in range(ROUNDS):
        h = x[t] @ w if t == 0 else fg.tanh(x[t] @ w + h * x[t - 1])
        if t < ROUNDS - 1:
            states.append(h)
    return (fg.stack(states) ** 2).sum() + h.sum()


class State:
    def __init__(self, h: fg.Tensor) -> None:
        self.h, self.before = h, h

    def step(self, row: fg.Tensor, w: fg.Tensor) -> None:
        self.before = self.h
        self.h = fg.tanh(row @ w + self.h)


def attributes(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = State(h)
    for row in x:
        state.step(row, w)
    return (state.h * state.before).sum()


def set_in_the_loop(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = State(h)
    for t in range(ROUNDS):
        state.h = fg.tanh(x[t] @ w + state.h)
    return (state.h * state.before).sum()


def one_branch_in_the_middle(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t == ROUNDS // 2:
            h = h * 3
    return h.sum()


ROLLED_LOOPS = [
    modules, lstm, gru,
    by_number, columns, part_of_a_row, the_next_row, backwards, from_the_last, by_twos, from_both_ends,
    over_rows,
    numbered_rows, two_at_once, two_states, stacked, joined, mapped, from_both_ends_stacked,
    branches, another_first_round, attributes, set_in_the_loop, one_branch_in_the_middle,
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", ROLLED_LOOPS, ids=lambda f: f.__name__)
def test_loops_over_rows_are_rolled(function: Loop, ran: list[int]) -> None:
    jitted = check(function)
    # Where no round needs what the one before it did, no loop is left.
    assert ("rounds of a loop" in str(jitted.explain())) == (function is not mapped), jitted.explain()
    assert "not rolled" not in str(jitted.explain())
    ran.clear()
    fg.jit(function)(*given())
    again = "both_ends" in function.__name__ or function in (another_first_round, one_branch_in_the_middle)
    assert len(ran) <= (24 if again else 8), ran


# What must not be left out.


def number_in_use(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h).roll(t)
    return h.sum()


def number_that_is_given_on(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    def row(t: int) -> fg.Tensor:
        return x[min(t, 40)]

    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h) + row(t)
    return h.sum()


def number_that_a_function_sees(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    def scaled(h: fg.Tensor) -> fg.Tensor:
        return h * 0.5 if t == 20 else h

    for t in range(ROUNDS):  # noqa: B007
        h = fg.tanh(scaled(h) + 1)
    return h.sum() + (x.sum() + w.sum()) * 0


def order(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    places = [*range(20), *reversed(range(20, ROUNDS))]
    for t in range(ROUNDS):
        h = fg.tanh(x[places[t]] @ w + h)
    return h.sum()


class Place:
    """What looks like a whole number that is added."""

    def __radd__(self, t: int) -> int:
        return t if t < 20 else 39 - t % 20


PLACE = Place()


def sum_of_its_own(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(x[t + PLACE] @ w + h)  # type: ignore[index]
    return h.sum()


def offset_that_grows(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    k = 0
    for t in range(ROUNDS // 2):
        h = fg.tanh(x[t + k] @ w + h)
        k = k + 1
    return h.sum()


def changed_rows(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    y = x * 1
    for t in range(ROUNDS - 1):
        h = fg.tanh(y[t].clone() @ w + h)
        y[t + 1] = h
    return h.sum() + y.sum()


def rows_of_another(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    a, b = x, x * 0.5
    for t in range(ROUNDS):
        h = fg.tanh(a[t] @ w + h)
        a, b = b, a
    return h.sum()


def rows_of_what_goes_on(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        x = x * 0.99
        h = fg.tanh(x[t] @ w + h)
    return h.sum()


def out_of_range(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    try:
        for t in range(ROUNDS):
            h = fg.tanh(x[t + 20] @ w + h)
    except IndexError:
        pass
    return h.sum()


def list_with_two_names(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states: list[fg.Tensor] = []
    others = states
    for row in x:
        h = fg.tanh(row @ w + h)
        states.append(h)
    return fg.stack(others).sum()


def written_after(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    states = []
    for row in x:
        h = fg.tanh(row @ w + h)
        states.append(h)
        h = h * 1
        h += 0.1
    return fg.stack(states).sum()


def swapped_in_between(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    a: list[fg.Tensor] = []
    b: list[fg.Tensor] = []
    for row in x:
        h = fg.tanh(row @ w + h)
        a.append(h)
        a, b = b, a
    return (fg.stack(a) * 2 + fg.stack(b)).sum()


RUN = [
    number_in_use, number_that_is_given_on, number_that_a_function_sees, order, sum_of_its_own,
    offset_that_grows, changed_rows, rows_of_another, rows_of_what_goes_on, out_of_range,
    list_with_two_names, written_after, swapped_in_between, handed_on_first,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", RUN, ids=lambda f: f.__name__)
def test_loops_that_may_differ_run(function: Loop) -> None:
    jitted = check(function, 2)
    can_be = (rows_of_another, handed_on_first, changed_rows, written_after)
    if function not in can_be:
        assert "rounds of a loop" not in str(jitted.explain()), jitted.explain()


def test_a_list_that_another_function_gets_has_all_items() -> None:
    class Other:
        def stack(self, items: list[fg.Tensor]) -> fg.Tensor:
            assert len(items) == ROUNDS
            return items[30] * items[31] + items[0] * items[-1]

    other = Other()

    def loop(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        states = []
        for row in x:
            h = fg.tanh(row @ w + h)
            states.append(h)
        return other.stack(states).sum()

    check(loop, 2)


def test_memory_that_a_tensor_gets_in_between() -> None:
    """Rows are those of the memory that there was when the loop began."""

    def loop(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        y, other = x * 1, x * 2

        def change() -> None:
            y.data = other

        for row in y:
            h = fg.tanh(row + h)
            change()
        return h

    x, _, h = given()
    np.testing.assert_allclose(fg.jit(loop)(x, h).numpy(), loop(x, h).numpy())


@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">=", "==", "!="])
def test_how_long_a_comparison_has_one_outcome(symbol: str) -> None:
    compare = COMPARE[symbol]
    for difference in range(-12, 13):
        for growth in range(-4, 5):
            outcomes = [compare(difference + n * growth, 0) for n in range(60)]
            expected = next((n for n, now in enumerate(outcomes) if now != outcomes[0]), None)
            found = items.alike_for(symbol, difference, growth)
            assert found == expected or (expected is None and found > 60), (difference, growth)
