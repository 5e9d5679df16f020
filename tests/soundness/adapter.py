"""What `soundness_cases.py` calls a backend: fusegrad's names, with the real `jit`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import fusegrad as fg
from fusegrad import *  # noqa: F403

_functions: weakref.WeakSet[Any] = weakref.WeakSet()


def jit(function: Callable[..., Any]) -> Any:
    """`fusegrad.jit`, remembered for the counters."""
    jitted = fg.jit(function)
    _functions.add(jitted)
    return jitted


def is_tensor(value: Any) -> Any:
    """Whether `value` is a tensor."""
    return isinstance(value, fg.Tensor)


def dtype_name(tensor: fg.Tensor) -> str:
    """The NumPy name of a tensor's dtype."""
    return tensor.array.dtype.name


def _reset() -> None:
    _functions.clear()


def __getattr__(name: str) -> Any:
    if name == "_stats":
        counters = ("compiled_calls", "eager_calls", "compiles")
        return {c: sum(getattr(f.stats, c) for f in _functions) for c in counters}
    return getattr(fg, name)
