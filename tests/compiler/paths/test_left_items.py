"""Lists and deques from outside that a step appends to, or empties: replays leave them as eager does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe import stores

Step = Callable[[SimpleNamespace, Any], Any]
HELD: list[Any] = []


class Keeps:
    """An object with a list of its own, and one of its class."""

    shared: list[Any] = []  # noqa: RUF012 - a class's list is what is tried

    def __init__(self) -> None:
        self.items: list[Any] = []


def world() -> SimpleNamespace:
    HELD.clear()
    Keeps.shared.clear()
    return SimpleNamespace(
        items=[],
        seen=[1.0, "two"],
        recent=deque(maxlen=3),
        object=Keeps(),
        weight=fg.tensor([1.0, 2.0], requires_grad=True),
        factor=2.0,
    )


def _number(w: Any, x: Any) -> Any:
    loss = (x * 2).sum()
    w.items.append(loss.item())
    return loss


def _tensor(w: Any, x: Any) -> Any:
    loss = (x * 2).sum()
    w.items.append(loss)
    return loss


def _apart(w: Any, x: Any) -> Any:
    w.items.append((x * 2).exp())
    return x.sum()


def _with_gradient(w: Any, x: Any) -> Any:
    loss = (w.weight * x).square().sum()
    loss.backward()
    w.items.append(loss.detach())
    w.items.append(loss)
    return loss


def _derived_later(w: Any, x: Any) -> Any:
    y = w.weight * x
    w.items.append(y)
    return y.sum()


def _of_an_object(w: Any, x: Any) -> Any:
    w.object.items.append(x.sum())
    w.object.shared.append(2)
    return x * 2


def _global(w: Any, x: Any) -> Any:
    HELD.append(x + 1)
    return x * 2


def _several(w: Any, x: Any) -> Any:
    for i in range(3):
        w.items.append((x * i).sum())
        w.seen.append(i)
    return x * 2


def _containers(w: Any, x: Any) -> Any:
    w.items.append({"loss": x.sum(), "parts": [x * 2, (1, None)]})
    return x * 2


def _argument(w: Any, x: Any) -> Any:
    w.items.append(x)
    return x * 2


def _found(w: Any, x: Any) -> Any:
    w.items.append(w.weight)
    return x * 2


def _extended(w: Any, x: Any) -> Any:
    w.items.extend([x.sum(), 1])
    w.items.extend((x.mean(), 2))
    w.items += [x.max()]
    return x * 2


def _emptied(w: Any, x: Any) -> Any:
    w.seen.clear()
    w.seen.append(x.sum())
    return x * 2


def _emptied_by_del(w: Any, x: Any) -> Any:
    w.items.append(x.sum())
    del w.items[:]
    w.items.append(x.mean())
    return x * 2


def _used_and_emptied(w: Any, x: Any) -> Any:
    for i in range(3):
        w.items.append(x * i)
    total = fg.stack(w.items).sum()
    for item in w.items:
        total = total + item.mean() * len(w.items)
    total = total + w.items[-1].sum() + w.items[0].sum()
    del w.items[:]
    return total


def _used_first(w: Any, x: Any) -> Any:
    scale = w.seen[0] + len(w.seen)
    w.seen.append(x.sum())
    total = w.seen[2] * scale
    w.seen.clear()
    w.seen.extend([1.0, "two"])
    return total


def _recent(w: Any, x: Any) -> Any:
    w.recent.append(x.sum())
    return x * 2


def _branches(w: Any, x: Any) -> Any:
    if x.sum() > 0:
        w.items.append(1)
    else:
        w.items.append(x.sum())
    return x * 2


def _counts_and_sets(w: Any, x: Any) -> Any:
    w.last = x * 3
    w.items.append(x.sum())
    w.weight.data.add_(1)
    return w.last.sum()


def _scaled(w: Any, x: Any) -> Any:
    w.items.append(x.sum() * w.factor)
    return x * 2


REPLAYED: dict[str, Step] = {
    "a number": _number,
    "a tensor": _tensor,
    "a tensor that is no result": _apart,
    "one whose graph is gone": _with_gradient,
    "one that is derived later": _derived_later,
    "of an object and of a class": _of_an_object,
    "a global": _global,
    "several": _several,
    "containers": _containers,
    "an argument": _argument,
    "a parameter": _found,
    "extended": _extended,
    "emptied": _emptied,
    "emptied by del": _emptied_by_del,
    "used and emptied": _used_and_emptied,
    "used before and after": _used_first,
    "a deque": _recent,
    "after a branch": _branches,
    "besides other effects": _counts_and_sets,
    "scaled": _scaled,
}


def _looks_at_what_grows(w: Any, x: Any) -> Any:
    w.items.append(x.sum())
    return x * len(w.items)


def _looks_at_the_last(w: Any, x: Any) -> Any:
    w.recent.append(x.sum())
    return w.recent[-1] + w.recent[0]


def _pops(w: Any, x: Any) -> Any:
    w.items.append(x.sum())
    w.items.append(x * 2)
    return w.items.pop().sum()


def _inserts(w: Any, x: Any) -> Any:
    w.items.insert(0, x.sum())
    return x * 2


def _appends_itself(w: Any, x: Any) -> Any:
    w.items.append(w.seen)
    return x * 2


def _appends_an_object(w: Any, x: Any) -> Any:
    w.items.append(Keeps())
    w.items[-1] = type(w.items[-1]).__name__
    return x * 2


def _appends_one_list_twice(w: Any, x: Any) -> Any:
    made = [x.sum()]
    w.items.append(made)
    w.seen.append(made)
    return x * 2


def _returns_it(w: Any, x: Any) -> Any:
    w.items.append(x.sum())
    return list(w.items)[-1], len(w.items)


def _from_an_iterator(w: Any, x: Any) -> Any:
    w.items.extend(y.sum() for y in (x, x * 2))
    return x * 2


def _appends_a_view(w: Any, x: Any) -> Any:
    w.items.append(x[:1])
    return x * 2


LEFT: dict[str, Step] = {
    "looks at what grows": _looks_at_what_grows,
    "looks at the last": _looks_at_the_last,
    "pops": _pops,
    "inserts": _inserts,
    "appends a list": _appends_itself,
    "appends an object": _appends_an_object,
    "appends one list twice": _appends_one_list_twice,
    "returns what grows": _returns_it,
    "from an iterator": _from_an_iterator,
    "appends a view": _appends_a_view,
}


def values(step: int) -> Any:
    return fg.tensor(np.random.default_rng(step).normal(size=2).astype("f4"))


def told(value: Any) -> Any:
    """What is there, as plain Python."""
    if isinstance(value, fg.Tensor):
        return [value.detach().tolist(), value.requires_grad, value.grad_fn is not None]
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [type(value).__name__, *map(told, value)]
    if isinstance(value, Keeps):
        return [told(value.items), told(value.shared)]
    return value


def state(w: SimpleNamespace) -> Any:
    return [told(HELD), *(told(v) for v in vars(w).values())]


def agree(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        agree([*ours.values()], [*theirs.values()])
    elif isinstance(theirs, list):
        assert type(ours) is list and len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            agree(a, b)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    else:
        assert ours == theirs and type(ours) is type(theirs)


def steps(step: Step, wrapped: Callable[..., Any], count: int = 8, change: Any = None) -> Any:
    w = world()
    run, found = wrapped(lambda x: step(w, x)), []
    for i in range(count):
        if i == 5 and change is not None:
            change(w)
        if w.weight.grad is not None:
            w.weight.grad = None
        found.append([told(run(values(i))), state(w)])
    return found, run, w


def plain(step: Any) -> Any:
    return step


@pytest.mark.parametrize("name", REPLAYED)
def test_what_is_appended_is_appended_by_replays(name: str) -> None:
    expected, _, _ = steps(REPLAYED[name], plain)
    found, run, w = steps(REPLAYED[name], fg.jit)
    agree(found, expected)
    assert run.stats.compiled_calls >= 4, run.explain()
    w.weight.grad = None
    jit_checks.sealed(run)(values(0))


@pytest.mark.parametrize("name", LEFT)
def test_other_changes_are_left_to_eager(name: str) -> None:
    expected, _, _ = steps(LEFT[name], plain)
    found, run, _ = steps(LEFT[name], fg.jit)
    agree(found, expected)
    with pytest.raises(jit_checks.Entered):
        jit_checks.sealed(run)(values(0))


def test_what_is_appended_can_be_derived() -> None:
    results = []
    for wrapped in (fg.jit, plain):
        _, _, w = steps(_derived_later, wrapped)
        w.items[-1].sum().backward()
        results.append(w.weight.grad)
    jit_checks.same(*results)


def _other_list(w: Any) -> None:
    w.items, w.seen, w.recent = [5], [7, 8, 9], deque(maxlen=2)


def _others_append(w: Any) -> None:
    w.items.append("from outside")
    w.seen.append("from outside")
    w.recent.append("from outside")


def _other_factor(w: Any) -> None:
    w.factor = 11.0


@pytest.mark.parametrize("change", [_other_list, _others_append, _other_factor])
@pytest.mark.parametrize(
    "name", [n for n in REPLAYED if n not in ("used and emptied", "used before and after")]
)
def test_lists_that_change_outside(name: str, change: Callable[[Any], None]) -> None:
    expected, _, _ = steps(REPLAYED[name], plain, change=change)
    found, _, _ = steps(REPLAYED[name], fg.jit, change=change)
    agree(found, expected)


def test_what_a_list_holds_at_first_is_guarded_where_it_is_used() -> None:
    def change(w: Any) -> None:
        w.items.append(fg.ones(2))
        w.seen[0] = 5.0

    for step in (_used_and_emptied, _used_first):
        expected, _, _ = steps(step, plain, change=change)
        found, _, _ = steps(step, fg.jit, change=change)
        agree(found, expected)


def test_items_that_are_not_guarded_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(stores, "look_at", lambda observer, owner, site: id(owner) in observer.stores.grown)
    with pytest.raises(AssertionError):
        test_what_a_list_holds_at_first_is_guarded_where_it_is_used()


def test_a_list_among_the_arguments_is_left_to_eager() -> None:
    def step(items: Any, x: Any) -> Any:
        HELD.append(x.sum())
        return x * len(items)

    world()
    run = fg.jit(step)
    for i in range(5):
        jit_checks.same(run(HELD, values(i)), values(i) * (i + 1))
        assert len(HELD) == i + 1


def test_the_same_bits_again() -> None:
    fg.use_deterministic_algorithms(True)
    try:
        expected, _, _ = steps(_number, plain)
        agree(steps(_number, fg.jit)[0], expected)
    finally:
        fg.use_deterministic_algorithms(False)


def test_replays_can_be_verified() -> None:
    expected, _, _ = steps(_number, plain)
    found, _, _ = steps(_number, lambda step: fg.jit(step, verify=1))
    agree(found, expected)
