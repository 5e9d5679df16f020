"""What the corpus calls a backend: fusegrad's names, with the real `jit`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import fusegrad as fg
from fusegrad import *  # noqa: F403

# The counters of the functions that were jitted since `_reset`; the functions themselves may go.
_counters: list[Any] = []


def jit(function: Callable[..., Any]) -> Any:
    """`fusegrad.jit`, its counters remembered."""
    jitted = fg.jit(function)
    _counters.append(jitted.stats)
    return jitted


def is_tensor(value: Any) -> Any:
    """Whether `value` is a tensor."""
    return isinstance(value, fg.Tensor)


def dtype_name(tensor: fg.Tensor) -> str:
    """The NumPy name of a tensor's dtype."""
    return tensor.array.dtype.name


def _reset() -> None:
    _counters.clear()


def __getattr__(name: str) -> Any:
    if name == "_stats":
        # `sum` by its full name: here it is the tensors'.
        counted = ("compiled_calls", "eager_calls", "compiles")
        return {c: builtins.sum(getattr(s, c) for s in _counters) for c in counted}
    return getattr(fg, name)
