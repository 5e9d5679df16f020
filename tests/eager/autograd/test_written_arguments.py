"""Functions that write their arguments in place, under transforms: what PyTorch gives, or its refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd.edges import Argument


def whole(t: Any, x: Any) -> Any:
    x.mul_(2)
    return (x * x).sum()


def part(t: Any, x: Any) -> Any:
    x[0].mul_(2)
    return (x * x).sum()


def copied(t: Any, x: Any) -> Any:
    x.copy_(x.flip(0) * 3)
    return (x * x * x).sum()


def through_a_view(t: Any, x: Any) -> Any:
    view = x[1:]
    x.mul_(3)
    return view.sum() * x[0]


def seen_otherwise(t: Any, x: Any) -> Any:
    x.unsqueeze_(0)
    return (x * x).sum()


def nothing(t: Any, x: Any) -> Any:
    return (x * x).sum()


WRITES = [whole, part, copied, through_a_view, seen_otherwise, nothing]
TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda t, f, x: t.func.grad(f)(x),
    "vjp": lambda t, f, x: t.func.vjp(f, x)[1](t.tensor(1.0)),
    "jvp": lambda t, f, x: t.func.jvp(f, (x,), (t.tensor([1.0, 3.0]),)),
    "jacrev": lambda t, f, x: t.func.jacrev(f)(x),
    "jacfwd": lambda t, f, x: t.func.jacfwd(f)(x),
    "vmap of jvp": lambda t, f, x: t.func.vmap(lambda a: t.func.jvp(f, (a,), (a * 2,)))(t.stack([x, x * 2])),
}


def shown(value: Any) -> Any:
    return [shown(v) for v in value] if isinstance(value, (tuple, list)) else value.tolist()


def outcome(t: Any, transform: str, write: Callable[[Any, Any], Any], needs: bool) -> tuple[str, Any]:
    x = t.tensor([3.0, 4.0], requires_grad=needs) * 1
    try:
        found = TRANSFORMS[transform](t, lambda a: write(t, a), x)
    except RuntimeError as error:
        return "refused", "leaf Variable" in str(error)
    return "given", (shown(found), shown(x))


@pytest.mark.parametrize(
    ("transform", "write", "needs"), list(itertools.product(TRANSFORMS, WRITES, [False, True]))
)
def test_written_arguments(transform: str, write: Callable[[Any, Any], Any], needs: bool):
    ours, theirs = (outcome(t, transform, write, needs) for t in (fg, torch))
    # What is on a graph outside would have to be moved there; a write that cannot be followed is refused.
    assert ours == theirs or (needs and write is not nothing and ours == ("refused", True))


def test_the_table_finds_arguments_that_are_moved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Argument, "argument", False)
    wrong = [
        (transform, write.__name__)
        for transform, write in itertools.product(TRANSFORMS, WRITES)
        if outcome(fg, transform, write, True)[0] == "given" and write is not nothing
    ]
    assert ("jvp", "whole") in wrong and len(wrong) > 10
