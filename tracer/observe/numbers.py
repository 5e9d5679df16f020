"""Python numbers that a run came by late: as long as nobody looks at one, a replay may give another.

A float that `item()` gives is an object of its own, and so it is followed by its identity, while it is
moved about, put into containers, set as an attribute or returned. Whoever computes with it, compares it,
hashes or writes it out says so before (`look`): from then on it must be what it was. So are the rates
followed that a schedule's step has set. Whole numbers are not followed: Python has one object for each
small one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.conditions import Place
from fusegrad.tracer.observe.lookup import flat_contents


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A number that is followed.

    number: the object, kept so that its id stays its own. looked: called when somebody looks at it. value:
    what the tensor held that it was taken out of; place: where else a replay finds it, when all is done.
    """

    number: float
    looked: Callable[[], Any]
    value: Value | None = None
    place: Place | None = None


class Numbers:
    """The numbers of one run.

    taking: whether the number that now leaves a tensor goes to the user's code, and not to the engine's.
    """

    def __init__(self) -> None:
        self._taken: dict[int, Taken] = {}
        self.taking = False

    def take(self, read: Callable[[], Any]) -> Any:
        """What `read` gives, which asks one tensor for its number."""
        self.taking = True
        try:
            return read()
        finally:
            self.taking = False

    def follow(self, taken: Taken) -> float:
        """Follow a number, which nobody else has; gives it."""
        self._taken[id(taken.number)] = taken
        return taken.number

    def of(self, number: Any) -> Taken | None:
        """What is known of a number, if it is one that is followed."""
        return self._taken.get(id(number))

    def look(self, *values: Any) -> None:
        """Somebody looks at values, which must be in a replay what they are now."""
        if self._taken:
            for value in values:
                for taken in [*self._within(value)]:
                    del self._taken[id(taken.number)]
                    taken.looked()

    def look_into(self, container: Any) -> None:
        """Somebody looks at what is in a builtin container, and in those within."""
        pending = [container] if self._taken else []
        while pending:
            for item in flat_contents(pending.pop()):
                self.look(item)
                if type(item) in (list, dict, tuple):
                    pending.append(item)

    def has(self, value: Any) -> bool:
        """Whether a plain value is or has a number that is followed."""
        return bool(self._taken) and any(True for _ in self._within(value))

    def _within(self, value: Any) -> Any:
        taken = self._taken.get(id(value))
        if taken is not None:
            yield taken
        elif type(value) is slice:
            yield from self._within((value.start, value.stop, value.step))
        elif type(value) is tuple or type(value) is frozenset:
            # The same number may be there twice.
            seen = {id(t.number): t for item in value for t in self._within(item)}
            yield from seen.values()

    def release(self) -> None:
        """Forget the numbers of the run."""
        self._taken.clear()
