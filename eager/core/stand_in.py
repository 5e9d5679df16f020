"""The array of a tensor that has no values yet: it knows its shape, dtype and strides, and refuses the rest.

The thread that defers a tensor's op never reads the stand-in: it is told before. Another thread that
was handed the tensor is not, and must get an error and not whatever lies in the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Attributes that say nothing about the values, or that Python itself needs.
_KNOWN = frozenset(
    """__array_finalize__ __array_priority__ __class__ __class_getitem__ __delattr__ __dir__ __doc__ __eq__
    __getattribute__ __hash__ __init__ __init_subclass__ __len__ __ne__ __new__ __setattr__ __sizeof__
    __subclasshook__ __array_function__ __array_ufunc__ reshape squeeze swapaxes transpose view""".split()
)
_ABOUT_MEMORY = (np.may_share_memory, np.shares_memory)
_LIKE = (np.zeros_like, np.empty_like, np.ones_like, np.full_like)


_MEMORY = ("__array_interface__", "__array_struct__", "ctypes", "data", "flat", "imag", "real")


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError(
        "this tensor has no values yet: a jitted function that is still running, in another thread, has put "
        "its op off. Hand tensors to other threads when the function has returned, or read them first "
        "(`tensor.item()`, `tensor.numpy()`)"
    )


class StandIn(np.ndarray):
    """An array whose elements nobody may read or write.

    values: the array that has taken its place, if there is one by now.
    """

    values: np.ndarray | None = None

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        _refuse()

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function in _ABOUT_MEMORY or function in _LIKE:
            return function(*map(plain, args), **kwargs)
        return _refuse()


for _name in dir(np.ndarray):
    if _name not in _KNOWN and callable(getattr(np.ndarray, _name)):
        setattr(StandIn, _name, _refuse)
for _name in _MEMORY:
    setattr(StandIn, _name, property(_refuse))


def plain(array: Any) -> Any:
    """An array to ask where its elements lie, but not for these; anything else as it is."""
    return array.view(np.ndarray) if isinstance(array, StandIn) else array


def has_values(array: np.ndarray) -> bool:
    """Whether native code, which asks nobody, may read the array."""
    return type(array) is not StandIn


def stand_in(
    shape: tuple[int, ...],
    dtype: np.dtype,
    strides: tuple[int, ...] | None = None,
    writeable: bool = True,
) -> StandIn:
    """A stand-in, in row-major order unless strides are given; its memory is never touched."""
    array = np.empty(shape, dtype)
    if strides is not None and array.strides != strides and array.size:
        reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
        before = -sum(r for r in reach if r < 0)
        memory = np.empty(before + sum(r for r in reach if r > 0) + dtype.itemsize, np.uint8)
        array = np.ndarray(shape, dtype, memory, before, strides)
    if not writeable:
        array.flags.writeable = False
    return array.view(StandIn)
