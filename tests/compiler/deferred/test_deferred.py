"""Deferred runs: the body runs every time, its ops wait and run as compiled stretches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.deferred import region
from fusegrad.compiler.deferred.op_trie import TRIES
from fusegrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("always_deferred")


def leaf(*shape: int, seed: int = 0) -> fg.Tensor:
    return fg.tensor(np.random.default_rng(seed).normal(size=shape).astype("f4"), requires_grad=True)


def same(a: Any, b: Any) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype and a.requires_grad == b.requires_grad
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def compiled_like_eager(
    function: Callable[..., Any], *arguments: Callable[[], fg.Tensor], calls: int = 5
) -> Any:
    """Call `function` jitted and as it is, on arguments made anew; results and gradients must agree."""
    jitted = fg.jit(function)
    for _ in range(calls):
        mine, reference = [make() for make in arguments], [make() for make in arguments]
        ours, theirs = jitted(*mine), function(*reference)
        same(ours, theirs)
        if theirs.requires_grad:
            ours.sum().backward()
            theirs.sum().backward()
        for a, b in zip(mine, reference, strict=True):
            same(a, b)
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                same(a.grad, b.grad)
    assert jitted.stats.compiled_calls >= calls - 3, str(jitted.explain())
    return jitted


def test_effects_happen_once_and_in_order_and_the_ops_are_fused():
    log: list[str] = []

    @fg.jit
    def f(x):
        log.insert(99, "before")
        y = (x * 2).tanh() + x
        log.insert(99, "after")
        return (y * y).sum()

    x = leaf(6)
    for _ in range(4):
        f(x).backward()
    assert log == ["before", "after"] * 4
    assert f.stats.compiled_calls == 2
    assert len(f.kernels().forward) == 1
    text = str(f.explain())
    assert "deferred" in text and "stretch 1" in text and "insert" in text


def test_writes_in_place_are_eagers():
    state = fg.zeros(4)

    def f(x):
        state.add_((x.detach() * 2).sum())
        y = x * state.clone()
        y[1:3] *= 2
        y += x.tanh()
        return y * 3

    jitted = fg.jit(f)
    for call in range(5):
        mine, reference = leaf(4, seed=call), leaf(4, seed=call)
        before = state.clone()
        ours = jitted(mine)
        after = state.clone()
        state.copy_(before)
        theirs = f(reference)
        same(ours, theirs)
        same(after, state)
        ours.sum().backward()
        theirs.sum().backward()
        same(mine.grad, reference.grad)
    assert jitted.stats.compiled_calls >= 3


DOORS: dict[str, Callable[[fg.Tensor], Any]] = {
    "bool": lambda y: bool(y.sum() > 0),
    "item": lambda y: y.sum().item(),
    "float": lambda y: float(y[0]),
    "numpy": lambda y: y.detach().numpy().copy(),
    "array": lambda y: np.asarray(y.detach()).sum(),
    "tolist": lambda y: y.tolist(),
    "repr": lambda y: repr(y),
    "format": lambda y: f"{y.detach().sum():.3f}",
    "iteration": lambda y: [float(v) for v in y],
    "nonzero": lambda y: y.nonzero().tolist(),
    "contains": lambda y: 0.5 in y,
    "equal": lambda y: fg.equal(y, y * 1),
    "allclose": lambda y: fg.allclose(y, y * 1),
    "copy": lambda y: fg.tensor(y.detach().tolist()).sum().item(),
    "strides": lambda y: ((y.reshape(2, 3) * 2).T + 1).stride(),
    "grad_fn": lambda y: (type(y.grad_fn) is type(None), y.is_leaf, y.requires_grad),
    "sort": lambda y: y.detach().sort()[0].tolist(),
}


@pytest.mark.parametrize("door", DOORS)
def test_values_are_there_when_they_are_asked_for(door: str):
    seen: list[Any] = []

    def f(x):
        y = x * 2 + 1  # exact in both
        seen.insert(99, DOORS[door](y))
        return y * 2

    compiled_like_eager(f, lambda: leaf(6))
    for found in seen:
        np.testing.assert_equal(found, seen[0])


def test_the_default_dtype_may_change_inside():
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        y = x / 2
        if len(log) % 2:
            fg.set_default_dtype(fg.float64)
        z = x / 4
        fg.set_default_dtype(fg.float32)
        return y, z

    for _ in range(6):
        y, z = f(fg.tensor([1, 2]))
        assert y.dtype == fg.float32
        assert z.dtype == (fg.float64 if len(log) % 2 else fg.float32)


def test_an_op_that_refuses_its_input_raises_at_its_own_line():
    seen: list[str] = []

    @fg.jit
    def f(weight, index):
        try:
            row = F.embedding(index, weight * 2)
        except IndexError:
            seen.insert(99, "caught")
            row = weight[0] * 0
        return row.sum() + 1

    weight = leaf(3, 2)
    good, bad = fg.tensor([0, 2]), fg.tensor([0, 9])
    for index in (good, good, good, good, bad, good, bad):
        result = f(weight, index)
        expected = 1.0 if index is bad else float((weight[index] * 2).sum()) + 1
        assert result.item() == pytest.approx(expected, rel=1e-5)
    assert seen == ["caught"] * 2


def test_labels_are_checked_where_the_loss_is_taken():
    caught = []

    @fg.jit
    def f(scores, labels):
        try:
            return F.cross_entropy(scores * 2, labels)
        except (IndexError, RuntimeError):
            caught.insert(99, 1)
            return scores.sum()

    scores = leaf(4, 3)
    for labels in ([0, 1, 2, 0],) * 5 + ([0, 1, 3, 0],):
        f(scores, fg.tensor(labels))
    assert caught == [1]


def test_an_exception_leaves_tensors_with_values():
    kept: list[fg.Tensor] = []

    @fg.jit
    def f(x):
        kept.insert(99, (x * 2).exp())
        raise KeyError("out")

    for _ in range(5):
        with pytest.raises(KeyError, match="out"):
            f(fg.zeros(3))
    assert [k.tolist() for k in kept] == [[1.0] * 3] * 5


def test_a_result_on_the_way_to_another_is_on_the_way_of_its_gradient():
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        y = (x * 2).tanh()
        z = (y * y).sum()
        return y, z

    for _ in range(5):
        x = leaf(4)
        y, z = f(x)
        (through,) = fg.grad(z, y, retain_graph=True)
        np.testing.assert_allclose(through.numpy(), 2 * y.detach().numpy(), rtol=1e-5)
        z.backward()
        expected = 2 * np.tanh(2 * x.detach().numpy()) * (1 - np.tanh(2 * x.detach().numpy()) ** 2) * 2
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-6)
    assert f.stats.compiled_calls >= 3


def test_a_whole_step_inside():
    def training() -> tuple[Any, list[fg.Tensor], list[float]]:
        weights = [leaf(5, 3), leaf(3, 1, seed=1)]
        optimizer = fg.optim.Adam(weights, lr=0.1)
        losses: list[float] = []

        def step(x):
            optimizer.zero_grad()
            loss = (((x @ weights[0]).tanh() @ weights[1]) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.insert(99, loss.item())
            return loss.detach()

        return step, weights, losses

    mine, my_weights, my_losses = training()
    theirs, their_weights, their_losses = training()
    jitted = fg.jit(mine)
    for call in range(12):
        jitted(leaf(7, 5, seed=call).detach())
        theirs(leaf(7, 5, seed=call).detach())
    np.testing.assert_allclose(my_losses, their_losses, rtol=1e-4)
    for a, b in zip(my_weights, their_weights, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-4)
    assert jitted.stats.compiled_calls >= 8


def test_grad_modes_inside():
    log = []

    def f(x):
        log.insert(99, 1)
        y = x * 2
        with fg.no_grad():
            z = (y * 3).exp()
            assert not z.requires_grad
        return y.tanh() * z

    compiled_like_eager(f, lambda: leaf(4))


def test_a_diagonal_is_replaced_before_there_are_values():
    log = []

    def f(x):
        log.insert(99, 1)
        y = x * 2
        return y.diagonal_scatter(y.sum(0) + 1).tanh()

    compiled_like_eager(f, lambda: leaf(3, 3))


def test_random_draws_keep_their_stream():
    def f(x):
        return (x * 2 + fg.rand(4)).tanh() * fg.randn(4)

    fg.manual_seed(3)
    expected = [f(fg.ones(4)) for _ in range(6)]
    after = fg.rand(2)
    jitted = fg.jit(f)
    fg.manual_seed(3)
    for theirs in expected:
        same(jitted(fg.ones(4)), theirs)
    assert fg.rand(2).tolist() == after.tolist()
    assert jitted.stats.compiled_calls >= 3


def test_numbers_are_keys_by_type_and_bits():
    log = []
    numbers = [2, 2.0, True, -0.0, 0.0, 2, 2.0, True, -0.0, 0.0] * 3

    @fg.jit
    def f(x):
        log.insert(99, 1)
        return x * numbers[len(log) - 1] + 0 * x

    x = fg.tensor([1, 1])
    for number in numbers:
        ours, theirs = f(x), x * number + 0 * x
        assert ours.dtype == theirs.dtype
        assert str(ours.tolist()) == str(theirs.tolist())


def test_numbers_that_change_are_inputs_of_the_stretch():
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        return (x * (len(log) * 0.1) + len(log)).tanh() - 1 / len(log)

    x = leaf(3)
    for call in range(1, 30):
        expected = (x * (call * 0.1) + call).tanh() - 1 / call
        same(f(x), expected)
    (entry,) = f.entries.values()
    assert len(entry.plan.stretches) == 1
    assert f.stats.compiled_calls >= 25


@pytest.mark.usefixtures("faults_are_covered")
def test_a_fault_of_the_compiler_is_not_one_of_the_program(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> Any:
        raise AssertionError("no such kernel")

    monkeypatch.setattr(region.Stretch, "_part", broken)
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        return (x * 2).tanh()

    for _ in range(5):
        same(f(fg.ones(3)), (fg.ones(3) * 2).tanh())
    assert f.stats.compiled_calls == 0


def test_tensors_whose_values_could_not_be_computed_are_not_read(monkeypatch: pytest.MonkeyPatch):
    log, kept = [], []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        kept.insert(99, (x * 2).tanh())
        return kept[-1] + 1

    for _ in range(3):
        f(fg.ones(3))

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(region.Stretch, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            f(fg.ones(3))
    with pytest.raises((RuntimeError, AttributeError)):
        kept[-1].tolist()
    same(f(fg.ones(3)), (fg.ones(3) * 2).tanh() + 1)
    same(fg.ones(3) * 2, fg.full((3,), 2.0))


def test_a_function_with_nothing_to_compile_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        return x

    x = fg.ones(2)
    for _ in range(TRIES + 5):
        assert f(x) is x
    (entry,) = f.entries.values()
    assert entry.plan.choice == "eager"


@pytest.mark.parametrize("ask", ["retain_grad", "grad", "hook"])
def test_a_view_has_the_gradient_of_what_was_computed_from_it(ask: str):
    log: list[Any] = []

    def f(x):
        y = x * 2
        part = y[1:, 0]
        row = part[:1]
        loss = (part.tanh() * part).sum() + (row * 3).sum() + y.sum()
        log.insert(99, loss.item())
        if ask == "grad":
            return fg.autograd.grad(loss, [part, row, y])
        if ask == "hook":
            part.register_hook(lambda g: log.insert(99, g.tolist()))
        part.retain_grad()
        row.retain_grad()
        loss.backward()
        return part.grad, row.grad, y

    compiled_like_eager(lambda x: sum((t * t).sum() for t in f(x)), lambda: leaf(4, 3))
    assert len(log) == (20 if ask == "hook" else 10)


def test_views_that_are_derived_to_have_any_size():
    log: list[float] = []

    def f(x):
        y = x * 2
        part = y[1:, 0]
        loss = (part.tanh() * part).sum() + y.sum()
        log.insert(99, loss.item())
        return fg.autograd.grad(loss, part)[0]

    jitted = fg.jit(f)
    for rows, columns in [(4, 3), (4, 3), (5, 3), (6, 4), (9, 2), (7, 7), (3, 3), (12, 5)] * 2:
        x = leaf(rows, columns)
        same(jitted(x), f(x))
    assert jitted.stats.compiled_calls >= 12, str(jitted.explain())
    forms = [form for entry in jitted.entries.values() for form in entry.plan.stretches]
    assert len(forms) <= 4 and any(form.open for form in forms)


EXPANDED_AND_WRITTEN = {
    "number": lambda z: z.expand(2, 3, 4).__setitem__(0, 3),
    "row": lambda z: z.expand(2, 3, 4).__setitem__(0, z.expand(2, 3, 4)[1].clone()),
    "columns": lambda z: z[:1].expand(3, 4).__setitem__((0, slice(1, None)), 5),
    "alias": lambda z: z.detach().expand(2, 3, 4).__setitem__(-1, 2),
    "part": lambda z: z.expand(2, 3, 4)[1].mul_(2),
    "windows": lambda z: z.unfold(0, 2, 1).__setitem__(0, 4),
}


@pytest.mark.parametrize("name", EXPANDED_AND_WRITTEN)
def test_parts_of_what_waits_expanded_are_written(name: str):
    lines: list[int] = []

    def f(x: Any) -> Any:
        lines.insert(99, 1)
        z = x * 2
        EXPANDED_AND_WRITTEN[name](z)
        return z + 1

    jitted = fg.jit(f)
    x = fg.arange(12.0).reshape(3, 4)
    for _ in range(6):
        assert fg.equal(jitted(x), f(x))
    assert jitted.stats.compiled_calls
