"""Functions that tests of the budget take for long ones, and what holds the thread that compiles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.compiler.base import background

NUMBERS = [*range(40)]


def wave(x: fg.Tensor, scale: float = 1.0) -> fg.Tensor:
    for number in NUMBERS:  # the line that most ops come from
        x = fg.sin(x) * 0.5 + number * 0.01
    return (x * scale).sum()


def branched(x: fg.Tensor) -> fg.Tensor:
    y = wave(x)
    return y * 2 if x[0] > 0 else y - 1


class Held:
    """The thread that works beside the program, which waits before it does anything. free(): let it."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self.begun = threading.Event()
        self.threads: set[int] = set()

    def wait(self) -> None:
        self.threads.add(threading.get_ident())
        if background.here():
            self.begun.set()
            assert self._free.wait(60)

    def free(self) -> None:
        self._free.set()


def leaf(seed: int = 0, sign: float = 1.0) -> fg.Tensor:
    values = np.random.default_rng(seed).uniform(0.1, 1, 7).astype("f4")
    return fg.tensor(sign * values, requires_grad=True)


def other() -> fg.Tensor:
    """What takes the other branch."""
    return leaf(1, -1.0)


def agree(function: Callable[..., Any], jitted: Any, x: fg.Tensor, *others: Any) -> None:
    """Value and gradient of a call are eager's."""
    twin = x.detach().clone().requires_grad_()
    x.grad = None
    found, wanted = jitted(x, *others), function(twin, *others)
    found.backward()
    wanted.backward()
    assert x.grad is not None and twin.grad is not None
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), 1e-4, 1e-6)
