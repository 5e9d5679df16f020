"""Branches that give a name a value: `if (loss := f(h)) < best:`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 60


def best_loss(h: Any, x: Any) -> Any:
    best, kept = 1e9, h
    for row in x:
        h = fg.tanh(h * 0.9 + row)
        if (loss := (h * h).sum()) < best:
            best, kept = loss, h
    return h, kept, best, loss


def error_of_a_while(h: Any, x: Any) -> Any:
    rounds = 0
    while (error := (h * h).sum().item()) > 0.01 and rounds < 200:
        h = h * 0.98
        rounds += 1
    return h, error, rounds


def float_of_a_while(h: Any, x: Any) -> Any:
    rounds = 0
    while (error := float((h * h).sum())) > 0.01:
        h = h * 0.97
        if (largest := h.max()) > 9:
            break
        rounds += 1
    return h, error, rounds, largest


def on_each_side(h: Any, x: Any) -> Any:
    for row in x:
        if (low := (h + row).min()) < -0.5:
            h = h * 0.9 - low * 0.1
        elif (high := (h - row).max()) > 0.5:
            h = h * 0.9 + high * 0.1
        else:
            h = h + row * 0.5
    return h, low


def of_the_number(h: Any, x: Any) -> Any:
    for t in range(len(x)):
        h = fg.tanh(h * 0.9 + x[t])
        if (double := t * 2) > 60:
            h = h * 0.5
        elif (double := t + 1) % 3 == 0:
            h = h + 0.01 * double
    return h, double


def goes_on(h: Any, x: Any) -> Any:
    for row in x:
        if not (size := row.sum()) > 0 or (middle := row.mean()) > 0.3:
            continue
        h = fg.tanh(h * 0.9 + row * middle)
    return h, size


def counts_in_its_test(h: Any, x: Any) -> Any:
    number = 0
    while (number := number + 1) < 150:
        h = fg.tanh(h + 0.01 * number)
    return h, number


ROLLED = [best_loss, error_of_a_while, on_each_side]
LOOPS = [*ROLLED, float_of_a_while, of_the_number, goes_on, counts_in_its_test]


@pytest.mark.parametrize("function", LOOPS)
def test_names_have_the_values_that_they_have_in_eager(function: Callable[..., Any]) -> None:
    jitted = fg.jit(function)

    def called(function: Callable[..., Any], seed: int) -> Any:
        draw = np.random.default_rng(seed)
        h = fg.from_numpy(draw.normal(size=3) * 0.5).requires_grad_()
        results = function(h, fg.from_numpy(draw.normal(size=(ROUNDS, 3))))
        sum((r.sum() for r in results if isinstance(r, fg.Tensor)), start=h.sum()).backward()
        assert h.grad is not None
        return [*(r.tolist() if isinstance(r, fg.Tensor) else r for r in results), h.grad.tolist()]

    for seed in (0, 1, 2, 3, 0, 1, 2, 3):
        for ours, theirs in zip(called(jitted, seed), called(function, seed), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-7, 1e-10)
    assert "rounds of a loop" in str(jitted.explain()) or function not in ROLLED
