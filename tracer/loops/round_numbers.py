"""Numbers of rounds: an operand that follows from a round's number goes in; the rows of all come out.

    x = x + x * (dt * t)

Python computes `dt * t` in the rounds that run. The source shows how (`number_parts.py`): by a function of
the number, and of what is the same for all rounds. That is asked for those that are left out.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.twin.number_parts import FUNCTIONS

# The ops that compute with a number what they do with a tensor of one element that holds it.
_OPS = frozenset({"add", "sub", "mul", "div"})
# Whole numbers that every float64 has.
_EXACT = 2**53


# What numbers may follow from besides numbers.
_FUNCTIONS = (math, *(getattr(builtins, name) for name in FUNCTIONS))


def fits(others: Sequence[Any]) -> bool:
    """Whether what a number follows from besides that of the round is the same in all rounds."""
    return all(type(x) in (int, float) or any(x is known for known in _FUNCTIONS) for x in others)


def key_of(others: Sequence[Any]) -> Any:
    """What tells these from others."""
    return plain_key(tuple([x if type(x) in (int, float) else x.__name__ for x in others]))


# What Python raises of numbers: for the round in which it does.
RAISED = ArithmeticError, ValueError, TypeError


class NoRows(Exception):
    """Numbers that no row of a tensor has."""


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
            (c.place, c.function.__code__, key_of(c.others), c.growth, c.dtype) for c in (self, other)
        )
        follows = mine == theirs and other.number == self.number + self.growth
        return follows and plain_key(self.function(other.number, *self.others)) == plain_key(other.value)

    def rows(self, after: int, turns: int) -> Tensor:
        """The numbers of so many turns, the first of which comes `after` this one. Raises NoRows."""
        numbers = itertools.islice(itertools.count(self.number + after * self.growth, self.growth), turns)
        try:
            values = [self.function(number, *self.others) for number in numbers]
        except RAISED:
            raise NoRows from None
        if any(type(value) is not type(self.value) for value in values):
            raise NoRows
        if type(self.value) is int and any(abs(value) > _EXACT for value in values):
            raise NoRows
        wide = np.array(values, np.int64 if type(self.value) is int else np.float64)
        with np.errstate(over="ignore"):
            rows = wide.astype(self.dtype)
        if not np.array_equal(np.isfinite(wide), np.isfinite(rows)):
            raise NoRows
        return wrap(rows)


def computed(
    equations: Sequence[Equation],
    value: int | float,
    function: Callable[..., Any],
    others: tuple[Any, ...],
    number: int,
    growth: int,
) -> Computed | None:
    """How an op takes a number; None where a tensor that holds it would be taken otherwise.

    others: what the number follows from besides that of the round.
    """
    if len(equations) != 1 or not fits(others):
        return None
    ((op, inputs, params, made, _),) = ((e.op, e.inputs, e.params, e.outputs, e.source) for e in equations)
    places = [i for i, x in enumerate(inputs) if not isinstance(x, Value)]
    if op.name not in _OPS or params or len(places) != 1 or len(inputs) != 2:
        return None
    (place,) = places
    given, dtype = inputs[place], inputs[1 - place].dtype
    if type(given) is not type(value) or plain_key(given) != plain_key(value) or made[0].dtype != dtype:
        return None
    if dtype.name not in ("float32", "float64") and not (dtype.name == "int64" and type(value) is int):
        return None
    return Computed(place, value, function, others, number, growth, dtype)


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
        if any(type(x) not in (int, float) for x in (before, value)) or not fits(others):
            self.steps.pop(place, None)
            return True
        self._look(before, *others)  # a replay has the same ones
        known = self.steps.setdefault(place, (step, others))
        return key_of(known[1]) == key_of(others) and plain_key(step(before, *others)) == plain_key(value)

    def after(self, place: int, value: Any, rounds: int) -> Any:
        """What a number is after so many rounds more. Raises NoRows."""
        step, others = self.steps[place]
        try:
            for _ in range(rounds):
                value = step(value, *others)
        except RAISED:
            raise NoRows from None
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
