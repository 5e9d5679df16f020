"""Attributes that a step sets on objects from outside are left by replays as eager leaves them."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn


class Plain:
    """An ordinary object."""


class Slotted(Plain):
    __slots__ = ("slot",)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("count", fg.zeros(1))
        seed = np.random.default_rng(0).normal(size=(2, 3)).astype("f4")
        self.layer.weight.data.copy_(fg.tensor(seed))
        self.last: Any = None
        self.phase = "begin"


def world() -> SimpleNamespace:
    """New objects, each with an attribute `last`."""
    fg.manual_seed(0)
    objects = SimpleNamespace(plain=Plain(), slotted=Slotted(), net=Net(), held=SimpleNamespace(last=None))
    objects.plain.calls = objects.net.calls = 0
    objects.plain.last = objects.slotted.last = None
    objects.net.add_module("inner", nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2)))
    return objects


def _loss(w: SimpleNamespace, x: Any) -> Any:
    return w.net.layer(x).square().mean()


def _reads_what_it_set(w: SimpleNamespace, x: Any) -> Any:
    w.plain.last = x * 2
    w.plain.other = w.plain.last + 1
    return w.plain.other.sum() + w.plain.last.sum()


def _sets_twice(w: SimpleNamespace, x: Any) -> Any:
    w.net.last = x.sum()
    first = w.net.last
    w.net.last = first * 2
    return w.net.last - first


def _eval_and_back(w: SimpleNamespace, x: Any) -> Any:
    w.net.eval()
    found = w.net.inner(w.net.layer(x)).sum()
    w.net.train()
    return found


def _branches(w: SimpleNamespace, x: Any) -> Any:
    w.plain.last = "large" if x.sum() > 3 else "small"
    return x.sum()


def _same_object_twice(w: SimpleNamespace, x: Any) -> Any:
    w.plain.last = w.held.last = x.sum()
    return w.plain.last


def _backward(w: SimpleNamespace, x: Any) -> Any:
    w.net.zero_grad()
    w.net.last = _loss(w, x)
    w.net.last.backward()
    return w.net.last.detach() * 2


def _counts(w: SimpleNamespace, x: Any) -> Any:
    w.plain.calls += 1
    w.net.calls -= 2
    for _ in range(3):
        w.plain.calls += 1
    return x * 2


def _sets_and_counts(w: SimpleNamespace, x: Any) -> Any:
    w.plain.calls = 0
    w.plain.calls += 2
    w.net.calls += 1
    w.net.calls = 5
    return x * w.plain.calls


def _counts_within(w: SimpleNamespace, x: Any) -> Any:
    def inner() -> int:
        w.plain.calls += 1
        return 1

    w.plain.calls += inner()
    return x * 2


def _sets_within(w: SimpleNamespace, x: Any) -> Any:
    def inner() -> int:
        w.plain.calls = 5
        return 1

    w.plain.calls += inner()
    return x * 2


def _counts_in_vain(w: SimpleNamespace, x: Any) -> Any:
    try:
        w.plain.calls += {}["absent"]  # type: ignore[typeddict-item]
    except KeyError:
        w.net.calls += 1
    return x * 2


# Those that replays answer again and again, and those whose runs look at a number that is another each time.
COUNTING = {"counts": _counts, "sets and counts": _sets_and_counts, "counts in vain": _counts_in_vain}
LOOKING: dict[str, Callable[[SimpleNamespace, Any], Any]] = {
    "counts within": _counts_within,
    "sets within": _sets_within,
    "looks afterwards": lambda w, x: (_counts(w, x), x * w.plain.calls)[1],
    "looks before": lambda w, x: (x * w.plain.calls, _counts(w, x))[0],
    "becomes a float": lambda w, x: (add_to(w.plain, 0.5), x)[1],
    "becomes a tensor": lambda w, x: (add_to(w.plain, x.sum()), x * 2)[1],
}


def add_to(owner: Any, by: Any) -> None:
    owner.calls += by


STEPS: dict[str, Callable[[SimpleNamespace, Any], Any]] = {
    "number": lambda w, x: (setattr(w.plain, "last", 7), x.sum())[1],
    "nothing": lambda w, x: (setattr(w.held, "last", None), x.sum())[1],
    "tensor": lambda w, x: (setattr(w.plain, "last", x * 2), x.sum())[1],
    "tensor on the graph": lambda w, x: (setattr(w.net, "last", _loss(w, x)), x.sum())[1],
    "argument": lambda w, x: (setattr(w.net, "last", x), x.sum())[1],
    "parameter's value": lambda w, x: (setattr(w.plain, "last", w.net.layer.bias), x.sum())[1],
    "tuple": lambda w, x: (setattr(w.net, "last", (x + 1, None, 2)), x.sum())[1],
    "nested": lambda w, x: (setattr(w.plain, "last", {"a": [x + 1, (x.sum(), 2.5)]}), x.sum())[1],
    "result": lambda w, x: (setattr(w.plain, "last", x.sum()), w.plain.last)[1],
    "new": lambda w, x: (setattr(w.net, "quite_new", x.sum()), x.mean())[1],
    "reads what it set": _reads_what_it_set,
    "sets twice": _sets_twice,
    "same object twice": _same_object_twice,
    "mode": lambda w, x: (w.net.train(), w.net.layer(x).sum())[1],
    "eval and back": _eval_and_back,
    "branches": _branches,
    "backward": _backward,
    "buffer in place": lambda w, x: (setattr(w.net, "count", w.net.count.add_(1)), x.sum())[1],
}


def seen(value: Any) -> Any:
    """What tells two values apart: numbers, and places on a graph."""
    if isinstance(value, fg.Tensor):
        numbers = np.round(value.detach().numpy().astype("f8"), 4).tolist()
        return "tensor", numbers, value.requires_grad, value.grad_fn is None
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [seen(v) for v in value]
    return {k: seen(v) for k, v in value.items()} if isinstance(value, dict) else repr(value)


def state(w: SimpleNamespace) -> Any:
    found = {}
    for name, owner in vars(w).items():
        kept = {k: v for k, v in vars(owner).items() if not k.startswith("_")}
        found[name] = seen(kept)
    modes = [(n, m.training) for n, m in w.net.named_modules()]
    return found, modes, [seen(b) for b in w.net.buffers()]


STEPS |= COUNTING


@pytest.mark.parametrize("name", STEPS)
def test_replays_leave_what_eager_leaves(name: str) -> None:
    step, ours, theirs = STEPS[name], world(), world()
    jitted = fg.jit(lambda x: step(ours, x))
    for i in range(9):
        if i == 6:
            jit_checks.sealed(jitted)  # from here on nothing but replays
        x = fg.tensor([[1.0 + i % 3, 2.0, -1.0], [0.5, 0.25, 1.0]])
        assert seen(jitted(x)) == seen(step(theirs, x)), i
        assert state(ours) == state(theirs), i


@pytest.mark.parametrize("name", LOOKING)
def test_counts_that_somebody_looks_at_are_those_that_they_are(name: str) -> None:
    step, ours, theirs = LOOKING[name], world(), world()
    jitted = fg.jit(lambda x: step(ours, x))
    for i in range(6):
        assert seen(jitted(fg.ones(2))) == seen(step(theirs, fg.ones(2))), i
        assert state(ours) == state(theirs), i
        if i % 3 == 2:
            ours.plain.calls = theirs.plain.calls = 0


@pytest.mark.parametrize("value", [True, 2.5, "text", None])
def test_a_count_that_is_none_any_more_is_pythons(value: Any) -> None:
    owner: Any = Plain()
    owner.calls = 0

    @fg.jit
    def step(x: Any) -> Any:
        owner.calls += 1
        return x * 2

    for _ in range(4):
        step(fg.ones(2))
    assert owner.calls == 4 and step.stats.compiled_calls == 3
    owner.calls = value
    if isinstance(value, (bool, float)):
        step(fg.ones(2))
        assert owner.calls == value + 1
    else:
        with pytest.raises(TypeError):
            step(fg.ones(2))


@pytest.mark.parametrize("name", {**STEPS, **LOOKING})
def test_the_deterministic_mode_leaves_what_eager_leaves(name: str) -> None:
    step, ours, theirs = {**STEPS, **LOOKING}[name], world(), world()
    jitted = fg.jit(lambda x: step(ours, x))
    fg.use_deterministic_algorithms(True)
    try:
        for i in range(4):
            x = fg.tensor([[1.0 + i % 3, 2.0, -1.0], [0.5, 0.25, 1.0]])
            assert seen(jitted(x)) == seen(step(theirs, x)), i
            assert state(ours) == state(theirs), i
    finally:
        fg.use_deterministic_algorithms(False)


def test_what_was_read_before_it_was_set_is_guarded() -> None:
    ours = world()

    @fg.jit
    def step(x: Any) -> Any:
        scale = 1.0 if ours.plain.last is None else 2.0
        ours.plain.last = 3
        return x * scale

    assert [step(fg.ones(1)).item() for _ in range(4)] == [1.0, 2.0, 2.0, 2.0]
    ours.plain.last = None
    assert step(fg.ones(1)).item() == 1.0 and ours.plain.last == 3


def test_what_somebody_sets_in_between_is_overwritten() -> None:
    ours = world()
    jitted = fg.jit(lambda x: STEPS["tensor"](ours, x))
    for i in range(5):
        ours.plain.last = f"from outside {i}"
        jitted(fg.ones(2))
        assert ours.plain.last.tolist() == [2.0, 2.0]
    assert jitted.stats.compiled_calls == 4


class Computed:
    """Setting an attribute runs code."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name != "calls":
            self.calls.append(name)


class Described:
    calls = 0

    @property
    def last(self) -> Any:
        return self.calls

    @last.setter
    def last(self, value: Any) -> None:
        self.calls += 1


@pytest.mark.parametrize("kind", [Computed, Described])
def test_setting_that_runs_code_runs_it_each_time(kind: type) -> None:
    owner = kind()

    @fg.jit
    def step(x: Any) -> Any:
        owner.last = 1
        return x * 2

    for _ in range(5):
        step(fg.ones(2))
    assert owner.calls == (["last"] * 5 if kind is Computed else 5)


def test_a_class_that_gets_a_descriptor_later_is_noticed() -> None:
    kind = type("Later", (), {})
    owner = kind()

    @fg.jit
    def step(x: Any) -> Any:
        owner.last = 1
        return x * 2

    for _ in range(3):
        step(fg.ones(2))
    assert step.stats.compiled_calls == 2
    calls = []
    kind.last = property(lambda self: 0, lambda self, value: calls.append(value))
    step(fg.ones(2))
    assert calls == [1]


# Set to what is there already, in the run that is recorded.

SETS: dict[str, Callable[[Any, int], Any]] = {
    "a constant": lambda owner, i: 1, "a float": lambda owner, i: 1.0,
    "of an argument": lambda owner, i: i % 2,
    "computed": lambda owner, i: int(math.exp(-abs(i % 3))), "the least": lambda owner, i: min(owner.k, 1),
    "itself": lambda owner, i: owner.k, "a truth": lambda owner, i: True,
}  # fmt: skip


@pytest.mark.parametrize("owner", [SimpleNamespace, nn.Module])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_attributes_that_hold_by_chance_what_they_are_set_to(name: str, reads: bool, owner: Any) -> None:
    def made() -> tuple[Callable[[Any, int], Any], Any]:
        world = owner()
        world.k = 2

        def step(x: fg.Tensor, i: int) -> Any:
            y = x * world.k if reads else x + 1
            world.k = SETS[name](world, i)
            return y.sum()

        return step, world

    (eager, theirs), (step, ours) = made(), made()
    jitted = fg.jit(step)
    for i, before in enumerate([2, 3, 4, 1, 1, 1, 5, 0, 1, 7, 1, 2, 0, 3]):
        theirs.k = ours.k = before
        x = fg.full((2,), 0.5)
        assert jitted(x, i).item() == eager(x, i).item()
        assert (type(ours.k), ours.k) == (type(theirs.k), theirs.k), (i, before)
