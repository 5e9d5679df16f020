"""The table of what waits: calls are numbers, and so are what they take and give.

A call has its kind, the numbers of the tensors that it takes, and the number of its first result. A tensor
has its number by identity: it is kept alive here, and whether somebody else has it, too, is told by how often
it is referred to. What is done of it is a number of `Rows` and a row of them, or a tensor by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import place
from fusegrad.eager.batching.backward import Group
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

OUTSIDE = -1  # who gives a tensor that no call does
# Where a value is that is no row: by itself, or one for several calls.
OWN, COMMON = -1, -2
_probe = [object()]
_UNHELD = getrefcount(_probe[0])  # what is referred to by a list alone


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
    the first that it gives, and which example asked. begin: the first call that waits. bases: the arguments
    of views, which are made again. fresh, sure: by identity, the tensors from outside that the example at
    work, or any, has looked at, unless they may be other than they were.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.numbers: dict[int, int] = {}  # by identity: what calls give
        self.tensors: list[Tensor | None] = []
        self.types: list[int] = []
        self.depths: list[int] = []
        self.makers: list[int] = []
        self.kinds: list[Any] = []
        self.operands: list[tuple[int, ...]] = []
        self.firsts: list[int] = []
        self.examples: list[int] = []
        self.bases: dict[int, tuple[Any, ...]] = {}
        self.begin = self._done = self._made = 0
        self.fresh: dict[int, int] = {}
        self.sure: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self.holders, self.rows = np.empty(0, np.int64), np.empty(0, np.int64)
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

    def add(self, kind: Any, operands: tuple[int, ...], example: int) -> list[Tensor]:
        """A call that waits; the tensors that stand for what it gives."""
        tensors, numbers, make = self.tensors, self.numbers, object.__new__
        depth = 0
        for known in map(self.depths.__getitem__, operands):
            if known > depth:
                depth = known
        number = len(tensors)
        self.makers.extend(kind.repeated(len(self.kinds)))
        self.depths.extend(kind.repeated(depth + 1))
        self.types.extend(kind.types)
        self.kinds.append(kind)
        self.operands.append(operands)
        self.firsts.append(number)
        self.examples.append(example)
        made = []
        for array, needs_grad, _ in kind.results:
            tensor = make(Tensor)  # `wrap`, spelled out
            tensor.array = array
            tensor.needs_grad = needs_grad
            tensor.gradient = tensor.alias = None
            tensor.maker = kind.node if needs_grad else None
            tensor.output_index = 0
            tensor.version = [0, 0]
            numbers[id(tensor)] = number
            number += 1
            made.append(tensor)
        tensors += made
        return made

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
        begin, makers, tensors, firsts, kinds = self.begin, self.makers, self.tensors, self.firsts, self.kinds
        wanted = bytearray(self.count)
        found: list[int] = []
        givers: list[int] = []
        takers: list[int] = []
        for call in range(len(kinds) - 1, begin - 1, -1):
            if not wanted[call - begin]:
                first = firsts[call]
                for value in range(first, first + len(kinds[call].results)):
                    if getrefcount(tensors[value]) > _UNHELD:
                        break
                else:
                    continue
            found.append(call)
            for value in self.operands[call]:
                maker = makers[value]
                if maker >= begin:
                    maker -= begin
                    wanted[maker] = 1
                    givers.append(maker)
                    takers.append(call - begin)
        self._grow(len(tensors))
        places = np.zeros(len(wanted), np.int64)
        calls = np.array(found[::-1], np.int64)
        places[calls - begin] = np.arange(len(calls))
        return calls, places[np.array(givers, np.int64)], places[np.array(takers, np.int64)]

    def _grow(self, end: int) -> None:
        """Room for where so many values are; those that are new are by themselves."""
        if end > len(self.holders):
            size = max(1024, 2 * end)
            for name in ("holders", "rows"):
                old = getattr(self, name)
                new = np.empty(size, np.int64)
                new[: self._done] = old[: self._done]
                setattr(self, name, new)
        self.holders[self._done : end] = OWN
        self.rows[self._done : end] = np.arange(self._done, end)
        self._done = end

    def is_taken(self) -> None:
        """All that waited is done from now on, or about to be."""
        self.begin = len(self.kinds)

    def hold(self, firsts: np.ndarray, made: Sequence[Rows]) -> None:
        """Calls gave rows: the i-th call, whose first result is firsts[i], has the i-th of each."""
        for output, rows in enumerate(made):
            self._made = number = self._made + 1
            self._results[number] = rows
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
        if number >= self._done:
            return OWN, number
        return int(self.holders[number]), int(self.rows[number])

    def is_held(self, calls: np.ndarray) -> bool:
        """Whether somebody has the first result of some of these calls."""
        firsts, tensors = self.firsts, self.tensors
        return any(getrefcount(tensors[firsts[call]]) > _UNHELD for call in calls.tolist())

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

    def sweep(self) -> None:
        """Forget what nobody has any more; all is done that waited."""
        numbers, tensors, depths = self.numbers, self.tensors, self.depths
        for key in reversed([*numbers]):
            value = numbers[key]
            if getrefcount(tensors[value]) <= _UNHELD:
                self._forget(key, value)
            else:
                depths[value] = 0
        if not numbers:
            self._clear()
            return
        live = np.fromiter(numbers.values(), np.int64, len(numbers))
        kept = {*self.holders[live].tolist()}
        self._results = {number: rows for number, rows in self._results.items() if number in kept}

    def _forget(self, key: int, value: int) -> None:
        del self.numbers[key]
        self.tensors[value] = None
        self._own.pop(value, None)
        self.bases.pop(self.makers[value], None)

    def held(self, chosen: Callable[[int], bool]) -> list[Tensor]:
        """The tensors that stand for results, of the calls that are chosen, and that somebody has."""
        tensors: list[Any] = self.tensors
        found = [v for v in self.numbers.values() if getrefcount(tensors[v]) > _UNHELD]
        return [tensors[v] for v in found if chosen(self.makers[v])]

    def hand_out(self, tensor: Tensor) -> int | None:
        """The number of a tensor that gets its value now, and is one like others from then on."""
        return self.numbers.pop(id(tensor), None)
