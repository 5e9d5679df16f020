"""Lists that rounds append to and that are returned, read, or joined in part: items are rows of the loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, Loop, check, check_rolled, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.observe.loops import Missing


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def some_of_them(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
    return outs[-1].sum() + (outs[0] * outs[30] * outs[-7]).sum() + outs[30].prod()


def every_tenth(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
    return (
        (fg.stack(outs[::10], -1) ** 2).sum() + (fg.stack(outs[1:]) * x[1:]).sum() + fg.cat(outs[5:40]).prod()
    )


def all_summed(x: Any, w: Any, h: Any) -> Any:
    losses = []
    for row in x:
        h = fg.tanh(row @ w + h)
        losses.append((h * h).mean())
    return sum(losses) / len(losses)


def gone_over(x: Any, w: Any, h: Any) -> Any:
    outs = [h]
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
    products = [a @ b for a, b in itertools.pairwise(outs)]
    return fg.stack([fg.sin(p) for p in products]).sum() + fg.stack([o[0] for o in outs]).prod()


def given_to_another(x: Any, w: Any, h: Any) -> Any:
    outs, twice = [], []
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
        twice.append(h * 2)
        outs.append(fg.sin(h))
    return _sum_of_products(outs, twice)


def _sum_of_products(first: Any, second: Any) -> Any:
    return sum((a * b).sum() for a, b in zip(first[::2], second)) + first[7].sum()  # noqa: B905


def handed_on_by_the_list(x: Any, w: Any, h: Any) -> Any:
    outs = [h]
    for row in x:
        outs.append(fg.tanh(row @ w + outs[-1]))
    return (fg.stack(outs[1:]) * x).sum()


def of_the_last_two(x: Any, w: Any, h: Any) -> Any:
    outs = [h, h @ w]
    for row in x:
        outs.append(fg.tanh(row @ w + outs[-1] - 0.5 * outs[-2]))
    return (fg.stack(outs)[2:] * x).sum() + outs[-2].sum()


def held_and_written(x: Any, w: Any, h: Any) -> Any:
    outs, before = [], h
    for row in x:
        before = h
        h = fg.tanh(row @ w + h) * 1
        outs.append(h)
    with fg.no_grad():
        before.mul_(3)
        outs[20].mul_(2)
    return (fg.stack(outs) * x).sum()


def two_loops(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
    for row in x:
        h = fg.sin(row + h)
        outs.append(h)
    return sum((o * o).sum() for o in outs) + outs[70].sum()


def up_to_some_round(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 30:
            outs.append(h)
    return fg.stack(outs).sum() + (fg.stack(outs) ** 2).sum() * len(outs) + h.sum()


ROLLED = [
    some_of_them, every_tenth, all_summed, gone_over, given_to_another, handed_on_by_the_list,
    of_the_last_two, held_and_written, two_loops, up_to_some_round,
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_loops_whose_lists_are_seen_are_rolled(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran, 8 if function not in (two_loops, up_to_some_round) else 16)


@pytest.mark.parametrize("rounds", [40, 41, 140])
def test_lists_are_returned(rounds: int, ran: list[int]) -> None:
    def loop(x: Any, w: Any, h: Any) -> Any:
        outs, squares = [], [h]
        for row in x:
            h = fg.tanh(row @ w + h)
            outs.append(h)
            squares.append(h * h)
        return outs, {"last": outs[-1], "squares": squares}

    args = given(rounds)
    jitted = fg.jit(loop)
    for _ in range(3):
        for leaf in args:
            leaf.grad = None
            leaf.requires_grad_()
        results = []
        for function in (loop, jitted):
            ran.clear()
            outs, others = function(*args)
            assert others["last"] is outs[-1] and len(outs) == rounds and len(others["squares"]) == rounds + 1
            loss = sum((o * k).sum() for k, o in enumerate(outs)) + fg.stack(others["squares"]).prod(0).sum()
            results.append([*outs, *others["squares"], *fg.autograd.grad(loss, args)])
            assert len(ran) <= 8
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-11)
            assert (ours.requires_grad, ours.stride(), ours._base) == (
                theirs.requires_grad, theirs.stride(), None,
            )  # fmt: skip
        # Each has memory of its own.
        with fg.no_grad():
            outs[20].zero_()
        np.testing.assert_allclose(outs[21].detach().numpy(), results[0][21].detach().numpy())
    assert jitted.stats.compiled_calls == 3, jitted.stats


# What must not be left out.


def written_after(x: Any, w: Any, h: Any) -> Any:
    outs = []
    h = h.detach()
    for row in x.detach():
        h = fg.sin(row + h)
        outs.append(h)
        h.mul_(0.5)
    return fg.stack(outs).sum() + (x @ w).sum()


def the_same_in_each(x: Any, w: Any, h: Any) -> Any:
    outs, kept = [], h * 2
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(kept)
    with fg.no_grad():
        outs[3].mul_(2)
    return outs[30].sum() + h.sum()


def views_of_one(x: Any, w: Any, h: Any) -> Any:
    first, second = [], []
    for row in x:
        h = fg.tanh(row @ w + h) * 1
        first.append(h)
        second.append(h[1:])
    with fg.no_grad():
        first[30].mul_(2)
    return fg.stack(second).sum() + first[31].sum()


def in_two_lists(x: Any, w: Any, h: Any) -> Any:
    first, second = [], []
    for row in x:
        h = fg.tanh(row @ w + h)
        first.append(h)
        second.append(h)
    assert all(a is b for a, b in zip(first, second))  # noqa: B905
    return sum(a.sum() for a in first)


def known_before(x: Any, w: Any, h: Any) -> Any:
    outs = []
    same = outs
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h)
    return sum(o.sum() for o in same)


def known_within(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for row in x:
        h = fg.tanh(row @ w + h * len(outs) * 0.1)
        outs.append(h)
    return sum(o.sum() for o in outs)


def rows_in_another_order(x: Any, w: Any, h: Any) -> Any:
    outs, w = [], w.detach()
    for row in x:
        h = fg.tanh(row @ w + h)
        outs.append(h[:, None] * w.T)
    assert {o.stride() for o in outs} == {outs[0].stride()}
    return sum(o[0].sum() for o in outs)


RUN = [written_after, the_same_in_each, views_of_one, in_two_lists, known_before, known_within]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", [*RUN, rows_in_another_order], ids=lambda f: f.__name__)
def test_loops_whose_lists_may_show_more_run(function: Loop) -> None:
    jitted = check(function, 2)
    if function in RUN:
        assert "rounds of a loop" not in str(jitted.explain()), jitted.explain()


def shows(errors: Any, x: Any, h: Any, use: Any) -> Any:
    outs = []
    for row in x:
        h = fg.tanh(row + h)
        outs.append(h)
    try:
        return [use(outs)] if errors is None else fg.stack(outs, errors)
    except (IndexError, RuntimeError) as error:
        return str(error)


def stacked(h: Any, rounds: int) -> Any:
    outs = []
    for _ in range(rounds):
        h = fg.tanh(h * 1.1)
        outs.append(h)
    return fg.stack(outs).sum()


def joined(h: Any, rounds: int) -> Any:
    outs = []
    for _ in range(rounds):
        h = fg.tanh(h * 1.1)
        outs.append(h)
    return fg.cat(outs).sum()


@pytest.mark.parametrize("loop", [stacked, joined])
def test_what_is_only_joined_is_never_taken_apart(loop: Any) -> None:
    """Under the names that users have: as many equations for a long loop as for a short one."""
    short, long = (capture(loop, (fg.ones(3), n), puts_off=True).graph for n in (200, 2000))
    assert len(long.equations) == len(short.equations) < 60


@pytest.mark.parametrize("dim", [0, 1, -1, -2, 2, -3])
def test_errors_are_eagers(dim: int) -> None:
    x, _, h = given()
    ours, theirs = fg.jit(shows)(dim, x, h, None), shows(dim, x, h, None)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


KEYS = [0, 30, -30, ROUNDS - 1, ROUNDS, -ROUNDS, -ROUNDS - 1, True, slice(3, 50, 7), slice(40, 3, -3)]
KEYS += [slice(None, None, -1), slice(70, 80), slice(-20, None)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("join", [None, fg.stack, fg.cat])
def test_items_and_slices(key: Any, join: Any) -> None:
    def loop(x: Any, h: Any) -> Any:
        outs = []
        for row in x:
            h = fg.tanh(row + h)
            outs.append(h)
        try:
            if join is None:
                return outs[key]
            return fg.stack(outs[key], -1) if join is fg.stack else fg.cat(outs[key])
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            return type(error).__name__

    x, _, h = given()
    ours, theirs = fg.jit(loop)(x, h), loop(x, h)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        found, expected = ([y] if isinstance(y, fg.Tensor) else y for y in (ours, theirs))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy())
            assert a.stride() == b.stride()


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that are the rows before them."""
    item = Missing.item
    with monkeypatch.context() as patch:
        patch.setattr(Missing, "item", lambda self, number: item(self, max(number - 1, 0)))
        with pytest.raises(AssertionError):
            check(some_of_them, 1)
    items = Missing.items
    monkeypatch.setattr(Missing, "items", lambda self: items(self)[::-1])
    with pytest.raises(AssertionError):
        check(given_to_another, 1)


ASKS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda loss, item: fg.autograd.grad(loss, item, allow_unused=True)[0],
    "backward": lambda loss, item: loss.backward(inputs=[item]),
    "retain_grad": lambda loss, item: item.retain_grad(),
    "register_hook": lambda loss, item: item.register_hook(print),
}


@pytest.mark.parametrize("name", ASKS)
def test_who_asks_for_the_gradient_of_an_item_is_told_that_it_is_not_known(name: str) -> None:
    """What came later was not made of the item: its gradient would be that of what reads it in the list."""

    def function(x: Any, w: Any, h: Any) -> Any:
        items = []
        for t in range(ROUNDS):
            h = fg.tanh(x[t] @ w + h)
            items.append(h)
        loss = h.sum() + items[30].sum()
        item = items[30]
        ASKS[name](loss, item)
        return loss

    def kept_apart(x: Any, w: Any, h: Any) -> Any:
        for t in range(ROUNDS):
            h = fg.tanh(x[t] @ w + h)
            if t == 30:
                kept = h
        return fg.autograd.grad(h.sum() + kept.sum(), kept)[0]

    args = [t.requires_grad_() for t in given()]
    function(*args)
    with pytest.raises(RuntimeError, match=f"{name}: the gradient of this item is not known"):
        fg.jit(function)(*args)
    expected = kept_apart(*args).numpy()
    np.testing.assert_allclose(fg.jit(kept_apart)(*args).numpy(), expected, rtol=1e-9)
