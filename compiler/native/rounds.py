"""Calling the kernels of a loop's round again and again, without Python in between.

Before the next round, some of the arrays that they work on are others: the next row of one, or two that take
turns. A round may say that it is one too many, and ends them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.llvm.tasks import sequence
from fusegrad.compiler.native.calls import BEFORE_ENTRIES, Calls, call_all, call_all_plainly, trial_kernel
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.compiler.runtime import red_zones
from fusegrad.compiler.runtime.allocator import data_address

# The table: that of the kernels (`calls.py`); then how many rounds there are, how many arrays move on and how
# many pairs take turns, the slots of what a round says and of how many there were, or zeros; the slot and the
# step in bytes of each array that moves; the slots of each pair.
_WORDS = 5


class RoundsOfCalls:
    """Rounds of calls.

    run(*arrays): runs all of them, with the memory of the arrays in the slots from 1. The GIL is released.
    """

    __slots__ = ("_calls", "_table", "run")

    run: Callable[..., None]

    def __init__(
        self,
        calls: Calls,
        rounds: int,
        moves: Sequence[tuple[int, int]],
        turns: Sequence[tuple[int, int]],
        tested: tuple[int, int] = (0, 0),
    ) -> None:
        """moves: the slots of the arrays that go on in each round, and how far in bytes. turns: those of
        pairs of arrays that take each other's place. tested: the slots of an array of which a round makes the
        first byte 0 if it does not count, and is the last one; and of one that gets how many counted.
        """
        self._calls = calls  # which keep the blocks
        rest = [rounds, len(moves), len(turns), *tested, *itertools.chain(*moves, *turns)]
        self._table = np.array([*calls.words(), *rest], np.int64)
        native = ROUNDS.of(self._table) or functools.partial(run_plainly, self._table)
        self.run = functools.partial(_run_watched, native, calls) if red_zones.is_on else native


def _run_watched(run: Callable[..., None], calls: Calls, *arrays: np.ndarray) -> None:
    red_zones.check(f"whatever ran before {calls}", arrays)
    run(*arrays)
    red_zones.check(f"rounds of {calls}", arrays)


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_rounds", borrowed=True)
    kernels, sharing, together = f.words("i64", "i64", "ptr")
    calls = f.table.at(BEFORE_ENTRIES, "ptr")
    rest = calls.at(kernels * 2)
    rounds, moved, pairs, test, counted = (rest.load("i64", i) for i in range(_WORDS))
    moves = rest.at(_WORDS)
    turns = moves.at(moved * 2)
    slots = f.room("ptr", f.count + 1)
    slots.store(f.null)
    with f.loop(f.count) as i:
        slots.store(f.array_data(f.items.load("ptr", i)), i + 1)
    number, begin = f.variable(0), f.variable(0)
    thread = f.call("PyEval_SaveThread", gives="ptr")
    with f.repeat() as on:
        with f.if_(number.value >= rounds):
            on.leave()
        begin.set(0)
        call_all(f, calls, kernels, sharing, together, slots, begin)
        with f.if_(test != 0), f.if_(slots.load("ptr", test).load("i8") == 0):
            on.leave()
        with f.loop(moved) as i:
            move = moves.at(i * 2)
            slot = move.load()
            slots.store(slots.load("ptr", slot).at(move.load("i64", 1), "i8"), slot)
        with f.loop(pairs) as i:
            turn = turns.at(i * 2)
            one, other = turn.load(), turn.load("i64", 1)
            first = slots.load("ptr", one)
            slots.store(slots.load("ptr", other), one)
            slots.store(first, other)
        number.set(number.value + 1)
        on.again()
    f.call("PyEval_RestoreThread", thread)
    with f.if_(test != 0):
        slots.load("ptr", counted).store(number.value)
    f.return_(f.object("none"))
    return [sequence(), trial_kernel(), f]


def run_plainly(table: np.ndarray, *arrays: np.ndarray) -> None:
    """The plain way."""
    rest = table[BEFORE_ENTRIES + 2 * table[0] :].tolist()
    rounds, moved, pairs, test, counted = rest[:_WORDS]
    entries = [rest[i : i + 2] for i in range(_WORDS, len(rest), 2)]
    moves, turns = entries[:moved], entries[moved : moved + pairs]
    slots = (ctypes.c_void_p * (len(arrays) + 1))(None, *map(data_address, arrays))
    number = 0
    while number < rounds:
        call_all_plainly(table, slots)
        if test and not ctypes.c_byte.from_address(slots[test] or 0).value:
            break
        for slot, step in moves:
            slots[slot] = (slots[slot] or 0) + step
        for one, other in turns:
            slots[one], slots[other] = slots[other], slots[one]
        number += 1
    if test:
        ctypes.c_int64.from_address(slots[counted] or 0).value = number


def _trials(made: Maker, kernel: int) -> Iterator[tuple[Any, Any]]:
    block = np.array([5])
    # The first array moves on by 8 bytes, the others take turns; it says when it is over, or nobody does.
    for tested in ((0, 0), (1, 4)):
        table = np.array([1, 0, 0, kernel, data_address(block), 5, 1, 1, *tested, 1, 8, 2, 3])

        def found(run: Callable[..., Any]) -> tuple[Any, ...]:
            given, one, other = np.array([3, 4, 5, 0, 7, 8, 9]), np.arange(5)[2:], np.arange(7)[5:]
            number = np.array([-1])
            return (
                run(given, one, other, number),
                given.tolist(),
                one.tolist(),
                other.tolist(),
                number.tolist(),
            )

        yield found(made(table)), found(functools.partial(run_plainly, table))


ROUNDS = Native("fusegrad_rounds", _written, _trials, ["fusegrad_trial"])
