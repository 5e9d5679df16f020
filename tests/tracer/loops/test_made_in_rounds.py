"""Rounds may make tensors of numbers, of Python data, and of nothing but a shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rolled_loops import check_over_rows, walk

import fusegrad as fg

ROUNDS = 150
Round = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]


def given_a_place(h: fg.Tensor, row: fg.Tensor) -> fg.Tensor:
    made = fg.zeros(3, dtype=fg.float64)
    made[1] = 2.0
    return fg.tanh(h * made + row)


ROUND: dict[str, Round] = {
    "zeros": lambda h, row: fg.cat([h[1:], fg.zeros(1, dtype=fg.float64)]) * 0.5 + row,
    "zeros_like": lambda h, row: fg.where(h > 0, fg.zeros_like(h), h * 0.5) + row,
    "arange": lambda h, row: fg.tanh(h * 0.5 + row * fg.arange(3)),
    "one of several": lambda h, row: h * 0.5 + row * (row.argmax() == fg.arange(3)),
    "eye": lambda h, row: fg.eye(3, dtype=fg.float64) @ h * 0.5 + row,
    "full": lambda h, row: fg.minimum(h, fg.full((3,), 0.25, dtype=fg.float64)) * 0.5 + row,
    "Python data": lambda h, row: fg.tanh(h * fg.tensor([0.5, 0.25, 0.125], dtype=fg.float64) + row),
    "a number": lambda h, row: fg.maximum(h * 0.5 + row, fg.tensor(0.1, dtype=fg.float64)),
    "new_zeros": lambda h, row: fg.stack([h, h.new_zeros(3), row]).sum(0) * 0.5,
    "several of one": lambda h, row: fg.tanh(
        h + fg.tensor([1.0, 2.0, 3.0]) * row - fg.tensor([1.0, 2.0, 3.0])
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ROUND)
@pytest.mark.parametrize("derived", [False, True])
def test_they_are_rolled(name: str, derived: bool) -> None:
    jitted = check_over_rows(walk(ROUND[name]), derived, ROUNDS)
    assert "was not rolled" not in str(jitted.explain()), jitted.explain()
    assert "rounds of a loop" in str(jitted.explain())


def test_what_rounds_make_of_data_and_write_is_not_the_next_ones() -> None:
    check_over_rows(walk(given_a_place), False, ROUNDS)

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(len(x)):
            one, other = fg.tensor([1.0, 2.0, 3.0]), fg.tensor([1.0, 2.0, 3.0])
            one += 1
            h = fg.tanh(h + one * x[t] - other)
        return h

    check_over_rows(function, False, ROUNDS)


def test_a_variable_that_data_are_put_into() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        last = fg.zeros(3)
        for t in range(len(x)):
            h = fg.tanh(h + x[t] * last)
            last = fg.tensor([0.5, 0.25, 0.125])
        last += 1
        return (h * last).sum()

    check_over_rows(function, False, ROUNDS)
    check_over_rows(function, True, ROUNDS)
