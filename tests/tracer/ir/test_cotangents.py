"""Gradients that only some rounds, or sides, have: where there is none, nothing infinite becomes nan.

Loops put together at random of variables that are assigned, handed on, or kept on some sides of branches. The
square root of what is zero at first has an infinite gradient, which eager asks for in few of them.
"""

import linecache
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.ir.cotangent import Cotangent
from fusegrad.tracer.loops import rolling

HEADERS = [
    "for t in range(60):",
    "while c.sum() < limit:",
    "while t < 60:",
    "for t in range(90):\n        if c.sum() > limit: break",
]
GIVEN = ["fg.sqrt(c)", "c * 2", "a * 1.01", "b", "d", "a * 0.5 + b", "fg.sqrt(c) * 0.1 + d", "fg.tanh(d)"]
TESTS = ["c.sum() > 30", "c[1] > 12", "(a + c).mean() > 20"]


def loop(seed: int) -> tuple[str, Callable[..., Any]]:
    """The source of a function with such a loop, and the function."""
    draw = random.Random(seed)

    def assigned() -> str:
        return f"{draw.choice('abd')} = {draw.choice(GIVEN)}"

    body = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(4)
        if kind < 2:
            body.append(assigned())
        elif kind == 2:
            body.append(f"if {draw.choice(TESTS)}: {assigned()}")
        else:
            body.append(f"if {draw.choice(TESTS)}: {assigned()}\n        else: {assigned()}")
    given = draw.choice(["x", "fg.sqrt(x)", "x * 1.5"])
    lines = [f"a, b, c, d, t = {given}, x, x, x + 1, 0", draw.choice(HEADERS)]
    lines += [f"    {line}" for line in (*body, "c = c + 0.5; t += 1")]
    loss = " + ".join(f"{name}.sum()" for name in "abcd" if draw.random() < 0.5)
    lines += [f"return {loss + ' + ' if loss else ''}c.sum() * 0.1"]
    source = "def function(x, limit):\n" + "".join(f"    {line}\n" for line in lines)
    name = f"<random cotangents {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"fg": fg}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return source, namespace["function"]


def compare(seed: int) -> bool:
    """Whether the loop was rolled; raises AssertionError where a gradient is not eager's."""
    source, function = loop(seed)
    derived = fg.value_and_grad(function, 0)
    inner, outer = fg.jit(derived), fg.jit(function)

    def gradient(called: Callable[..., Any], first: float, limit: float) -> np.ndarray:
        x = fg.tensor([first, 1.0, 2.0], dtype=fg.float64, requires_grad=called is outer)
        if called is not outer:
            return called(x, limit)[1].numpy()
        outer(x, limit).backward()
        assert x.grad is not None
        return x.grad.numpy()

    for first, limit in ((0.0, 100.0),) * 3 + ((0.0, 2.0), (25.0, 100.0), (0.0, 60.0)):
        expected = gradient(derived, first, limit)
        for called in (inner, outer):
            found = gradient(called, first, limit)
            np.testing.assert_allclose(found, expected, 1e-9, err_msg=f"{source}{first} {limit}")
    return "rounds of a loop" in str(inner.explain())


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds are enough to leave some out."""
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    monkeypatch.setattr(rolling, "LONG_ROUND", 1 << 30)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", range(0, 40, 8))
def test_what_has_no_gradient_in_a_round_has_no_part_in_others(first: int) -> None:
    assert sum(map(compare, range(first, first + 8))) >= 3


def test_gradients_that_are_taken_for_zeros_are_found() -> None:
    """What would be wrong without the truths: zeros go on as gradients do."""

    def differs(seed: int) -> bool:
        try:
            compare(seed)
        except AssertionError:
            return True
        return False

    with mock.patch.object(Cotangent, "times", lambda self, present: self):
        assert any(map(differs, range(30, 40)))
