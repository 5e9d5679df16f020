"""What guards ask natively: whether dicts hold what they held under some names, and classes are unchanged.

The attributes of modules, their parameters, what functions find in their globals: for a network this comes to
hundreds of look-ups at each call. A function of LLVM IR (see `calling`) does all of a dict in one go, and
another compares the versions that CPython counts for classes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.runtime import cpython_calls
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.values import Expected, Strong

# `self` is an array: how many names there are; for each the name, and what must be there: nothing, an object,
# or what a weak reference refers to.
_NOTHING, _OBJECT, _REFERENCE = range(3)
_ITEMS = """
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyErr_Occurred()

define ptr @fusegrad_items(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  {TABLE}
  %names = load i64, ptr %table
  %rows = getelementptr i64, ptr %table, i64 1
  %dict = load ptr, ptr %given
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %same ]
  %more = icmp slt i64 %i, %names
  br i1 %more, label %look, label %yes
look:
  %row = getelementptr [3 x i64], ptr %rows, i64 %i
  %name = load ptr, ptr %row
  %kind.at = getelementptr i64, ptr %row, i64 1
  %kind = load i64, ptr %kind.at
  %known.at = getelementptr ptr, ptr %row, i64 2
  %known = load ptr, ptr %known.at
  %value = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %name)
  %absent = icmp eq ptr %value, null
  %by.reference = icmp eq i64 %kind, {_REFERENCE}
  br i1 %absent, label %failed, label %compare
failed:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %fail, label %nothing
nothing:
  %expected = icmp eq i64 %kind, {_NOTHING}
  br i1 %expected, label %same, label %no
compare:
  br i1 %by.reference, label %refer, label %object
refer:
  %referent.at = getelementptr i8, ptr %known, i64 {REFERENT}
  %referent = load ptr, ptr %referent.at
  %gone = icmp eq ptr %referent, @fusegrad_none
  %there = icmp eq ptr %referent, %value
  %alive = xor i1 %gone, true
  %referred = and i1 %there, %alive
  br i1 %referred, label %same, label %no
object:
  %is.object = icmp eq i64 %kind, {_OBJECT}
  %it = icmp eq ptr %known, %value
  %found = and i1 %is.object, %it
  br i1 %found, label %same, label %no
same:
  %i1 = add i64 %i, 1
  br label %next
{YES_NO}
fail:
  ret ptr null
}}
"""

# `self` is an array: for each of the classes which it is, and its version, 0 if that is not known.
_CLASSES = """
define ptr @fusegrad_classes(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  {TABLE}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %unchanged ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %class, label %yes
class:
  %row = getelementptr [2 x i64], ptr %table, i64 %i
  %known = load ptr, ptr %row
  %version.at = getelementptr i64, ptr %row, i64 1
  %version = load i64, ptr %version.at
  %item = getelementptr ptr, ptr %given, i64 %i
  %kind = load ptr, ptr %item
  %same = icmp eq ptr %kind, %known
  %is.known = icmp ne i64 %version, 0
  %comparable = and i1 %same, %is.known
  br i1 %comparable, label %compare, label %no
compare:
  %now.at = getelementptr i8, ptr %kind, i64 {VERSION}
  %now.short = load i32, ptr %now.at
  %now = zext i32 %now.short to i64
  %equal = icmp eq i64 %now, %version
  br i1 %equal, label %unchanged, label %no
unchanged:
  %i1 = add i64 %i, 1
  br label %next
{YES_NO}
}}
"""


def is_by_identity(name: Any, expected: Expected) -> bool:
    """Whether one object, or nothing, is expected under a name, and not any equal number or text."""
    if type(name) is not str:
        return False
    value = expected.reference()
    if value is MISSING or value is None or type(value) is bool:
        return True
    return expected.key is MISSING and type(expected.reference) in (Strong, weakref.ref)


class Items:
    """What a dict must hold under names, each by identity.

    holds(items): whether the dict does, which must be one and of no subclass. It may raise what comparing the
    name with the dict's own names raises.
    """

    __slots__ = ("_alive", "holds")

    holds: Callable[[dict[Any, Any]], bool]

    def __init__(self, rows: Sequence[tuple[str, Expected]]) -> None:
        self._alive = [(name, *_kind_and_object(expected)) for name, expected in rows]
        table = [len(rows)]
        for name, kind, known in self._alive:
            table += [id(name), kind, id(known)]
        self.holds = cpython_calls.native_function("items")(np.array(table, np.int64))


def _kind_and_object(expected: Expected) -> tuple[int, Any]:
    reference = expected.reference
    if isinstance(reference, Strong):
        value = reference()
        return (_NOTHING, None) if value is MISSING else (_OBJECT, value)
    return _REFERENCE, reference


def _places() -> dict[str, int]:
    """Where a weak reference has what it refers to."""

    class Referent:
        pass

    place, referent = object.__basicsize__, Referent()
    if not cpython_calls.refers(weakref.ref(referent), place, referent):
        raise RuntimeError("compiled code cannot look into weak references of this Python")
    return {"REFERENT": place, "_NOTHING": _NOTHING, "_OBJECT": _OBJECT, "_REFERENCE": _REFERENCE}


cpython_calls.TEXTS["items"] = cpython_calls.Text(_ITEMS, places=_places)


class Classes:
    """Whether classes are as they were, by the versions that CPython counts: whatever is changed in a class,
    or in a base of it, takes its version away, and no later one is the same.

    unchanged(*kinds): whether these are the classes that there were, with the versions that were `noted`.
    """

    __slots__ = ("_table", "unchanged")

    unchanged: Callable[..., bool]

    def __init__(self, kinds: Sequence[type]) -> None:
        self._table = np.array([[id(kind), 0] for kind in kinds], np.int64)
        self.unchanged = cpython_calls.native_function("classes")(self._table)

    def versions(self, *kinds: type) -> list[int]:
        """The versions of the classes now: to be noted when all is known of them that has to be."""
        return [_version(kind) for kind in kinds]

    def note(self, versions: Sequence[int]) -> None:
        """Have these versions count from now on."""
        self._table[:, 1] = versions


def _version(kind: type) -> int:
    """The version of a class, which it gets when something is looked up in it; 0 if it has none."""
    place = _version_place()
    if not place:
        return 0
    with contextlib.suppress(AttributeError):
        type.__getattribute__(kind, "what no class has")
    return ctypes.c_uint32.from_address(id(kind) + place).value


@functools.cache
def _version_place() -> int:
    """Where a class has its version, tried out on one; 0 where that is not found."""

    class Changing:
        pass

    def words() -> list[int]:
        size: int = type.__basicsize__  # type: ignore[assignment]
        return (ctypes.c_uint32 * (size // 4)).from_address(id(Changing))[:]

    def look() -> None:
        with contextlib.suppress(AttributeError):
            type.__getattribute__(Changing, "what no class has")

    look()
    before = words()
    Changing.attribute = 1  # type: ignore[attr-defined]
    changed = words()
    look()
    rows = zip(before, changed, words(), strict=True)
    found = [4 * i for i, (first, none, second) in enumerate(rows) if first and not none and second > first]
    return found[0] if len(found) == 1 else 0


cpython_calls.TEXTS["classes"] = cpython_calls.Text(_CLASSES, places=lambda: {"VERSION": _version_place()})
