"""Runs a row of `table.py` under jit with another number at each call, beside eager and torch."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import torch

import fusegrad as fg
from operands.table import ROWS, Row

CALLS = 30
# So many calls may be eager's where a row replays: a number is known to vary at its second call, or its
# third, and one more is recorded then.
EAGER = 5


class Schedule:
    """Holds a number that its owner sets before each call."""

    rate = 0.0


def as_argument(row: Row, library: Any) -> Callable[..., Any]:
    function = row.function

    def step(x: Any, y: Any, k: float) -> Any:
        return function(library, x, y, k)

    return step


def out_of_a_tensor(row: Row, library: Any) -> Callable[..., Any]:
    function = row.function

    def step(x: Any, y: Any, k: Any) -> Any:
        return function(library, x, y, k.item())

    return step


def from_an_attribute(row: Row, library: Any) -> Callable[..., Any]:
    function, schedule = row.function, Schedule()

    def step(x: Any, y: Any) -> Any:
        return function(library, x, y, schedule.rate)

    step.schedule = schedule
    return step


def derived_within(row: Row, library: Any) -> Callable[..., Any]:
    """The gradient is asked for in the jitted function, which gives both."""
    function = row.function

    def step(x: Any, y: Any, k: float) -> Any:
        made = function(library, x, y, k)
        return made, library.autograd.grad((made * made).sum(), x)[0]

    return step


WAYS = {f.__name__: f for f in (as_argument, out_of_a_tensor, from_an_attribute, derived_within)}


def inputs(call: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(call)
    x, y = generator.normal(size=(2, 3, 4)).astype("f")
    return x, y


def called(step: Callable[..., Any], way: str, call: int, number: float, library: Any) -> list[np.ndarray]:
    """What a call gives, and the gradient of x."""
    first, second = inputs(call)
    x, y = library.tensor(first, requires_grad=True), library.tensor(second)
    library.manual_seed(call)
    if way == "as_argument" or way == "derived_within":
        made = step(x, y, number)
    elif way == "out_of_a_tensor":
        made = step(x, y, library.tensor(number, dtype=library.float64))
    else:
        getattr(step, "__wrapped__", step).schedule.rate = number
        made = step(x, y)
    if way == "derived_within":
        return [t.detach().numpy() for t in made]
    (made * made).sum().backward()
    return [made.detach().numpy(), x.grad.numpy()]


def compared(name: str, way: str, calls: int = CALLS) -> tuple[int, int]:
    """How many calls were compiled ones, and how many compiles there were. Raises AssertionError where one
    does not give what eager, or the first what torch gives.
    """
    row = ROWS[name]
    eager, jitted, oracle = WAYS[way](row, fg), fg.jit(WAYS[way](row, fg)), WAYS[way](row, torch)
    for call in range(calls):
        number = row.first + row.step * call
        found, wanted = called(jitted, way, call, number, fg), called(eager, way, call, number, fg)
        for ours, eagers in zip(found, wanted, strict=True):
            assert ours.dtype == eagers.dtype and ours.shape == eagers.shape, (name, way, call)
            np.testing.assert_allclose(
                ours, eagers, rtol=1e-4, atol=1e-5, err_msg=f"{name} {way} call {call}"
            )
        if row.oracle and not call:
            for ours, theirs in zip(wanted, called(oracle, way, call, number, torch), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=f"torch: {name} {way}")
    return jitted.stats.compiled_calls, jitted.stats.compiles


if __name__ == "__main__":
    wanted = sys.argv[1:] or [*ROWS]
    counts: Counter[str] = Counter()
    for name in wanted:
        line = f"{name:28}"
        for way in WAYS:
            try:
                calls, compiles = compared(name, way)
                counts[way] += calls >= CALLS - EAGER
                line += f" {calls:3}/{compiles}"
            except Exception as error:
                counts["failed"] += 1
                line += f" {type(error).__name__}: {str(error).strip()[:150]!r}"
        print(line, flush=True)
    print(len(wanted), "rows replay:", dict(counts))
