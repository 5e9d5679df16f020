"""Lists of what a loop gives, said as a comprehension, are rolled like loops that append."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rolled_loops import check_over_rows

import fusegrad as fg

ROUNDS = 150
Loop = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]


class Cell:
    def __init__(self, h: fg.Tensor) -> None:
        self.h = h

    def __call__(self, row: fg.Tensor) -> fg.Tensor:
        self.h = fg.tanh(self.h * 0.5 + row)
        return self.h


def rows(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    found = [fg.tanh(row * h) for row in x]
    return (fg.stack(found) ** 2).sum()


def a_state(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    cell = Cell(h)
    hs = [cell(row) for row in x]
    return fg.stack(hs).sum() + (hs[-1] ** 2).sum()


def numbers(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    row = h * 2
    found = [x[t] * row + x[t - 1] for t in range(len(x))]
    return (fg.stack(found).sum(0) * row).sum()


def pairs(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    found = [a * b - h for a, b in zip(x, x.flip(0))]  # noqa: B905
    return fg.cat(found).pow(2).mean()


@pytest.mark.parametrize("function", [rows, a_state, numbers, pairs])
@pytest.mark.parametrize("derived", [False, True])
def test_they_are_rolled(function: Loop, derived: bool) -> None:
    jitted = check_over_rows(function, derived, ROUNDS)
    assert "was not rolled" not in str(jitted.explain()), jitted.explain()


def test_their_variables_are_their_own() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> Any:
        row, row_, t = h, h * 2, 7
        found = [row * t + row_ for t, row in enumerate(x[:5])]
        nested = [[item * 2 for item in found] for found in ([row, row_], [h])]
        later = [found[k] * t for k in range(3)]
        found = [item + row for item in found]
        return fg.stack(found).sum() + row.sum() + row_.sum() + t + nested[0][1].sum() + fg.stack(later).sum()

    check_over_rows(function, False, 10)


def test_an_error_leaves_the_variable_what_it_was() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        found = [h]
        try:
            found = [x[t] for t in range(1000)]
        except IndexError:
            found.append(h * 2)
        return fg.stack(found).sum()

    check_over_rows(function, False, 10)


def test_functions_within_see_what_they_saw() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        calls = [lambda: row * k for k, row in enumerate(x[:3])]  # noqa: B023
        k = 5.0
        found = [call() + k for call in calls]

        def several() -> fg.Tensor:
            return fg.stack(found).sum()

        return several() * h.sum()

    check_over_rows(function, False, 10)
