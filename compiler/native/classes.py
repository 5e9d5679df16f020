"""Asking classes: whether they are unchanged, by the versions that CPython counts."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.native import core
from fusegrad.compiler.native.layouts import layouts, look_up
from fusegrad.compiler.native.object_writer import ObjectWriter


class Classes:
    """Whether classes are as they were, by the versions that CPython counts: whatever is changed in a class,
    or in a base of it, takes its version away, and no later one is the same.

    unchanged(*kinds): whether these are the classes that there were, with the versions that were `noted`.
    """

    __slots__ = ("_table", "unchanged")

    unchanged: Callable[..., bool]

    def __init__(self, kinds: Sequence[type]) -> None:
        self._table = np.array([[id(kind), 0] for kind in kinds], np.int64)
        self.unchanged = CLASSES.of(self._table) or functools.partial(unchanged_plainly, self._table)

    def versions(self, *kinds: type) -> list[int]:
        """The versions of the classes now: to be noted when all is known of them that has to be."""
        return [_version(kind) for kind in kinds]

    def note(self, versions: Sequence[int]) -> None:
        """Have these versions count from now on."""
        self._table[:, 1] = versions


def _version(kind: type) -> int:
    """The version of a class; 0 if it has none, or where none can be read, so that it is asked each time."""
    if not core.is_on() or not layouts().class_version:
        return 0
    look_up(kind)
    return ctypes.c_uint32.from_address(id(kind) + layouts().class_version).value


# The table: for each of the classes which it is, and its version, 0 if that is not known.


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_classes", borrowed=True)
    with f.loop(f.count) as i:
        row, kind = f.table.at(i * 2), f.items.load("ptr", i)
        version = row.load("i64", 1)
        f.require((kind == row.load("ptr")) & (version != 0))
        f.require(f.class_version(kind) == version)
    f.return_(f.object("true"))
    return [f]


def unchanged_plainly(table: np.ndarray, *kinds: type) -> bool:
    """The plain way, in which no class has a version, and all is asked of each every time."""
    return all(
        id(kind) == known and version != 0 and _version(kind) == version
        for kind, (known, version) in zip(kinds, table.tolist(), strict=True)
    )


# The trials.


def _trials(made: core.Maker) -> Iterator[tuple[Any, Any]]:
    first, second = type("First", (), {}), type("Second", (), {})
    kinds, others = [first, second, int], [first, type("Other", (), {}), int]
    for noted in ([0, 0, 0], [_version(kind) for kind in kinds]):
        table = np.array([[id(kind), 0] for kind in kinds], np.int64)
        table[:, 1] = noted
        native = made(table)
        for given in (kinds, others):
            yield native(*given), unchanged_plainly(table, *given)
    second.changed = 1  # type: ignore[attr-defined]
    # Both read the version at one place; what is right is known without it.
    yield (native(*kinds), unchanged_plainly(table, *kinds)), (False, False)


CLASSES = core.Native("fusegrad_classes", _written, _trials)
