"""`.data`, and leaves that a step makes itself, in replays as in eager."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg


def world() -> SimpleNamespace:
    w = fg.tensor(np.arange(1.0, 7.0, dtype="f4").reshape(2, 3), requires_grad=True)
    return SimpleNamespace(w=w, average=fg.zeros(2, 3), b=fg.ones(3, requires_grad=True))


def _descends(s: SimpleNamespace, x: Any) -> Any:
    s.w.grad = None
    loss = (s.w * x + s.b).square().mean()
    loss.backward()
    s.w.data -= 0.1 * s.w.grad.data
    s.b.data.sub_(0.1 * s.b.grad)
    s.b.grad.data.zero_()
    return loss


def _rows(s: SimpleNamespace, x: Any) -> Any:
    s.w.data[0] = s.w.data[0] * 0.5 + x[0]
    return s.w.data.sum() + s.w.detach()[1].sum()


def _both_ways(s: SimpleNamespace, x: Any) -> Any:
    s.w.data.mul_(0.5)
    with fg.no_grad():
        s.w.add_(x)
    return s.w.detach() * 1


def _in_between(s: SimpleNamespace, x: Any) -> Any:
    s.w.grad = None
    y = (s.w * s.w * x).sum()
    s.w.data.mul_(0.5)  # backward computes with what is there then, as autograd has not noticed
    y.backward()
    return y


def _attacks(s: SimpleNamespace, x: Any) -> Any:
    given = x.detach() + 0.1
    for _ in range(2):
        given.requires_grad_()
        (gradient,) = fg.autograd.grad((s.w.detach() * given).square().sum(), [given])
        given = given.detach() + 0.1 * gradient.sign()
    return given


def _alias_as_leaf(s: SimpleNamespace, x: Any) -> Any:
    leaf = x.detach().requires_grad_()
    (leaf * s.w.detach()).square().sum().backward()
    return leaf.grad.data + 1


def _attribute(s: SimpleNamespace, x: Any) -> Any:
    leaf = x.clone()
    leaf.requires_grad = True
    (leaf**3).sum().backward()
    leaf.grad.zero_()
    (leaf**2).sum().backward()
    return leaf.grad * 1


def _penalty(s: SimpleNamespace, x: Any) -> Any:
    s.w.grad = None
    between = (0.3 * x + 0.7).requires_grad_(True)
    (g,) = fg.autograd.grad((between * s.w).tanh().sum(), between, create_graph=True)
    loss = (g.norm(2, dim=1) - 1).square().mean()
    loss.backward()
    return loss.detach()


STEPS: dict[str, Callable[[SimpleNamespace, Any], Any]] = {
    "descends": _descends,
    "reads": lambda s, x: s.w.data * x + s.b.data,
    "average": lambda s, x: s.average.data.mul_(0.9).add_(s.w.data * x, alpha=0.1) * 1,
    "copies": lambda s, x: (s.average.data.copy_(s.average.data * 0.5 + x), x * 2)[1],
    "rows": _rows,
    "both ways": _both_ways,
    "in between": _in_between,
    "attacks": _attacks,
    "alias as leaf": _alias_as_leaf,
    "attribute": _attribute,
    "penalty": _penalty,
    "plain properties": lambda s, x: x * (1 + x.is_cuda + x.is_sparse + x.is_quantized + (x.layout is None)),
}


def numbers(*tensors: Any) -> list[Any]:
    return [None if t is None else np.round(t.detach().numpy().astype("f8"), 4).tolist() for t in tensors]


@pytest.mark.parametrize("name", STEPS)
def test_replays_are_as_eager(name: str) -> None:
    step, ours, theirs = STEPS[name], world(), world()
    jitted = fg.jit(lambda x: step(ours, x))
    for i in range(8):
        if i == 5:
            jit_checks.sealed(jitted)
        x = fg.tensor(np.random.default_rng(i).normal(size=(2, 3)).astype("f4"))
        found, expected = jitted(x), step(theirs, x)
        for s, result in ((ours, found), (theirs, expected)):
            s.seen = [numbers(result, s.w, s.w.grad, s.b, s.b.grad, s.average), result.requires_grad]
        assert ours.seen == theirs.seen, i


@pytest.mark.parametrize("through_data", [True, False])
def test_what_autograd_does_not_notice_is_not_counted(through_data: bool) -> None:
    w = fg.ones(3, requires_grad=True)

    @fg.jit
    def step(x: Any) -> Any:
        if through_data:
            w.data.add_(x)
        else:
            with fg.no_grad():
                w.add_(x)
        return x * 2

    for _ in range(4):
        kept = (w * w).sum()
        before = w._version
        step(fg.ones(3))
        assert w._version == before + (not through_data)
        if through_data:
            kept.backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                kept.backward()
    assert step.stats.compiled_calls >= 3


def test_a_result_on_the_graph_of_a_leaf_of_the_runs_own_is_eagers() -> None:
    @fg.jit
    def step(x: Any) -> Any:
        return (x.detach().requires_grad_() * 2).sum()

    for _ in range(4):
        result = step(fg.ones(3))
        assert result.requires_grad
        result.backward()
    assert "tensors that the run has made" in str(step.explain())


def test_a_leaf_from_outside_that_changes_its_kind_is_pythons() -> None:
    x = fg.ones(3)

    @fg.jit
    def step() -> Any:
        x.requires_grad_(not x.requires_grad)
        return (x * 2).detach() * 1

    flags = [(step(), x.requires_grad)[1] for _ in range(5)]
    assert flags == [True, False, True, False, True]
