"""Batches within batches, beside loops over examples: random programs whose levels each have own tensors.

What a level computes is of tensors of any of the levels around it, also of those alone, and between levels
stand derivatives. (PyTorch 2.13 is no oracle: some such programs make it allocate hundreds of gigabytes.)
`python tests/eager/batches/test_nested_batches.py 1000`: so many.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import planted
import pytest

import fusegrad as fg
from fusegrad.eager.core.state import Interpreter
from fusegrad.eager.ops.batches.batching import Batching

PROGRAMS = 24
LENGTH = 3  # of all vectors
OPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "where": lambda m, x, y: m.where(x > 0, x, y * 2),
    "sin": lambda m, x, y: x.sin() - y,
    "dot": lambda m, x, y: (x @ y) * x,
    "outer": lambda m, x, y: (x[:, None] * y).sum(0),
    "flip": lambda m, x, y: x.flip(0) * y[0],
    "write": lambda m, x, y: _written(m.zeros_like(x * y), x, y),
    "into": lambda m, x, y: _written((x + y).clone(), x, y),
    "softmax": lambda m, x, y: m.softmax(x, 0) * y,
    "stack": lambda m, x, y: m.stack([x, y]).amax(0),
    "gather": lambda m, x, y: x[m.argsort(y)],
}
# What becomes of a level's function of one vector, which gives a number.
BETWEEN = ("value", "value", "grad", "jvp", "vjp")


def _written(target: Any, x: Any, y: Any) -> Any:
    target[1:] = x[1:] * 2
    target += y
    return target


class Loops:
    """fusegrad with a `vmap` that is a loop."""

    def __init__(self) -> None:
        self.func = self

    def __getattr__(self, name: str) -> Any:
        return getattr(fg.func, name) if name in ("grad", "jvp", "vjp") else getattr(fg, name)

    def vmap(self, function: Any, in_dims: int, out_dims: int) -> Any:
        return lambda rows: fg.stack([function(row) for row in rows.unbind(in_dims)], out_dims)


class Program:
    """What each level does, which operands it takes, and how far it is from the one within."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.depth = draw.choice([2, 3, 3, 4])
        self.sizes = [draw.randint(1, 3) for _ in range(self.depth)]
        self.at = [draw.choice([0, 1, -1]) for _ in range(self.depth)]  # where the examples are
        self.out = [draw.choice([0, 0, -1]) for _ in range(self.depth)]
        self.steps = []
        for level in range(self.depth):
            known = level + 2  # the tensor from outside, and one for each level so far
            count = draw.randint(1, 3)
            picks = [
                (draw.choice([*OPS]), draw.randrange(known + i), draw.randrange(known + i))
                for i in range(count)
            ]
            self.steps.append(picks)
        self.between = [draw.choice(BETWEEN) for _ in range(self.depth)]
        numbers = np.random.default_rng(seed)
        self.given = [numbers.normal(size=(n, LENGTH)) for n in self.sizes]
        self.constant = numbers.normal(size=LENGTH)

    def run(self, m: Any, given: list[Any], constant: Any) -> Any:
        return self._level(m, 0, [constant], given)

    def _level(self, m: Any, level: int, known: list[Any], given: list[Any]) -> Any:
        def one(x: Any) -> Any:
            values = [*known[: level + 1], x]
            for op, i, j in self.steps[level]:
                values.append(OPS[op](m, values[i], values[j]))
            # The next level sees the tensors of the levels, and the last of what was computed here.
            made = values[-1]
            if level + 1 < self.depth:
                inner = self._level(m, level + 1, [*values[: level + 1], made], given)
                made = made + inner.reshape(-1)[:1]
            return made

        def number(x: Any) -> Any:
            return (one(x) ** 2).sum()

        def between(x: Any) -> Any:
            how = self.between[level]
            if how == "grad":
                return m.func.grad(number)(x)
            if how == "jvp":
                return m.func.jvp(one, (x,), (m.ones_like(x),))[1]
            if how == "vjp":
                made, back = m.func.vjp(one, x)
                return back(made.detach() * 0.5)[0]
            return one(x)

        at = self.at[level]
        rows = given[level] if at == 0 else given[level].T
        return m.func.vmap(between, in_dims=at, out_dims=self.out[level])(rows)


def check(seed: int) -> None:
    """Values and gradients, eager and jitted."""
    program = Program(seed)

    def derived(m: Any, run: Callable[..., Any]) -> list[Any]:
        leaves = [fg.tensor(a, requires_grad=True) for a in (program.constant, *program.given)]
        made = run(m, leaves[1:], leaves[0])
        if made.requires_grad:
            made.sin().sum().backward()
        zeros = [fg.zeros_like(x) for x in leaves]
        return [made.detach(), *(z if x.grad is None else x.grad for x, z in zip(leaves, zeros, strict=True))]

    expected = derived(Loops(), program.run)
    jitted = fg.jit(lambda given, constant: program.run(fg, given, constant))
    for run in (program.run, *[lambda m, *given: jitted(*given)] * 3):
        try:
            found = derived(fg, run)
        except RuntimeError as error:
            assert "inplace arithmetic" in str(error), seed  # of examples into what all share, as in PyTorch
            return
        for a, b in zip(found, expected, strict=True):
            close = np.abs(b.numpy()).max()
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-7, 1e-9 * (1 + close), err_msg=str(seed))


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_batches_within_batches_are_those_of_loops(seed: int) -> None:
    check(seed)


def test_an_op_that_goes_past_a_level_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops beneath the innermost level went to the outermost, which took tensors in between for plain ones."""

    def past(self: Batching) -> Interpreter | None:
        return self if self.outside is None else self.outside.beneath_batch()

    monkeypatch.setattr(Batching, "beneath_batch", past)
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


if __name__ == "__main__":
    wrong = []
    for seed in range(int(sys.argv[1])):
        try:
            check(seed)
        except Exception as error:
            wrong.append(seed)
            print(seed, type(error).__name__, str(error)[:400], flush=True)
    print(f"{sys.argv[1]} programs, {len(wrong)} differ: {wrong}")
