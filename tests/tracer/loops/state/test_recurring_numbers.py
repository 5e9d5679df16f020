"""Numbers that rounds change by what they were (`t += dt`), and what Python computes of them and of the
number of the round.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, check, check_rolled, given, rounds_that_run

import fusegrad as fg

Loop = Callable[..., fg.Tensor]


class Options:
    def __init__(self) -> None:
        self.dt, self.asked = 0.01, 0

    @property
    def computed(self) -> float:
        self.asked += 1
        return 0.001 * self.asked


OPTIONS = Options()


def time_before_and_after(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    t, dt = 0.1, 0.01
    for row in x:
        h = h + dt * (fg.sin(h @ w) * t - row)
        t += dt
        h = h * (1 - t * 0.01) + 2 * t
    return h.sum() * t


def decay(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    rate, power = 0.1, 0.9
    for t in range(ROUNDS):
        h = h - rate * (h @ w - x[t]) / (1 - power**2)
        rate *= 0.99
        power = power**1.01
    return h.sum() * rate


def adam(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    m = v = h * 0
    first = second = 1.0
    for row in x:
        g = h @ w - row
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g + 1e-6
        first *= 0.9
        second *= 0.99
        h = h - 0.1 * (m / (1 - first)) / ((v / (1 - second)).sqrt() + 1e-8)
    return h.sum()


def whole_numbers_that_become_others(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    n = 1
    for row in x:
        h = fg.tanh(h @ w + row * n)
        n = n / 2
    return h.sum() + n


def of_a_schedule(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    t = 0.0
    for i, row in enumerate(x):
        h = h - 0.1 * 0.5 * (1 + math.cos(math.pi * i / 60)) * (h @ w - row)
        h = h * min(1.0, 0.5 + i / 10) + math.exp(-t) * 0.01 + abs(i - 9) * 0.001 * row
        t += 0.1
    return h.sum() * t


def of_attributes(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    t = 0.0
    for i, row in enumerate(x):
        h = h + OPTIONS.dt * i * (h @ w - row) * t
        t += OPTIONS.dt
    return h.sum() * t


def in_a_loop_within(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    t = 0.0
    for row in x:
        for _ in range(2):
            h = fg.tanh(h @ w + row * t)
        t += 0.01
    return h.sum() + t


@pytest.mark.parametrize(
    "function",
    [
        time_before_and_after,
        decay,
        adam,
        whole_numbers_that_become_others,
        of_a_schedule,
        of_attributes,
        in_a_loop_within,
    ],
)
def test_they_go_on_from_round_to_round(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rolled(function, rounds_that_run(monkeypatch), 12)


# Rounds that are not told from others by their source run all.


def changed_by_a_branch(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    rate = 0.1
    for row in x:
        h = h - rate * (h @ w - row)
        if rate > 0.08:
            rate = rate * 0.99
    return h.sum() * rate


def asked_for(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    rate = 0.1
    for row in x:
        h = h - rate * (h @ w - row)
        if rate < 0.09:
            h = h * 0.5
        rate = rate * 0.999
    return h.sum() * rate


def under_another_name(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    rate = 0.1
    for row in x:
        before = rate
        rate = rate * 0.99
        h = h - before * (h @ w - row) + rate * 0.1
    return h.sum() * rate


def of_what_is_computed(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    OPTIONS.asked = 0
    for i, row in enumerate(x):
        h = h + OPTIONS.computed * i * (h @ w - row) * 0.1
    return h.sum() * OPTIONS.asked


@pytest.mark.parametrize(
    "function", [changed_by_a_branch, asked_for, under_another_name, of_what_is_computed]
)
def test_others_are_eagers(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)
    check(function)


def test_a_name_may_stand_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)
    calls: list[Any] = []

    def min(a: float, b: float) -> float:
        calls.append(a)
        return a + b

    def function(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(ROUNDS):
            h = fg.tanh(h @ w + min(0.01 * t, 1.0) * x[t])
        return h.sum()

    x = given()
    expected = function(*x)
    jitted = fg.jit(function)
    calls.clear()
    for number in range(1, 4):
        np.testing.assert_allclose(jitted(*x).numpy(), expected.numpy(), rtol=1e-12)
        assert len(calls) == number * ROUNDS


def test_a_number_that_is_given_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def function(x: fg.Tensor, h: fg.Tensor, rate: float) -> fg.Tensor:
        for row in x:
            h = h - rate * (h - row)
            rate *= 0.98
        return h.sum() * rate

    x, _, h = given()
    jitted = fg.jit(function)
    for rate in (0.1, 0.1, 0.2, 0.3, 0.1):
        np.testing.assert_allclose(jitted(x, h, rate).numpy(), function(x, h, rate).numpy(), rtol=1e-12)


@pytest.mark.parametrize("first", [2.0, -1.0])
def test_what_python_raises_is_raised(monkeypatch: pytest.MonkeyPatch, first: float) -> None:
    rounds_that_run(monkeypatch)

    def function(x: fg.Tensor) -> fg.Tensor:
        h, b = x[0], first
        for row in x:
            h = h * 0.5 + row / b
            b = b**3.0 + 1.0 if first > 0 else b * 1.5
        for t in range(ROUNDS):
            h = h * 0.9 + math.sqrt(40 - t) * x[t]
        return h

    x, _, _ = given()
    with pytest.raises((OverflowError, ValueError)) as expected:
        function(x)
    for _ in range(2):
        with pytest.raises(expected.type):
            fg.jit(function)(x)
