"""Written rows: writes of two turns into rows go in; that they lie apart, and what reads them, comes out.

    u[t + 1] = u[t] + dt * f(u[t])
    u[t] += dt * f(t)

What a round reads of the tensor must be a row that was written in the same turn or in the one before: then it
is what was written, and is handed on like a variable. Or no round has written it by then, as `u[t]` in the
second line: then it is a row like those of other tensors, of what the tensor holds before.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.loops.rows import RowRead, RowWrite


class NotApart(Exception):
    """Why rounds cannot be left out, in words that go on from "it was not rolled: "."""


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
    """What the writes of a turn, by the numbers of the equations, leave to be read. Raises NotApart unless
    they are done in order, to places that lie apart, and what is read was written just before.

    reads: which rows the turn reads. after: for each value of the turn that of the next one.
    """
    if first.keys() != second.keys():
        raise NotApart("its rounds do not all write the same rows")
    writes: dict[int, list[int]] = {}  # by the tensor, the numbers of the equations
    for i, write in first.items():
        owner = write.owner()
        if owner is None or second[i].owner() is not owner:
            raise NotApart("its rounds write rows of other tensors from round to round")
        writes.setdefault(id(owner), []).append(i)
    group: dict[Value, list[int]] = {}
    for numbers in writes.values():
        begin = [equations[i].inputs[0] for i in numbers]
        end = [equations[i].outputs[0] for i in numbers]
        if begin[1:] != end[:-1] or after.get(begin[0]) != end[-1]:
            raise NotApart("its rounds write otherwise what they write rows of")
        if not all(first[i].row.is_apart(first[j].row) for i, j in itertools.combinations(numbers, 2)):
            raise NotApart("its rounds write rows that others of them write as well")
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
                raise NotApart("its rounds read what they write rows of")
    return WrittenRows({*group}, forwards, ahead)


def _forward(
    equations: Sequence[Equation], number: int, read: RowRead, writes: Mapping[int, RowRead]
) -> Forward | None:
    """What a read gives of a row that some writes have written; None for one that none has by then."""
    if not all(_is_alike(read, write) for write in writes.values()):
        raise NotApart("its rounds read what they write rows of otherwise than they write it")
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
        raise NotApart("its rounds read other rows of what they write than those that were written last")
    return Forward(read, equations[number].outputs[0], equations[last].inputs[1], last, turns == 1)


def _is_alike(read: RowRead, write: RowRead) -> bool:
    """Whether a read finds rows along the dimension, and at the steps, at which they are written."""
    alike = (read.place, read.growth) == (write.place, write.growth)
    return alike and type(read.entries[read.place]) is int
