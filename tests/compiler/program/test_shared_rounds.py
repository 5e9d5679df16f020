"""Rounds whose kernels several threads share: they run in native calls, and give what eager does."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.program import loop_bodies, program
from fusegrad.compiler.runtime import threads

ELEMENTS = 1 << 17


def decays(x: fg.Tensor) -> fg.Tensor:
    """In the memory of what rounds take over."""
    for _ in range(140):
        x = x * 0.9 + fg.sin(x) * 0.1
    return x


def takes_turns(x: fg.Tensor) -> fg.Tensor:
    y = x * 0.5
    for _ in range(141):
        x, y = y.flip(0) + 0.1 * fg.sin(x), x
    return x - y


def leaves_rows(x: fg.Tensor) -> fg.Tensor:
    out = []
    for _ in range(140):
        x = fg.sin(x) + 0.1
        out.append(x)
    return fg.stack(out).sum(0)


def until_it_has_gone(x: fg.Tensor) -> fg.Tensor:
    for _ in range(100):
        x = x * 0.9
        if x.mean() < 0.1:
            break
    return x


@pytest.mark.parametrize("at_once", [loop_bodies.AT_ONCE, 3 * 2 * ELEMENTS], ids=["all", "by threes"])
@pytest.mark.parametrize("function", [decays, takes_turns, leaves_rows, until_it_has_gone])
def test_rounds_that_threads_share_run_in_native_calls(
    function: Callable[[fg.Tensor], fg.Tensor], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By threes, pairs that take turns lie the other way round behind each call."""
    shared: list[int] = []

    class Noted(loop_bodies.RoundsOfCalls):
        def __init__(self, calls: Any, *rest: Any) -> None:
            shared.append(calls.words()[1])
            super().__init__(calls, *rest)

    monkeypatch.setattr(loop_bodies, "RoundsOfCalls", Noted)
    monkeypatch.setattr(loop_bodies, "MOST_WRITTEN_OUT", 0)
    monkeypatch.setattr(loop_bodies, "AT_ONCE", at_once)
    monkeypatch.setattr(program, "_bodies", weakref.WeakKeyDictionary())
    x, jitted = fg.rand(ELEMENTS, dtype=fg.float64), fg.jit(function)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x).numpy(), function(x).numpy(), rtol=1e-12, atol=1e-12)
    assert jitted.stats.compiled_calls >= 2
    assert shared and (all(shared) or threads.pool_size() == 1)
