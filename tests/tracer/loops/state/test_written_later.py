"""What rounds read is written when the loop is over, or while it goes: gradients and refusals are eager's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, rounds_that_run

import fusegrad as fg

Loop = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]


def rows_that_were_read(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x = x * 1
    for t in range(len(x)):
        h = fg.tanh(h * 0.5 + x[t])
    x[-1, 1] = 2.0
    return h.sum()


def what_all_rounds_read(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    b = h * 2
    for row in x:
        h = fg.tanh(h + row + b)
    b[0] = 1.0
    return h.sum()


def all_rows(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    y, z = x * 2, x * 3
    for row, other in zip(y, z, strict=True):
        h = fg.tanh(h + row - other)
    y.zero_()
    z[-1] = 0.0
    return h.sum()


def while_a_value_says_so(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    b, i = h * 1, 0
    while h.norm() > 1e-2 and i < 100:
        h = h * 0.9 + b * 0
        i += 1
    b[3] = 0.0
    return h.sum() + i + x.sum()


def a_row_that_was_kept(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x, before = x * 1, h
    for t in range(len(x)):
        h = fg.tanh(h * 0.5 + x[t] + before)
        before = x[t]
    before += 1
    return h.sum() + before.sum() + x.sum()


# Eager refuses these.


def what_nodes_keep(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x = x * 1
    for t in range(len(x)):
        h = fg.tanh(h * x[t])
    x[-1, 1] = 2.0
    return h.sum()


def rows_to_come(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x = x * 1
    for row in x:
        h = fg.tanh(h + row)
        x[0, 0] = 1.0
    return h.sum()


def rows_of_another_one(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    z = x * 0
    for t, (row, other) in enumerate(zip(x, z, strict=True)):
        h = fg.tanh(h + row + other)
        z[t] = h
    return h.sum()


@pytest.mark.parametrize(
    "function",
    [
        rows_that_were_read,
        what_all_rounds_read,
        all_rows,
        while_a_value_says_so,
        a_row_that_was_kept,
        what_nodes_keep,
        rows_to_come,
        rows_of_another_one,
    ],
)
def test_writes_are_seen_as_eager_sees_them(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)
    derived = fg.value_and_grad(function, (0, 1))

    def found(called: Callable[..., Any]) -> Any:
        x = np.random.default_rng(0).standard_normal((ROUNDS, 4))
        try:
            value, gradients = called(fg.tensor(x), fg.tensor(x[0]))
        except RuntimeError as error:
            return str(error).split(":")[0]
        return np.concatenate([t.numpy().reshape(-1) for t in (value, *gradients)])

    expected, jitted = found(derived), fg.jit(derived)
    for _ in range(3):
        ours = found(jitted)
        if isinstance(expected, str):
            assert ours == expected
        else:
            np.testing.assert_allclose(ours, expected, 1e-9, 1e-12)


def test_an_error_leaves_the_state_of_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the numbers of rounds to come are computed ahead, or an op would be put off."""
    rounds_that_run(monkeypatch)

    class State:
        h = fg.zeros(4)

    def of_numbers(x: fg.Tensor, state: State) -> None:
        t = 1.0
        for row in x:
            state.h = fg.tanh(state.h * 0.5 + row * math.sqrt(t))
            t -= 0.02

    def of_an_op(x: fg.Tensor, state: State) -> None:
        for t in range(len(x)):
            state.h = fg.tanh(state.h + x[t])
            if t == ROUNDS - 5:
                state.h = state.h * 10**400

    for function in (of_numbers, of_an_op):
        left = []
        for called in (function, fg.jit(function)):
            state = State()
            with pytest.raises((ValueError, OverflowError)):
                called(fg.ones(ROUNDS, 4), state)
            left.append(state.h.numpy())
        np.testing.assert_allclose(left[1], left[0], 1e-6)


def test_numbers_of_rounds_that_never_come_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def function(h: fg.Tensor) -> fg.Tensor:
        for t in range(80):
            if h.norm() < 1e-2:
                break
            h = h * 0.8 + (50 - t) ** 0.5 * 0 * h
        return h.sum() * t

    h, jitted = fg.ones(4, dtype=fg.float64), fg.jit(function)
    for _ in range(3):
        np.testing.assert_allclose(jitted(h).numpy(), function(h).numpy(), 1e-12)
