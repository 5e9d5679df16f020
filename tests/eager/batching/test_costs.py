"""Examples that would lose by being a batch go one by one, by what an earlier batch has counted."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad.eager.batching import costs


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    costs._known.clear()


def _chain(w: fg.Tensor) -> Any:
    def end(x: fg.Tensor) -> fg.Tensor:
        h, steps = x, 0
        while steps < 5 and h.sum() > -100:
            h, steps = fg.tanh(h @ w), steps + 1
        return h.sum()

    return end


def _is_batched(function: Any) -> bool:
    return bool(function.report.batches)


def test_few_examples_go_one_by_one_and_many_as_a_batch() -> None:
    fg.manual_seed(0)
    w = fg.randn(4, 4, requires_grad=True)
    end = _chain(w)
    function = fg.batched(end)

    def derived(count: int) -> bool:
        xs = list(fg.randn(count, 4))
        made, expected = fg.stack(function(xs)), fg.stack([end(x) for x in xs])
        assert fg.allclose(made, expected, atol=1e-6)
        ((g,), (e,)) = fg.autograd.grad(made.sum(), w), fg.autograd.grad(expected.sum(), w)
        assert fg.allclose(g, e, atol=1e-5)
        return _is_batched(function)

    assert derived(2)  # nothing is known of it yet
    assert not derived(2)
    assert "one by one" in function.explain()
    assert derived(256)
    assert not derived(3)
    assert derived(300)
    assert not _is_batched(_called(fg.batched(_chain(w)), 2))  # the same code is the same program


def _called(function: Any, count: int) -> Any:
    function(list(fg.randn(count, 4)))
    return function


def test_looking_anew_takes_a_part_of_the_calls() -> None:
    function = fg.batched(_chain(fg.randn(4, 4)))
    looked = [_is_batched(_called(function, 2)) for _ in range(400)]
    assert looked[0] and 1 < sum(looked) < 40
    last = len(looked) - 1 - looked[::-1].index(True)
    assert last > 100  # it goes on looking


def test_weights_that_are_read_for_each_call_make_a_batch_pay() -> None:
    small, large = ([fg.randn(size, size)] for size in (4, 1024))
    for w, pays in ((small, False), (large, True)):
        found = costs.Costs()
        kind = type("Kind", (), {"costs": (6.0, 15.0)})
        found.group(kind, 3, 0, w, True)
        found.keep(object(), 3)
        assert bool(found.loses(3)) is not pays


def test_in_a_jitted_function_examples_are_a_batch() -> None:
    """What that compiles pays no group twice."""
    w = fg.randn(4, 4)
    function = fg.batched(lambda x: fg.tanh(x @ w).sum())
    step = fg.jit(lambda x: fg.stack(function(list(x))).sum())
    _called(function, 2)
    assert not _is_batched(_called(function, 2))
    step(fg.randn(2, 4))
    assert _is_batched(function)
