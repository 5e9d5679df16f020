"""Turns: the equations of a long Python loop go in; stretches of rounds that may be divided alike come out.

A loop leaves the same equations again and again, each time with other values. So the groups of some rounds
are found once, and the others have the same in the same places (`fusion.py`):

    v1 = getitem(x, index=(4,))
    v2 = mul(v0, v1)                one turn: v2 and v4 are a group
    v3 = getitem(x, index=(5,))
    v4 = mul(v2, v3)
    v5 = getitem(x, index=(6,))
    v6 = mul(v4, v5)                another one: so are v6 and v8
    ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.fuse.isomorphic_groups import parameters_text
from fusegrad.eager.core.families import View
from fusegrad.tracer.ir.graph import GUARD, Equation, Value

# A turn is as many rounds as have more equations than this: what could share a kernel mostly does. So many
# turns there must be for it to pay.
SMALLEST_TURN, FEWEST_TURNS = 160, 3
# The first rounds mostly differ (they read what was there before), and what comes behind may join the last.
EDGE = 1
# How often a period is guessed.
GUESSES = 32


class Turns(NamedTuple):
    """Stretches of equations that are alike, one behind the other.

    first: where the first one begins; length: of each; number: how many there are.
    """

    first: int
    length: int
    number: int

    @property
    def end(self) -> int:
        return self.first + self.length * self.number

    def all(self) -> Iterator[range]:
        """The equations of each of them."""
        return (range(i, i + self.length) for i in range(self.first, self.end, self.length))

    def distances(self) -> range:
        """How far each of them is behind the first one."""
        return range(0, self.length * self.number, self.length)


def turns_of(
    equations: Sequence[Equation], readers: Sequence[Collection[int]], fits: Callable[[Turns], bool]
) -> list[Turns]:
    """The turns of equations, in order. readers: of what each equation makes, by number. fits: whether some
    that look alike are so.
    """
    if not _may_be(len(equations)):
        return []
    last = [max(numbers, default=0) for numbers in readers]
    return [*_Search(_kinds(equations), last, fits).within(0, len(equations))]


def rounds_of_turn(rounds: int, equations: int) -> int:
    """How many of so many rounds of so many equations to plan for all, and to have share kernels; 0 where
    they are so few that all of them are one plan.
    """
    least = -(-SMALLEST_TURN // equations)
    lengths = (n for n in range(least, 2 * least) if rounds // n >= FEWEST_TURNS)
    return min(lengths, key=lambda n: n + rounds % n, default=0)


def _may_be(equations: int) -> bool:
    return equations > FEWEST_TURNS * SMALLEST_TURN


def _kinds(equations: Sequence[Equation]) -> list[int]:
    """For each equation a number for all of it but the names."""
    known: dict[Any, int] = {}
    kinds: list[int] = []
    for equation in equations:
        operands = tuple([v.type if isinstance(v, Value) else (type(v), repr(v)) for v in equation.inputs])
        results = tuple([v.type for v in equation.outputs])
        # Rounds may look at other parts of one tensor.
        params = "" if isinstance(equation.op, View) else parameters_text(equation)
        key: Any = equation.op.name, params, operands, results
        if equation.op is GUARD:
            key = len(kinds)
        kinds.append(known.setdefault(key, len(known)))
    return kinds


class _Search:
    """Looks for turns. kinds: of equations; last: the last one that reads what each of them makes."""

    def __init__(self, kinds: Sequence[int], last: Sequence[int], fits: Callable[[Turns], bool]) -> None:
        self._kinds, self._last, self._fits = kinds, last, fits

    def within(self, begin: int, end: int) -> Iterator[Turns]:
        """The turns between two places."""
        guesses = self._guesses(begin, end) if _may_be(end - begin) else ()
        found = next(filter(self._fits, guesses), None)
        if found is not None:
            yield from self.within(begin, found.first)
            yield found
            yield from self.within(found.end, end)

    def _guesses(self, begin: int, end: int) -> Iterator[Turns]:
        """Turns that do the same, whatever they do it to."""
        middles = (begin + quarter * (end - begin) // 4 for quarter in (2, 1, 3))
        yield from filter(None, dict.fromkeys(self._around(middle, begin, end) for middle in middles))

    def _around(self, middle: int, begin: int, end: int) -> Turns | None:
        """The turns of a stretch around `middle` in which kinds come again after a period."""
        kinds = self._kinds
        again = (place for place in range(middle + 1, end) if kinds[place] == kinds[middle])
        for place in itertools.islice(again, GUESSES):
            period, first, last = place - middle, middle, place
            while first > begin and kinds[first - 1] == kinds[first - 1 + period]:
                first -= 1
            while last < end and kinds[last] == kinds[last - period]:
                last += 1
            rounds = (last - first) // period - 2 * EDGE
            if rounds_of_turn(rounds, period):
                first = self._where_least_lives(first + EDGE * period, period)
                rounds = (last - first) // period - EDGE
                length = rounds_of_turn(rounds, period)
                return Turns(first, length * period, rounds // length) if length else None
        return None

    def _where_least_lives(self, begin: int, period: int) -> int:
        """Where rounds hand on the fewest values, of a period from there on."""
        more = [0] * (period + 1)  # than one place before
        for i in range(begin - period, begin + period):
            first, end = max(i + 1 - begin, 0), min(self._last[i], i + period) + 1 - begin
            if first < min(end, period):
                more[first] += 1
                more[min(end, period)] -= 1
        living = [*itertools.accumulate(more[:period])]
        return begin + living.index(min(living))
