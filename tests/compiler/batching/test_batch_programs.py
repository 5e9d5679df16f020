"""What is compiled of a jitted function for many examples answers those calls that it was made for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.batching import batch_program, cells
from fusegrad.compiler.call_plan.expressions import Call
from fusegrad.eager.batching.costs import Costs

# Where three operands come from: tensors that all calls have in common, or one of the example's own.
PATTERNS = [p for p in itertools.product(("first", "second", "own", "other"), repeat=3) if "own" in p]


@pytest.fixture(autouse=True)
def batched_however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Costs, "loses", lambda self, examples: "")


def _examples(pattern: Sequence[str], count: int, shared: dict[str, fg.Tensor]) -> list[Any]:
    own = [{"own": fg.randn(4), "other": fg.randn(4)} for _ in range(count)]
    return [tuple((shared | mine)[name] for name in pattern) for mine in own]


@pytest.mark.parametrize("needs_grad", [False, True])
def test_calls_with_a_tensor_at_several_places_or_at_one(needs_grad: bool) -> None:
    """In all orders of patterns, with numbers of calls that come again."""
    fg.manual_seed(0)

    def plain(a: Any, b: Any, c: Any) -> Any:
        return fg.tanh(a * 2 + b * 3) * c

    function = fg.batched(lambda example: cell(*example))
    shared = {name: fg.randn(4, requires_grad=needs_grad) for name in ("first", "second")}
    for seed in range(4):
        cell = fg.jit(plain)
        order = [PATTERNS[(i * (2 * seed + 1)) % len(PATTERNS)] for i in range(len(PATTERNS))]
        for pattern, count in itertools.product(order, (3, 5, 3)):
            examples = _examples(pattern, count, shared)
            made = fg.stack(function(examples))
            expected = fg.stack([plain(*example) for example in examples])
            assert fg.allclose(made, expected, atol=1e-6), (pattern, count)
            if needs_grad and expected.requires_grad:
                leaves = [shared[name] for name in {"first", "second"} & {*pattern}]
                for g, e in zip(
                    fg.autograd.grad(made.sum(), leaves),
                    fg.autograd.grad(expected.sum(), leaves),
                    strict=True,
                ):
                    assert fg.allclose(g, e, atol=1e-5), (pattern, count)


def _counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    calls: list[Any] = []
    before = getattr(owner, name)

    def counting(self: Any, *args: Any) -> Any:
        calls.append(self)
        return before(self, *args)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_groups_of_known_sizes_are_neither_traced_again_nor_done_by_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where what all calls share is made longer before it meets what they have of their own."""
    w, nothing = fg.randn(8, 8, requires_grad=True), fg.zeros(4)
    cell = fg.jit(lambda h, x: fg.tanh(fg.cat([h, x], -1) @ w).chunk(2)[0] * 1)
    function = fg.batched(lambda xs: cell(cell(nothing, xs[0]), xs[1]).sum())

    def step(count: int) -> fg.Tensor:
        w.grad = None
        xs = fg.linspace(-1, 1, count * 8).reshape(count, 2, 4)
        fg.stack(function(list(xs))).sum().backward()
        assert w.grad is not None
        return w.grad

    sizes = (3, 4, 7)
    first = [step(count).clone() for count in sizes]
    for count in sizes * 8:
        step(count)
    traced = _counted(monkeypatch, batch_program._Traced, "_begin")
    evaluated = _counted(monkeypatch, Call, "evaluate")
    for count, known in zip(sizes, first, strict=True):
        assert fg.allclose(step(count), known, atol=1e-5)
    assert not traced
    assert not evaluated


def test_calls_by_themselves_are_compiled_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "COMPILING", 3)
    w = fg.randn(4, 4, requires_grad=True)
    cell = fg.jit(lambda x: fg.tanh(fg.tanh(x @ w) @ w))

    def once_for_one(example: tuple[int, fg.Tensor]) -> fg.Tensor:
        number, x = example
        return cell(x) * 2 if number == 1 else x * 2

    alone = _counted(monkeypatch, cells.Cell, "_evaluated")
    for turn in range(8):
        xs = fg.randn(3, 4)
        before = len(alone)
        made = fg.stack(fg.batched(once_for_one)([*enumerate(xs)]))
        expected = fg.stack([fg.tanh(fg.tanh(x @ w) @ w) * 2 if i == 1 else x * 2 for i, x in enumerate(xs)])
        assert fg.allclose(made, expected, atol=1e-6)
        (given,), (right,) = fg.autograd.grad(made.sum(), w), fg.autograd.grad(expected.sum(), w)
        assert fg.allclose(given, right, atol=1e-5)
        if turn > 6:
            assert len(alone) == before
