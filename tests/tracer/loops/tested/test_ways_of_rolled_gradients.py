"""Which tensors a rolled loop puts on the graph, and which of these have a gradient: those of eager, no more.

A parameter whose `.grad` is zeros, and not None, is one that an optimizer moves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.ir import passes, rolled
from fusegrad.tracer.loops import rolling

ROUNDS = 40


@pytest.fixture(autouse=True)
def short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds are enough, and few ops to have them compiled."""
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    monkeypatch.setattr(rolled, "MANY", 100)
    monkeypatch.setattr(passes, "CHECK", True)


def apart(x: Any, w: Any, u: Any) -> Any:
    h, q = fg.zeros(3, 4), u * 1
    for t in range(ROUNDS):
        h, q = fg.tanh(x[t] @ w + h), q * 0.9
    return h, q


def summed(x: Any, w: Any, u: Any) -> Any:
    h = total = fg.zeros(3, 4)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        total = total + h @ u
    return h, total


def in_rows(x: Any, w: Any, u: Any) -> Any:
    h, states, given = fg.zeros(3, 4), [], []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] + h * 0.5)
        states.append(h * 2)
        given.append(h @ u)
    return fg.stack(states), fg.stack(given), w * 1


def off_the_graph(x: Any, w: Any, u: Any) -> Any:
    h = total = fg.zeros(3, 4)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h.detach() @ u)
        total = total + h @ u.detach()
    return h, total, h.detach()


def by_whole_numbers(x: Any, w: Any, u: Any) -> Any:
    h = fg.zeros(3, 4)
    for t in range(ROUNDS):
        h = fg.tanh((x[t] * 9).long() @ w.long() + h @ u)
    return h, x * 1


def in_turns(x: Any, w: Any, u: Any) -> Any:
    a, b = w * 1, u * 1
    for _ in range(ROUNDS + 1):
        a, b = b, a * 0.9
    return a, b


def later(x: Any, w: Any, u: Any) -> Any:
    a, b, c, rows = w * 1, w * 2, u * 1, []
    for t in range(ROUNDS):
        rows.append(a * 2)
        a, b, c = b * 0.9 + x[t, :1], c * 0.9, c * 0.5
    return a, b, c, fg.stack(rows)


def seen(function: Callable[..., Any], needed: tuple[bool, ...]) -> list[Any]:
    """Which results are on the graph, and the gradients that each of them leads to."""
    draw = np.random.default_rng(0)
    shapes = (ROUNDS, 3, 4), (4, 4), (4, 4)
    leaves = [fg.from_numpy(draw.uniform(0.1, 0.5, s).astype("f4")) for s in shapes]
    for leaf, needs in zip(leaves, needed, strict=True):
        leaf.requires_grad_(needs)
    results = function(*leaves)
    found: list[Any] = [r.requires_grad for r in results]
    for result in results:
        if result.requires_grad:
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            gradients = fg.autograd.grad(result.sum(), wanted, retain_graph=True, allow_unused=True)
            found += [None if g is None else g.numpy() for g in gradients]
    return found


LOOPS = [apart, summed, in_rows, off_the_graph, by_whole_numbers, in_turns, later]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("needed", [n for n in itertools.product([False, True], repeat=3) if any(n)], ids=str)
@pytest.mark.parametrize("loop", LOOPS)
def test_what_has_gradients_is_what_has_them_in_eager(loop: Any, needed: tuple[bool, ...]) -> None:
    expected, jitted = seen(loop, needed), fg.jit(loop)
    for _ in range(3):
        for ours, theirs in zip(seen(jitted, needed), expected, strict=True):
            if isinstance(theirs, np.ndarray):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
            else:
                assert ours is theirs


def test_an_optimizer_leaves_alone_what_has_no_gradient() -> None:
    w, u = fg.full((4, 4), 0.1, requires_grad=True), fg.full((4, 4), 0.1, requires_grad=True)
    optimizer = fg.optim.AdamW([w, u], lr=0.1, weight_decay=0.5)
    first = fg.jit(lambda x: apart(x, w, u)[0].sum())
    for _ in range(4):
        optimizer.zero_grad()
        first(fg.full((ROUNDS, 3, 4), 0.1)).backward()
        optimizer.step()
    assert u.grad is None and fg.equal(u, fg.full((4, 4), 0.1))
    assert not fg.equal(w, fg.full((4, 4), 0.1))


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_ways(body: rolled.Body, carried: int, rounds: int) -> Any:
        return [range(len(body.graph.inputs))] * len(body.graph.outputs)

    monkeypatch.setattr(rolled.Body, "leads", all_ways)
    with pytest.raises((AssertionError, ValueError)):
        test_what_has_gradients_is_what_has_them_in_eager(apart, (True, True, True))
