"""Induction: what Python computes of the number of a round goes in; the numbers of all rounds come out.

    x = x + x * (dt * t)

Python computes `dt * t` in the rounds that run. The source shows how (`twin/induction.py`): by a function of
the number, and of what is the same for all rounds. That is asked for those that are left out, whose numbers
are rows. So it is of a number that each round changes by what it was alone.

Where how many rounds there were follows from values, so does the number. Then what meets a tensor is found in
the rows of all numbers, which are known.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import REGISTRY, bind, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import NewValue, Position, RowRead, TripCount
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.twin.induction import FUNCTIONS
from fusegrad.tracer.twin.plain_loops import COUNTED

_ADD = REGISTRY["add"]
_NUMBERS = (int, float)
# The operators of Python that compute with a number what they do with a tensor of one element that holds it.
_SYMBOLS = frozenset({"+", "-", "*", "/"})
# The ops that compute with a number what they do with a tensor of one element that holds it.
_OPS = frozenset({"add", "sub", "mul", "div"})
# Whole numbers that every float64 has.
_EXACT = 2**53


# What numbers may follow from besides numbers.
_FUNCTIONS = (math, *(getattr(builtins, name) for name in FUNCTIONS))


def _fits(others: Sequence[Any]) -> bool:
    """Whether what a number follows from besides that of the round is the same in all rounds."""
    return all(type(x) in (int, float) or any(x is known for known in _FUNCTIONS) for x in others)


def _key_of(others: Sequence[Any]) -> Any:
    """What tells these from others."""
    return plain_key(tuple([x if type(x) in (int, float) else x.__name__ for x in others]))


_NO_ROWS = "what its rounds compute of their number is no number in each, or too large"
# What Python raises of numbers: for the round in which it does.
_RAISED = ArithmeticError, ValueError, TypeError


class Computed(NamedTuple):
    """A number that an op was given.

    place: which operand it is. value: what it is; function, others: by what that follows from `number`, the
    one of the round. growth: by how much that grows in a round or, of what a turn does (`by_turns`), in a
    turn. dtype: of the tensor that it meets.
    """

    place: int
    value: int | float
    function: Callable[..., Any]
    others: tuple[Any, ...]
    number: int
    growth: int
    dtype: np.dtype

    def by_turns(self, rounds: int) -> Computed:
        """The same for turns of so many rounds."""
        return self._replace(growth=rounds * self.growth)

    def leads_to(self, other: Computed) -> bool:
        """Whether the other one is that of the next turn."""
        mine, theirs = (
            (c.place, c.function.__code__, _key_of(c.others), c.growth, c.dtype) for c in (self, other)
        )
        follows = mine == theirs and other.number == self.number + self.growth
        return follows and plain_key(self.function(other.number, *self.others)) == plain_key(other.value)

    def rows(self, after: int, turns: int) -> Tensor:
        """The numbers of so many turns, the first of which comes `after` this one. Raises Refused."""
        numbers = itertools.islice(itertools.count(self.number + after * self.growth, self.growth), turns)
        try:
            values = [self.function(number, *self.others) for number in numbers]
        except _RAISED:
            raise Refused(_NO_ROWS) from None
        is_int = type(self.value) is int
        if any(type(x) is not type(self.value) or (is_int and abs(x) > _EXACT) for x in values):
            raise Refused(_NO_ROWS)
        wide = np.array(values, np.int64 if is_int else np.float64)
        with np.errstate(over="ignore"):
            rows = wide.astype(self.dtype)
        if not np.array_equal(np.isfinite(wide), np.isfinite(rows)):
            raise Refused(_NO_ROWS)
        return wrap(rows)


def _as_taken(known: Computed, equations: Sequence[Equation]) -> Computed | None:
    """A number as an op has taken it; None where a tensor that holds it would be taken otherwise."""
    if len(equations) != 1 or not _fits(known.others):
        return None
    (equation,) = equations
    inputs, value, dtype = equation.inputs, known.value, known.dtype
    places = [i for i, x in enumerate(inputs) if not isinstance(x, Value)]
    if equation.op.name not in _OPS or equation.params or len(places) != 1 or len(inputs) != 2:
        return None
    (place,) = places
    given = inputs[place]
    if type(given) is not type(value) or plain_key(given) != plain_key(value):
        return None
    if not inputs[1 - place].dtype == equation.outputs[0].dtype == dtype:
        return None
    if dtype.name not in ("float32", "float64") and not (dtype.name == "int64" and type(value) is int):
        return None
    return known._replace(place=place)


class Recurrences:
    """The numbers that rounds change by what they were alone: `t += dt`, `rate *= 0.9`.

    They are known by the places of their variables. look: told of the numbers that they follow from.
    """

    def __init__(self, look: Callable[..., None]) -> None:
        self._look = look
        self.begin()

    def begin(self) -> None:
        """Look at the rounds that come."""
        self.steps: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._sequences: dict[tuple[int, bool], list[Any]] = {}
        self._stepped: set[int] = set()

    def ended(self) -> None:
        """A round has ended."""
        self._stepped.clear()

    def stepped(
        self, place: int, before: Any, value: Any, step: Callable[..., Any], others: tuple[Any, ...]
    ) -> bool:
        """A number has got its next value; whether all rounds go on so. Of other objects nothing is known."""
        self._stepped.add(place)
        if any(type(x) not in (int, float) for x in (before, value)) or not _fits(others):
            self.steps.pop(place, None)
            return True
        self._look(before, *others)  # a replay has the same ones
        known = self.steps.setdefault(place, (step, others))
        return _key_of(known[1]) == _key_of(others) and plain_key(step(before, *others)) == plain_key(value)

    def after(self, place: int, value: Any, rounds: int) -> Any:
        """What a number is after so many rounds more. Raises Refused."""
        step, others = self.steps[place]
        try:
            for _ in range(rounds):
                value = step(value, *others)
        except _RAISED:
            raise Refused(_NO_ROWS) from None
        return value

    def read(self, place: int, body: Callable[..., Any], value: Any, number: int) -> ReadInRounds:
        """What is computed of a number by `body` where it has this value, in the round of this number."""
        key = place, place in self._stepped
        values = self._sequences.setdefault(key, [number, value])
        return ReadInRounds(self, place, body, values)


class ReadInRounds(NamedTuple):
    """What rounds compute of a number that recurs: a function of the number of the round, and of what is the
    same for all. values: the first of these rounds, and what it has been from then on.
    """

    recurrences: Recurrences
    place: int
    body: Callable[..., Any]
    values: list[Any]

    @property
    def __code__(self) -> Any:
        return self.body.__code__

    def __call__(self, number: int, *others: Any) -> Any:
        first, *_ = values = self.values
        if number < first or self.place not in self.recurrences.steps:
            return None  # which is no number
        while len(values) <= 1 + number - first:
            values.append(self.recurrences.after(self.place, values[-1], 1))
        return self.body(values[1 + number - first], *others)


class NumberOfRound(NamedTuple):
    """A number that an op was given: which operand it is, and the rows of those of all rounds."""

    place: int
    rows: Value

    def steps(self, equation: Equation, new: NewValue) -> list[Equation]:
        """See `RowOfRound`."""
        position = Position(0, 1, self.rows.shape[0])
        params, inputs = {"dim": 0}, [*equation.inputs]
        inputs[self.place] = new("number", SELECT_AT.infer([self.rows.type], params))
        found = Equation(SELECT_AT, (self.rows, position), params, (inputs[self.place],), equation.source)
        return [found, replace(equation, inputs=tuple(inputs))]


class RoundNumbers:
    """What the rounds of a loop compute with their numbers.

    noted: by the number of an equation, which number it was given.
    """

    def __init__(
        self, observer: Observer, recorder: Recorder, sources: Sequence[Any], most: int, count: TripCount
    ) -> None:
        """sources: what rounds get their items of. most: the most rounds that there are."""
        self._observer, self._recorder, self._sources, self.count = observer, recorder, sources, count
        self.noted: dict[int, Computed] = {}
        self.recurrences = Recurrences(observer.numbers.look)
        self._most = most
        self._rows: dict[Any, Tensor] = {}

    def rows(self, computed: Computed, number: int) -> Tensor:
        """What all rounds compute as the one with this number, counted from zero. Raises Refused where no
        tensor has that.
        """
        if self._most >= FAR or not _fits(computed.others):
            raise Refused(_NO_ROWS)
        key = computed.function.__code__, _key_of(computed.others), computed.dtype
        if key not in self._rows:
            rows = computed.rows(-number, self._most)
            self._recorder.constant(rows)
            self._rows[key] = rows
        return self._rows[key]

    def operated(
        self,
        symbol: str,
        compute: Callable[[Any, Any], Any],
        sides: Sequence[Any],
        leaves: bool,
        number: int,
    ) -> tuple[Any, bool]:
        """What an operator gives by `compute` in the round with this number, and whether it takes that in
        another way than sums and products do. Where the number follows from values, it is given as a tensor.

        sides, leaves: see `Rounds.computed`.
        """
        equations, operands, is_odd = self._recorder.equations, [value for value, _ in sides], False
        taken: list[Computed] = []
        for i, ((value, part), (other, _)) in enumerate(itertools.permutations(sides)):
            if not self._follows(part):
                continue
            if type(value) is Tensor or (type(value) in _NUMBERS and not self._observer.is_tensor(other)):
                continue
            if type(value) not in _NUMBERS or type(other) is not Tensor:
                is_odd = True
                continue
            known = Computed(i, value, *self._given(part, number), other.array.dtype)
            if self.count.is_open:
                row = self._row(known, number) if symbol in _SYMBOLS else None
                operands[i], is_odd = (value, True) if row is None else (row, is_odd)
            else:
                taken.append(known)
        begin, result = len(equations), compute(*operands)
        for found in [_as_taken(known, equations[begin:]) for known in taken]:
            if found is not None:
                self.noted[begin] = found
            is_odd = is_odd or found is None
        return result, is_odd or (leaves and type(result) is not Tensor)

    def kept(self, number: int, source: range, round_: int) -> Any:
        """The number that a range gave a round, as one that a tensor holds.

        In a loop that tests data a variable may keep it from the rounds that went one way.
        """
        recorder, nothing = self._recorder, wrap(np.zeros(()))
        known = Computed(1, number, _itself, (), source[round_], source.step, nothing.array.dtype)
        if self.count.is_open:
            kept = self._row(known, round_)
            if kept is None:
                self.count.fix()
                return number
        else:
            recorder.constant(nothing)
            kept = recorder.later.at_once(lambda: bind(_ADD, (nothing, number), {}))
            self.noted[len(recorder.equations) - 1] = known
        return recorder.doubles.number_in(kept, int)

    def _row(self, computed: Computed, number: int) -> Tensor | None:
        """What follows from the number of the round as `computed` says, in a tensor; None where no tensor has
        it for all rounds.
        """
        try:
            rows = self.rows(computed, number)
        except Refused:
            return None
        return self.count.row(rows, RowRead.of(rows, number, (1,), 1))

    def _follows(self, part: Any) -> bool:
        """Whether a side follows from the number of the round, or from one that recurs."""
        return part is not None and (part[0] < COUNTED or type(self._sources[part[0]]) is range)

    def _given(self, part: Any, number: int) -> tuple[Any, tuple[Any, ...], int, int]:
        """How a side follows from the number of the round, that number, and by how much it grows."""
        place, function, *others = part
        self._observer.numbers.look(*others)  # a replay has the same rows
        if place < COUNTED:
            now, *others = others
            read = self.recurrences.read(COUNTED - 1 - place, function, now, number)
            return read, tuple(others), number, 1
        source = self._sources[place]
        return function, tuple(others), source[number], source.step


def _itself(number: int) -> int:
    return number
