"""Small tests of what drills, threads and random worlds found; and counts that must stay low."""

from __future__ import annotations

import copy
import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fuse.recompute import with_repeats
from fusegrad.eager.autograd.node import share
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir import passes

pytestmark = pytest.mark.usefixtures("unmeasured")


def ones(*shape: int) -> fg.Tensor:
    return fg.ones(*shape, requires_grad=True)


# Found.


@pytest.mark.parametrize("kind", [fg.optim.SGD, fg.optim.Adam, fg.optim.LBFGS])
def test_an_optimizer_steps_between_forward_and_backward(kind: Any):
    # Eager keeps the result of exp, the compiled backward reads the parameter again.
    jitted = fg.jit(lambda w: w.exp().clamp(max=50).sum())
    for _ in range(4):
        weight = ones(3)
        optimizer = kind([weight], lr=0.5)
        loss = jitted(weight)
        weight.grad = fg.ones(3)
        optimizer.step(*([lambda weight=weight: weight.detach().sum()] if kind is fg.optim.LBFGS else []))
        assert weight.tolist() != [1, 1, 1]
        weight.grad = None
        (loss * 0.5).backward()
        np.testing.assert_allclose(weight.grad, [np.e / 2] * 3, rtol=1e-5)
    assert jitted.stats.compiled_calls == 3


def test_two_steps_of_an_optimizer_in_one_call():
    def program(model: fg.nn.Module, optimizer: Any, x: fg.Tensor) -> fg.Tensor:
        for _ in range(2):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    jitted = fg.jit(program)
    model = fg.nn.Linear(3, 2)
    twin = copy.deepcopy(model)
    pair = [fg.optim.Adam(m.parameters(), lr=0.1) for m in (model, twin)]
    for _ in range(5):
        x = fg.ones(1, 3)
        ours, theirs = jitted(model, pair[0], x), program(twin, pair[1], x)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-6)
    assert jitted.stats.compiled_calls >= 2


def test_a_refused_function_leaves_nothing_behind():
    # The refusal is remembered with the code; its traceback would hold the callers' frames.
    def make() -> weakref.ref[Any]:
        namespace: dict[str, Any] = {}
        exec("def unknown(x): return x + 1", namespace)
        kept = fg.nn.Linear(2, 2)
        fg.jit(lambda x: namespace["unknown"](kept(x)))(fg.ones(1, 2))
        kept.code = namespace["unknown"].__code__  # which outlives the call
        codes.append(kept.code)
        return weakref.ref(kept)

    codes: list[Any] = []
    model = make()
    gc.collect()
    assert model() is None


def test_an_argument_that_is_also_read_from_outside_is_not_any_argument():
    outside = fg.ones(3)

    @fg.jit
    def f(x):
        return x + outside

    for x in (outside, fg.full((3,), 5.0), outside, fg.full((3,), 7.0)):
        assert f(x).tolist() == (x + outside).tolist()
    assert f.stats.compiled_calls == 2


def test_two_tensors_of_one_array_are_not_any_two():
    def twins():
        x = fg.ones(2)
        return x, share(x)

    f = fg.jit(lambda x, y: x + 2 * y)
    for x, y in (twins(), (fg.ones(2), fg.zeros(2)), twins()):
        assert f(x, y).tolist() == (x + 2 * y).tolist()


def _divides(x):
    x // (x - 2)
    return x + 1


def _indexes(x):
    fg.arange(4)[x]
    return (x * 2).sum()


def _decomposes(x):
    matrix = fg.eye(2) * x.sum()
    fg.linalg.cholesky(matrix)
    if x.sum() > 100:
        fg.linalg.inv(matrix * 0)
    return x + 1


@pytest.mark.parametrize("function", [_divides, _indexes, _decomposes])
def test_an_op_whose_result_nobody_needs_still_refuses_its_input(function: Any):
    f = fg.jit(function)
    for value in (1, 1, 3, 2, 5, -7, 1, 200, 200):
        outcomes = []
        for either in (f, function):
            try:
                outcomes.append(either(fg.tensor([value, 1])).tolist())
            except (RuntimeError, IndexError) as error:
                outcomes.append(str(error).splitlines()[0])
        assert outcomes[0] == outcomes[1]
    assert f.stats.compiled_calls >= 3


def test_a_callable_object_runs_what_its_class_says_now():
    class Double:
        def __call__(self, x):
            return x * 2

    class Triple:
        def __call__(self, x):
            return x * 3

    thing = Double()
    f = fg.jit(thing)
    assert [f(fg.ones(1)).item() for _ in range(3)] == [2.0] * 3
    thing.__class__ = Triple
    assert [f(fg.ones(1)).item() for _ in range(2)] == [3.0] * 2
    kept, Triple.__call__ = Triple.__call__, lambda self, x: x * 4
    assert [f(fg.ones(1)).item() for _ in range(2)] == [4.0] * 2
    assert kept is not Triple.__call__ and f.stats.compiled_calls == 4


def test_a_module_may_return_its_arguments():
    class Swap(fg.nn.Module):
        def forward(self, x, y):
            return y, x, x + y

    f = fg.jit(Swap())
    for _ in range(3):
        x, y = fg.ones(2), fg.zeros(2)
        first, second, total = f(x, y)
        assert first is y and second is x and total.tolist() == [1.0, 1.0]
    assert f.stats.compiled_calls == 2


def test_a_number_that_is_another_at_every_call_is_soon_no_constant():
    class Settings:
        rate = 0.0

    f = fg.jit(lambda x: (x * Settings.rate).tanh().sum())
    x = fg.arange(50.0)
    for call in range(20):
        Settings.rate = call / 100
        assert f(x).item() == pytest.approx((x * Settings.rate).tanh().sum().item(), 1e-5)
    assert f.stats.compiles <= 4
    assert "is another number from call to call" in str(f.explain())


@pytest.mark.parametrize("open_run", [False, True])
def test_a_view_of_a_result_that_eager_keeps_is_memory_that_must_not_be_written(open_run: bool):
    seen: list[int] = []

    def both(x: fg.Tensor, w: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        if open_run:
            seen.insert(99, len(seen))
        y = x + 1
        return y, (y.reshape(2, 2) * w).sum()

    jitted = fg.jit(both)
    for _ in range(4):
        for function in (jitted, both):
            y, loss = function(fg.arange(4.0), fg.ones(2, 2, requires_grad=True))
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
    assert jitted.stats.compiled_calls >= 2


def test_labels_out_of_range_are_refused_in_deferred_runs_too():
    seen: list[int] = []

    def loss(x: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
        seen.insert(99, len(seen))
        return fg.nn.functional.cross_entropy(x * 2, labels)

    jitted, x = fg.jit(loss), fg.randn(2, 4)
    for label in (1, 2, 3, 4, 0, -1, 3, 4):
        labels = fg.tensor([0, label])
        if 0 <= label < 4:
            np.testing.assert_allclose(jitted(x, labels), loss(x, labels), rtol=1e-5)
        else:
            with pytest.raises(IndexError, match="nll_loss"):
                jitted(x, labels)
    assert jitted.stats.compiled_calls >= 3


VIEWS: dict[str, Callable[[fg.Tensor], fg.Tensor]] = {
    "of what backward keeps": lambda x: fg.stack([x, x * 2]).amax(0)[..., :2],
    "of a copied argument": lambda x: x.clone()[..., :2],
    "with steps": lambda x: x.exp()[:, ::2],
    "of one row many times": lambda x: x.tanh().sum(0).expand(3, 4),
    "transposed": lambda x: x.exp().t()[1:],
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_result_that_is_a_view_lies_as_eager_has_it(name: str, requires_grad: bool):
    jitted = fg.jit(VIEWS[name])
    for _ in range(3):
        x = fg.randn(3, 4, requires_grad=requires_grad)
        found, expected = jitted(x), VIEWS[name](x)
        assert found.stride() == expected.stride()
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls == 2


def test_a_recorded_run_lets_go_of_what_it_makes():
    def f(x):
        for _ in range(40):
            x = fg.tanh(x * 1.01) + x[:1]
        return x

    x = fg.randn(1000, 250)  # a megabyte
    jitted = fg.jit(f)
    tracemalloc.start()
    try:
        found = jitted(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert jitted.stats.eager_calls == jitted.stats.compiles == 1
    assert peak < 20e6
    np.testing.assert_allclose(jitted(x), found, rtol=1e-4)


# Counts.


def test_both_sides_of_a_branch_that_flips_at_every_call_are_compiled():
    jitted = fg.jit(lambda x: (x * 2).sum() if x.sum() > 0 else (x - 1).exp().sum())
    for number in range(20):
        sign = 1 if number % 2 else -1
        x = fg.tensor([0.5 * sign, 0.25 * sign], requires_grad=True)
        before = jitted.stats.compiled_calls
        loss = jitted(x)
        loss.backward()
        # Each side is met once uncompiled.
        assert (jitted.stats.compiled_calls > before) == (number >= 2)
        expected = [2, 2] if sign > 0 else np.exp([-1.5, -1.25])
        np.testing.assert_allclose(x.grad, expected, rtol=1e-5)
    assert jitted.stats.compiled_calls == 18 and jitted.stats.compiles == 2


COUNTED: dict[str, Callable[..., fg.Tensor]] = {
    "learning rates": lambda x, rate: (x * x - rate * x).sum(),
    "step counters": lambda x, rate: (x * min(1.0, (rate + 1) / 50)).sum(),
}


@pytest.mark.parametrize("name", COUNTED)
def test_fifty_numbers_cost_two_compilations_at_most(name: str):
    program = COUNTED[name]
    jitted = fg.jit(program)
    for number in range(50):
        value = number * 0.013 if name == "learning rates" else number
        mine, reference = ones(4), ones(4)
        ours, theirs = jitted(mine, value), program(reference, value)
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)
        ours.backward()
        theirs.backward()
        np.testing.assert_allclose(mine.grad, reference.grad, rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiles <= 2, str(jitted.explain())
    assert jitted.stats.compiled_calls >= 40


def test_numbers_are_drawn_behind_a_guard_that_was_asked_before():
    def f(x):
        if x.sum() > 0 and x.sum() > 0:
            x = x * 2
        return x + fg.rand(3)

    jitted = fg.jit(f)
    found = []
    for function in (jitted, f):
        fg.manual_seed(0)
        found.append([function(fg.full((3,), float(1 - 2 * (i % 2)))).tolist() for i in range(8)])
    assert found[0] == found[1]
    assert jitted.stats.compiled_calls == 6


def test_a_view_that_eager_keeps_is_memory_that_must_not_be_written():
    jitted = fg.jit(lambda x, w: (x.reshape(2, 2) * w).sum())
    for _ in range(4):
        for function in (jitted, jitted.__wrapped__):
            x, w = fg.arange(4.0), fg.ones(2, 2, requires_grad=True)
            loss = function(x, w)
            x.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
    assert jitted.stats.compiled_calls == 3


def test_a_chain_made_of_one_number_gets_as_many_copies_as_it_has_links():
    def f(x, links):
        chain = fg.full((4,), 0.3)
        for _ in range(links):
            chain = (chain + chain * 0.1).clamp(-2, 2)
        return x + chain

    counts = []
    for links in (10, 20):
        graph = passes.optimise(capture(f, (fg.ones(4), links)).graph)
        counts.append(len(with_repeats(graph, graph.outputs).equations))
    assert counts[1] <= 2 * counts[0]
    np.testing.assert_array_equal(fg.jit(f)(fg.ones(4), 40).numpy(), f(fg.ones(4), 40).numpy())
