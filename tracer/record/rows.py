"""Rows: where rounds of a loop find another row each goes in; the rows of all rounds come out as one tensor.

And back: what rounds append to a list is in the rows of what the loop gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Value


class RowRead(NamedTuple):
    """A subscript with an index that grows with the round.

    entries: the index of the op. place: where in it the one is that grows; asked: what that was as it stood,
    maybe counted from the end; growth: by how much it grows in a turn; size: of how many there are.
    """

    entries: tuple[Any, ...]
    place: int
    asked: int
    growth: int
    size: int

    def leads_to(self, other: RowRead) -> bool:
        """Whether the other one is that of the next turn."""
        grown = self._replace(entries=self._at(1), asked=self.asked + self.growth)
        return grown == other and (self.asked < 0) == (other.asked < 0)

    def _at(self, turns: int) -> tuple[Any, ...]:
        """The index so many turns later."""
        index = [*self.entries]
        index[self.place] += turns * self.growth
        return tuple(index)

    def limit(self) -> int:
        """How many turns more find a row, and count it from the same end."""
        first, last = (-self.size, -1) if self.asked < 0 else (0, self.size - 1)
        left = last - self.asked if self.growth > 0 else self.asked - first
        return left // abs(self.growth)

    def rows(self, tensor: Tensor, after: int, turns: int) -> Tensor:
        """The rows of so many turns, the first of which comes `after` this one."""
        index = [*self.entries]
        begin = self.entries[self.place] + after * self.growth
        ends = sorted([begin, begin + (turns - 1) * self.growth])
        index[self.place] = slice(ends[0], ends[1] + 1, abs(self.growth))
        taken = tensor[tuple([slice(*e) if type(e) is Slice else e for e in index])]
        place = sum(type(e) is Slice for e in self.entries[: self.place])
        rows = ops.movedim(taken, place, 0) if place else taken
        found: Tensor = rows if self.growth > 0 else ops.flip(rows, 0)
        return found


class Appended(NamedTuple):
    """What a round appended to a list: the list, the tensor, and its value."""

    items: list[Any]
    tensor: weakref.ref[Tensor]
    value: Value


def by_list(appended: Sequence[Appended], rows: Sequence[Tensor]) -> list[tuple[list[Any], list[Tensor]]]:
    """For each list, in order, the rows of what is appended to it in each turn."""
    lists = {id(a.items): a.items for a in appended}
    pairs = [*zip(appended, rows, strict=True)]
    return [(items, [x for a, x in pairs if id(a.items) == key]) for key, items in lists.items()]
