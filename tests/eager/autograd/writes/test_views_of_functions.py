"""Writes into what custom Functions give of their arguments' memory, beside PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

FORWARDS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "a view": lambda x: x.view_as(x),
    "a part": lambda x: x[:1],
    "a copy": lambda x: x.clone(),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "adds": lambda v, b: v.__iadd__(b),
    "copies": lambda v, b: v.copy_(b.expand(v.shape)),
    "scales": lambda v, b: v.mul_(2),
}
ERRORS = "This view was created inside a custom Function", "A view was created in no_grad mode"


def outcome(t: Any, forward: str, write: str, needs: bool, further: bool, written: str, off: bool) -> Any:
    """Gradients after a write into a Function's result, or its argument; or why it is refused."""

    class Given(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return FORWARDS[forward](x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.sum() * t.ones(ctx.shape)

    leaf, b = t.ones(2, 3, requires_grad=needs), t.full((1,), 5.0, requires_grad=True)
    a = leaf * 1
    given = Given.apply(a)
    v = given.view(-1) if further else given
    try:
        with t.no_grad() if off else contextlib.nullcontext():
            WRITES[write](a if written == "argument" else v, b)
        total = (v * 3).sum() + (a * 2).sum() + b.sum() * 0
        total.backward()
    except RuntimeError as error:
        return [part for part in ERRORS if part in str(error)]
    return total.item(), None if leaf.grad is None else leaf.grad.tolist(), b.grad.tolist()


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("forward", FORWARDS)
def test_writes_are_refused_or_followed_as_in_pytorch(forward: str, needs: bool) -> None:
    for write in WRITES:
        for further in (False, True):
            for written in ("result", "argument"):
                for off in (False, True):
                    case = (forward, write, needs, further, written, off)
                    assert outcome(fg, *case) == outcome(torch, *case), case
