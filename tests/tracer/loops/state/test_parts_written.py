"""Parts of variables that rounds write: `u[1:-1] += x` is rolled where nobody can tell, and done in place
where one can.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, check, check_rolled, rounds_that_run

import fusegrad as fg

Loop = Callable[..., fg.Tensor]


def heat(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = fg.cat([h, h * 2]) + x[0].sum()
    for _ in range(ROUNDS):
        u[1:-1] = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u**2).sum() + w.sum()


def heat_added(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = h * 1
    for t in range(ROUNDS):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]) + x[t, 0]
        u[1] *= 0.9
    return (u @ w).sum()


def with_ends(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = h * 1
    for t in range(ROUNDS):
        u = u * 0.99 + 0.1 * fg.tanh(u @ w) + x[t]
        u[0] = 0.0
        u[-1] = u[-2]
    return (u**2).sum()


def rows_and_columns(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = w * 1
    for t in range(ROUNDS):
        u[:, 1] = x[t] * 0.5 + u[..., 0]
        u[..., 0] = (u[:, 1] + h).tanh()
        u[2] -= u[0] * 0.1
    return (u**2).sum()


def from_side_to_side(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = h + x.sum()
    for _ in range(ROUNDS):
        for k in range(1, 3):
            u[k] = (u[k - 1] + u[k + 1]) * 0.45
    return (u @ w).sum()


@pytest.mark.parametrize("function", [heat, heat_added, with_ends, rows_and_columns, from_side_to_side])
def test_parts_are_written(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rolled(function, rounds_that_run(monkeypatch))


# Where others would see what is written, each round writes.


def a_view(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = h * 1
    part = u[1:]
    for _ in range(ROUNDS):
        u[1:3] = part[:2] * 0.9
    return (u * u).sum() + part.sum() + x.sum() * w.sum()


def another_name(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u = h * 1
    names = [u]
    for t in range(ROUNDS):
        u[1:3] = x[t, 1:3] + u[2] * 0.5
    return (names[0] * u).sum() + w.sum()


def a_part_that_is_kept(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    u, part = h * 1, h[0]
    for _ in range(ROUNDS):
        part = u[1]
        u[0] = part
        u[1] = part * 0.5 + u[2]
    return (u * u).sum() + part + x.sum() * w.sum()


@pytest.mark.parametrize("function", [a_view, another_name, a_part_that_is_kept])
def test_what_others_see_is_written(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = rounds_that_run(monkeypatch)
    check(function)
    assert not ran or max(np.diff(ran)) == 1


def test_errors_are_eagers(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def wrong_shape(x: fg.Tensor) -> fg.Tensor:
        u = x[0] * 2
        for t in range(len(x)):
            u[:3] = x[t]
        return u.sum()

    def no_such_place(x: fg.Tensor) -> fg.Tensor:
        u = x[0] * 2
        for t in range(len(x)):
            u[9] = x[t, 0]
        return u.sum()

    def kept_for_backward(x: fg.Tensor) -> fg.Tensor:
        u, total = x[0] * 2, x.sum()
        for t in range(len(x)):
            total = total + (u * x[t]).sum()
            u[0] = 0.5
        return total

    def raised(function: Callable[..., Any]) -> tuple[type, str]:
        with pytest.raises((RuntimeError, IndexError)) as error:
            fg.value_and_grad(function)(fg.ones(ROUNDS, 4))
        return error.type, str(error.value).split("\n")[0]

    for function in (wrong_shape, no_such_place, kept_for_backward):
        assert raised(fg.jit(function)) == raised(function)
