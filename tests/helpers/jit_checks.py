"""What tests of jitted functions share: leaves, comparing, and functions that must not be entered."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusegrad as fg


def leaf(*shape: int, seed: int = 0) -> fg.Tensor:
    """A random float32 leaf."""
    return fg.tensor(np.random.default_rng(seed).normal(size=shape).astype("f4"), requires_grad=True)


class Entered(AssertionError):
    """The Python body ran where a replay should have skipped it."""


def sealed(function: Any) -> Any:
    """Make entering the user's function an error from now on."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Entered("the Python function was entered")

    function.sealed = function.__wrapped__  # the function must live on: what it read is guarded
    function.__wrapped__ = refuse
    return function


def same(a: fg.Tensor, b: fg.Tensor) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
