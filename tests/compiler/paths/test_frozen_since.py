"""Leaves that are frozen between a call and its backward: they get nothing, the others all that is theirs."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import torch

import fusegrad as fg


def one_number(x: Any, w: Any, b: Any) -> Any:
    return (x * w * b).sum()


def two_numbers(x: Any, w: Any, b: Any) -> Any:
    return (x * w * b).sum() + (w * b).exp().sum(0)


def rows(x: Any, w: Any, b: Any) -> Any:
    return (x * w).tanh() * b


def rounds(x: Any, w: Any, b: Any) -> Any:
    for _ in range(130):
        x = x + 0.01 * (w * x - b * x * x)
    return x


WAYS: dict[str, Any] = {
    "plain": lambda lib, result, w: result.sum().backward(),
    "of other size": lambda lib, result, w: (result * 2).sum().backward(),
    "grad": lambda lib, result, w: lib.autograd.grad(result.sum(), [w]),
    "graph": lambda lib, result, w: lib.autograd.grad(result.sum(), [w], create_graph=True),
}


def outcome(lib: Any, function: Any, way: Any, derived: bool, has_gradient: bool) -> list[Any]:
    """What the fourth call gives, when its `b` is frozen. derived: whether those before were."""
    w, b = lib.tensor([0.5, 1.0, 1.5]).requires_grad_(), lib.tensor([1.0, 2.0, 0.5]).requires_grad_()
    call = fg.jit(function) if lib is fg else function
    x = lib.tensor([0.1, 0.2, 0.3])
    for _ in range(3):
        result = call(x, w, b)
        if derived:
            result.sum().backward()
    w.grad, b.grad = None, lib.zeros(3) if has_gradient else None
    result = call(x, w, b)
    b.requires_grad_(False)
    found = way(lib, result, w) or ()
    return [None if t is None else t.detach().numpy() for t in (w.grad, b.grad, *found)]


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", [one_number, two_numbers, rows, rounds])
def test_gradients_are_pytorchs(function: Any, way: str, derived: bool, has_gradient: bool) -> None:
    ours, theirs = (outcome(lib, function, WAYS[way], derived, has_gradient) for lib in (fg, torch))
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b))


@pytest.mark.parametrize("rounds", [15, 150])
def test_data_that_is_written_since_is_read_by_each_round(rounds: int) -> None:
    def system(lib: Any, y: Any, a: Any) -> Any:
        for _ in range(rounds):
            y = y + 0.02 * (a * y - y * y * y)
        return (y * y).sum()

    jitted = fg.jit(lambda y, a: system(fg, y, a))
    for _ in range(2):
        found = []
        for lib, call in ((fg, jitted), (torch, lambda y, a: system(torch, y, a))):
            a, y = lib.tensor(0.5).requires_grad_(), lib.tensor([0.3, -0.4]).requires_grad_()
            loss = call(y, a)
            a.data.mul_(0.5)
            loss.backward()
            found.append(torch.tensor([a.grad.item(), *y.grad.tolist()]))
        torch.testing.assert_close(*found)
