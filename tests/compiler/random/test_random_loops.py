"""Loops put together at random: bodies that look alike from turn to turn, and are not always.

A long loop's turns share kernels, its slices become one product, its writes one result. Whatever a turn
reads, by which number and at which place, may depend on the turn. What the generator finds becomes a small
test of its own. More of them:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_loops.py COUNT SEED [steady]`.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import random_functions

import fusegrad as fg
from fusegrad.compiler.fuse import turns

WIDTH = 5
Place = Callable[[int, int], int]
Number = Callable[[int], float]

# Which row a turn reads, of so many.
PLACES: dict[str, Place] = {
    "t": lambda t, n: t,
    "n-1-t": lambda t, n: n - 1 - t,
    "t//2": lambda t, n: t // 2,
    "3*t%n": lambda t, n: 3 * t % n,
    "next": lambda t, n: min(t + 1, n - 1),
    "previous": lambda t, n: max(t - 1, 0),
    "even": lambda t, n: t - t % 2,
    "2": lambda t, n: 2,
}

NUMBERS: dict[str, Number] = {
    "0.5": lambda t: 0.5,
    "t/10": lambda t: t / 10,
    "sign": lambda t: -1.0 if t % 2 else 1.0,
    "t%3": lambda t: float(t % 3),
    "first": lambda t: 1.0 if t else 0.0,
    "late": lambda t: 0.9 if t < 5 else 0.7,
}


class Turns:
    """What a loop carries from turn to turn: a row, a buffer that is written in place, a list, a sum."""

    def __init__(self, x: fg.Tensor, y: fg.Tensor, w: fg.Tensor, b: fg.Tensor) -> None:
        self.x, self.y, self.w, self.b = x, y, w, b
        self.row, self.buffer = x[0] * 0.5, y * 0.25
        self.rows: list[fg.Tensor] = [b]
        self.sum = b * 0.0


# Statements of a body: what they do in turn `t` of `n`, with a place and a number that depend on the turn.
Statement = Callable[[Turns, int, int, int, float], None]


def _state(step: Callable[[Turns, int, int, int, float], fg.Tensor]) -> Statement:
    """A statement that makes the row anew."""

    def statement(s: Turns, t: int, n: int, place: int, number: float) -> None:
        s.row = step(s, t, n, place, number)

    return statement


def _write_row(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.buffer[place] = s.row * number


def _add_to_row(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.buffer[place] += s.row + number


def _write_columns(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.buffer[:, t % WIDTH] = s.x[:, place % WIDTH] * number


def _shift(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.buffer[1:] = s.buffer[:-1] * 0.5 + s.x[1:] * number


def _keep(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.rows.append(s.row * number)


def _accumulate(s: Turns, t: int, n: int, place: int, number: float) -> None:
    s.sum = s.sum + s.row * s.y[place]


def _branch(s: Turns, t: int, n: int, place: int, number: float) -> None:
    if t % 3 == 1:
        s.row = fg.tanh(s.row) + number
    elif t % 3 == 2:
        s.row = s.row - s.b


STATEMENTS: dict[str, Statement] = {
    "recurrence": _state(lambda s, t, n, place, number: fg.tanh(s.x[place] + s.row * number)),
    "product": _state(lambda s, t, n, place, number: fg.tanh(s.x[place] @ s.w + s.row)),
    "product of the row": _state(lambda s, t, n, place, number: fg.tanh(s.row @ s.w * number + s.b)),
    "turned product": _state(lambda s, t, n, place, number: fg.sin(s.w @ s.y[place]) + s.row),
    "times": _state(lambda s, t, n, place, number: s.row * number + s.y[place]),
    "where": _state(lambda s, t, n, place, number: fg.where(s.row > s.x[place], s.row, s.b * number)),
    "window": _state(
        lambda s, t, n, place, number: s.row * 0.5 + s.x[max(0, place - 1) : place + 2].mean(0) * number
    ),
    "column": _state(lambda s, t, n, place, number: s.row + s.x[:WIDTH, place % WIDTH] * number),
    "moved": _state(lambda s, t, n, place, number: fg.cat([s.row[1:], s.x[place, :1]])),
    "rolled": _state(lambda s, t, n, place, number: s.row.roll(t % 3) - number),
    "from the buffer": _state(lambda s, t, n, place, number: fg.sin(s.buffer[place] + s.row)),
    "all of the buffer": _state(lambda s, t, n, place, number: s.row * 0.5 + s.buffer.mean(0) * number),
    "an element": _state(lambda s, t, n, place, number: s.row + s.y[place, t % WIDTH] * number),
    "last kept": _state(lambda s, t, n, place, number: s.row * 0.5 + s.rows[-1]),
    "softmax": _state(lambda s, t, n, place, number: (s.row * number + s.x[place]).softmax(0)),
    "write a row": _write_row,
    "add to a row": _add_to_row,
    "write columns": _write_columns,
    "shift": _shift,
    "keep": _keep,
    "accumulate": _accumulate,
    "branch": _branch,
}


# What is the same in every turn, or takes another row in each.
UNSTEADY = {"branch", "rolled"}
STEADY = sorted(STATEMENTS.keys() - UNSTEADY), ["2", "t", "t", "n-1-t", "next"], ["0.5", "late"]


def loop(choices: random.Random, steady: bool = False) -> tuple[Any, int, Callable[..., Any]]:
    """Its text, how many turns it has, and a function of two matrices, weights and a row.

    steady: whether its turns are alike, and many.
    """
    length = choices.randint(14, 32) if steady else choices.randint(6, 13)
    offered = STEADY if steady else (STATEMENTS, PLACES, NUMBERS)
    body = [tuple(choices.choice([*names]) for names in offered) for _ in range(choices.randint(1, 5))]

    def function(x: fg.Tensor, y: fg.Tensor, w: fg.Tensor, b: fg.Tensor) -> Any:
        s = Turns(x, y, w, b)
        for t in range(length):
            for statement, place, number in body:
                STATEMENTS[statement](s, t, length, PLACES[place](t, length), NUMBERS[number](t))
        kept = fg.stack(s.rows)
        loss = (s.row * s.sum).sum() + (kept * kept).mean() + (s.buffer * s.row).sum()
        return loss + sum((z * z).sum() for z in (x, y, w, b)), [s.row, kept]

    return [length, body], length, function


def check(seed: int, steady: bool = False) -> None:
    """Compare one loop."""
    text, length, function = loop(random.Random(seed), steady)
    shapes = ((length, WIDTH), (length, WIDTH), (WIDTH, WIDTH), (WIDTH,))
    random_functions.check(function, shapes, text)


@pytest.mark.parametrize("block", range(2))
def test_random_loops_have_eagers_values_and_gradients(block: int):
    for seed in range(4 * block, 4 * block + 4):
        check(seed)


@pytest.mark.parametrize("block", range(2))
def test_loops_of_many_rounds_have_eagers_values_and_gradients(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "SMALLEST_TURN", 4)
    for seed in range(4 * block, 4 * block + 4):
        check(seed, steady=True)


if __name__ == "__main__":
    if sys.argv[-1] == "steady":
        turns.SMALLEST_TURN = 4
        random_functions.run(functools.partial(check, steady=True))
    else:
        random_functions.run(check)
