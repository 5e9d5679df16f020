"""Red zones: bytes around the memory of arrays that nobody may write, looked at after each native call.

A debug mode, for whoever doubts that native code keeps to its arrays: FUSEGRAD_RED_ZONES=1. NumPy's memory
(of users' arrays, results, temporaries and what NumPy makes for itself) then comes from here. Data begin on a
cache line; the second zone begins right behind their last byte:

    raw ... | raw, size, previous, next, magic | zone | data | zone

Each kernel is called by itself, and what it gets must be of the dtype, shape, strides and writability it was
compiled for (`native/calls.py`). Memory of other libraries, and from before this was on, has no zones.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word, module_text
from fusegrad.eager.core import settings

is_on = settings.RED_ZONES

ZONE = 128  # bytes before, and as many behind
PATTERN = 0xFD  # of each byte: a large number, whatever reads it
_LINE = 64
_RAW, _SIZE, _BEFORE, _NEXT, _MAGIC = range(5)  # words of the header
_HEADER = 48
_MARK = 0x5ED20E5
_EXTRA = _HEADER + ZONE + _LINE + ZONE
# Places of functions in the table that NumPy has for C programs, as its headers have them.
_SET_HANDLER = 304
_FIRST, _GONE, _GONE_SIZE = range(3)  # words of what native code knows


class RedZoneTouched(AssertionError):
    """Native code wrote, or was about to, where it must not."""


# What native code knows: the header of the first block, how many blocks were found touched when they were
# freed, and how large the last of these was.
_known = np.zeros(3, np.int64)
_untouched = np.full(ZONE, PATTERN, np.uint8)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _knows(f: FunctionWriter) -> Word:
    return f.number(_address(_known)).to("ptr")


def _fill(f: FunctionWriter, place: Word, size: Word | int) -> None:
    f.call("memset", place, f.number(PATTERN, "i32"), f.word(size), gives="ptr")


def _writer(name: str, takes: dict[str, str], gives: str = "void", private: bool = True) -> FunctionWriter:
    return FunctionWriter(name, takes, gives, private=private)


def _fill_zones() -> FunctionWriter:
    f = _writer("red_zones_fill", {"data": "ptr", "size": "i64"}, private=False)
    data, size = f.given
    _fill(f, data.at(-ZONE, "i8"), ZONE)
    _fill(f, data.at(size, "i8"), ZONE)
    return f


def _look() -> FunctionWriter:
    """`red_zones_look(data, size)`: 0 where nobody has written into the zones."""
    f = _writer("red_zones_look", {"data": "ptr", "size": "i64"}, "i64")
    data, size = f.given
    untouched = f.number(_address(_untouched)).to("ptr")
    before = f.call("memcmp", data.at(-ZONE, "i8"), untouched, ZONE, gives="i32")
    behind = f.call("memcmp", data.at(size, "i8"), untouched, ZONE, gives="i32")
    f.return_((before | behind).to("i64"))
    return f


def _allocate() -> FunctionWriter:
    f = _writer("red_zones_allocate", {"of": "ptr", "size": "i64"}, "ptr", private=False)
    _, size = f.given
    raw = f.call("malloc", size + _EXTRA, gives="ptr")
    with f.if_(raw.is_null):
        f.return_(f.null)
    data = ((raw.to("i64") + (_HEADER + ZONE + _LINE - 1)) & -_LINE).to("ptr")
    header, knows = data.at(-ZONE - _HEADER, "i8"), _knows(f)
    following = knows.load("ptr", _FIRST)
    header.store(raw, _RAW)
    header.store(size, _SIZE)
    header.store(f.null, _BEFORE)
    header.store(following, _NEXT)
    header.store(_MARK, _MAGIC)
    with f.if_(~following.is_null):
        following.store(header, _BEFORE)
    knows.store(header, _FIRST)
    _fill(f, data, size)  # what is read before it is written is seen
    f.call("red_zones_fill", data, size)
    f.return_(data)
    return f


def _allocate_zeros() -> FunctionWriter:
    f = _writer("red_zones_zeros", {"of": "ptr", "count": "i64", "each": "i64"}, "ptr", private=False)
    of, count, each = f.given
    data = f.call("red_zones_allocate", of, count * each, gives="ptr")
    with f.if_(~data.is_null):
        f.call("memset", data, f.number(0, "i32"), count * each, gives="ptr")
    f.return_(data)
    return f


def _free() -> FunctionWriter:
    f = _writer("red_zones_free", {"of": "ptr", "data": "ptr", "given": "i64"}, private=False)
    _, data, _ = f.given
    with f.if_(data.is_null):
        f.return_()
    header, knows = data.at(-ZONE - _HEADER, "i8"), _knows(f)
    size = header.load("i64", _SIZE)
    with f.if_(f.call("red_zones_look", data, size, gives="i64") != 0):
        knows.store(knows.load("i64", _GONE) + 1, _GONE)
        knows.store(size, _GONE_SIZE)
    before, following = header.load("ptr", _BEFORE), header.load("ptr", _NEXT)
    with f.if_(before.is_null):
        knows.store(following, _FIRST)
    with f.if_(~before.is_null):
        before.store(following, _NEXT)
    with f.if_(~following.is_null):
        following.store(before, _BEFORE)
    f.call("free", header.load("ptr", _RAW))
    return f


def _resize() -> FunctionWriter:
    f = _writer("red_zones_resize", {"of": "ptr", "data": "ptr", "size": "i64"}, "ptr", private=False)
    of, data, size = f.given
    made = f.call("red_zones_allocate", of, size, gives="ptr")
    with f.if_(~made.is_null & ~data.is_null):
        old = data.at(-ZONE - _HEADER, "i8").load("i64", _SIZE)
        f.call("memcpy", made, data, f.select(old < size, old, size), gives="ptr")
        f.call("red_zones_free", of, data, 0)
    f.return_(made)
    return f


def _first_touched() -> FunctionWriter:
    """`red_zones_touched()`: the data of a block whose zones somebody has written into, or 0."""
    f = _writer("red_zones_touched", {}, "i64", private=False)
    header = f.variable(_knows(f).load("ptr", _FIRST))
    with f.repeat() as on:
        with f.if_(header.value.is_null):
            on.leave()
        data, size = header.value.at(_HEADER + ZONE, "i8"), header.value.load("i64", _SIZE)
        with f.if_(f.call("red_zones_look", data, size, gives="i64") != 0):
            f.return_(data.to("i64"))
        header.set(header.value.load("ptr", _NEXT))
        on.again()
    f.return_(0)
    return f


_WRITTEN = (_fill_zones, _look, _allocate, _allocate_zeros, _free, _resize, _first_touched)
_GIVEN = ("fill", "touched", "allocate", "zeros", "resize", "free")


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("of", ctypes.c_void_p),
        *[(name, ctypes.c_void_p) for name in ("allocate", "zeros", "resize", "free")],
    )


class _Zones:
    """The native functions, and what gives NumPy its memory."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        names = ("malloc", "free", "memset", "memcpy", "memcmp")
        found = {n: ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names}
        llvm_jit.add_symbols(found)
        text = module_text([write() for write in _WRITTEN])
        addresses = llvm_jit.compile_module(text, [f"red_zones_{name}" for name in _GIVEN])
        at = dict(zip(_GIVEN, addresses, strict=True))
        # With the lock of the interpreter, as NumPy makes and frees: no array goes while they look at it.
        self.fill = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(at["fill"])
        self.touched = ctypes.PYFUNCTYPE(ctypes.c_int64)(at["touched"])
        self.handler = _Handler(b"red zones", 1, None, *(at[n] for n in _GIVEN[2:]))
        python = ctypes.pythonapi
        python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        self.capsule_name = b"mem_handler"
        self.capsule = python.PyCapsule_New(ctypes.addressof(self.handler), self.capsule_name, None)
        pointer = python.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
        place = ctypes.c_void_p.from_address(table + 8 * _SET_HANDLER).value
        self.set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place or 0)
        # Arrays that go when the process ends are freed by all this, whatever has gone before.
        for needed in (self, _known, _untouched):
            python.Py_IncRef(ctypes.py_object(needed))


@functools.cache
def _zones() -> _Zones:
    return _Zones()


def install() -> None:
    """Have NumPy's arrays of this thread made with red zones from now on."""
    zones = _zones()
    zones.set_handler(zones.capsule)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array with red zones, whatever thread asks for it."""
    install()
    return np.empty(shape, dtype)


def check(by: str, arrays: Iterable[np.ndarray] = ()) -> None:
    """Raise `RedZoneTouched` where memory around an array was written; by: what has run last, and with which
    arrays.

    >>> check("nothing")  # doctest: +SKIP
    """
    zones = _zones()
    gone, _known[_GONE] = int(_known[_GONE]), 0
    if gone:
        fail(
            f"{gone} arrays, the last of {_known[_GONE_SIZE]} bytes, were freed with red zones written, {by}"
        )
    data = zones.touched()
    if not data:
        return
    size = ctypes.c_int64.from_address(data - ZONE - _HEADER + 8 * _SIZE).value
    places = [("before", data - ZONE, -ZONE), ("behind", data + size, 0)]
    found = []
    for where, start, first in places:
        bytes_ = ctypes.string_at(start, ZONE)
        wrong = [i + first for i, byte in enumerate(bytes_) if byte != PATTERN]
        if wrong:
            found.append(f"{len(wrong)} bytes {where} it, from {wrong[0]} to {wrong[-1]}")
    zones.fill(data, size)
    named = [
        f"array {number} of {array.dtype}{list(array.shape)}"
        for number, array in enumerate(arrays)
        if data <= _address(array) < data + max(size, 1)
    ]
    what = ", ".join(named) or "none of its arrays"
    fail(f"{by} wrote {' and '.join(found)}: memory of {size} bytes, {what}")


def fail(text: str) -> None:
    """Say so, also where the error is caught, and raise it."""
    print(f"[fusegrad] red zone: {text}", file=sys.stderr)
    raise RedZoneTouched(text)


if is_on:
    install()
