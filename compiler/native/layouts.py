"""Where CPython and NumPy keep things in their objects: found by trying it on live ones.

Nothing outside of this package knows an offset. Each one is looked for in the words of an object that has
something known in it; where it is not found at one place, and one alone, `Unknown` is raised.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.core.interpreter import strangeness

# What native code was tried on; of Pythons, `TRIED` in `eager/core/interpreter.py`. A later major version of
# NumPy has another ABI by its own rules.
NUMPY = 2

# Flags of arrays, as NumPy's headers have them.
OWNDATA, WRITEABLE = 0x0004, 0x0400
# The numbers of functions in the table that NumPy has for C programs, as its headers have them.
_GET_ABI_VERSION, _NEW_FROM_DESCR = 0, 94
_ABI_VERSION = 0x02000000

_WORD = 8


class Unknown(Exception):
    """Objects lie otherwise in memory than native code can know."""


@dataclass(frozen=True)
class Layouts:
    """Offsets in bytes from an object's address.

    head: where the fields of an object's class begin. referent: of a weak reference. class_version: of a
    class, 0 if there is none. new_array: the address of NumPy's function that makes arrays.
    """

    head: int
    type: int
    tuple_items: int
    array_data: int
    array_ndim: int
    array_shape: int
    array_strides: int
    array_dtype: int
    array_flags: int
    referent: int
    class_version: int
    new_array: int


@functools.cache
def layouts() -> Layouts:
    """Where things are. Raises `Unknown`."""
    for refuse in REFUSALS:
        reason = refuse()
        if reason:
            raise Unknown(reason)
    found: dict[str, int] = {}
    for name, probe in PROBES.items():
        try:
            found |= probe()
        except Unknown as error:
            raise Unknown(f"the layout of {name}: {error}") from None
    return Layouts(**found)


# What is not even tried.


def _debug_build() -> str:
    return "a debug build of Python" if hasattr(sys, "gettotalrefcount") else ""


def _other_machine() -> str:
    known = struct.calcsize("P") == _WORD and sys.byteorder == "little"
    return "" if known else "addresses are not of 64 bits, or the highest byte of a word comes first"


def _other_numpy() -> str:
    major = np.__version__.split(".")[0]
    return "" if major == str(NUMPY) else f"NumPy {np.__version__} is not known"


# Native code relies on nobody changing an object while it looks, and on counts of references.
REFUSALS = [strangeness, _debug_build, _other_machine, _other_numpy]

# Looking into objects.


def word(address: int) -> int:
    """The word of 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def place_of(examples: Sequence[tuple[Any, int]], begin: int, end: int, kind: Any = ctypes.c_uint64) -> int:
    """The one offset at which each object has the number that it is given with. Raises `Unknown`."""
    found = [
        place
        for place in range(begin, end, ctypes.sizeof(kind))
        if all(kind.from_address(id(owner) + place).value == known for owner, known in examples)
    ]
    if len(found) != 1:
        raise Unknown(f"{len(found)} places fit")
    return found[0]


def _objects() -> dict[str, int]:
    head = object.__basicsize__
    owners = [object(), [], 1.5, np.zeros(1)]
    return {"head": head, "type": place_of([(owner, id(type(owner))) for owner in owners], 0, head)}


def _tuples() -> dict[str, int]:
    rows = [(object(), None), (object(),)]
    items = [(row, id(row[0])) for row in rows]
    return {"tuple_items": place_of(items, object.__basicsize__, tuple.__basicsize__ + _WORD)}


def _arrays() -> dict[str, int]:
    arrays = [np.zeros((2, 3, 5), np.float32)[:, ::2], np.zeros((1, 1, 1, 1, 1, 2), np.int64)[0, 0]]
    arrays.append(np.zeros(7)[1:6])
    arrays[-1].flags.writeable = False
    begin, end = object.__basicsize__, np.ndarray.__basicsize__

    def place(known: Callable[[np.ndarray], int], kind: Any = ctypes.c_uint64) -> int:
        return place_of([(array, known(array)) for array in arrays], begin, end, kind)

    ndim, base = place(lambda a: a.ndim, ctypes.c_int32), place(lambda a: id(a.base))
    found = {
        "array_data": place(lambda a: a.__array_interface__["data"][0]),
        "array_ndim": ndim,
        "array_shape": ndim + _WORD,
        "array_strides": ndim + 2 * _WORD,
        "array_dtype": place(lambda a: id(a.dtype)),
        "array_flags": place(lambda a: a.flags.num, ctypes.c_int32),
    }
    # What lies between are the addresses of both rows of numbers.
    if base != ndim + 3 * _WORD or not all(_rows_fit(array, ndim) for array in arrays):
        raise Unknown("shape and strides are not between the number of dimensions and the base")
    return found


def _rows_fit(array: np.ndarray, ndim: int) -> bool:
    shape, strides = (
        tuple((ctypes.c_int64 * array.ndim).from_address(word(id(array) + ndim + number * _WORD)))
        for number in (1, 2)
    )
    return shape == array.shape and strides == array.strides


class _Plain:
    """Of these, and of their class, something is known."""


def _weak_references() -> dict[str, int]:
    owners = [_Plain(), _Plain()]
    references = [(weakref.ref(owner), id(owner)) for owner in owners]
    return {"referent": place_of(references, object.__basicsize__, weakref.ref.__basicsize__)}


def _classes() -> dict[str, int]:
    """Where a class has its version, which it gets when something is looked up in it, loses when it changes,
    and never gets again.
    """
    kind: Any = type("Changing", (), {})

    def numbers() -> list[int]:
        size: int = type.__basicsize__  # type: ignore[assignment]
        return (ctypes.c_uint32 * (size // 4)).from_address(id(kind))[:]

    look_up(kind)
    before = numbers()
    kind.attribute = 1
    changed = numbers()
    look_up(kind)
    rows = zip(before, changed, numbers(), strict=True)
    found = [4 * i for i, (first, none, second) in enumerate(rows) if first and not none and second > first]
    # Without it all is asked of a class each time.
    return {"class_version": found[0] if len(found) == 1 else 0}


def look_up(kind: type) -> None:
    """Look something up in a class, for it to have a version."""
    with suppress(AttributeError):
        type.__getattribute__(kind, "what no class has")


def _functions_of_numpy() -> dict[str, int]:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(word(table + _WORD * _GET_ABI_VERSION))()
    if version != _ABI_VERSION:
        raise Unknown(f"version {version:#x} of NumPy's ABI")
    return {"new_array": word(table + _WORD * _NEW_FROM_DESCR)}


PROBES: dict[str, Callable[[], dict[str, int]]] = {
    "objects": _objects,
    "tuples": _tuples,
    "arrays": _arrays,
    "weak references": _weak_references,
    "classes": _classes,
    "NumPy's functions": _functions_of_numpy,
}

# The slots of our own classes.


@functools.cache
def slot_of(kind: type, name: str) -> int:
    """Where objects of a class have the value of a slot. Raises `Unknown`."""
    examples = []
    for _ in range(2):
        made: Any = object.__new__(kind)
        value = object()
        setattr(made, name, value)
        examples.append((made, id(value)))
    return place_of(examples, object.__basicsize__, kind.__basicsize__)
