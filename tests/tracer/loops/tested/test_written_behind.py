"""Who writes between a loop that tests data and backward is told so just where eager tells it.

Eager's nodes keep what the derivatives of live results need, so the op that stands for the rounds must not
keep more, nor less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 60


def test_alone(h: Any, x: Any, scale: Any) -> Any:
    """`scale` goes into what is tested, and nowhere else."""
    for row in x:
        h = fg.sin(h + row)
        if (h * scale).sum() > 1000:
            break
    return h


def scaled(h: Any, x: Any, scale: Any) -> Any:
    for row in x:
        h = fg.sin(h * scale + row)
        if h.sum() > 1000:
            break
    return h


def result_is_kept(h: Any, x: Any, scale: Any) -> Any:
    for row in x:
        h = fg.tanh(h + row * scale)
        if h.sum() > 100:
            break
    return h


def result_of_some(h: Any, x: Any, scale: Any) -> Any:
    for row in x:
        h = fg.sigmoid(h + row)
        if h.sum() > 1.4:
            h = fg.exp(-h) * 0.5
    return h


def least_loss(h: Any, x: Any, scale: Any) -> Any:
    best = math.inf
    for t in range(len(x)):
        h = fg.sin(h) + x[t]
        loss = (h * h).sum()
        if loss < best:
            best = loss
    return best


def what_was_best(h: Any, x: Any, scale: Any) -> Any:
    best, kept = fg.tensor(-1e9, dtype=h.dtype), h
    for t in range(len(x)):
        h = fg.tanh(h + x[t])
        loss = h.sum()
        if loss > best:
            best, kept = loss, h
    return kept


LOOPS = [test_alone, scaled, result_is_kept, result_of_some, least_loss, what_was_best]
test_alone.__test__ = False  # type: ignore[attr-defined]


def outcome(function: Callable[..., Any], seed: int, written: str) -> Any:
    """The gradient of `h` where something is written before backward, or that this is an error."""
    draw = np.random.default_rng(seed)
    h = fg.from_numpy(draw.normal(size=3) * 0.5).requires_grad_()
    x, scale = fg.from_numpy(draw.normal(size=(ROUNDS, 3)) * 0.5), fg.ones(3, dtype=h.dtype)
    result = function(h, x, scale)
    loss = (result * 1).sum()
    with fg.no_grad():
        {"x": x, "scale": scale, "result": result}[written].mul_(2)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return "modified"
    assert h.grad is not None
    return h.grad.numpy()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("written", ["x", "scale", "result"])
@pytest.mark.parametrize("function", LOOPS)
def test_writes_are_errors_where_they_are_in_eager(function: Callable[..., Any], written: str) -> None:
    jitted = fg.jit(function)
    for seed in (0, 0, 0, 1, 2, 2, 1):
        found, expected = outcome(jitted, seed, written), outcome(function, seed, written)
        if isinstance(expected, str):
            assert found == expected
        else:
            np.testing.assert_allclose(found, expected, 1e-7, 1e-10)
    assert "rounds of a loop" in str(jitted.explain())


def test_what_rounds_write_is_an_error_where_it_is_in_eager() -> None:
    """Also where the gradient does not reach the rounds that ran before those that are left out."""

    def written(h: Any, x: Any) -> Any:
        a = h
        for row in x:
            if row[0] > -9:
                a = fg.tanh(row + h)
            a = a * 0.5
            a += fg.sin(a * h + row) * 0.5  # whose node keeps `a`
        return a

    jitted = fg.jit(written)
    for seed in (0, 1, 1, 0):
        for function in (jitted, written):
            draw = np.random.default_rng(seed)
            h, x = fg.from_numpy(draw.normal(size=3)), fg.from_numpy(draw.normal(size=(ROUNDS, 3)))
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                function(h.requires_grad_(), x).sum().backward()
