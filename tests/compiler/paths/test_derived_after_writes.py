"""Results that can be derived though the step has written memory since: as eager derives them, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg


class World:
    """A parameter of each kind of use, and an optimizer of both."""

    def __init__(self) -> None:
        self.used = jit_checks.leaf(3, seed=1)
        self.other = jit_checks.leaf(3, seed=2)
        self.plain = fg.ones(3)
        self.optimizer = fg.optim.SGD([self.used, self.other], lr=0.1, momentum=0.9)

    def leaves(self) -> list[Any]:
        return [self.used, self.other]


LOSSES: dict[str, Callable[[World, Any], Any]] = {
    "keeps what is written": lambda w, x: (w.used * w.used * x).sum() + w.other.sum(),
    "keeps nothing of it": lambda w, x: (w.used * x).sum() + (w.other * 2).sum(),
    "keeps a part": lambda w, x: (w.used.exp() * x).sum() + (w.other * w.used).sum(),
    "keeps a buffer": lambda w, x: (w.used * w.plain * x).sum() + w.other.sum(),
    "keeps a view": lambda w, x: (w.used[:2] * w.used[1:] * x[:2]).sum() + w.other.sum(),
    "several": lambda w, x: (w.used * x).sum() + (w.used.square() * w.other).sum() + (w.other.tanh()).sum(),
}


def _by_hand(w: World, loss: Any) -> None:
    with fg.no_grad():
        w.used.mul_(0.5)


def _a_buffer(w: World, loss: Any) -> None:
    w.plain.add_(1)


def _a_step(w: World, loss: Any) -> None:
    w.optimizer.zero_grad()
    loss.backward(retain_graph=True)
    w.optimizer.step()


def _a_step_of_gradients(w: World, loss: Any) -> None:
    gradients = fg.autograd.grad(loss, w.leaves(), create_graph=True)
    with fg.no_grad():
        for parameter, gradient in zip(w.leaves(), gradients, strict=True):
            parameter.sub_(0.1 * gradient)


WRITES = {
    "by hand": _by_hand,
    "a buffer": _a_buffer,
    "a step": _a_step,
    "a step of gradients": _a_step_of_gradients,
}


def _nothing(w: World, loss: Any) -> Any:
    return loss.item()


def _backward(w: World, loss: Any) -> Any:
    w.optimizer.zero_grad()
    loss.backward()
    return [p.grad.tolist() for p in w.leaves()]


def _a_part(w: World, loss: Any) -> Any:
    return [g.tolist() for g in fg.autograd.grad(loss, [w.other])]


def _twice(w: World, loss: Any) -> Any:
    w.optimizer.zero_grad()
    loss.backward(retain_graph=True)
    loss.backward()
    return [p.grad.tolist() for p in w.leaves()]


def _again(w: World, loss: Any) -> Any:
    (first,) = fg.autograd.grad(loss, [w.used], create_graph=True)
    return [*first.tolist(), float(first.requires_grad)]


def _after_another_write(w: World, loss: Any) -> Any:
    with fg.no_grad():
        w.used.add_(1)
        w.other.add_(1)
    return _backward(w, loss)


USES = {
    "nothing": _nothing,
    "backward": _backward,
    "a part": _a_part,
    "twice": _twice,
    "again": _again,
    "after another write": _after_another_write,
}


def _outcome(use: Callable[[World, Any], Any], world: World, loss: Any) -> tuple[str, Any]:
    try:
        return "gives", use(world, loss)
    except RuntimeError as error:
        return "raises", str(error)[:60]


def _gives(order: str, loss: Callable[[World, Any], Any], write: Callable[[World, Any], None]) -> Any:
    """A step that writes, and gives what was computed before, what is since, or the sum."""

    def step(world: World, x: Any) -> Any:
        found = loss(world, x)
        write(world, found)
        if order == "before":
            return found
        since = loss(world, x * 2)
        return since if order == "since" else found + since

    return step


@pytest.mark.one_in(6)
@pytest.mark.parametrize("order", ["before", "since", "both"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_result_of_a_step_that_writes(loss: str, use: str, write: str, order: str) -> None:
    def made() -> tuple[World, Callable[[Any], Any]]:
        world, step = World(), _gives(order, LOSSES[loss], WRITES[write])
        return world, lambda x: step(world, x)

    (ours, mine), (theirs, step) = made(), made()
    jitted = fg.jit(mine)
    for call in range(6):
        x = fg.tensor(np.random.default_rng(call).normal(size=3).astype("f4"))
        found, expected = jitted(x), step(x)
        assert found.requires_grad == expected.requires_grad
        outcomes = [_outcome(USES[use], w, r) for w, r in ((ours, found), (theirs, expected))]
        # A node of a whole call refuses each part where it refuses one, and what goes through its ops again.
        refused = use in ("a part", "again") and outcomes[0][0] == "raises"
        assert outcomes[0][0] == outcomes[1][0] or refused, outcomes
        if outcomes[0][0] == "gives":
            np.testing.assert_allclose(
                np.array(outcomes[0][1]), np.array(outcomes[1][1]), rtol=1e-4, atol=1e-5
            )
        for a, b in zip(ours.leaves(), theirs.leaves(), strict=True):
            jit_checks.same(a, b)
    if order == "before":
        assert jitted.stats.compiled_calls >= 3, jitted.explain()


def _counts(w: World, x: Any) -> Any:
    w.plain.add_(1)
    return (w.used * x).tanh().sum() + w.other.sum()


def _averages(w: World, x: Any) -> Any:
    loss = (w.used.exp() * x).tanh().sum() + w.other.sum()
    with fg.no_grad():
        w.plain.mul_(0.9).add_(w.used * 0.1)
    return loss


def _normalizes(w: World, x: Any) -> Any:
    rows = fg.stack([w.used, w.other, x])
    deviation = fg.ones(3)
    normal = fg.nn.functional.batch_norm(rows, w.plain, deviation, training=True)
    return (normal.tanh() * x).sum()


def _branches(w: World, x: Any) -> Any:
    loss = (w.used * x).tanh().sum() + w.other.sum()
    if w.plain.sum() < 1e9:
        loss = loss * 2
    w.plain.mul_(1e10)  # whereupon it would go the other way
    return loss


def _reads(w: World, x: Any) -> Any:
    loss = (w.used.exp() + w.plain).tanh().sum() + w.other.sum()
    w.plain.add_(1)
    return loss


# Steps that write for themselves, and whether what they keep for backward depends on what they write.
OWN_WRITES = {
    "counts": (_counts, False),
    "averages": (_averages, False),
    "normalizes": (_normalizes, False),
    "branches": (_branches, False),
    "reads": (_reads, True),
}


@pytest.mark.parametrize("kind", OWN_WRITES)
def test_a_step_that_writes_what_its_backward_does_not_need_runs_its_forward_once(kind: str) -> None:
    step, reads = OWN_WRITES[kind]
    ours, theirs = World(), World()
    jitted = fg.jit(lambda x: step(ours, x))
    for call in range(12):
        x = fg.tensor(np.random.default_rng(call).normal(size=3).astype("f4"))
        for world in (ours, theirs):
            world.plain.fill_(1)
        found, expected = jitted(x), step(theirs, x)
        if call > 6:
            # Gradients have come along; what other backwards read is computed for those who ask.
            assert found.grad_fn.filled is reads
        for seed in (None, fg.tensor(2.0)) if call > 8 else (None,):
            for world, loss in ((ours, found), (theirs, expected)):
                world.optimizer.zero_grad()
                loss.backward(seed, retain_graph=seed is None)
            for a, b in zip(ours.leaves(), theirs.leaves(), strict=True):
                jit_checks.same(a.grad, b.grad)
        jit_checks.same(ours.plain, theirs.plain)
    assert jitted.stats.compiled_calls >= 7, jitted.explain()
