"""What must be true for a read to hold, said once: places in the world go in, and what is expected there.

A read gives its conditions (`Read.conditions`), which are few and plain, of places that are so too:

    Matches(Item(Held(settings), "scale"), expected)              settings["scale"] is what was expected
    Are(Exact(Item(Held(group), "params"), list), (w, b))         group["params"] is a list of just w and b

Here is what they mean: `find` looks, `holds` compares. `compiler/guards/guard_source.py` spells the same
records out, as lines of a function for calls that come again; those may be stricter, and never less strict.

Looking runs no user code. Where there is nothing to look at, it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING, container_class, flat_contents, lookup, type_lookup
from fusegrad.tracer.observe.values import Expected

Reference = Callable[[], Any]  # call it for the object; it gives None if that is gone


class Gone(Exception):
    """The object that was read is no longer there, or no longer of a kind that can be read so."""


# ---------------------------------------------------------------------------------- places


class Place:
    """Somewhere that can be looked at again."""

    __slots__ = ()

    def find(self) -> Any:
        """What lies there now; ``MISSING`` where a container lacks it. May raise anything."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Held(Place):
    """An object from outside. word: what it is called in a source, if not after its class."""

    reference: Reference
    word: str = ""

    def find(self) -> Any:
        value = self.reference()
        if value is None:
            raise Gone
        return value


@dataclass(slots=True, eq=False)
class Exact(Place):
    """What lies at a place, as long as it is of just this builtin class, and not of a subclass."""

    place: Place
    kind: type

    def find(self) -> Any:
        value = self.place.find()
        if type(value) is not self.kind:
            raise Gone
        return value


@dataclass(slots=True, eq=False)
class Once(Place):
    """A place that several conditions of a read look at: of one asking, it is found for the first alone."""

    place: Place
    found: Any = MISSING

    def find(self) -> Any:
        if self.found is MISSING:
            self.found = self.place.find()
        return self.found


@dataclass(slots=True, eq=False)
class Part(Place):
    """`owner.name`, of an owner whose class nobody can change: a function, a cell, a tensor."""

    owner: Place
    name: str

    def find(self) -> Any:
        return getattr(self.owner.find(), self.name)


@dataclass(slots=True, eq=False)
class Item(Place):
    """`owner[key]` of a builtin container; the key may be what lies at a place."""

    owner: Place
    key: Any

    def find(self) -> Any:
        owner, key = self.owner.find(), self.key
        if isinstance(key, Place):
            key = key.find()
        if issubclass(type(owner), dict):
            return dict.get(owner, key, MISSING)
        kind = container_class(type(owner))
        size = kind.__len__(owner)
        return kind.__getitem__(owner, key) if -size <= key < size else MISSING


@dataclass(slots=True, eq=False)
class Attribute(Place):
    """An attribute of an object, found `where` it was found (see `lookup.py`)."""

    owner: Held
    name: str
    where: str

    def find(self) -> Any:
        found = lookup(self.owner.find(), self.name)
        if found.where != self.where:
            raise Gone
        return found.raw


@dataclass(slots=True, eq=False)
class ClassAttribute(Place):
    """What a class and its bases define under a name; `after` skips bases as ``super()`` does."""

    owner: Held
    name: str
    after: Held | None = None

    def find(self) -> Any:
        after = None if self.after is None else self.after.find()
        return type_lookup(self.owner.find(), self.name, after)


@dataclass(slots=True, eq=False)
class Kind(Place):
    """The class of an object."""

    owner: Held

    def find(self) -> Any:
        return type(self.owner.find())


@dataclass(slots=True, eq=False)
class Contents(Place):
    """All items of a builtin container."""

    owner: Held

    def find(self) -> Any:
        return flat_contents(self.owner.find())


@dataclass(slots=True, eq=False)
class Called(Place):
    """What a function of ours finds at an object; it runs no user code either."""

    function: Callable[[Any], Any]
    owner: Held

    def find(self) -> Any:
        return self.function(self.owner.find())


# ---------------------------------------------------------------------------------- conditions


class Condition:
    """Something that is true of a place or not."""

    __slots__ = ()

    def holds(self) -> bool:
        """Whether it is true. Raises where there is nothing to look at, which is as if it were not."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Matches(Condition):
    """What lies there is what was expected."""

    place: Place
    expected: Expected

    def holds(self) -> bool:
        return self.expected.matches(self.place.find())


@dataclass(slots=True, eq=False)
class Is(Condition):
    """What lies there is this very object."""

    place: Place
    value: Any

    def holds(self) -> bool:
        return self.place.find() is self.value


@dataclass(slots=True, eq=False)
class Equals(Condition):
    """What lies there equals this value, which is plain, as is what it is compared with."""

    place: Place
    value: Any

    def holds(self) -> bool:
        return bool(self.place.find() == self.value)


@dataclass(slots=True, eq=False)
class Counts(Condition):
    """A builtin container has so many items."""

    place: Place
    number: int

    def holds(self) -> bool:
        owner = self.place.find()
        return bool(container_class(type(owner)).__len__(owner) == self.number)


@dataclass(slots=True, eq=False)
class Each(Condition):
    """A row has as many items as are expected, each as expected."""

    place: Place
    expected: tuple[Expected, ...]

    def holds(self) -> bool:
        items = self.place.find()
        return len(items) == len(self.expected) and all(map(Expected.matches, self.expected, items))


@dataclass(slots=True, eq=False)
class Are(Condition):
    """A list has just these objects, all of which are still there."""

    place: Place
    references: tuple[Reference, ...]

    def holds(self) -> bool:
        items, wanted = self.place.find(), [reference() for reference in self.references]
        return (
            len(items) == len(wanted)
            and all(map(is_, items, wanted))
            and not any(value is None for value in wanted)
        )
