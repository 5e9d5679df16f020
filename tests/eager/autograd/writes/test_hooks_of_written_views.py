"""Hooks of views, and of their bases, that are written later: which gradients they get, beside PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd import views

TAKES: dict[str, Callable[[Any], Any]] = {
    "all": lambda base: base[:],
    "a part": lambda base: base[1:],
    "a column": lambda base: base.view(3, 1),
    "a part of a column": lambda base: base.view(3, 1)[1:],
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda view, x: view.mul_(2),
    "add_": lambda view, x: view.add_(x[0]),
    "copy_": lambda view, x: view.copy_(view.detach()),
    "zero_": lambda view, x: view.zero_(),
    "item": lambda view, x: view.__setitem__(0, x[1]),
    "exp_": lambda view, x: view.exp_(),
    "fill_": lambda view, x: view.fill_(2.0),
    "two writes": lambda view, x: view.mul_(2).mul_(3),
    "times a tensor": lambda view, x: view.__imul__(x[0]),
}
# How something is hung on the tensor; `seen` notes what it is given.
HOOKS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "of the tensor": lambda t, seen: t.register_hook(lambda g: seen.append(g.tolist())),
    "that doubles": lambda t, seen: t.register_hook(lambda g: g * 2),
    "of the node": lambda t, seen: t.grad_fn.register_hook(lambda given, made: seen.append("node")),
    "before the node": lambda t, seen: t.grad_fn.register_prehook(lambda given: seen.append("before")),
    "retain_grad": lambda t, seen: t.retain_grad(),
}


def run(t: Any, hang: str, write: str, take: str, hooked: str, used_before: bool) -> Any:
    """What hooks have seen, and the gradients, where a view is written after that."""
    seen: list[Any] = []
    x = t.tensor([1.0, 2.0, 3.0], dtype=t.float64, requires_grad=True)
    base = x.clone()
    tensors = {"view": TAKES[take](base), "other": TAKES[take](base), "base": base}
    HOOKS[hang](tensors[hooked], seen)
    total = sum((tensors[name] * 3).sum() for name in tensors) if used_before else 0.0
    WRITES[write](tensors["view"], x)
    for factor, tensor in zip((7, 11, 13), tensors.values(), strict=True):
        total = total + (tensor * factor).sum()
    total.backward()
    kept = tensors[hooked].grad if tensors[hooked].retains_grad else x.grad
    return seen, x.grad.tolist(), kept.tolist()


def rounded(value: Any) -> Any:
    """Nested lists with numbers that roundings do not tell apart."""
    return (
        [*map(rounded, value)]
        if isinstance(value, (list, tuple))
        else value
        if isinstance(value, str)
        else f"{value:.9g}"
    )


def differences(hang: str) -> list[Any]:
    """The cases in which something else is seen, or comes out, than with PyTorch."""
    cases = itertools.product(WRITES, TAKES, ("view", "other", "base"), (False, True))
    return [case for case in cases if rounded(run(fg, hang, *case)) != rounded(run(torch, hang, *case))]


@pytest.mark.parametrize("hang", HOOKS)
def test_hooks_get_the_gradients_that_they_get_in_pytorch(hang: str) -> None:
    assert differences(hang) == []


def test_hooks_that_are_called_for_what_a_write_has_taken_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "begin_at_base", lambda target: None)
    assert len(differences("that doubles")) > 20
