"""Rows in loops that test data: which row each round finds by its number goes in; what finds it comes out.

How many rounds there were follows from values, and so does which row the next one finds. So what stands for a
row is an op that finds it by a number in a tensor, `SELECT_AT`: in the rounds that are left to an op that
number is computed of their count, which they hand on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fusegrad.eager.core.op import REGISTRY, bind
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.eager.ops.shape.slicing import Slice, basic_index
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.pullback import fresh
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops.alike import Refused
from fusegrad.tracer.loops.round_numbers import Computed, NoRows, key_of
from fusegrad.tracer.loops.rows import RowRead
from fusegrad.tracer.record.recorder import Recorder

_GETITEM = REGISTRY["getitem"]
_MUL, _ADD, _MINIMUM, _MAXIMUM = (REGISTRY[name] for name in ("mul", "add", "minimum", "maximum"))


class Position(NamedTuple):
    """The number of a row, of so many: so much in the first round of a loop, and so much more in each."""

    offset: int
    growth: int
    size: int

    def computed(self, count: Value, more: int, names: set[str]) -> list[Equation]:
        """What computes it of how many rounds there were, so many and `more`. names: those that are taken."""
        grown, found, last = (fresh("row", count.type, names) for _ in range(3))
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

    def steps(self, equation: Equation, names: set[str]) -> list[tuple[Equation, Position | None]]:
        """What finds in each round what an equation has found, and the position that it takes last. names:
        those that are taken. Raises Refused for a window.
        """
        read = self.read
        entry = read.entries[read.place]
        if type(entry) is Slice:
            raise Refused("its rounds find windows by their number, and test data")
        position = Position(entry - read.growth * self.number, read.growth, read.size)
        params, (x, *_), origin = {"dim": dimension(read)}, equation.inputs, equation.source
        rest = None if equation.op is SELECT_AT else rest_of(read, x.shape)
        if rest is None:
            return [(Equation(SELECT_AT, (x, 0), params, equation.outputs, origin), position)]
        row = fresh(f"{equation.output.name}_row", SELECT_AT.infer([x.type], params), names)
        part = Equation(_GETITEM, (row,), {"index": rest}, equation.outputs, origin)
        return [(Equation(SELECT_AT, (x, 0), params, (row,), origin), position), (part, None)]


class NumberOfRound(NamedTuple):
    """A number that an op was given: which operand it is, and the rows of those of all rounds."""

    place: int
    rows: Value

    def steps(self, equation: Equation, names: set[str]) -> list[tuple[Equation, Position | None]]:
        """See `RowOfRound`."""
        position = Position(0, 1, self.rows.shape[0])
        params, inputs = {"dim": 0}, [*equation.inputs]
        inputs[self.place] = fresh("number", SELECT_AT.infer([self.rows.type], params), names)
        found = Equation(SELECT_AT, (self.rows, 0), params, (inputs[self.place],), equation.source)
        return [(found, position), (replace(equation, inputs=tuple(inputs)), None)]


class NumberRows:
    """The numbers that the rounds of a loop compute of theirs, so many at the most, in rows."""

    def __init__(self, recorder: Recorder, most: int) -> None:
        self._recorder, self._most = recorder, most
        self._rows: dict[Any, Tensor] = {}

    def rows(self, computed: Computed, number: int) -> Tensor:
        """What all rounds compute as the one with this number, counted from zero. Raises Refused where no
        tensor has that.
        """
        key = computed.function.__code__, key_of(computed.others), computed.dtype
        if key not in self._rows:
            try:
                if self._most >= FAR:
                    raise NoRows
                rows = computed.rows(-number, self._most)
            except NoRows:
                raise Refused("what its rounds compute of their number is no number in each") from None
            self._recorder.constant(rows)
            self._rows[key] = rows
        return self._rows[key]


def dimension(read: RowRead) -> int:
    """The dimension along which rows are found."""
    return sum(entry is not None for entry in read.entries[: read.place])


def rest_of(read: RowRead, shape: Sequence[int]) -> tuple[Any, ...] | None:
    """What is found of a row; None for all of it."""
    rest = (*read.entries[: read.place], *read.entries[read.place + 1 :])
    dim = dimension(read)
    whole = basic_index((), (*shape[:dim], *shape[dim + 1 :]))
    return None if rest == whole else rest


def read_of(owner: Tensor, key: Any, at: int, growth: int) -> RowRead:
    """What `owner[key]` finds, whose entry number `at` grows so much with each round."""
    parts = key if type(key) is tuple else (key,)
    entries: Any = basic_index(parts, owner.array.shape)
    return RowRead(entries, at, (parts[at],), growth, owner.array.shape[at])


def row_at(owner: Tensor, read: RowRead, place: Tensor, recorder: Recorder) -> tuple[Tensor, int]:
    """The row that a tensor holds the number of; and the number of the equation that finds it."""
    row: Tensor = bind(SELECT_AT, (owner, place), {"dim": dimension(read)})
    number, rest = len(recorder.equations) - 1, rest_of(read, owner.array.shape)
    return row if rest is None else bind(_GETITEM, (row,), {"index": rest}), number
