"""Programs put together at random of Python numbers that change: PyTorch, eager and jit must agree.

A program computes with numbers (arguments, attributes, items, a closure's) in Python, puts them next to
tensors, branches on them, and sets some. What it returns and leaves is compared, on many calls with other
numbers, odd ones among them. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_numbers.py COUNT SEED`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import planted
import pytest
import random_functions
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.paths.number_steps import NumberSteps
from fusegrad.tracer.observe import numbers as followed

IMPORTS = "import math\n"
PROGRAMS, CALLS = 24, 18
# {n}, {m}: names of numbers; {c}: a constant; {v}, {w}: names of tensors.
NUMBERS = """
{n} + {m} | {n} - {c} | {n} * {m} | {n} / ({m} * {m} + 1) | {n} // {c} | {n} % {c} | -{n} | abs({n}) | +{n}
min({n}, {m}) | max({n}, {c}) | math.exp(-abs({n})) | math.cos({n}) | math.sqrt(abs({n})) | int({n} * 2)
float({n}) | round({n} * 1.5) | 0.5 ** min(abs({n}), 5) | math.floor({n}) | {n} if {n} > {m} else {c}
({n} + 1) * 0.5 | {c} - {n} | 1.0 - min({n}, 20) / 20 | [{n}, {m}][1] | (lambda q: q * 2)({n})
{c} / (1 + {n} * {n}) | int({n}) % 3 | round({n}, 1) | math.copysign({n}, {m})
pow(abs({n}), 0.5) | {n} and {m} | {n} or {c}
"""
TENSORS = """
{v} * {n} | {n} * {v} + {w} | {v} - {n} | {n} - {v} | {v} / ({n} * {n} + 1) | {v}.add({w}, alpha={n} * 0.5)
({v} > {n}) * {w} | {v}.mul({n}).sub({m}) | T.sin({v} * {n}) | {v} * {n} * {m}
{v} + ({n} if {m} > 0 else {c}) | {v}.clone().mul_({n}).add_({w}) | T.tanh({v} + {n})
{v}[: int(abs({n})) % 3 + 1].sum() * {w} | T.full((3,), float({n}))
T.where({v} > 0, {v} * {n}, {w})
{v} ** 2 * {n} | (-{v} + {n}) | {v} * float({n})
"""
BRANCHES = """
{n} > {c} | {n} < {m} | int({n}) % 2 == 0 | {n} | not {n} > 1 | {n} == {m} | 0 < {n} <= 2
{n} >= {c} or {m} < 0
"""
SETS = """
s.a = {n} | s.a += 1 | s.k += {n} | s.a = {n} * 0.5 + {c} | s.k = int({n}) % 7
"""
CONSTANTS = ["2", "0.5", "3", "1", "1.5", "-1", "0.25"]


def _templates(text: str) -> list[str]:
    return [template.strip() for line in text.strip().splitlines() for template in line.split("|")]


def source_of(pick: random.Random) -> str:
    """The text of a program: a maker of its world, which gives the function."""
    names, tensors = ["a", "k", "s.a", "s.k", 'd["n"]', "free"], ["x", "y"]
    lines: list[str] = []

    def filled(template: str) -> str:
        return template.format(
            n=pick.choice(names), m=pick.choice(names), c=pick.choice(CONSTANTS),
            v=pick.choice(tensors), w=pick.choice(tensors),
        )  # fmt: skip

    def statement(indent: str) -> None:
        kind = pick.choice(["number", "number", "tensor", "tensor", "tensor", "set", "branch"])
        if kind == "number":
            lines.append(f"{indent}n{len(names)} = {filled(pick.choice(_templates(NUMBERS)))}")
            if len(indent) == 8:
                names.append(f"n{len(names)}")
        elif kind == "tensor":
            text = filled(pick.choice(_templates(TENSORS)))
            lines.append(f"{indent}t{len(tensors)} = {text}")
            if len(indent) == 8:
                tensors.append(f"t{len(tensors)}")
        elif kind == "set":
            lines.append(indent + filled(pick.choice(_templates(SETS))))
        elif len(indent) == 8:
            lines.append(f"{indent}if {filled(pick.choice(_templates(BRANCHES)))}:")
            statement(indent + "    ")
            lines.append(f"{indent}    y = y * 2")
        else:
            lines.append(f"{indent}y = y + 1")

    for _ in range(pick.randrange(3, 9)):
        statement("        ")
    results = ", ".join([*pick.sample(tensors, min(3, len(tensors))), *pick.sample(names, 3)])
    head = ["def make(T, s, d, free):", "    def function(x, y, a, k):"]
    return "\n".join([*head, *lines, f"        return {results}", "    return function", ""])


def _number(pick: random.Random, of: type) -> Any:
    if pick.random() < 0.03:
        return pick.choice([0.0, -0.0, math.nan, math.inf, 1e30, 2**40, True, 0, -3, 1e-30])
    return of(pick.choice([pick.uniform(-3, 3), pick.randrange(-4, 6)]))


class World:
    """A program, made in one library."""

    def __init__(self, text: str, library: Any, jitted: bool = False) -> None:
        self.s, self.d = SimpleNamespace(a=0.5, k=1), {"n": 2.0}
        self.function = random_functions.defined(f"{IMPORTS}{text}")["make"](library, self.s, self.d, 0.75)
        self.called = fg.jit(self.function) if jitted else self.function

    def call(self, x: Any, y: Any, numbers: list[Any]) -> Any:
        """What a call gives and leaves, or the class of what it raises. numbers: what is set first."""
        a, k, self.s.a, self.s.k, self.d["n"] = numbers
        try:
            with np.errstate(all="ignore"):
                result = self.called(x, y, a, k)
        except Exception as error:
            return type(error).__name__
        return (*result, self.s.a, self.s.k, self.d["n"])


def check(seed: int) -> None:
    """Run a program in all ways."""
    pick = random.Random(seed)
    text = source_of(pick)
    worlds = [World(text, torch), World(text, fg), World(text, fg, True)]
    changing = [pick.random() < 0.7 for _ in range(5)]
    kinds = [pick.choice([int, float]) for _ in range(5)]
    numbers = [_number(pick, kind) for kind in kinds]
    for call in range(CALLS):
        numbers = [_number(pick, t) if c else n for n, c, t in zip(numbers, changing, kinds, strict=True)]
        arrays = np.random.default_rng(seed + call).normal(size=(2, 3)).astype("f4")
        theirs = worlds[0].call(*map(torch.tensor, arrays), numbers)
        eagers, jits = (world.call(*map(fg.tensor, arrays), numbers) for world in worlds[1:])
        _agree(jits, eagers, f"seed {seed}, call {call} with {numbers}\n{text}", True)
        if all(type(n) is not bool and abs(n) < 1e6 for n in numbers) and not isinstance(theirs, str):
            _agree(eagers, theirs, f"torch, seed {seed}, call {call} with {numbers}\n{text}", False)


def _agree(found: Any, expected: Any, words: str, same_numbers: bool) -> None:
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, words
        return
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, (fg.Tensor, torch.Tensor)):
            assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], words
            a, b = ours.detach().numpy(), theirs.detach().numpy()
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5, err_msg=words)
        elif same_numbers:
            assert type(ours) is type(theirs), words
            assert repr(ours) == repr(theirs), words


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_of_numbers_agree(seed: int) -> None:
    check(seed)


def test_a_guard_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumberSteps, "_comes_out", lambda self, host: iter(()))
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


def test_a_number_that_is_computed_of_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = followed.computed

    def swapped(function: Callable[..., Any], operands: Any, kind: type) -> Any:
        return original(function, operands[::-1], kind)

    monkeypatch.setattr(followed, "computed", swapped)
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


if __name__ == "__main__":
    random_functions.run(check)
