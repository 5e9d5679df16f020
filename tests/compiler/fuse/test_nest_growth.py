"""Nests that grow are those that planning the whole group finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fuse import fusion, steps
from fusegrad.compiler.fuse.nest_growth import Answer, Growth, Nest
from fusegrad.compiler.kernel.ir import Kernel


class Compared(Growth):
    """Plans each pair of groups as a whole, too. answers: how often which was given."""

    answers: ClassVar[Counter[str]] = Counter()
    owner: Any = None

    def joined(self, one: Nest, other: Nest, is_result: Any) -> Nest | Answer:
        numbers = sorted({*one.uses, *other.uses})
        found = super().joined(one, other, is_result)
        self.answers[type(found).__name__ if isinstance(found, Nest) else found.value] += 1
        if found is Answer.NO:
            assert self.owner._plan(numbers) is None, [str(self.owner._equations[n].op.name) for n in numbers]
        elif isinstance(found, Nest):
            assert sorted(found.uses) == numbers
            assert self.owner._plan(numbers, found) is not None
        return found


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The answers, each of which is compared with a plan of the whole."""
    begin = fusion.Fusion.__init__

    def compared(self: fusion.Fusion, *given: Any) -> None:
        begin(self, *given)
        self._growth.owner = self  # type: ignore[attr-defined]

    monkeypatch.setattr(fusion, "Growth", Compared)
    monkeypatch.setattr(fusion.Fusion, "__init__", compared)
    monkeypatch.setattr(Compared, "answers", Counter())
    return Compared.answers


SHAPES = [(), (6,), (5, 6), (5, 1), (1, 6), (4, 5, 6), (6, 6)]


Op = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]
BINARY: list[Op] = [fg.add, fg.mul, fg.maximum]
UNARY: list[Op] = [lambda x, y: fg.sin(x), lambda x, y: fg.tanh(x), lambda x, y: abs(x), lambda x, y: x * 0.5]


def reduction(draw: random.Random, rank: int) -> Op:
    """A reduction of a tensor with so many dimensions, or its transpose."""
    dim, keepdim, choice = draw.randrange(rank), draw.random() < 0.5, draw.randrange(5)
    if choice < 3:
        function = [fg.sum, fg.amax, fg.mean][choice]
        return lambda x, y: function(x, dim, keepdim=keepdim)
    return (lambda x, y: x.sum()) if choice == 3 else (lambda x, y: x.transpose(0, -1))


def drawn(seed: int) -> tuple[Any, list[fg.Tensor]]:
    """A function of elementwise ops, reductions and views on tensors of several shapes."""
    draw, generator = random.Random(seed), np.random.default_rng(seed)
    given = [fg.tensor(generator.normal(size=draw.choice(SHAPES))) for _ in range(3)]
    values = [*given]
    steps: list[tuple[Op, int, int]] = []
    while len(steps) < 14:
        one, other = draw.randrange(len(values)), draw.randrange(len(values))
        kind = draw.random()
        rank = values[one].ndim
        op = draw.choice(BINARY) if kind < 0.5 else draw.choice(UNARY)
        if kind > 0.75 and rank:
            op = reduction(draw, rank)
        try:
            values.append(op(values[one], values[other]))
        except RuntimeError:  # shapes that do not broadcast
            continue
        steps.append((op, one, other))
    results = draw.sample(range(3, len(values)), 4)

    def program(*given: fg.Tensor) -> list[fg.Tensor]:
        values = [*given]
        for op, one, other in steps:
            values.append(op(values[one], values[other]))
        return [values[number] * 1 for number in results]

    return program, given


@pytest.mark.parametrize("block", range(4))
def test_answers_are_those_of_planning_the_whole(block: int, answers: Counter[str]) -> None:
    compare(block)
    assert answers["Nest"] > 30 and answers["no"], answers


def compare(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        program, given = drawn(seed)
        jitted = fg.jit(program)
        for _ in range(2):
            for found, expected in zip(jitted(*given), program(*given), strict=True):
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
        assert jitted.stats.compiled_calls == 1, str(jitted.explain())


def test_most_groups_grow_without_a_plan_of_the_whole(answers: Counter[str]) -> None:
    def chain(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        for _ in range(20):
            x, y = fg.sin(x) * y, fg.tanh(y) + x.sum(1, keepdim=True) * 0.1
        return (x * y).sum()

    jitted = fg.jit(fg.value_and_grad(chain, (0, 1)))
    jitted(fg.randn(5, 7), fg.randn(5, 7))
    assert answers["Nest"] > 4 * answers["unknown"], answers


def test_a_fault_in_growing_is_found(answers: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    grown = Growth._place
    monkeypatch.setattr(Growth, "_place", lambda *args: grown(*args) or True)
    with pytest.raises((AssertionError, KeyError)):
        for block in range(4):
            compare(block)


def test_what_is_planned_of_a_long_line_grows_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equations that are analysed, for a line of so many ops and one of four times as many."""
    seen = [0]
    analyse = fusion.analyse

    def counting(equations: Any, *rest: Any) -> Any:
        seen[0] += len(equations)
        return analyse(equations, *rest)

    monkeypatch.setattr(fusion, "analyse", counting)
    counts = []
    for length in (100, 400):
        draw = random.Random(length)
        ops = [fg.sin, fg.tanh, abs, lambda x: x * 0.5, lambda x: x + 1]
        line = [draw.choice(ops) for _ in range(length)]

        def straight(x: fg.Tensor, line: Any = line) -> fg.Tensor:
            y = x
            for number, op in enumerate(line):
                y = op(y) * x if number % 7 == 0 else op(y)  # type: ignore[operator]
            return y

        seen[0] = 0
        fg.jit(straight)(fg.randn(8))
        counts.append(seen[0])
    assert counts[0] < 5 * 100 and counts[1] < 5 * counts[0], counts


def test_kernels_of_many_functions_write_each_out_once() -> None:
    from fusegrad.compiler.codegen.functions import module_text
    from fusegrad.compiler.llvm.target import host

    def long(x: fg.Tensor) -> fg.Tensor:
        for _ in range(8):
            x = fg.sin(x) + fg.tanh(x)
        return x

    jitted = fg.jit(long)
    jitted(fg.randn(100))
    kernel: Kernel = jitted.kernels().forward[0].kernel
    text = module_text(kernel, "kernel", host())
    assert text.count("define private <") == 3  # sine, what large angles need, and tanh


def needs_through_another(start: Any, target: Any) -> bool:
    """Whether a step needs another one by way of a third, found by going through all that it needs."""
    pending, seen = [s for s in start.needs if s is not target], set()
    while pending:
        step = pending.pop()
        if step is target:
            return True
        if step not in seen:
            seen.add(step)
            pending += step.needs
    return False


def test_what_comes_between_two_groups_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[bool] = Counter()
    come_between = steps.come_between

    def compared(first: Any, second: Any) -> bool:
        found = come_between(first, second)
        assert found == (needs_through_another(first, second) or needs_through_another(second, first))
        asked[found] += 1
        return found

    monkeypatch.setattr(fusion, "come_between", compared)
    # Groups of reductions need each other by way of equations that come late in one and early in another.
    ops: list[Op] = [*BINARY, *UNARY, lambda x, y: x @ y, lambda x, y: x.cumsum(0) + y]
    ops += [lambda x, y: x - y.mean(), lambda x, y: x.sum(0) * y, lambda x, y: x / (y * y).sum(1, True)]
    for seed in range(12):
        draw = random.Random(seed)
        line = [(draw.choice(ops), draw.randrange(1, 12), draw.randrange(1, 24)) for _ in range(40)]

        def program(*values: fg.Tensor, line: Any = line) -> fg.Tensor:
            made = [*values]
            for op, one, other in line:
                made.append(op(made[-min(one, len(made))], made[-min(other, len(made))]))
            return sum(made[5:], made[4])

        fg.jit(program)(*(fg.randn(6, 6) for _ in range(5)))
    assert asked[True] > 10 and asked[False] > 100, asked
