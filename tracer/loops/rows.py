"""Rows: where rounds of a loop find another row each goes in; the rows of all rounds come out as one tensor.

And back: what rounds write into another row each is in the rows of what the loop gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice


class RowRead(NamedTuple):
    """A subscript with an index that grows with the round, or a window, `x[t : t + 3]`.

    entries: the index of the op. place: where in it the one is that grows; asked: what that was as it stood,
    maybe counted from the end, or the ends of the window; growth: by how much it grows in a round or, of what
    a turn does (`by_turns`), in a turn; size: of how many there are.
    """

    entries: tuple[Any, ...]
    place: int
    asked: tuple[int, ...]
    growth: int
    size: int

    def by_turns(self, rounds: int) -> RowRead:
        """The same for turns of so many rounds."""
        return self._replace(growth=rounds * self.growth)

    def leads_to(self, other: RowRead) -> bool:
        """Whether the other one is that of the next turn."""
        grown = self._replace(entries=self._at(1), asked=tuple([a + self.growth for a in self.asked]))
        return grown == other and [a < 0 for a in self.asked] == [a < 0 for a in other.asked]

    def _at(self, turns: int) -> tuple[Any, ...]:
        """The index so many turns later."""
        index, grown = [*self.entries], turns * self.growth
        if type(index[self.place]) is Slice:
            start, stop, step = index[self.place]
            index[self.place] = Slice(start + grown, stop + grown, step)
        else:
            index[self.place] += grown
        return tuple(index)

    def limit(self) -> int:
        """How many turns more find a row, and count it from the same end."""
        return min(map(self._limit, self.asked))

    def _limit(self, asked: int) -> int:
        # A window ends behind its last row.
        last = -1 if asked < 0 else self.size - (len(self.asked) == 1)
        left = last - asked if self.growth > 0 else asked - (-self.size if asked < 0 else 0)
        return left // abs(self.growth)

    def rows(self, tensor: Tensor, after: int, turns: int) -> Tensor:
        """The rows of so many turns, the first of which comes `after` this one."""
        taken, place = tensor[self._all(after, turns)], self._dimension()
        entry = self.entries[self.place]
        if type(entry) is Slice:
            windows = ops.unfold(taken, place, entry.length, abs(self.growth))
            rows = ops.movedim(windows, (place, -1), (0, place + 1))
        else:
            rows = ops.movedim(taken, place, 0) if place else taken
        found: Tensor = rows if self.growth > 0 else ops.flip(rows, 0)
        return found

    def row(self, tensor: Tensor, after: int) -> Tensor:
        """The row that is found so many turns later."""
        index = [slice(*e) if type(e) is Slice else e for e in self._at(after)]
        found: Tensor = tensor[tuple(index)]
        return found

    def put(self, tensor: Tensor, rows: Tensor, after: int, turns: int) -> None:
        """Write the rows of so many turns, the first of which comes `after` this one."""
        rows, place = rows if self.growth > 0 else ops.flip(rows, 0), self._dimension()
        tensor[self._all(after, turns)] = ops.movedim(rows, 0, place) if place else rows

    def _all(self, after: int, turns: int) -> tuple[Any, ...]:
        """The index of the rows of so many turns, as Python writes it; they go up."""
        first, last = (self._at(after + turn)[self.place] for turn in (0, turns - 1))
        index, low, high = [*self.entries], *((first, last) if self.growth > 0 else (last, first))
        if type(first) is Slice:
            index[self.place] = slice(low.start, high.stop)
        else:
            index[self.place] = slice(low, high + 1, abs(self.growth))
        return tuple([slice(*e) if type(e) is Slice else e for e in index])

    def _dimension(self) -> int:
        """Which dimension of what that index finds has the rows."""
        return sum(type(e) is Slice for e in self.entries[: self.place])

    def is_apart(self, other: RowRead) -> bool:
        """Whether the rows of all turns are others than those of another subscript, or the same in each."""
        if (self.place, self.growth) != (other.place, other.growth):
            return False
        difference = self.entries[self.place] - other.entries[self.place]
        return not difference or bool(difference % self.growth)


class RowWrite(NamedTuple):
    """A write into the row that a subscript finds of a tensor."""

    row: RowRead
    owner: weakref.ref[Tensor]

    def by_turns(self, rounds: int) -> RowWrite:
        """See `RowRead`."""
        return self._replace(row=self.row.by_turns(rounds))


def asked(part: Any) -> tuple[Any, ...]:
    """An index, or the ends of a slice."""
    return (part.start, part.stop) if type(part) is slice else (part,)


def asks_for_row(key: Any, slopes: Sequence[int], windows: bool) -> bool:
    """Whether a subscript finds a row by the one entry that grows with the round's number, or a window."""
    parts = key if type(key) is tuple else (key,)
    if not all(type(part) is int or type(part) is slice for part in parts):
        return False
    grow = [part for part, slope in zip(parts, slopes, strict=True) if slope]
    if len(grow) != 1:
        return False
    places = asked(grow[0])
    return all(type(x) is int for x in places) and len(places) <= 1 + windows


def growing(slopes: Sequence[int], step: int) -> tuple[int, int]:
    """Which entry of a subscript grows from round to round, and by how much. step: by how much the number of
    the round does.
    """
    at = next(i for i, slope in enumerate(slopes) if slope)
    return at, slopes[at] * step
