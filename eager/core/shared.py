"""Which memory is in the hands of NumPy code, and so may be written without a word to the engine.

A deferred run computes ops later than the program asks for them; it must not do so with memory
that the program can change in between unseen. Memory that came from a NumPy array of the user's is
noted here for as long as it lives, and memory lent to NumPy for as long as somebody has it.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

# By the id of the array that owns the memory: weak references to who has it, besides tensors.
_held: dict[int, dict[int, weakref.ref[np.ndarray]]] = {}


def source(array: np.ndarray) -> np.ndarray | None:
    """The array that a view was taken of.

    NumPy's `as_strided` puts an object between the two, whose base the array is.
    """
    base = array.base
    if base is not None and not isinstance(base, np.ndarray):
        base = getattr(base, "base", None)
    return base if isinstance(base, np.ndarray) else None


def owner(array: np.ndarray) -> np.ndarray:
    """The last array in the chain of sources: every view of a memory leads to it."""
    while (base := source(array)) is not None:
        array = base
    return array


def is_same(one: Any, other: Any) -> bool:
    """Whether two arrays are the same elements of one memory."""
    if type(one) is not np.ndarray or type(other) is not np.ndarray:
        return one is other
    same = (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
    return same and one.__array_interface__["data"] == other.__array_interface__["data"]


class _Loan:
    """Holds an array for the one that is lent.

    NumPy makes views refer to the owner of the memory, past the array that they were taken from, but
    not past an object that is no array: all views of a lent array keep it alive.
    """

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_struct__(self) -> Any:
        return self.array.__array_struct__


def lend(array: np.ndarray) -> np.ndarray:
    """An array of the same memory for NumPy code."""
    lent = np.asarray(_Loan(array))
    _note(owner(array), lent)
    return lent


def expose(array: np.ndarray) -> np.ndarray:
    """Note that the memory of `array` is the user's; gives `array`."""
    _note(owner(array), owner(array))
    return array


def _note(owned: np.ndarray, holder: np.ndarray) -> None:
    identity = id(owned)
    holders = _held.setdefault(identity, {})

    def returned(reference: weakref.ref[np.ndarray], held: dict[int, Any] = _held) -> None:
        # The table is an argument: when Python ends, the module's names go before the arrays.
        holders.pop(id(reference), None)
        if not holders and held.get(identity) is holders:
            del held[identity]

    reference = weakref.ref(holder, returned)
    holders[id(reference)] = reference


def is_exposed(array: np.ndarray) -> bool:
    """Whether NumPy code may hold the memory of `array`."""
    return bool(_held) and id(owner(array)) in _held
