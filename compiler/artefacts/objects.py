"""Objects as data: what was worked out goes in, JSON comes out, and the other way round.

Objects of the classes of a table are rows of what they hold, those that others hold first; whatever has one
of them has the number of its row, so that what was one object is one again. Of tuples, numbers and the like
nobody asks which one it is: they stand where they are held. What is not in the table is refused, and nothing
is looked up by a name that the data give but ops and dtypes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.artefacts.capture_data import means_more
from fusegrad.compiler.artefacts.world import Data, Unsayable
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.op import REGISTRY, Op


class Kind(NamedTuple):
    """A class of the table. fields: gives what an object of it holds; make: makes one of that."""

    fields: Callable[[Any], Sequence[Any]]
    make: Callable[..., Any]


def kind_of(cls: Any) -> Kind:
    """A dataclass, or a named tuple, as it is made."""
    if issubclass(cls, tuple):
        return Kind(tuple, cls)
    first, *others = (field.name for field in dataclasses.fields(cls) if field.init)
    return Kind(attrgetter(first, *others) if others else lambda found: (getattr(found, first),), cls)


class Table(NamedTuple):
    """What there are words for: classes, and single objects by names."""

    kinds: Mapping[type, Kind]
    named: Mapping[str, Any]


_PLAIN = frozenset({int, str, bool, type(None)})
# A list in the data is a row, by its number alone, or what its first word says.
_CONTAINERS: dict[type, tuple[str, Callable[[Any], Sequence[Any]]]] = {
    tuple: ("tuple", tuple),
    list: ("list", list),
    dict: ("dict", lambda found: [part for pair in found.items() for part in pair]),
    set: ("set", sorted),
    frozenset: ("frozenset", sorted),
}


class Told:
    """Objects that have been told of. table: of their classes; rows: what they are."""

    def __init__(self, table: Table) -> None:
        kinds = enumerate(table.kinds.items())
        self._kinds = {cls: (number, kind.fields) for number, (cls, kind) in kinds}
        self._names = {id(one): name for name, one in table.named.items()}
        self.rows: list[list[Data]] = []
        self._numbers: dict[int, int | None] = {}  # by id; None while what it holds is told of
        self._held: list[Any] = []  # so that no other object gets its id

    def value(self, value: Any) -> Data:
        """A value as data. Raises Unsayable."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        container = _CONTAINERS.get(kind)
        if container is not None:
            name, parts = container
            # Most are numbers, for which a call would take longer than all else.
            return [name, *[x if type(x) in _PLAIN else self.value(x) for x in parts(value)]]
        if kind is float:
            return value if math.isfinite(value) else ["float", np.float64(value).tobytes().hex()]
        if kind is complex:
            return ["complex", self.value(value.real), self.value(value.imag)]
        if id(value) in self._names:
            return ["named", self._names[id(value)]]
        if kind in self._kinds:
            number, fields = self._kinds[kind]
            if issubclass(kind, tuple):
                return ["of", number, *map(self.value, fields(value))]
            return [self._row(value, number, fields)]
        if isinstance(value, (tuple, int)) and not means_more(kind):
            return ["tuple", *map(self.value, value)] if isinstance(value, tuple) else int(value)
        if isinstance(value, np.dtype) and value == np.dtype(value.str):
            return ["dtype", value.str]
        if isinstance(value, Op) and REGISTRY.get(value.name) is value:
            return ["op", value.name]
        if isinstance(value, DType) and dtypes.FROM_SHORT.get(value.short) is value:
            return ["type", value.short]
        raise Unsayable(f"has a {kind.__name__}, which has no words")

    def _row(self, value: Any, kind: int, fields: Callable[[Any], Sequence[Any]]) -> int:
        """The number of an object's row."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = None
            row = [kind, *[x if type(x) in _PLAIN else self.value(x) for x in fields(value)]]
            self._numbers[id(value)] = len(self.rows)
            self._held.append(value)
            self.rows.append(row)
        number = self._numbers[id(value)]
        if number is None:
            raise Unsayable(f"has a {type(value).__name__} that holds itself")
        return number


class Again:
    """What makes values of data. rows: those that were told. May raise anything where they are none."""

    def __init__(self, rows: Sequence[Sequence[Any]], table: Table) -> None:
        makes: list[Callable[..., Any]] = [kind.make for kind in table.kinds.values()]
        self._words: dict[str, Callable[[Any], Any]] = {
            **_WORDS,
            "of": lambda parts: makes[next(parts)](*parts),
            "named": lambda parts: table.named[next(parts)],
        }
        self._objects: list[Any] = []
        value = self.value
        for kind, *fields in rows:
            made = makes[kind](*[value(f) if type(f) is list else f for f in fields])
            self._objects.append(made)

    def value(self, data: Data) -> Any:
        """The value that data tell of."""
        if type(data) is not list:
            return data
        first = data[0]
        if type(first) is int:
            return self._objects[first]
        return self._words[first](iter([self.value(x) if type(x) is list else x for x in data[1:]]))


def _pairs(parts: Any) -> dict[Any, Any]:
    return dict(zip(parts, parts, strict=True))


_WORDS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "list": list,
    "dict": _pairs,
    "set": set,
    "frozenset": frozenset,
    "float": lambda parts: float(np.frombuffer(bytes.fromhex(*parts), np.float64)[0]),  # a NaN has a sign
    "complex": lambda parts: complex(*parts),
    "dtype": lambda parts: np.dtype(*parts),
    "op": lambda parts: REGISTRY[next(parts)],
    "type": lambda parts: dtypes.FROM_SHORT[next(parts)],
}
