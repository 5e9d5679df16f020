"""Numbers that a step takes out of tensors: a replay gives its own, or guards those that are looked at."""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg

Pair = namedtuple("Pair", "first second")


class Kept:
    """An ordinary object."""


@dataclass
class Found:
    loss: Any
    model: Any


@dataclass
class Metrics:
    loss: float
    name: str


def _identity(value: Any) -> Any:
    return value


def _joined(one: Any, other: Any) -> Any:
    return one + other


def _in_a_loop(x: Any) -> Any:
    found = []
    for i in range(3):
        found.append((x * i).sum().item())
    return found


def _attribute_of_its_own(x: Any) -> Any:
    kept = Kept()
    kept.loss = x.sum().item()
    return kept.loss


def _generator(x: Any) -> Any:
    def parts() -> Any:
        for row in x:
            yield row.sum().item()

    return list(parts())


def _before_it_is_written(x: Any) -> Any:
    y = x.clone()
    before = y[0, 0].item()
    y.add_(1)
    return before, y[0, 0].item()


def _of_an_argument(x: Any) -> Any:
    return x[1, 2].item(), x[:1, :1].item()


def _unpacked(x: Any) -> Any:
    first, second = x.sum().item(), x.mean().item()
    return second, first


# Of what is only moved about.
MOVED: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "of integers": lambda x: float(x.long().sum()),
    "double": lambda x: x.double().mean().item(),
    "float16": lambda x: x.half().mean().item(),
    "one element": lambda x: x.sum().reshape(1, 1).item(),
    "with its tensor": lambda x: (x.sum().item(), x.sum(), x.sum().item()),
    "tuple": lambda x: (x.sum().item(), x.mean().item()),
    "dict": lambda x: {"sum": x.sum().item(), "of": [x.mean().item()]},
    "dict call": lambda x: dict(_identity([("sum", x.sum().item())])),
    "list of tuples": lambda x: [(i, x[i].sum().item()) for i in range(2)],
    "added to a list": lambda x: _joined([x.sum().item()], [x.mean().item()]),
    "added to a tuple": lambda x: _joined((x.sum().item(),), (1,)),
    "extended": lambda x: (lambda found: (found.extend([x.sum().item()]), found))([])[1],
    "inserted": lambda x: (lambda found: (found.insert(0, x.sum().item()), found))([])[1],
    "set in a dict": lambda x: (lambda found: (found.update(sum=x.sum().item()), found))({})[1],
    "taken from a dict": lambda x: {"sum": x.sum().item()}["sum"],
    "taken by get": lambda x: {"sum": x.sum().item()}.get("sum"),
    "zip": lambda x: list(zip("ab", [x.sum().item(), x.mean().item()], strict=True)),
    "through a function": lambda x: _identity(x.sum().item()),
    "through a lambda": lambda x: (lambda v, *rest, **named: (v, rest, named))(x.sum().item(), 1, a=2),
    "is it None": lambda x: x.sum().item() is None,
    "kind": lambda x: (type(x.sum().item()) is float, isinstance(x.sum().item(), (int, float))),
    "dataclass": lambda x: Metrics(x.sum().item(), "sum").loss,
    "namedtuple": lambda x: Pair(x.sum().item(), 1).first,
    "in a loop": _in_a_loop,
    "attribute": _attribute_of_its_own,
    "generator": _generator,
    "before a write": _before_it_is_written,
    "of an argument": _of_an_argument,
    "unpacked": _unpacked,
    "conditional": lambda x: x.sum().item() if x.shape[0] == 2 else 0.0,
    "twice": lambda x: (lambda v: (v, v))(x.sum().item()),
    "not a number": lambda x: (x.sum() * math.nan).item(),
    "infinite": lambda x: (x.sum().abs() / 0.0).item(),
}


def _counts(x: Any) -> Any:
    found = 0
    while found < x.sum().item():
        found += 1
    return found


def _asserts(x: Any) -> Any:
    assert x.sum().item() != 0.125
    return 1


def _sorted(x: Any) -> Any:
    found = [x[0].sum().item(), x[1].sum().item()]
    found.sort()
    return found


def _remove(x: Any) -> Any:
    found = [x[0].sum().item(), 3.0, 5.0]
    found.remove(3.0)
    return len(found)


def _key(x: Any) -> Any:
    return {x.sum().item(): 1}


def _matched(x: Any) -> Any:
    names = {3.0: "three", 33.0: "many"}
    return names.get(x[0].sum().item(), "other")


def _rebound(x: Any) -> Any:
    scale = x.sum().item()
    return [x * scale for _ in range(1)]


# Of what Python looks at, so that each value is a path of its own.
LOOKED: dict[str, Callable[[Any], Any]] = {
    "compared": lambda x: 1 if x.sum().item() > 5 else 2,
    "compared in a tuple": lambda x: (x.sum().item(), 1) > (5, 1),
    "equal to a list": lambda x: [x[0].sum().item()] == [3.0],
    "truth": lambda x: 1 if (x[0, 0] * 0 + (x.sum() > 5)).item() else 2,
    "not": lambda x: not (x.sum() > 5).float().item(),
    "and": lambda x: (x.sum() > 5).float().item() and 7,
    "added": lambda x: x.sum().item() + 1,
    "negative": lambda x: -x.sum().item(),
    "sum": lambda x: sum([x[0].sum().item(), x[1].sum().item()]),
    "sum of a generator": lambda x: sum(row.sum().item() for row in x),
    "max": lambda x: max(x[0].sum().item(), x[1].sum().item()),
    "int": lambda x: int(x.sum().item()),
    "round": lambda x: round(x.sum().item()),
    "sqrt": lambda x: math.sqrt(abs(x.sum().item())),
    "format": lambda x: f"{x.sum().item():.3f}",
    "percent": lambda x: "%.3f" % x.sum().item(),  # noqa: UP031
    "str": lambda x: str(x.sum().item()),
    "format method": lambda x: "{:.2f}".format(x.sum().item()),  # noqa: UP032
    "str of a list": lambda x: str([x.sum().item()]),
    "method": lambda x: x.sum().item().is_integer(),
    "real": lambda x: x.sum().item().real,
    "in": lambda x: x[0].sum().item() in [3.0, 33.0],
    "contains": lambda x: 3.0 in (x[0].sum().item(), 1.0),
    "index": lambda x: [x[0].sum().item(), 3.0, 33.0].index(3.0),
    "count": lambda x: (x[0].sum().item(), 3.0).count(3.0),
    "remove": _remove,
    "sort": _sorted,
    "sorted by": lambda x: sorted([0, 1], key=lambda i: x[i].sum().item()),
    "filter": lambda x: list(filter(None, [(x.sum() > 5).float().item(), 1.0])),
    "accumulate": lambda x: list(itertools.accumulate([x[0].sum().item(), 1.0])),
    "set": lambda x: len({x[0].sum().item(), 3.0}),
    "key": _key,
    "look up": _matched,
    "operand": lambda x: x * x.sum().item(),
    "rebound": _rebound,
    "argument of an op": lambda x: fg.full((2,), x.sum().item()),
    "clamp": lambda x: x.clamp(max=x.mean().item()),
    "tensor of": lambda x: fg.tensor([x.sum().item(), 1.0]),
    "index of a tensor": lambda x: x[int(x[0, 0].item()) % 2],
    "while": _counts,
    "assert": _asserts,
    "whole number": lambda x: x.long().sum().item(),
    "bool": lambda x: (x.sum() > 5).item(),
    "tolist": lambda x: x.sum().tolist(),
}


def _batches() -> list[Any]:
    numbers = np.arange(6, dtype="f4").reshape(2, 3)
    return [
        fg.tensor(numbers * scale - shift) for scale, shift in ((1, 0), (2, 3), (-1, 0.5), (10, -1), (1, 0))
    ]


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, fg.Tensor):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    elif isinstance(expected, float):
        assert type(found) is float
        assert found == pytest.approx(expected, rel=1e-3, nan_ok=True)
    elif isinstance(expected, dict):
        _same([*found.items()], [*expected.items()])
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            _same(ours, theirs)
    else:
        assert type(found) is type(expected) and found == expected


@pytest.mark.parametrize("name", MOVED)
def test_a_number_that_is_only_moved_is_given_by_the_replay(name: str) -> None:
    function = MOVED[name]
    jitted = fg.jit(function)
    for x in _batches():
        _same(jitted(x), function(x))
    expected = [function(x) for x in _batches()]
    jit_checks.sealed(jitted)
    for _ in range(2):  # also by what is written out for calls that come again
        for x, result in zip(_batches(), expected, strict=True):
            _same(jitted(x), result)
    assert jitted.stats.compiles == 1, jitted.explain()


@pytest.mark.parametrize("name", LOOKED)
def test_a_number_that_is_looked_at_is_guarded(name: str) -> None:
    function = LOOKED[name]
    jitted = fg.jit(function)
    for _ in range(3):
        for x in _batches():
            _same(jitted(x), function(x))


def _steps(take: Callable[[Any], Any]) -> tuple[Callable[..., Any], Any, Any]:
    fg.manual_seed(0)
    model = fg.nn.Linear(3, 1)
    optimizer = fg.optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return take(Found(loss, model))

    return step, model, optimizer


TAKEN: dict[str, Callable[[Any], Any]] = {
    "loss": lambda found: found.loss.item(),
    "loss and itself": lambda found: (found.loss.item(), found.loss.detach()),
    "a gradient": lambda found: found.model.bias.grad.item(),
    "a parameter after its step": lambda found: found.model.bias.item(),
    "an element of a parameter": lambda found: found.model.weight[0, 1].item(),
    "several": lambda found: {"loss": float(found.loss), "bias": float(found.model.bias)},
}


@pytest.mark.parametrize("name", TAKEN)
def test_steps_give_the_numbers_of_their_replay(name: str) -> None:
    step, model, _ = _steps(TAKEN[name])
    jitted = fg.jit(step)
    found = [jitted(x) for x in _batches()]
    jit_checks.sealed(jitted)
    found += [jitted(x) for _ in range(3) for x in _batches()]
    again, other, _ = _steps(TAKEN[name])
    _same(found, [again(x) for _ in range(4) for x in _batches()])
    jit_checks.same(model.weight, other.weight)


def test_a_number_from_before_a_write_outside() -> None:
    counter = fg.zeros(1)

    def step(x: Any) -> Any:
        before = counter.item()
        counter.add_(x.sum())
        return before, counter.item()

    jitted = fg.jit(step)
    found = [jitted(x) for x in _batches()]
    jit_checks.sealed(jitted)
    found += [jitted(x) for _ in range(2) for x in _batches()]
    sums = np.cumsum([0, *[float(x.sum()) for _ in range(3) for x in _batches()]])
    _same(found, [(float(a), float(b)) for a, b in itertools.pairwise(sums)])


def test_an_attribute_that_is_a_number() -> None:
    kept = SimpleNamespace(loss=0.0, pair=(0.0, 0))

    def step(x: Any) -> Any:
        kept.loss = x.sum().item()
        kept.pair = (x.mean().item(), 1)
        return kept.loss

    jitted = fg.jit(step)
    for number, x in enumerate(_batches() * 3):
        if number == 5:
            jit_checks.sealed(jitted)
        assert jitted(x) == pytest.approx(float(x.sum()))
        assert kept.loss == pytest.approx(float(x.sum()))
        assert kept.pair == (pytest.approx(float(x.mean())), 1)


def test_an_attribute_that_holds_the_number_already() -> None:
    kept = SimpleNamespace(loss=0.0)

    def step(x: Any) -> None:
        kept.loss = x.sum().item()

    jitted = fg.jit(step)
    for x in (fg.zeros(3), fg.zeros(3), fg.ones(3), fg.zeros(3), fg.ones(3)):
        jitted(x)
        assert kept.loss == float(x.sum())
