"""The table of what waits: calls are numbers, and so are what they take and give.

A call has its kind, the numbers of the tensors that it takes, and the number of its first result. A tensor
has its number by identity: it is kept alive here, and whether somebody else has it, too, is told by how often
it is referred to. What is done of it is a number of `Rows` and a row of them, or a tensor by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import place
from fusegrad.eager.batching.backward import Group
from fusegrad.eager.batching.natively import natively
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state, watchers
from fusegrad.eager.core.tensor import Tensor

# So many calls wait at a time at most.
LONGEST = 1 << 16
OUTSIDE = -1  # who gives a tensor that no call does
# Where a value is that is no row: by itself, or one for several calls.
OWN, COMMON = -1, -2
_probe = [object()]
_UNHELD = next(map(getrefcount, _probe))  # what is referred to by a list alone


def _held(things: Iterable[Any]) -> np.ndarray:
    """Of each thing in a list whether somebody else has it, too."""
    return np.fromiter(map(getrefcount, things), np.int64) > _UNHELD


class Row:
    """Numbers in a row that gets longer."""

    __slots__ = ("_end", "_memory")

    def __init__(self, *numbers: int) -> None:
        self._memory, self._end = np.empty(64, np.int64), 0
        self.extend(np.array(numbers, np.int64))

    def extend(self, numbers: Sequence[int] | np.ndarray) -> None:
        """Put these behind what is there."""
        begin, end = self._end, self._end + len(numbers)
        if end > len(self._memory):
            longer = np.empty(2 * end, np.int64)
            longer[:begin] = self._memory[:begin]
            self._memory = longer
        self._memory[begin:end] = numbers
        self._end = end

    @property
    def array(self) -> np.ndarray:
        """The numbers; what is written into them is written there."""
        return self._memory[: self._end]


class Rows:
    """A result of several calls that ran as one: a row for each.

    physical: the tensor with all rows. group: behind it on the graph, of which it is the result `output`.
    """

    __slots__ = ("group", "output", "physical")

    def __init__(self, physical: Tensor, group: Group | None, output: int) -> None:
        self.physical, self.group, self.output = physical, group, output

    def row(self, index: int) -> Tensor:
        """One row. Its memory is that of the whole."""
        if state.interpreter is not None:
            return ops.select(self.physical, 0, index)
        return self.on_graph(wrap(self.physical.array[index]), index)

    def on_graph(self, tensor: Tensor, index: int) -> Tensor:
        """Give a tensor with the values of a row its place on the graph."""
        if self.group is not None and self.physical.needs_grad:
            place(tensor, self.group, self.group.row_of(self.output, index))
        return tensor


class Table:
    """Calls and tensors, by number.

    Of each tensor: itself, its type, how many calls that wait are on the longest way to it, which call gives
    it, and, once that is done, where its value is (`holders`, `rows`). Of each call: its kind, what it takes,
    the first that it gives, and which example asked. now: the example at work, and the first call that waits
    (`begin`). bases: the arguments of views, which are made again. fresh, sure: by identity, the tensors from
    outside that the example at work, or any, has looked at, unless they may be other than they were.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}  # by identity: what calls give
        self.tensors: list[Tensor | None] = []
        self.types: list[int] = []
        self.depths: list[int] = []
        self.makers: list[int] = []
        self.kinds: list[Any] = []
        self.operands: list[tuple[int, ...]] = []
        self.firsts: list[int] = []
        self.examples: list[int] = []
        self.now = [0, 0]
        self.bases: dict[int, tuple[Any, ...]] = {}
        self.fresh: dict[int, int] = {}
        self.sure: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self._kept = 0, 0  # how many values, and bytes, the last sweep has left
        self._clear()

    def _clear(self) -> None:
        for rows in (self.tensors, self.types, self.depths, self.makers, self.kinds):
            rows.clear()
        for rows in (self.operands, self.firsts, self.examples):
            rows.clear()
        for known in (self.numbers, self.bases, self.fresh, self.sure, self._outside):
            known.clear()
        self.now[1] = self._made = self._bytes = 0
        self._makers, self._firsts, self._holders, self._rows = Row(), Row(), Row(), Row()
        self._starts, self._taken = Row(0), Row()
        self._results: dict[int, Rows] = {}
        self._own: dict[int, Tensor] = {}
        self._common: list[Tensor] = []

    # What comes.

    def outside(self, tensor: Tensor, type_: int) -> int:
        """The number of a tensor that no call gives."""
        key = id(tensor)
        known = self._outside.get(key)
        if known is None or self.types[known] != type_:
            known = self._outside[key] = len(self.tensors)
            self.tensors.append(tensor)
            self.types.append(type_)
            self.depths.append(0)
            self.makers.append(OUTSIDE)
        self.fresh[key] = self.sure[key] = known
        return known

    def is_unsure(self, tensor: Tensor | None = None) -> None:
        """A tensor from outside, or all, may be other than they were."""
        if tensor is None:
            self.fresh.clear()
            self.sure.clear()
        else:
            self.fresh.pop(id(tensor), None)
            self.sure.pop(id(tensor), None)

    def add(self, kind: Any, operands: tuple[int, ...], example: int) -> tuple[Tensor, ...]:
        """A call that waits; the tensors that stand for what it gives."""
        # First what Python's collector may interrupt: what it calls may be a program's, and add calls.
        made = tuple([wrap(array) for array, _, _ in kind.results])
        for tensor, (_, needs_grad, _) in zip(made, kind.results, strict=True):
            tensor.needs_grad, tensor.maker = needs_grad, kind.node if needs_grad else None
        depth = 0
        for known in map(self.depths.__getitem__, operands):
            if known > depth:
                depth = known
        first = len(self.tensors)
        self.makers.extend(kind.repeated(len(self.kinds)))
        self.depths.extend(kind.repeated(depth + 1))
        self.types.extend(kind.types)
        self.kinds.append(kind)
        self.operands.append(operands)
        self.firsts.append(first)
        self.examples.append(example)
        self.numbers.update(zip(map(id, made), range(first, first + len(made)), strict=True))
        self.tensors += made
        return made

    def waits(self, kind: Any, operands: tuple[int, ...], args: tuple[Any, ...]) -> Any:
        """What stands for the results of an op that waits from now on."""
        made = self.add(kind, operands, self.now[0])
        if kind.is_view:
            self.bases[len(self.kinds) - 1] = args
            made[0].version = args[0].version
        return made if kind.several else made[0]

    @property
    def begin(self) -> int:
        """The first call that waits."""
        return self.now[1]

    @property
    def count(self) -> int:
        """How many calls wait."""
        return len(self.kinds) - self.begin

    def waits_for(self, tensor: Tensor) -> bool:
        """Whether the call that gives a tensor waits."""
        number = self.numbers.get(id(tensor))
        return number is not None and self.makers[number] >= self.begin

    # Doing what waits.

    def needed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The calls whose results somebody has, or that others take which are needed. Of these, for each
        operand that one gives to another, by their places among them: which gives it, and which takes it.
        """
        self._follow()
        begin, end = int(self.begin), len(self.kinds)
        starts = self._starts.array
        takers = np.repeat(np.arange(end - begin), np.diff(starts[begin : end + 1]))
        givers = self._makers.array[self._taken.array[starts[begin] :]] - begin
        waits = givers >= 0
        givers, takers = givers[waits], takers[waits]
        first = self.firsts[begin]
        held = np.zeros(end - begin, np.bool_)
        given_to = self._makers.array[first:][
            _held(map(self.tensors.__getitem__, range(first, len(self.tensors))))
        ]
        held[given_to[given_to >= begin] - begin] = True
        wanted = self._wanted(held, np.bincount(givers, minlength=end - begin))
        calls = np.flatnonzero(wanted)
        if len(calls) < len(wanted):
            kept, places = wanted[takers], np.cumsum(wanted) - 1
            givers, takers = places[givers[kept]], places[takers[kept]]
        return calls + begin, givers, takers

    def _wanted(self, held: np.ndarray, uses: np.ndarray) -> np.ndarray:
        """Which of the calls that wait are needed. held: whose results somebody has; uses: how often others
        take them.
        """
        wanted = held | (uses > 0)
        dead = np.flatnonzero(~wanted).tolist()
        while dead:
            for value in self.operands[self.begin + dead.pop()]:
                maker = self.makers[value] - self.begin
                if maker >= 0:
                    uses[maker] -= 1
                    if not uses[maker] and not held[maker]:
                        wanted[maker] = False
                        dead.append(maker)
        return wanted

    def _follow(self) -> None:
        """Have the rows of numbers what the lists have got since. New values are by themselves."""
        begin, done = len(self._firsts.array), len(self._makers.array)
        operands = self.operands[begin:]
        lengths = np.fromiter(map(len, operands), np.int64, len(operands))
        self._starts.extend(self._starts.array[-1] + np.cumsum(lengths))
        self._taken.extend(np.fromiter(itertools.chain.from_iterable(operands), np.int64))
        self._firsts.extend(self.firsts[begin:])
        self._makers.extend(self.makers[done:])
        self._holders.extend(np.full(len(self.makers) - done, OWN))
        self._rows.extend(np.arange(done, len(self.makers)))

    @property
    def holders(self) -> np.ndarray:
        """By the number of a tensor: the number of the rows that have its value, or `OWN`, or `COMMON`."""
        return self._holders.array

    @property
    def rows(self) -> np.ndarray:
        """By the number of a tensor: which of these rows."""
        return self._rows.array

    def taken(self, calls: np.ndarray) -> np.ndarray:
        """What calls of one kind take, a row for each."""
        starts = self._starts.array
        width = starts[calls[0] + 1] - starts[calls[0]]
        return self._taken.array[starts[calls][:, None] + np.arange(width)]

    def first_results(self, calls: np.ndarray) -> np.ndarray:
        """The numbers of what calls give first."""
        return self._firsts.array[calls]

    def is_taken(self) -> None:
        """All that waited is done from now on, or about to be."""
        natively.noted(self.count)
        first = self.firsts[self.begin]
        self.depths[first:] = [0] * (len(self.depths) - first)
        self.now[1] = len(self.kinds)

    def hold(self, firsts: np.ndarray, made: Sequence[Rows]) -> None:
        """Calls gave rows: the i-th call, whose first result is firsts[i], has the i-th of each."""
        for output, rows in enumerate(made):
            self._made = number = self._made + 1
            self._results[number] = rows
            self._bytes += rows.physical.array.nbytes
            self.holders[firsts + output] = number
            self.rows[firsts + output] = np.arange(len(firsts))

    def give(self, first: int, made: Sequence[Tensor]) -> None:
        """A call gave results that nobody else has."""
        self._own.update(enumerate(made, first))

    def share(self, firsts: np.ndarray, made: Sequence[Tensor]) -> None:
        """Calls have the same results in common."""
        for output, tensor in enumerate(made):
            self.holders[firsts + output] = COMMON
            self.rows[firsts + output] = len(self._common)
            self._common.append(tensor)

    def results(self, number: int) -> Rows:
        """The rows of this number."""
        return self._results[number]

    def single(self, holder: int, row: int) -> Tensor:
        """A value that is no row, by where it is."""
        if holder == COMMON:
            return self._common[row]
        own: Any = self._own.get(row)
        outside: Any = self.tensors[row]
        return outside if own is None else own

    def value(self, number: int) -> Tensor:
        """A tensor with the value of a number."""
        holder, row = self.place(number)
        return self._results[holder].row(row) if holder >= 0 else self.single(holder, row)

    def place(self, number: int) -> tuple[int, int]:
        """Where the value of a number is."""
        holders = self.holders
        return (int(holders[number]), int(self.rows[number])) if number < len(holders) else (OWN, number)

    def is_held(self, calls: np.ndarray) -> bool:
        """Whether somebody has the first result of some of these calls."""
        return bool(_held(map(self.tensors.__getitem__, self.first_results(calls).tolist())).any())

    def is_alone(self, number: int) -> bool:
        """Whether a call was done by itself, so that nobody else has its result."""
        return number in self._own

    def outsiders(self) -> list[Tensor]:
        """The tensors with values that calls take which wait."""
        values = {value for operands in self.operands[self.begin :] for value in operands}
        places = {self.place(value) for value in values if self.makers[value] < self.begin}
        found = [self.single(*p) if p[0] < 0 else self._results[p[0]].physical for p in places]
        return [*found, *(tensor for kind in {*self.kinds[self.begin :]} for tensor in kind.shared)]

    # Forgetting.

    def sweep_in_time(self) -> None:
        """Forget what nobody has any more, if there may be as much of it as of what was kept last time. So
        the work is in proportion to what comes, and at most twice as much memory is held as somebody needs.
        """
        if len(self.numbers) > 2 * self._kept[0] or self._bytes > 2 * self._kept[1]:
            self.sweep()
            self._kept = len(self.numbers), self._bytes

    def sweep(self) -> None:
        """Forget what nobody has any more; all is done that waited."""
        numbers, tensors = self.numbers, self.tensors
        while numbers:
            values = [*numbers.values()]
            held = _held(map(tensors.__getitem__, values))
            if not held.any():
                numbers.clear()
                break
            self._forget([*itertools.compress(zip(numbers, values, strict=True), (~held).tolist())])
            if held.all() or not self.bases:
                break  # no view keeps what it was made of
        if not numbers:
            self._clear()
            return
        live = np.fromiter(numbers.values(), np.int64, len(numbers))
        kept = {*self.holders[live].tolist()}
        self._results = {number: rows for number, rows in self._results.items() if number in kept}
        self._bytes = sum(rows.physical.array.nbytes for rows in self._results.values())

    def _forget(self, dead: list[tuple[int, int]]) -> None:
        numbers, tensors = self.numbers, self.tensors
        for key, value in dead:
            del numbers[key]
            tensors[value] = None
        for _, value in dead if self._own or self.bases else ():
            self._own.pop(value, None)
            self.bases.pop(self.makers[value], None)

    def held(self, chosen: Callable[[int], bool]) -> list[Tensor]:
        """The tensors that stand for results, of the calls that are chosen, and that somebody has."""
        tensors: list[Any] = self.tensors
        values = [*self.numbers.values()]
        found = itertools.compress(values, _held(map(tensors.__getitem__, values)).tolist())
        return [tensors[v] for v in found if chosen(self.makers[v])]

    def hand_out(self, tensor: Tensor) -> int | None:
        """The number of a tensor that gets its value now, and is one like others from then on."""
        return self.numbers.pop(id(tensor), None)


def is_watched() -> bool:
    """Whether somebody looks at every node, as anomaly mode does."""
    return state.inference or state.saved_hooks is not None or bool(watchers)
