"""Rounds that could share kernels: how many of them are one is decided once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fuse import fusion
from fusegrad.compiler.program import loop_bodies
from fusegrad.compiler.program.loop_bodies import WrittenOut
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Value, check
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop


def tensors(number: int) -> tuple[fg.Tensor, ...]:
    return tuple([fg.rand(10, dtype=fg.float64) for _ in range(number)])


def taken_turns(x: fg.Tensor, rounds: int) -> fg.Tensor:
    y = x * 0.5
    for _ in range(rounds):
        x, y = y + 0.1 * fg.sin(x), x
    return x - y


@pytest.mark.parametrize("rounds", [140, 149, 300, 341])
def test_a_rolled_loop_is_not_found_again_in_what_is_written_out(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    turns_of = fusion.turns_of

    def noted(*args: Any) -> Any:
        found.extend(turns_of(*args))
        return turns_of(*args)

    monkeypatch.setattr(fusion, "turns_of", noted)
    (x,), jitted = tensors(1), fg.jit(lambda x: taken_turns(x, rounds))
    for _ in range(3):
        np.testing.assert_allclose(jitted(x).numpy(), taken_turns(x, rounds).numpy(), rtol=1e-12, atol=1e-12)
    assert jitted.stats.compiled_calls >= 2, str(jitted.explain())
    assert not found and 0 < len(jitted.kernels().forward) <= 4


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 12, 13])
@pytest.mark.parametrize("rounds", [1, 2, 12, 13])
def test_rounds_that_are_one_give_what_each_gives(rounds: int, number: int) -> None:
    if number > rounds:
        return
    args = tensors(2)
    one = Body(capture(lambda x, y: (y + 0.1 * fg.sin(x), x), args).graph)
    inputs = tuple(Value(f"given{i}", v.type) for i, v in enumerate(one.graph.inputs))
    outputs = tuple(Value(f"made{i}", v.type) for i, v in enumerate(one.graph.outputs))
    whole = Equation(ROLLED, inputs, loop(one, rounds, len(outputs)), outputs)
    names = {v.name for v in (*inputs, *outputs)}
    parts = loop_bodies._in_turns(whole, number, names)
    expected, made = (
        evaluate_graph(check(Graph(inputs, tuple(equations), outputs)), args)
        for equations in (WrittenOut(whole, {*names}).equations(), parts)
    )
    for a, b in zip(expected, made, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
