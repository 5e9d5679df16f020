"""Appended: what two turns appended to lists goes in; whether rows may stand for all others comes out.

The items of a list that is only joined are values. Where somebody may see them one by one, each must be a
tensor of its own, as its row is one then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.observe.observer import LOCAL, Observer
from fusegrad.tracer.record.memory import Known, Memory


class Appended(NamedTuple):
    """What a round appended to a list: the list, the tensor, its array, and the value of that.

    seen: whether somebody may see the items one by one.
    """

    items: list[Any]
    tensor: weakref.ref[Tensor]
    known: Known
    value: Value
    seen: bool

    @classmethod
    def of(cls, items: list[Any], tensor: Tensor, memory: Memory, seen: bool) -> Appended | None:
        """None for a tensor that the run does not know."""
        known = memory.find(tensor.array)
        if known is None:
            return None
        return cls(items, weakref.ref(tensor), known, memory.current(known), seen)

    def is_unchanged(self) -> bool:
        """Whether nobody has written the tensor since."""
        return self.known.is_current() and self.known.value == self.value

    def is_alone(self) -> bool:
        """Whether the tensor is a plain one, with memory of its own in which its elements lie in order."""
        tensor = self.tensor()
        plain = type(tensor) is Tensor and tensor.array.flags.c_contiguous
        return plain and self.known.parent is None and not self.known.is_chosen


class RoundLists:
    """What rounds do with lists.

    appended: what they have left in lists; read: of which lists they read so many of the last items.
    """

    def __init__(self, observer: Observer, memory: Memory) -> None:
        self._observer, self._memory = observer, memory
        self._own: list[list[Any]] = []  # which the round has made
        self.begin()

    def begin(self) -> None:
        """Look at the rounds that come."""
        self.appended: list[Appended] = []
        self.read: dict[int, tuple[list[Any], int]] = {}

    def ended(self) -> None:
        """A round has ended."""
        self._own.clear()

    def made(self, items: list[Any]) -> list[Any]:
        """A list that a round makes, and that goes on as part of what it hands on."""
        self._own.append(items)
        return items

    def append(self, items: Any, value: Any, seen: bool) -> bool:
        """Append to a list what the round leaves to it; whether that is all that is to be done.

        seen: whether somebody may see the items one by one.
        """
        observer = self._observer
        if type(items) is not list or observer.status(items) != LOCAL or not observer.is_tensor(value):
            return False
        if not any(items is known for known in self._own):
            known = observer.loops.is_known(items)
            appended = None if known else Appended.of(items, value, self._memory, seen)
            if appended is None:
                return False
            self.appended.append(appended)
        items.append(value)
        return True

    def reads(self, items: list[Any], number: int) -> None:
        """A round reads one of so many last items of a list."""
        self.read[id(items)] = items, max(number, self.read.get(id(items), (items, 0))[1])

    def last(self) -> list[Any]:
        """The last items of lists that are read."""
        return [x for items, number in self.read.values() for x in items[-number:]]


def check_appended(
    appended: Sequence[Appended],
    first: Sequence[Appended],
    second: Sequence[Appended],
    after: Mapping[Value, Value],
    made: Collection[Value],
    held: Iterable[tuple[Callable[[], Any], Known | None]],
) -> None:
    """Raise Refused where what two turns appended to lists does not follow one another.

    appended: what these and those before appended. made: what the first one makes. held: the tensors that
    variables hold, and the arrays that these lie in.
    """
    pairs = [*zip(first, second, strict=False)]
    alike = all(
        a.items is b.items and a.seen == b.seen and after.get(a.value, a.value) == b.value for a, b in pairs
    )
    kinds = {(id(a.items), a.value.type) for a in first}
    if len(first) != len(second) or not alike or len(kinds) > len({id(a.items) for a in first}):
        raise Refused("its rounds append other things to lists from round to round")
    if not all(a.is_unchanged() for a in appended):
        raise Refused("its rounds write into what they have appended to lists")
    seen = {a.known.root(): a for a in appended if a.seen}
    if not seen:
        return
    roots = [a.known.root() for a in appended]
    alone = all(a.is_alone() for a in appended if a.seen) and len({*roots}) == len(roots)
    if not alone or not all(a.value in made for a in first if a.seen):
        raise Refused("its rounds append to lists what is not a tensor of its own in each")
    if any(root in seen and seen[root].tensor() is not reference() for reference, root in held):
        raise Refused("its rounds hand on views of what they append to lists")


def by_list(
    appended: Sequence[Appended], rows: Sequence[Tensor], last: Mapping[Value, Tensor]
) -> list[tuple[list[Any], list[Tensor], list[Tensor | None]]]:
    """For each list, in order, the rows of what is appended to it in each turn, and the tensors that stand
    for the last ones, where variables hold these, too.

    last: what variables hold, by what the first turn appended in its place.
    """
    lists = {id(a.items): a.items for a in appended}
    found = []
    for key, items in lists.items():
        own = [(a, x) for a, x in zip(appended, rows, strict=True) if id(a.items) == key]
        found.append((items, [x for _, x in own], [last.get(a.value) for a, _ in own]))
    return found
