"""Asking dicts: whether one holds what it held under some names.

The attributes of modules, their parameters, what functions find in their globals: for a network this comes to
hundreds of look-ups at each call. One native function does all of a dict in one go.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.values import Expected, Strong

# What must be there under a name: nothing, an object, or what a weak reference refers to.
_NOTHING, _OBJECT, _REFERENCE = range(3)


class Row(NamedTuple):
    """A name, and what is expected under it."""

    name: str
    kind: int
    known: Any

    @staticmethod
    def of(name: str, expected: Expected) -> Row:
        reference = expected.reference
        if not isinstance(reference, Strong):
            return Row(name, _REFERENCE, reference)
        value = reference()
        return Row(name, _NOTHING, None) if value is MISSING else Row(name, _OBJECT, value)


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
        self._alive = [Row.of(name, expected) for name, expected in rows]
        self.holds = ITEMS.of(_table(self._alive)) or functools.partial(holds_plainly, self._alive)


# The table: how many names there are; for each the name, the kind, and what is expected.


def _table(rows: Sequence[Row]) -> np.ndarray:
    words = [len(rows)]
    for name, kind, known in rows:
        words += [id(name), kind, id(known)]
    return np.array(words, np.int64)


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_items", borrowed=True)
    (names,) = f.words("i64")
    items, none = f.items.load("ptr"), f.object("none")
    with f.loop(names) as i:
        row = f.table.at(i * 3 + 1)
        kind, known = row.load("i64", 1), row.load("ptr", 2)
        value = f.call("PyDict_GetItemWithError", items, row.load("ptr"), gives="ptr")
        with f.if_(value.is_null & ~f.call("PyErr_Occurred", gives="ptr").is_null):
            f.return_(f.null)
        expected = f.variable(known)
        with f.if_(kind == _REFERENCE):
            expected.set(f.referent(known))
            f.require(expected.value != none)
        with f.if_(kind == _NOTHING):
            expected.set(f.null)
        f.require(expected.value == value)
    f.return_(f.object("true"))
    return [f]


def holds_plainly(rows: Sequence[Row], items: dict[Any, Any]) -> bool:
    """The plain way."""
    for name, kind, known in rows:
        value = items.get(name, MISSING)
        expected = known if kind == _OBJECT else MISSING if kind == _NOTHING else known()
        if value is not expected or (kind == _REFERENCE and expected is None):
            return False
    return True


# The trials.


class _Held:
    """Of these there are weak references."""


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    held, gone, other = _Held(), _Held(), object()
    expected = {"held": held, "gone": gone, "none": None, "true": True, "row": [other]}
    rows = [Row.of(name, Expected(value)) for name, value in (*expected.items(), ("absent", MISSING))]
    changes = {"held": _Held(), "gone": None, "none": False, "true": 1, "row": [other], "absent": None}

    def asked() -> Iterator[tuple[Any, Any]]:
        givens: list[dict[Any, Any]] = [
            expected,
            *({**expected, name: value} for name, value in changes.items()),
            {},
        ]
        for asking in (*([row] for row in rows), rows):
            native = made(_table(asking))
            for given in givens:
                yield native(given), holds_plainly(asking, given)

    yield from asked()
    del expected["gone"], gone
    yield from asked()


ITEMS = Native("fusegrad_items", _written, _trials)
