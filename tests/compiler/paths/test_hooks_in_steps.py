"""Hooks that a step puts on what it has made, and leaves that it freezes for a while, beside torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.tracer.capture.callbacks import Callbacks
from fusegrad.tracer.record.graph_changes import GraphChanges

Step = Callable[[Any, SimpleNamespace, Any], Any]


class Doubler:
    """A callable object."""

    factor = 2.0

    def __call__(self, g: Any) -> Any:
        return g * self.factor

    def twice(self, g: Any) -> Any:
        return g * self.factor * 2


def world(lib: Any) -> SimpleNamespace:
    weight = lib.tensor([0.5, -0.25, 2.0], requires_grad=True)
    other = lib.tensor([1.0, 3.0, -1.0], requires_grad=True)
    frozen = lib.tensor([2.0, 1.0, 0.5])
    net = lib.nn.Linear(3, 2)
    with lib.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.25)
    return SimpleNamespace(
        weight=weight, other=other, frozen=frozen, net=net, doubler=Doubler(), seen=[], factor=3.0, last=None
    )


def scaled(g: Any) -> Any:
    return g * 3


def scaled_by(factor: float, g: Any) -> Any:
    return g * factor


# With hooks on what was made.


def _lambda(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(lambda g: g * 10)
    return (y * y).sum()


def _gives_none(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(lambda g: None)
    return (y * y).sum()


def _global(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(scaled)
    return (y * y).sum()


def _method(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(w.doubler.twice)
    return (y * y).sum()


def _several(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(scaled)
    y.register_hook(lambda g: g + 1)
    z = y.exp()
    z.register_hook(lambda g: g - y.detach())
    return z.sum()


def _removed(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    handle = y.register_hook(scaled)
    y.register_hook(lambda g: g + 1)
    handle.remove()
    return (y * y).sum()


def _reads_outside(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(lambda g: g * w.factor)
    return (y * y).sum()


def _sets_an_attribute(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x

    def hook(g: Any) -> None:
        w.last = g * 2

    y.register_hook(hook)
    return (y * y).sum()


def _derives_inside(lib: Any, w: Any, x: Any) -> Any:
    start = x.detach().requires_grad_()
    inner = (start * w.other).tanh()
    y = w.weight * x
    y.register_hook(lambda g: lib.autograd.grad(inner, start, g, retain_graph=True)[0] + g)
    return (y * y).sum()


def _on_a_made_leaf(lib: Any, w: Any, x: Any) -> Any:
    leaf = (x * 2).detach().requires_grad_()
    leaf.register_hook(lambda g: g * 5)
    (leaf * leaf).sum().backward()
    return (w.weight * leaf.grad).sum()


def _branches(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(lambda g: g * 2 if g.sum() > 0 else g * 3)
    return (y * y).sum()


def _of_one_output(lib: Any, w: Any, x: Any) -> Any:
    values, places = (w.weight * x).sort()
    values.register_hook(lambda g: g * 4)
    return (values * places).sum()


HOOKS: dict[str, Step] = {
    "a lambda": _lambda,
    "one that gives none": _gives_none,
    "a function": _global,
    "a method": _method,
    "several": _several,
    "removed": _removed,
    "one that reads": _reads_outside,
    "one that sets an attribute": _sets_an_attribute,
    "one that derives": _derives_inside,
    "on a leaf of its own": _on_a_made_leaf,
    "one that branches": _branches,
    "on one of several results": _of_one_output,
}

# What is left to eager.


def _appends(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(lambda g: w.seen.append(g.tolist()))
    return (y * y).sum()


def _object(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(w.doubler)
    return (y * y).sum()


def _partial(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.register_hook(functools.partial(scaled_by, 7.0))
    return (y * y).sum()


def _on_a_parameter(lib: Any, w: Any, x: Any) -> Any:
    w.weight.register_hook(lambda g: g * 2)  # one more at each step
    return (w.weight * x).sum()


def _for_many(lib: Any, w: Any, x: Any) -> Any:
    y, z = w.weight * x, w.other * x
    lib.autograd.graph.register_multi_grad_hook((y, z), lambda gs: w.seen.append([g.tolist() for g in gs]))
    return (y * z).sum()


def _retains(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    y.retain_grad()
    (y * y).sum().backward()
    return (y.grad * w.other).sum()


def _of_a_module(lib: Any, w: Any, x: Any) -> Any:
    handle = w.net.register_full_backward_hook(lambda module, given, came: (given[0] * 2,))
    y = w.net(w.weight * x).sum()
    y.backward()
    handle.remove()
    return (w.weight * 2).sum()


def _after_accumulation(lib: Any, w: Any, x: Any) -> Any:
    handle = w.weight.register_post_accumulate_grad_hook(lambda t: w.seen.append(t.grad.tolist()))
    (w.weight * x).sum().backward()
    handle.remove()
    return (w.other * x).sum()


def _keeps_the_handle(lib: Any, w: Any, x: Any) -> Any:
    y = w.weight * x
    w.last = y.register_hook(scaled)
    return (y * y).sum()


LEFT: dict[str, Step] = {
    "appends": _appends,
    "an object": _object,
    "a partial": _partial,
    "on a parameter": _on_a_parameter,
    "for many": _for_many,
    "retains": _retains,
    "of a module": _of_a_module,
    "after accumulation": _after_accumulation,
    "keeps the handle": _keeps_the_handle,
}

# Leaves that are frozen for a while, or become such.


def _frozen(lib: Any, w: Any, x: Any) -> Any:
    w.weight.requires_grad = False
    ((w.weight * x) * w.other).sum().backward()
    w.weight.requires_grad = True
    return (w.weight * x).sum()


def _frozen_module(lib: Any, w: Any, x: Any) -> Any:
    w.net.requires_grad_(False)
    w.net(w.weight * x).sum().backward()
    w.net.requires_grad_(True)
    return w.net(x).square().sum()


def _frozen_parameters(lib: Any, w: Any, x: Any) -> Any:
    for p in w.net.parameters():
        p.requires_grad = False
    first = w.net(w.other * x).sum()
    for p in w.net.parameters():
        p.requires_grad_()
    return first + w.net(w.weight.detach() * x).square().sum()


def _awake(lib: Any, w: Any, x: Any) -> Any:
    w.frozen.requires_grad_()
    loss = (w.frozen * w.weight * x).sum()
    (g,) = lib.autograd.grad(loss, w.frozen)
    w.frozen.requires_grad_(False)
    return (g * w.other * w.frozen).sum()


def _argument(lib: Any, w: Any, x: Any) -> Any:
    x.requires_grad_()
    (g,) = lib.autograd.grad((w.weight * x * x).sum(), x)
    x.requires_grad_(False)
    return (g * w.weight).sum()


def _asks(lib: Any, w: Any, x: Any) -> Any:
    w.weight.requires_grad_(False)
    factor = 2 if w.weight.requires_grad else 3
    w.weight.requires_grad_(True)
    return (w.weight * x * factor).sum()


def _own_leaf_off_again(lib: Any, w: Any, x: Any) -> Any:
    leaf = (x * 2).detach().requires_grad_()
    (g,) = lib.autograd.grad((leaf**3).sum(), leaf)
    leaf.requires_grad_(False)
    return (g * leaf * w.weight).sum()


def _argument_stays(lib: Any, w: Any, x: Any) -> Any:
    x.requires_grad_()
    return (w.weight * x * x).sum()


TURNED: dict[str, Step] = {
    "frozen": _frozen,
    "a frozen module": _frozen_module,
    "frozen parameters": _frozen_parameters,
    "awake": _awake,
    "an argument": _argument,
    "asks": _asks,
    "its own leaf": _own_leaf_off_again,
    "an argument stays": _argument_stays,
}


def _stays_frozen(lib: Any, w: Any, x: Any) -> Any:
    w.weight.requires_grad = not w.weight.requires_grad
    return (w.weight * w.other * x).sum()


def values(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=3).astype("f4")


def state_of(lib: Any, w: SimpleNamespace, x: Any) -> list[Any]:
    """All that a step may have changed."""
    tensors = [w.weight, w.other, w.frozen, x, *w.net.parameters()]
    gradients = [None if t.grad is None else t.grad.tolist() for t in tensors]
    last = w.last.tolist() if isinstance(w.last, lib.Tensor) else type(w.last).__name__
    return [gradients, [t.requires_grad for t in tensors], w.seen, last]


def steps(lib: Any, step: Step, wrapped: Callable[..., Any], count: int = 7, change: Any = None) -> Any:
    """What some steps give and leave, and what ran them."""
    w = world(lib)

    def train(x: Any) -> Any:
        for t in (w.weight, w.other, *w.net.parameters()):
            t.grad = None
        loss = step(lib, w, x)
        loss.backward()
        return loss

    run, found = wrapped(train), []
    for i in range(count):
        if i == 4 and change is not None:
            change(w)
        x = lib.tensor(values(i))
        found.append([run(x).item(), *state_of(lib, w, x)])
    return found, run


def agree(ours: Any, theirs: Any) -> None:
    """Nested lists of numbers that are about the same."""
    if isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple)) and len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            agree(a, b)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    else:
        assert ours == theirs


def plain(step: Any) -> Any:
    return step


def check(step: Step) -> Any:
    expected, _ = steps(torch, step, plain)
    found, run = steps(fg, step, fg.jit)
    agree(found, expected)
    return run


@pytest.mark.parametrize("name", [*HOOKS, *TURNED])
def test_steps_are_replayed(name: str) -> None:
    run = check({**HOOKS, **TURNED}[name])
    assert run.stats.compiled_calls >= 5 and "(replay)" in str(run.explain()), run.explain()
    jit_checks.sealed(run)(fg.tensor(values(6)))


@pytest.mark.parametrize("name", LEFT)
def test_other_steps_are_left_to_eager(name: str) -> None:
    run = check(LEFT[name])
    with pytest.raises(jit_checks.Entered):
        jit_checks.sealed(run)(fg.tensor(values(6)))


@pytest.mark.parametrize("name", [*HOOKS, *TURNED])
def test_results_that_are_derived_outside(name: str) -> None:
    step = {**HOOKS, **TURNED}[name]
    found = []
    for wrapped in (fg.jit, plain):
        w = world(fg)
        run = wrapped(lambda x, w=w: step(fg, w, x))
        found.append([])
        for i in range(5):
            for t in (w.weight, w.other, *w.net.parameters()):
                t.grad = None
            x = fg.tensor(values(i))
            loss = run(x)
            loss.backward()
            found[-1].append([loss.item(), *state_of(fg, w, x)])
    agree(*found)


def _other_factor(w: Any) -> None:
    w.factor = 11.0


def _another_factor(w: Any) -> None:
    w.doubler.factor = 11.0


def _frozen_from_now_on(w: Any) -> None:
    w.weight.requires_grad = False


def _hook_from_now_on(w: Any) -> None:
    w.weight.register_hook(lambda g: g * 100)


CHANGES = [
    (_reads_outside, _other_factor),
    (_method, _another_factor),
    (_frozen_parameters, _frozen_from_now_on),
    (_lambda, _hook_from_now_on),
    (_frozen, _hook_from_now_on),
]


def check_change(step: Step, change: Callable[[Any], None]) -> None:
    expected, _ = steps(torch, step, plain, change=change)
    found, _ = steps(fg, step, fg.jit, change=change)
    agree(found, expected)


@pytest.mark.parametrize(("step", "change"), CHANGES)
def test_what_they_depend_on_is_guarded(step: Step, change: Callable[[Any], None]) -> None:
    check_change(step, change)


def test_hooks_that_nobody_follows_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(Callbacks, "hook", lambda self, hook: hook)
    with pytest.raises(AssertionError):
        check_change(_method, _another_factor)


def test_leaves_that_stay_frozen_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(GraphChanges, "flags", lambda self: ())
    with pytest.raises(AssertionError):
        check(_stays_frozen)
