"""Gradients of jitted functions: forward and backward as one program, and results that nobody uses."""

from __future__ import annotations

from typing import Any

import pytest
from jit_checks import leaf, same

import fusegrad as fg


def test_gradients_of_several_outputs_some_unused():
    def f(x, y):
        return x * y, x.exp(), 3

    g = fg.jit(f)
    for _ in range(3):
        x, y = leaf(3), leaf(3, seed=1)
        a, b = leaf(3), leaf(3, seed=1)
        g(x, y)[1].sum().backward()
        f(a, b)[1].sum().backward()
        same(x.grad, a.grad)
    assert g.stats.compiled_calls == 2


def loss_of(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    """A scalar with a row reduction, a product and a branch on the way."""
    h = (x @ y).tanh()
    if h.sum() > -1e9:
        h = h.log_softmax(1)
    return (h * h).mean()


def branched_loss(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    """A branch on a value that the product after it reads again."""
    h = (x @ y).relu()
    if h.mean() > 1e9:
        h = h / h.mean()
    return (h @ y.T).exp().mean()


def trained(function: Any, calls: int = 6) -> tuple[fg.Tensor, fg.Tensor]:
    """Leaves after so many calls, each followed by a backward."""
    x, y = leaf(5, 4), leaf(4, 3, seed=1)
    for _ in range(calls):
        x.grad = y.grad = None
        function(x, y).backward()
    return x, y


def test_a_loss_that_is_always_derived_gets_one_program_for_both():
    g = fg.jit(loss_of)
    x, y = trained(g)
    assert len(g.kernels().joint) >= 1
    a, b = trained(loss_of, 1)
    same(x.grad, a.grad)
    same(y.grad, b.grad)


@pytest.mark.parametrize("loss", [loss_of, branched_loss])
@pytest.mark.parametrize("how", ["other seed", "twice", "second order", "none"])
def test_a_joint_program_answers_every_backward(how: str, loss: Any):
    g = fg.jit(loss)
    found = []
    for function, calls in ((g, 6), (loss, 1)):
        x, y = trained(function, calls)
        x.grad = y.grad = None
        out = function(x, y)
        if how == "other seed":
            out.backward(fg.tensor(2.5))
        elif how == "twice":
            out.backward(retain_graph=True)
            out.backward()
        elif how == "second order":
            (first,) = fg.autograd.grad(out, x, create_graph=True)
            first.sum().backward()
        found.append((out, x.grad, y.grad))
    for ours, theirs in zip(*found, strict=True):
        if theirs is None:
            assert ours is None
        else:
            same(ours, theirs)
    assert g.stats.compiled_calls == 6 and len(g.kernels().joint) >= 1


def test_an_unused_result_does_not_spoil_the_gradient_of_another():
    def f(x):
        return (x * 2).sum(), x.log().sum()

    g = fg.jit(f)
    for derived in (g, g, g, f):
        x = fg.tensor([0.0, 1.0], requires_grad=True)
        used, _ = derived(x)
        used.backward()
        assert x.grad.tolist() == [2.0, 2.0]
    assert g.stats.compiled_calls == 2


def test_what_only_an_unused_result_was_made_of_may_be_written_meanwhile():
    def f(x, w):
        return x.exp() * 2, (x.detach() * w).log().sum()

    g = fg.jit(f)
    for derived in (g, g, g, f):
        x, w = fg.tensor([0.0, 100.0], requires_grad=True), fg.ones(2).requires_grad_()
        used, _ = derived(x, w)
        with fg.no_grad():
            w.sub_(1)
        used.sum().backward()
        assert x.grad.tolist() == [2.0, float("inf")]
        assert w.grad is None
    assert g.stats.compiled_calls == 2


def test_a_gradient_that_goes_two_ways_is_not_written_on_one_of_them():
    def f(x, y):
        return x + y

    g = fg.jit(f)
    for derived in (g, g, g, f):
        x = leaf(3)
        derived(derived(x, derived(x, x * 1)), x).sum().backward()
        assert x.grad.tolist() == [4.0] * 3
    assert g.stats.compiled_calls >= 4


def test_what_has_no_gradient_is_left_to_eager_and_says_so():
    @fg.jit
    def f(x):
        return fg.special.zeta(x, 2.0).sum()

    x = fg.tensor([2.0, 3.0], requires_grad=True)
    for _ in range(3):
        with pytest.raises(NotImplementedError, match="derivative for 'zeta'"):
            f(x).backward()
    (entry,) = f.entries.values()
    assert entry.given_up.startswith("gradient: the derivative for 'zeta' is not implemented")
