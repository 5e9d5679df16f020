"""Shortcuts of functions with effects: branches on data, writes, gradients, draws and optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.entries import SHORTCUT_AFTER
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.segments import MISSED


def answers(jitted: Any, *args: Any) -> bool:
    """Whether the shortcut answers the call, which is done then."""
    return jitted._answer is not None and jitted._answer(args) is not MISSED


def warm(jitted: Any, *args: Any, calls: int = 8) -> Any:
    for _ in range(calls):
        jitted(*args)
    assert jitted._answer is not None, jitted.explain()
    return jitted


# Branches on data.


def branching(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x - 1


def test_a_branch_that_comes_often_has_a_shortcut():
    x = fg.ones(3)
    g = warm(fg.jit(branching), -x)
    assert answers(g, -x) and not answers(g, x)
    for value in (x, -x, x, -x):
        assert g(value).tolist() == branching(value).tolist()


def test_branches_in_turn_run_nothing_in_vain():
    g = fg.jit(branching)
    for call in range(20):
        x = fg.full((3,), (-1.0) ** call)
        assert g(x).tolist() == branching(x).tolist()
        assert call < 2 or g._answer is None
    for _ in range(SHORTCUT_AFTER + 1):
        g(fg.ones(3))
    assert answers(g, fg.ones(3))


def test_what_one_branch_alone_has_read_is_looked_at():
    read = {"up": 2.0, "down": 3.0}

    def f(x: Any) -> Any:
        return x * read["up"] if x.sum() > 0 else x * read["down"]

    x = fg.ones(3)
    g = fg.jit(f)
    g(-x)
    warm(g, x)
    assert answers(g, x)
    read["down"] = 5.0
    assert answers(g, x)
    read["up"] = 7.0
    assert not answers(g, x)
    assert g(x).tolist() == [7.0] * 3 and g(-x).tolist() == [-5.0] * 3


@pytest.mark.parametrize("dims", [(0,), (0, 1)])
def test_what_was_computed_before_a_branch_is_used_after_it(dims: tuple[int, ...]):
    def f(x: Any, w: Any) -> Any:
        y = fg.tanh(x @ w)
        z = y * y
        return (z * x).sum(dims) if z.sum() > -1 else y

    def derived(function: Any, x: Any) -> Any:
        w.grad = None
        loss = function(x, w)
        loss.sum().backward()
        return [loss.tolist(), w.grad.tolist()]

    x, w = fg.randn(4, 4), fg.randn(4, 4, requires_grad=True)
    g = fg.jit(f)
    for _ in range(10):  # one number is computed with its gradients, once it was derived often
        derived(g, x)
    assert answers(g, x, w), g.explain()
    for scale in (1.0, 2.0):
        close(derived(g, x * scale), derived(f, x * scale))


# Writes.


def test_writes_are_done_and_counted():
    state = fg.zeros(3)

    def f(x: Any) -> Any:
        state.add_(x)
        return state * 2

    x = fg.ones(3)
    g = warm(fg.jit(f), x, calls=8)
    before = state._version
    assert answers(g, x)
    assert state.tolist() == [9.0] * 3 and state._version == before + 1
    # What a node kept is not what it was any more.
    kept = (fg.ones(3, requires_grad=True) * state).sum()
    assert answers(g, x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def test_memory_that_must_not_be_written_is_left_to_eager():
    def f(x: Any, y: Any) -> Any:
        x.mul_(2)
        y.add_(1)
        return x.sum()

    def pair() -> tuple[Any, Any]:
        return fg.ones(4), fg.ones(4)

    g = warm(fg.jit(f), *pair())
    assert answers(g, *pair())
    whole = fg.ones(6)
    assert not answers(g, whole[:4], whole[2:])
    assert whole.tolist() == [1.0] * 6
    assert answers(g, whole[:4], fg.ones(4)) and whole.tolist() == [2.0] * 4 + [1.0] * 2
    fixed = fg.ones(4)
    fixed.array.flags.writeable = False
    assert not answers(g, fixed, fg.ones(4))
    # One that is only read may be fixed.
    reads = fg.jit(lambda x, y: x.mul_(y).sum())
    warm(reads, *pair())
    assert answers(reads, fg.ones(4), fixed) and not answers(reads, fixed, fg.ones(4))


def test_written_memory_that_moves_is_written_where_it_is():
    weight, other = fg.zeros(4), fg.ones(4)

    def f(x: Any) -> Any:
        weight.add_(x * other)
        return weight.sum()

    x = fg.ones(4)
    g = warm(fg.jit(f), x)
    for _ in range(2):
        memory = np.zeros(8, np.float32)
        weight.data = fg.from_numpy(memory[:4])
        assert answers(g, x) and memory.tolist() == [1.0] * 4 + [0.0] * 4
        other.data = fg.from_numpy(memory[2:6])
        assert not answers(g, x) and memory.tolist() == [1.0] * 4 + [0.0] * 4
        other.data = fg.from_numpy(memory[4:])
        assert answers(g, x) and memory.tolist() == [1.0] * 4 + [0.0] * 4
        other.data = fg.ones(4)


def test_apart_knows_places_bounds_and_flags():
    memory = np.zeros(64, np.float32)

    def part(start: int, step: int = 1) -> Any:
        return fg.from_numpy(memory[start : start + 8 : step])

    staying, other = part(0), part(8)
    apart = Apart([staying], [other], {id(staying)})
    assert apart.holds(staying, other)
    for start in (0, 1, 7):
        assert not apart.holds(staying, part(start))
    assert apart.holds(staying, part(30))
    moved = part(20)
    assert not apart.holds(moved, other)
    apart.seen([moved])
    assert apart.holds(moved, other) and not apart.holds(staying, other)
    assert not apart.holds(moved, part(19)) and apart.holds(moved, part(28))
    memory.flags.writeable = False
    assert not apart.holds(fg.from_numpy(memory)[20:28], other)
    # Two that may move, one of them backwards and with gaps.
    memory = np.zeros(64, np.float32)
    first, second = fg.from_numpy(memory[0:16:2]), fg.from_numpy(memory[32:48:2])
    both = Apart([], [first, second], set())
    assert both.holds(first, second) and both.holds(second, first)
    assert not both.holds(first, fg.from_numpy(memory[1:17:2]))
    assert not both.holds(first, fg.from_numpy(memory[14:30:2]))
    assert both.holds(first, fg.from_numpy(memory[15:31:2]))
    # Two that are only read, and are given as arrays.
    one, other = memory[0:8], memory[4:12]
    written = fg.from_numpy(memory[20:28])
    reading = Apart([], [written], {id(written)}, [one, other])
    assert reading.holds(one, other, written) and reading.holds(other, other, written)
    assert not reading.holds(one, memory[13:21], written)


def test_match_looks_for_arrays_that_nobody_else_has():
    x, y = fg.ones(3), fg.ones(3)
    match = Match([x, y], own=True)
    assert match.matches(x, y) and not match.matches(x, x)
    assert not match.matches(x, x.detach()) and not match.matches(x, fg.ones(4)[1:])
    y.array.flags.writeable = False
    assert not match.matches(x, y) and Match([x, y]).matches(x, y)


def test_match_takes_one_tensor_twice_where_that_may_be():
    x, y = fg.ones(3), fg.ones(3)
    assert Match([x, y], alike=True).matches(x, x) and not Match([x, y]).matches(x, x)
    assert not Match([x, y], alike=True).matches(x, fg.ones(4))


# Training.


class Training:
    """A step of a network with dropout, from the same numbers each time."""

    def __init__(self, optimizer: Callable[..., Any], accumulate: bool = False) -> None:
        fg.manual_seed(0)
        self.model = fg.nn.Sequential(fg.nn.Linear(4, 8), fg.nn.Dropout(0.3), fg.nn.Linear(8, 3))
        self.rule = optimizer(self.model.parameters(), lr=0.05)
        self.accumulate = accumulate

    def step(self, x: Any, labels: Any) -> Any:
        if not self.accumulate:
            self.rule.zero_grad()
        loss = fg.nn.functional.cross_entropy(self.model(x), labels)
        loss.backward()
        self.rule.step()
        return loss

    def world(self) -> list[Any]:
        kept = [t.tolist() for s in self.rule.state.values() for t in s.values() if isinstance(t, fg.Tensor)]
        grads = [None if p.grad is None else p.grad.tolist() for p in self.model.parameters()]
        return [[p.tolist() for p in self.model.parameters()], grads, kept, fg.get_rng_state().tolist()]


def close(a: Any, b: Any) -> None:
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            close(x, y)
    else:
        assert a == pytest.approx(b, rel=1e-4, abs=3e-5)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("rule", ["Adam", "AdamW", "SGD", "RMSprop"])
def test_a_training_step_has_a_shortcut(rule: str, accumulate: bool, monkeypatch: pytest.MonkeyPatch):
    replayed, run = [], replay.run
    monkeypatch.setattr(replay, "run", lambda *args: [replayed.append(args), run(*args)][1])

    def data(call: int) -> tuple[Any, Any]:
        random = np.random.default_rng(call)
        return fg.tensor(random.normal(size=(5, 4)).astype("f4")), fg.tensor(random.integers(0, 3, 5))

    def change(call: int, training: Training) -> None:
        """What a user does between steps."""
        if call == 9:
            training.rule.param_groups[0]["lr"] = 0.01
        if call == 11:
            parameter = training.model[0].weight
            parameter.data = parameter.data.clone()
        if call == 12:
            for parameter in training.model.parameters():
                parameter.grad = None
        if call == 14:
            training.model.eval()
        if call == 15:
            training.model.train()

    optimizer = getattr(fg.optim, rule)
    ours, theirs = Training(optimizer, accumulate), Training(optimizer, accumulate)
    jitted = fg.jit(ours.step)
    states = [fg.get_rng_state()] * 2
    for call in range(18):
        losses = []
        for which, training in enumerate((ours, theirs)):
            fg.set_rng_state(states[which])
            change(call, training)
            losses.append((jitted if training is ours else training.step)(*data(call)))
            states[which] = fg.get_rng_state()
            if which:
                fg.set_rng_state(states[1])
                seen = training.world()
                fg.set_rng_state(states[0])
                close(ours.world(), seen)
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-4)
        assert str(losses[0].grad_fn) == str(losses[1].grad_fn)
        assert losses[0].requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            losses[0].backward()
    assert jitted.stats.compiled_calls - len(replayed) >= 2, jitted.explain()


def test_nothing_is_drawn_where_a_call_is_missed():
    def f(x: Any) -> Any:
        return x + fg.rand(3) if x.sum() > 0 else x * fg.rand(3)

    g = warm(fg.jit(f), fg.ones(3))
    for x in (fg.ones(3), -fg.ones(3), fg.ones(3), -fg.ones(3)):
        found = []
        for function in (g, f):
            fg.manual_seed(5)
            found.append([function(x).tolist(), fg.get_rng_state().tolist()])
        assert found[0] == found[1]
    # A draw that a branch looks at has none.
    drawn = fg.jit(lambda x: x * 2 if fg.rand(()) >= 0 else x)
    for _ in range(8):
        drawn(fg.ones(3))
    assert drawn.stats.compiled_calls == 7 and drawn._answer is None


def test_gradients_that_were_added_elsewhere_are_read_where_they_are():
    w = fg.ones(3, requires_grad=True)

    def f(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    w.grad = fg.zeros(3)
    g = warm(fg.jit(f), fg.ones(3))
    assert w.grad.tolist() == [8.0] * 3
    w.grad = fg.full((3,), 5.0)
    held = w.grad
    assert answers(g, fg.ones(3)) and held.tolist() == [6.0] * 3 and w.grad is held
    for other in (None, fg.ones(3, requires_grad=True) * 2, fg.ones(3, 2)[:, 0]):
        w.grad = other
        assert not answers(g, fg.ones(3))
    w.grad = None
    g(fg.ones(3))
    assert w.grad.tolist() == [1.0] * 3


def test_a_gone_owner_of_a_gradient_is_left_to_the_long_way():
    class Holder:
        w: Any = None

    holder = Holder()
    holder.w = fg.ones(3, requires_grad=True)

    def f(x: Any) -> Any:
        holder.w.grad = None
        (holder.w * x).sum().backward()

    g = warm(fg.jit(f), fg.ones(3))
    assert holder.w.grad.tolist() == [1.0] * 3
    holder.w = fg.full((3,), 2.0, requires_grad=True)
    assert not answers(g, fg.ones(3))
    g(fg.ones(3) * 4)
    assert holder.w.grad.tolist() == [4.0] * 3
