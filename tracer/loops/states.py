"""States between rounds: what variables hold, of which rounds of a loop that tests data go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.loops.alike import Done, Seen
from fusegrad.tracer.record.memory import Known

# Two variables, by their places, of which it is asked whether they hold one thing; what rounds hand on: what
# a variable holds, or whether two do so.
Pair = tuple[int, int]
Place = int | Pair


class Number(NamedTuple):
    """A number that a variable held, for which this value stands."""

    value: Value
    kind: type


class Kind(NamedTuple):
    """What stays the same of what a variable holds.

    what: "tensor", "number", "counter" or "object". detail: whether a tensor needs gradients, or the class of
    a number, and the type of what stands for it. value: what is held, where others may have that, too; None
    for what the loop has made.
    """

    what: str
    detail: Any = None
    value: Value | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is what the loop has made."""
        return self.value is None and self.what in ("tensor", "number")


class State(NamedTuple):
    """The state between two rounds.

    number: how many rounds there were. equations: how many there are. noted: how much there is of what no
    round may add to; stores: which attributes were set, and counted up. carried, seen: what the variables
    hold. kinds: of each. values: of each array that is no view.
    """

    number: int
    equations: int
    noted: Done
    stores: tuple[Any, ...]
    carried: tuple[Any, ...]
    seen: tuple[Any, ...]
    kinds: tuple[Kind, ...]
    values: Mapping[Known, Value]

    def holders(self) -> list[int]:
        """For each variable the one that stands for all that hold the same, if the loop has made that: one
        that holds a tensor, if there is one.
        """
        own = [i for i, kind in enumerate(self.kinds) if kind.is_own]
        first: dict[Value, int] = {}
        for place in sorted(own, key=lambda i: isinstance(self.seen[i], Number)):
            first.setdefault(self.seen[place].value, place)
        return [first[x.value] if i in own else i for i, x in enumerate(self.seen)]

    def own(self) -> dict[int, Any]:
        """By place, what variables hold that the loop has made."""
        return {i: x for i, x in enumerate(self.seen) if self.kinds[i].is_own}

    def shared(self) -> frozenset[Pair]:
        """Which two of its variables hold one thing that the loop has made: first who stands for it."""
        return frozenset((holder, i) for i, holder in enumerate(self.holders()) if holder != i)

    def shares_memory(self) -> bool:
        """Whether what several variables hold is the same memory, and not one tensor."""
        own = [
            x for x, kind in zip(self.seen, self.kinds, strict=True) if kind.is_own and isinstance(x, Seen)
        ]
        return len({id(x.reference) for x in own}) != len({x.root for x in own})

    def counters(self) -> dict[int, Any]:
        """By place, what is counted up."""
        return {i: self.carried[i] for i, kind in enumerate(self.kinds) if kind.what == "counter"}
