"""Views find their place on the graph when it is asked for, where torch's are; not at each write."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd import node
from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.autograd.writes import lagging

VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "part": lambda x: x[0:2],
    "turned": lambda x: x.t(),
    "deep": lambda x: x[1:].t()[0],
    "flat": lambda x: x.view(-1),
    "long": lambda x: x.expand(2, 3, 4)[0],
    "piece": lambda x: x.chunk(3)[0],
    "unbound": lambda x: x.unbind(0)[1],
}


def use(view: Any, base: Any, leaf: Any) -> Any:
    return [(view * view).sum()]


def hook(view: Any, base: Any, leaf: Any) -> Any:
    assert view.grad_fn is not None or not base.requires_grad  # torch's process ends where it was not asked
    if not view.requires_grad:
        return []
    view.register_hook(lambda g: g * 2)
    return [(view * 3).sum(), base.sum()]


def detached(view: Any, base: Any, leaf: Any) -> Any:
    return [view.sum(), view.detach().sum(), view.grad_fn is None, view.requires_grad, view.is_leaf]


def between(view: Any, base: Any, leaf: Any) -> Any:
    before = view.sum()
    base.mul_(leaf)
    after = view.sum()
    base.add_(leaf)
    return [before, after, view.sum()]


def seed(view: Any, base: Any, leaf: Any) -> Any:
    view.backward(view.detach() * 0 + 2)
    return []


LOOKS = [use, hook, detached, between, seed]


def outcome(library: Any, view: str, look: Callable[..., Any], writes: int) -> Any:
    leaf = library.arange(12.0).reshape(3, 4).requires_grad_()
    base = library.zeros(3, 4)
    try:
        taken = VIEWS[view](base)
        for number in range(writes):
            base[number] = leaf[number] * (number + 1)
        found = look(taken, base, leaf)
        tensors = [x for x in found if hasattr(x, "requires_grad")]
        sums = [x for x in tensors if x.requires_grad]
        if sums:
            sum(sums).backward()
        said = [x.tolist() if hasattr(x, "tolist") else x for x in found]
        return said, None if leaf.grad is None else leaf.grad.tolist()
    except (RuntimeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_lags_is_where_torchs_is(view: str, look: Callable[..., Any]):
    for writes in (0, 1, 3):
        assert outcome(fg, view, look, writes) == outcome(torch, view, look, writes), writes


class Doubled(fg.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return gradient * 2


class Once(Doubled):
    @staticmethod
    @fg.autograd.function.once_differentiable
    def backward(context: Any, gradient: Any) -> Any:
        return gradient * 2


def into_another(view: Any, base: Any) -> Any:
    other = base * 1
    other[0] = view
    return other


def into_its_base(view: Any, base: Any) -> Any:
    base[0] = view
    return base


def onto_itself(view: Any, base: Any) -> Any:
    view *= 2
    return base


def derived_twice(view: Any, base: Any) -> Any:
    leaf = fg.ones(3, requires_grad=True)
    (found,) = fg.autograd.grad(Once.apply(leaf), leaf, view, create_graph=True)
    return found


# What makes a node of a view, and what is looked at then.
MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "an op": lambda view, base: view * 2,
    "of several": lambda view, base: fg.cat([base[1], view]),
    "a view of it": lambda view, base: view[1:],
    "a Function": lambda view, base: Doubled.apply(view),
    "a gradient once": derived_twice,
    "no derivative": lambda view, base: fg.bincount(fg.arange(3), view),
    "a transform": lambda view, base: fg.func.grad(lambda x: (x**3).sum())(view),
    "a compiled call": fg.jit(lambda view, base: view.sin() * 2),
    "in place": onto_itself,
    "into another": into_another,
    "into its base": into_its_base,
}


def numbered_too_early(maker: str) -> list[str]:
    """The nodes of a view that lags whose inputs have nodes that are newer."""
    found = []
    for _ in range(4):  # the compiled call is one, later
        leaf = fg.ones(3, requires_grad=True)
        base = leaf.expand(4, 3) * 1
        view = base[2]
        base[2] = leaf * 3
        nodes = reachable([MAKERS[maker](view, base)])
        assert len(nodes) > 3
        for made in nodes:
            targets = [target for _, target, _ in made.edges if isinstance(target, node.Node)]
            found += [made.name() for target in targets if target.sequence >= made.sequence]
    return found


@pytest.mark.parametrize("maker", MAKERS)
def test_whoever_makes_a_node_of_a_view_comes_after_it(maker: str):
    """Backward goes from the newest node to the oldest."""
    assert not numbered_too_early(maker)


@pytest.mark.parametrize("maker", ["a Function", "a gradient once", "no derivative", "into another"])
def test_a_node_that_is_numbered_too_early_is_found(maker: str, monkeypatch: pytest.MonkeyPatch):
    begin = node.Node.begin

    def early(self: Any, edges: Any = ()) -> None:
        begin(self, edges)
        self.sequence = min([t.sequence for _, t, _ in edges if isinstance(t, node.Node)], default=0) - 1

    monkeypatch.setattr(node.Node, "begin", early)
    assert numbered_too_early(maker)


def test_what_has_new_memory_since_does_not_move_views_of_the_old_one():
    leaf = fg.ones(3, requires_grad=True)
    base = leaf * 2
    view = base[1:]
    base.mul_(leaf)
    base.data = fg.zeros(3)
    base.mul_(leaf)
    view.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [0.0, 4.0, 4.0]


def rows(n: int) -> Any:
    table, kept = fg.zeros(n, 2), []
    x = fg.ones(2, requires_grad=True)
    for i in range(n):
        table[i] = x * i
        kept.append(table[i])
    fg.stack(kept).sum().backward()
    return x.grad


def steps(n: int) -> Any:
    table = fg.ones(n, 2)
    x = fg.ones(2, requires_grad=True)
    kept = []
    for i in range(1, n):
        kept.append(table[i - 1])
        table[i] = kept[-1] + x
    table.sum().backward()
    return x.grad


def looked_at(n: int) -> Any:
    table = fg.zeros(n, 2)
    x = fg.ones(2, requires_grad=True)
    kept = [table[i] for i in range(n)]
    for i in range(n):
        table[i] = kept[i].detach() + x
        assert kept[i].grad_fn is not None
    table.sum().backward()
    return x.grad


def work(program: Callable[[int], Any], n: int, on: pytest.MonkeyPatch) -> int:
    """How many nodes views get, and views are told of a write."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal count
            count += 1
            return function(*args)

        return call

    with on.context() as patch:
        patch.setattr(lagging, "record", counted(node.record))
        patch.setattr(lagging.Lagging, "tell", counted(lagging.Lagging.tell))
        program(n)
    return count


@pytest.mark.parametrize("wrapped", [lambda f: f, fg.jit], ids=["eager", "recorded"])
@pytest.mark.parametrize("program", [rows, steps, looked_at])
def test_work_grows_as_the_number_of_writes(
    program: Callable[[int], Any], wrapped: Any, monkeypatch: pytest.MonkeyPatch
):
    short, long = (work(wrapped(program), n, monkeypatch) for n in (20, 60))
    assert long <= 5 * short  # of three times as many rows; all pairs would be nine times as many


def test_a_write_that_goes_through_all_views_is_found(monkeypatch: pytest.MonkeyPatch):
    moved = lagging.Views.moved

    def all_of_them(self: Any, base: Any) -> Any:
        return moved(self, base)[0], self.living()

    monkeypatch.setattr(lagging.Views, "moved", all_of_them)
    with pytest.raises(AssertionError):
        test_work_grows_as_the_number_of_writes(rows, lambda f: f, monkeypatch)


def test_a_view_that_is_not_told_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lagging.Lagging, "tell", lambda self, view: None)
    with pytest.raises(AssertionError):
        test_a_view_that_lags_is_where_torchs_is("row", use)


def test_a_view_that_lags_behind_finds_its_node_where_nobody_has_called():
    """As at the prompt, where there is no frame above that of the program."""
    base = fg.ones(2, 3, requires_grad=True) * 1
    view, found, done = base.view(-1), [], threading.Event()
    base.add_(2)

    def ask() -> None:
        try:
            found.append(view.grad_fn.name())
        finally:
            done.set()

    _thread.start_new_thread(ask, ())
    assert done.wait(10) and found == ["ViewBackward0"]
