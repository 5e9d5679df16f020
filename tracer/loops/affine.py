"""Affine subscripts: where rounds of a loop find another row each goes in; the rows of all come out.

They are one tensor. And back: what rounds write into another row each is in the rows of what the loop gives.
The source shows that an index grows evenly with the number of the round (`twin/induction.py`).

    u[t + 1] = u[t] + dt * f(u[t])
    u[t] += dt * f(t)

What a round reads of a tensor that rounds write must be a row that was written in the same turn or in the one
before: then it is what was written, and is handed on like a variable. Or no round has written it by then, as
`u[t]` in the second line: then it is a row like those of other tensors, of what the tensor holds before.

In loops that test data how many rounds there were follows from values, and so does which row the next one
finds. So what stands for a row is an op that finds it by a number in a tensor, `SELECT_AT`: in the rounds
that are left to an op that number is computed of their count, which they hand on.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.op import REGISTRY, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.eager.ops.shape.slicing import Slice, basic_index
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.record.scalars import fits_float64

_GETITEM = REGISTRY["getitem"]
_MUL, _ADD, _MINIMUM, _MAXIMUM = (REGISTRY[name] for name in ("mul", "add", "minimum", "maximum"))


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

    @classmethod
    def of(cls, owner: Tensor, key: Any, slopes: Sequence[int], step: int) -> RowRead:
        """What `owner[key]` finds. slopes: by how much each entry of the key grows with the number of the
        round; step: by how much that does.
        """
        parts = key if type(key) is tuple else (key,)
        place = next(i for i, slope in enumerate(slopes) if slope)
        entries: Any = basic_index(parts, owner.array.shape)
        return cls(entries, place, _asked(parts[place]), slopes[place] * step, owner.array.shape[place])

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


def _asked(part: Any) -> tuple[Any, ...]:
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
    places = _asked(grow[0])
    return all(type(x) is int for x in places) and len(places) <= 1 + windows


# Rows that rounds write.


class Forward(NamedTuple):
    """What reads a row that was written: what it gives, and what was written there.

    row: which one it reads. write: the number of the equation that writes it. before: whether that is the one
    of the turn before.
    """

    row: RowRead
    output: Value
    value: Value
    write: int
    before: bool


class WrittenRows(NamedTuple):
    """chain: the values that the written tensors have in a turn. By the number of the equation that reads:
    forwards, and ahead, a number of one that writes the tensor of which it reads what is not written by then.
    """

    chain: set[Value]
    forwards: dict[int, Forward]
    ahead: dict[int, int]


def written_rows(
    equations: Sequence[Equation],
    first: Mapping[int, RowWrite],
    second: Mapping[int, RowWrite],
    reads: Mapping[int, RowRead],
    after: Mapping[Value, Value],
) -> WrittenRows:
    """What the writes of a turn, by the numbers of the equations, leave to be read. Raises Refused unless
    they are done in order, to places that lie apart, and what is read was written just before.

    reads: which rows the turn reads. after: for each value of the turn that of the next one.
    """
    if first.keys() != second.keys():
        raise Refused("its rounds do not all write the same rows")
    writes: dict[int, list[int]] = {}  # by the tensor, the numbers of the equations
    for i, write in first.items():
        owner = write.owner()
        if owner is None or second[i].owner() is not owner:
            raise Refused("its rounds write rows of other tensors from round to round")
        writes.setdefault(id(owner), []).append(i)
    group: dict[Value, list[int]] = {}
    for numbers in writes.values():
        begin = [equations[i].inputs[0] for i in numbers]
        end = [equations[i].outputs[0] for i in numbers]
        if begin[1:] != end[:-1] or after.get(begin[0]) != end[-1]:
            raise Refused("its rounds write otherwise what they write rows of")
        if not all(first[i].row.is_apart(first[j].row) for i, j in itertools.combinations(numbers, 2)):
            raise Refused("its rounds write rows that others of them write as well")
        group.update(dict.fromkeys((begin[0], *end), numbers))
    forwards, ahead = dict[int, Forward](), dict[int, int]()
    for i, equation in enumerate(equations):
        if i in reads and equation.inputs[0] in group and equation.op.name == "getitem":
            numbers = group[equation.inputs[0]]
            found = _forward(equations, i, reads[i], {j: first[j].row for j in numbers})
            if found is None:
                ahead[i] = numbers[0]
            else:
                forwards[i] = found
        else:
            read = equation.inputs[1:] if i in first else equation.values()
            if any(v in group for v in read if isinstance(v, Value)):
                raise Refused("its rounds read what they write rows of")
    return WrittenRows({*group}, forwards, ahead)


def _forward(
    equations: Sequence[Equation], number: int, read: RowRead, writes: Mapping[int, RowRead]
) -> Forward | None:
    """What a read gives of a row that some writes have written; None for one that none has by then."""
    if not all(_is_alike(read, write) for write in writes.values()):
        raise Refused("its rounds read what they write rows of otherwise than they write it")
    at, growth = read.entries[read.place], read.growth
    before: list[tuple[int, int]] = []  # how many turns before that is, and which write
    for i, write in writes.items():
        turns, rest = divmod(write.entries[write.place] - at, growth)
        if not rest and (turns > 0 or (turns == 0 and i < number)):
            before.append((turns, i))
    if not before:
        return None
    turns, last = min(before, key=lambda found: (found[0], -found[1]))
    others = [(*row.entries[: row.place], *row.entries[row.place + 1 :]) for row in (read, writes[last])]
    if others[0] != others[1] or turns > 1:
        raise Refused("its rounds read other rows of what they write than those that were written last")
    return Forward(read, equations[number].outputs[0], equations[last].inputs[1], last, turns == 1)


def _is_alike(read: RowRead, write: RowRead) -> bool:
    """Whether a read finds rows along the dimension, and at the steps, at which they are written."""
    alike = (read.place, read.growth) == (write.place, write.growth)
    return alike and type(read.entries[read.place]) is int


# Rows that rounds find by a number in a tensor.

# Gives a value of this name, or nearly so, and type.
NewValue = Callable[[str, TensorType], Value]


class Position(NamedTuple):
    """The number of a row, of so many: so much in the first round of a loop, and so much more in each."""

    offset: int
    growth: int
    size: int

    def computed(self, count: Value, more: int, new: NewValue) -> list[Equation]:
        """What computes it of how many rounds there were, so many and `more`."""
        grown, found, last = (new("row", count.type) for _ in range(3))
        offset = self.offset + self.growth * more
        # A round behind the last one is computed, and given up.
        most = (_MINIMUM, self.size - 1) if self.growth > 0 else (_MAXIMUM, 0)
        return [
            Equation(_MUL, (count, self.growth), {}, (grown,)),
            Equation(_ADD, (grown, offset), {}, (found,)),
            Equation(most[0], (found, most[1]), {}, (last,)),
        ]


class RowOfRound(NamedTuple):
    """What the round with this number, counted from zero, has found by it."""

    read: RowRead
    number: int

    def steps(self, equation: Equation, new: NewValue) -> list[Equation]:
        """What finds in each round what an equation has found. Raises Refused for a window."""
        read = self.read
        entry = read.entries[read.place]
        if type(entry) is Slice:
            raise Refused("its rounds find windows by their number, and test data")
        position = Position(entry - read.growth * self.number, read.growth, read.size)
        params, (x, *_), origin = {"dim": read.place}, equation.inputs, equation.source
        rest = None if equation.op is SELECT_AT else _rest_of(read, x.shape)
        if rest is None:
            return [Equation(SELECT_AT, (x, position), params, equation.outputs, origin)]
        row = new("row", SELECT_AT.infer([x.type], params))
        part = Equation(_GETITEM, (row,), {"index": rest}, equation.outputs, origin)
        return [Equation(SELECT_AT, (x, position), params, (row,), origin), part]


def _rest_of(read: RowRead, shape: Sequence[int]) -> tuple[Any, ...] | None:
    """What is found of a row; None for all of it."""
    rest = (*read.entries[: read.place], *read.entries[read.place + 1 :])
    whole = basic_index((), (*shape[: read.place], *shape[read.place + 1 :]))
    return None if rest == whole else rest


class RoundCount(NamedTuple):
    """How many rounds there were, as a tensor: so many, and `more`."""

    counted: Tensor
    more: int

    @property
    def number(self) -> int:
        return int(self.counted.array) + self.more


class TripCount:
    """How many rounds of a loop there were, where values decide that, and what follows from it.

    rounds: how many, where an op has made some of them; until then, the numbers of rounds are known.
    """

    def __init__(
        self, recorder: Recorder, most: int, number_is_used: bool, found: dict[int, RowRead]
    ) -> None:
        """most: the most rounds that there are. number_is_used: whether somebody asks for the number of the
        last one. found: by the number of an equation, which row it found.
        """
        self._recorder, self._most, self._number_is_used, self._found = recorder, most, number_is_used, found
        self.rounds: RoundCount | None = None

    @property
    def is_open(self) -> bool:
        """Whether the number of the round follows from how many were left out."""
        return self.rounds is not None

    def another(self, number: int) -> None:
        """The loop asks whether there is a round with this number, counted from zero.

        That depends on how many were left out.
        """
        # The first one behind them is there for sure, where the last one is not left out.
        rounds = self.rounds
        if rounds is not None and self._most < FAR and (number > rounds.number or not self._number_is_used):
            below = self._most - (number - int(rounds.counted.array))
            self._guard(lambda: ops.lt(rounds.counted, below))

    def number_of(self, source: range, number: int) -> int:
        """What a range gives for the round with this number, counted from zero: it follows from how many
        rounds were left out.
        """
        if self.rounds is None or not self._number_is_used:
            return source[number]
        count = self.rounds.counted
        first = source[0] + source.step * (number - int(count.array))
        if not all(map(fits_float64, (first, source.step, source[number]))):
            self.fix()
            return source[number]
        return self._recorder.doubles.counted(first, source.step, count)

    def position(self, place: int, growth: int = 1) -> Tensor:
        """A place that grows so much with each round, in a tensor that follows from how many there were."""
        assert self.rounds is not None
        count = self.rounds.counted
        offset = place - growth * int(count.array)
        found: Tensor = self._recorder.later.at_once(lambda: count * growth + offset)
        return found

    def row(self, owner: Tensor, read: RowRead) -> Tensor:
        """What a subscript finds of a tensor."""
        place = self.position(read.entries[read.place], read.growth)
        row: Tensor = bind(SELECT_AT, (owner, place), {"dim": read.place})
        self._found[len(self._recorder.equations) - 1] = read
        rest = _rest_of(read, owner.array.shape)
        return row if rest is None else bind(_GETITEM, (row,), {"index": rest})

    def fix(self) -> None:
        """What a round does follows from its number in a way that is not followed: it must be that one."""
        if self.rounds is not None:
            count = self.rounds.counted
            self._guard(lambda: ops.eq(count, int(count.array)))

    def _guard(self, test: Callable[[], Tensor]) -> None:
        self._recorder.doors.guard(self._recorder.later.at_once(test))
