"""The kernels of small ops, found and run natively: by all that the program of one depends on.

A key is the words of what an op is called with: of each array how it lies, of each number and parameter its
type and value. Python makes it once, for a program that is there; native code makes it at each call, looks it
up among the op's ways, and runs what it finds (`making.py`), with the GIL, in a few hundred nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Variable, Word
from fusegrad.compiler.native.making import Making
from fusegrad.compiler.native.object_writer import Objects
from fusegrad.eager.core.op import Op

# The dtypes of arrays that native code looks at.
TAKEN = [
    np.dtype(name)
    for name in "float32 float64 int64 bool int32 uint8 complex64 complex128 int16 int8".split()
]
ALIGNED = 0x100  # a flag of arrays
MOST_WORDS = 120
_ROOM = 20  # words that are left at least before the next argument
_SINGLE = (None, True, False)

# Of each op: by the key, how to run (`Making.run`), which of the arrays made is the result, how many arrays
# are taken, and who keeps the memory; or None; and the params, whose addresses are in the key.
WAYS: dict[Op, dict[bytes, tuple[tuple[Any, ...] | None, Mapping[str, Any]]]] = {}
_MOST = 256  # of an op


def key(args: Sequence[Any], params: Mapping[str, Any]) -> bytes | None:
    """The key of a call; None where native code makes none. args: what has shape, strides and dtype, or
    numbers.

    What is named by its address has to stay for as long as the key is used.
    """
    words: list[int] = []
    for x in args:
        if hasattr(x, "strides"):
            if x.dtype not in TAKEN:
                return None
            words += [id(x.dtype), len(x.shape), *x.shape, *x.strides]
        elif not _add(words, x):
            return None
    for name, value in params.items():
        words.append(id(name))
        if type(value) is tuple:
            words += [id(tuple), len(value)]
            if not all(_add(words, item) for item in value):
                return None
        elif not _add(words, value):
            return None
    return np.array(words, np.int64).tobytes() if len(words) <= MOST_WORDS - _ROOM else None


def _add(words: list[int], value: Any) -> bool:
    """Add the words of a number, or of a text or one of few objects, if it is one."""
    if type(value) is int and -(2**63) <= value < 2**63:
        words += [id(int), value]
    elif type(value) is float:
        words += [id(float), int(np.float64(value).view(np.int64))]
    elif type(value) is str or any(value is known for known in _SINGLE):
        words.append(id(value))  # another text of the same letters is not found
    else:
        return False
    return True


def add_way(
    op: Op, args: Sequence[Any], params: Mapping[str, Any], way: tuple[Making, int, int] | None
) -> None:
    """Have calls like this one run natively: how, with which of the arrays that are made for a result, and
    with how many arrays; None where NumPy does them.
    """
    found = key(args, params)
    if found is not None:
        known = WAYS.setdefault(op, {})
        if len(known) >= _MOST:
            known.clear()
        known[found] = None if way is None else (way[0].run, *way[1:], way[0]), params


def value_function() -> FunctionWriter:
    """`fusegrad_value(value, words, at)`: as `_add`; gives how many words there are then, or -1."""
    f = Objects("fusegrad_value", {"value": "ptr", "words": "ptr", "at": "i64"}, "i64", private=True)
    value, words, at = f.given
    for name in ("none", "true", "false"):
        with f.if_(value == f.object(name)):
            words.store(value.to("i64"), at)
            f.return_(at + 1)
    with f.if_(f.is_a(value, "str")):
        words.store(value.to("i64"), at)
        f.return_(at + 1)
    kind, number = f.type_of(value), f.variable(0)
    is_int, is_float = f.is_a(value, "int"), f.is_a(value, "float")
    with f.if_(~(is_int | is_float)):
        f.return_(-1)
    with f.if_(is_int):
        number.set(f.call("PyLong_AsLongLong", value, gives="i64"))
        with f.if_((number.value == -1) & ~f.call("PyErr_Occurred", gives="ptr").is_null):
            f.call("PyErr_Clear")
            f.return_(-1)
    with f.if_(is_float):
        number.set(f.call("PyFloat_AsDouble", value, gives="double").bits("i64"))
    words.store(kind.to("i64"), at)
    words.store(number.value, at + 1)
    f.return_(at + 2)
    return f


def params_function() -> FunctionWriter:
    """`fusegrad_params(params, words, at)`: adds the words of parameters; gives how many there are, or -1."""
    f = Objects("fusegrad_params", {"params": "ptr", "words": "ptr", "at": "i64"}, "i64", private=True)
    params, words, given = f.given
    at = f.variable(given)
    place, name, value = f.stack("i64", 1), f.stack("ptr", 1), f.stack("ptr", 1)
    place.store(0)
    with f.repeat() as on:
        with f.if_(f.call("PyDict_Next", params, place, name, value, gives="i32") == 0):
            on.leave()
        with f.if_(at.value > MOST_WORDS - _ROOM):
            f.return_(-1)
        words.store(name.load("ptr").to("i64"), at.value)
        at.set(at.value + 1)
        found = value.load("ptr")
        is_row = f.variable(f.is_a(found, "tuple"))
        with f.if_(~is_row.value):
            at.set(f.call("fusegrad_value", found, words, at.value, gives="i64"))
            with f.if_(at.value < 0):
                f.return_(-1)
        with f.if_(is_row.value):
            count = f.call("PyTuple_Size", found, gives="i64")
            with f.if_(count > _ROOM // 4):
                f.return_(-1)
            words.store(f.object("tuple").to("i64"), at.value)
            words.store(count, at.value + 1)
            at.set(at.value + 2)
            with f.loop(count) as i:
                item = f.tuple_items(found).load("ptr", i)
                at.set(f.call("fusegrad_value", item, words, at.value, gives="i64"))
                with f.if_(at.value < 0):
                    f.return_(-1)
        on.again()
    f.return_(at.value)
    return f


def add_array(f: Objects, array: Word, words: Word, at: Variable) -> None:
    """Add the words of an array; -1 where there is no room, or code cannot read it."""
    ndim = f.array_ndim(array)
    fits = (at.value >= 0) & (at.value + ndim + ndim < MOST_WORDS - _ROOM)
    fits = fits & ((f.array_flags(array) & ALIGNED) != 0)
    with f.if_(~fits):
        at.set(-1)
    with f.if_(fits):
        words.store(f.array_dtype(array).to("i64"), at.value)
        words.store(ndim, at.value + 1)
        with f.loop(ndim) as d:
            words.store(f.array_shape(array).load("i64", d), at.value + d + 2)
            words.store(f.array_strides(array).load("i64", d), at.value + ndim + d + 2)
        at.set(at.value + ndim + ndim + 2)
