"""Operators on the numbers of rounds: what Python computes with goes in; what it gives comes out, and whether
that follows from round to round.

Where how many rounds there were follows from values, so does the number. Then what meets a tensor is found in
the rows of all numbers, which are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.op import REGISTRY, bind, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.loops.round_numbers import Computed, computed, fits
from fusegrad.tracer.record.scalars import fits_float64
from fusegrad.tracer.twin.plain_loops import COUNTED

if TYPE_CHECKING:
    from fusegrad.tracer.loops.rolling import Rounds

_ADD = REGISTRY["add"]
_NUMBERS = (int, float)
# The operators of Python that compute with a number what they do with a tensor of one element that holds it.
_OPERATORS = frozenset({"+", "-", "*", "/"})


def operated(
    symbol: str, compute: Callable[[Any, Any], Any], sides: Sequence[Any], leaves: bool, rounds: Rounds
) -> tuple[Any, bool]:
    """What an operator gives by `compute`, and whether it takes a number of the round in another way than
    sums and products do.

    sides, leaves: see `Rounds.computed`.
    """
    if rounds.tested is not None and rounds.tested.is_counted:
        return _operated_on_rows(symbol, compute, sides, leaves, rounds)
    equations = rounds.recorder.equations
    begin, result = len(equations), compute(*(value for value, _ in sides))
    is_odd = False
    for (value, part), (other, _) in itertools.permutations(sides):
        if not _follows(part, rounds):
            continue
        is_number = type(value) in _NUMBERS
        is_odd = is_odd or not (is_number or type(value) is Tensor)
        is_odd = is_odd or (leaves and type(result) is not Tensor)
        if is_number and rounds.observer.is_tensor(other):
            known = computed(equations[begin:], value, *_given(part, rounds))
            if known is None or type(other) is not Tensor:
                is_odd = True
            else:
                rounds.items.numbers[begin] = known
    return result, is_odd


def _operated_on_rows(
    symbol: str, compute: Callable[[Any, Any], Any], sides: Sequence[Any], leaves: bool, rounds: Rounds
) -> tuple[Any, bool]:
    """The same, where the number of the round follows from values."""
    assert rounds.tested is not None
    operands, is_odd = [value for value, _ in sides], False
    for i, ((value, part), (other, _)) in enumerate(itertools.permutations(sides)):
        if not _follows(part, rounds):
            continue
        if type(value) not in _NUMBERS:
            is_odd = is_odd or type(value) is not Tensor
        elif type(other) is Tensor and symbol in _OPERATORS:
            known = Computed(i, value, *_given(part, rounds), other.array.dtype)
            row = rounds.tested.number(known, rounds.number) if fits(known.others) else None
            is_odd = is_odd or row is None
            operands[i] = value if row is None else row
        else:
            is_odd = is_odd or rounds.observer.is_tensor(other)
    result = compute(*operands)
    return result, is_odd or (leaves and type(result) is not Tensor)


def kept_number(number: Any, place: int, rounds: Rounds) -> Any:
    """The number of a round, as one that a tensor holds; place: of the source that it comes from.

    In a loop that tests data a variable may keep it from the rounds that went one way. What a round of
    another loop does with it may be alike in some rounds, and not in those that are left out.
    """
    source, tested, recorder = rounds.items.sources[place], rounds.tested, rounds.recorder
    if type(source) is not range:
        return number
    if tested is None or not fits_float64(number):
        return rounds.mixed(number)
    nothing = wrap(np.zeros(()))
    known = Computed(1, number, _itself, (), source[rounds.number], source.step, nothing.array.dtype)
    if tested.is_counted:
        kept = tested.number(known, rounds.number)
        if kept is None:
            tested.fix()
            return number
    else:
        recorder.constant(nothing)
        kept = recorder.later.at_once(lambda: bind(_ADD, (nothing, number), {}))
        rounds.items.numbers[len(recorder.equations) - 1] = known
    return recorder.doubles.number_in(kept, int)


def _itself(number: int) -> int:
    return number


def _follows(part: Any, rounds: Rounds) -> bool:
    """Whether a side follows from the number of the round, or from one that recurs."""
    if part is None:
        return False
    return part[0] < COUNTED or type(rounds.items.sources[part[0]]) is range


def _given(part: Any, rounds: Rounds) -> tuple[Any, tuple[Any, ...], int, int]:
    """How a side follows from the number of the round, that number, and by how much it grows."""
    place, function, *others = part
    rounds.observer.numbers.look(*others)  # a replay has the same rows
    if place < COUNTED:
        now, *others = others
        read = rounds.recurrences.read(COUNTED - 1 - place, function, now, rounds.number)
        return read, tuple(others), rounds.number, 1
    source = rounds.items.sources[place]
    return function, tuple(others), source[rounds.number], source.step
