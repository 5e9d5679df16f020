"""Rounds of which every second, tenth or hundredth is another one: `if t % 100 == 0`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import check_over_rows

import fusegrad as fg
from fusegrad.tracer.loops.items import alike_remainders
from fusegrad.tracer.observe.operations import COMPARE

Loop = Callable[..., Any]


class Settings:
    every = 40


def logged(x: fg.Tensor, w: fg.Tensor) -> Any:
    h, log = w, []
    for t in range(300):
        h = (h * 0.9 + w).tanh() + x[t]
        if t % 100 == 0:
            log.append(h.sum())
    return h.sum() + fg.stack(log).prod()


def logged_last(x: fg.Tensor, w: fg.Tensor) -> Any:
    h, log = w, []
    for t in range(300):
        h = (h * 0.9 + x[t]).tanh()
        if (t + 1) % Settings.every == 0:
            log.append(h)
    return h.sum() + fg.stack(log).mean()


def every_second(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(300):
        h = (h * 0.9 + x[t]).tanh() if t % 2 == 0 else h * 0.5 - x[t]
    return h.sum()


def every_third(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(300):
        h = (h * 0.9 + x[t]).tanh()
        if not t % 3:
            h = h * 0.5
    return h.sum()


def every_tenth_not(x: fg.Tensor, w: fg.Tensor) -> Any:
    h, states = w, []
    for t in range(299, -1, -1):
        if t % 10:
            h = (h * 0.9 + x[t]).tanh()
        states.append(h)
    return fg.stack(states).sum()


def two_of_them(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(300):
        h = (h * 0.9 + x[t]).tanh()
        if t % 2 == 1:
            h = h * 1.5
        if t % 5 < 2:
            h = h - 0.1
    return h.sum()


def by_steps_of_three(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(0, 300, 2):
        h = (h * 0.9 + x[t]).tanh()
        if (299 - t) % 4 == 1:
            h = h * 0.5
    return h.sum()


def not_even(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(300):
        h = (h * 0.9 + x[t]).tanh()
        if t % 2 == 0 and t % 7 != 3:
            h = h * 0.5
    return h.sum()


def of_the_row(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for row in x[:, 0]:
        h = (h * 0.9).tanh()
        if row % 2 > 1:
            h = h * 0.5
    return h.sum()


ROLLED = [
    logged,
    logged_last,
    every_second,
    every_third,
    every_tenth_not,
    two_of_them,
    by_steps_of_three,
    not_even,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", [*ROLLED, of_the_row], ids=lambda f: f.__name__)
@pytest.mark.parametrize("derived", [False, True])
def test_they_have_eagers_values(function: Loop, derived: bool) -> None:
    jitted = check_over_rows(function, derived, 300)
    if function in ROLLED and derived:
        assert "rounds of a loop" in str(jitted.explain()), jitted.explain()


def test_a_setting_that_changes_is_found() -> None:
    x, jitted = (fg.randn(300, 3), fg.randn(3)), fg.jit(logged_last)
    for Settings.every in (40, 40, 33, 2, 40):
        np.testing.assert_allclose(jitted(*x).numpy(), logged_last(*x).numpy(), rtol=1e-4)
    Settings.every = 40


@pytest.mark.parametrize("symbol", ["==", "!=", "<", ">="])
def test_how_long_a_remainder_compares_alike(symbol: str) -> None:
    compare, most = COMPARE[symbol], 50
    for modulus in (1, 2, 3, 10, -4, 60):
        for growth in (1, 2, -3, 6):
            for number in range(-3, 9):
                for right in (0, 1, 9):
                    outcomes = [compare((number + n * growth) % modulus, right) for n in range(most)]
                    expected = next((n for n, o in enumerate(outcomes) if o != outcomes[0]), most)
                    found = alike_remainders(symbol, number, modulus, right, growth, most)
                    assert min(found, most) == expected
