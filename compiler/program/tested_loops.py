"""Loops that test data: a round and its test go in, compiled once; what runs until the test fails comes out.

A round puts what it hands on beside what it was handed: where the test fails, that was the last state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fusegrad.compiler.native.calls import Calls
from fusegrad.compiler.native.rounds import RoundsOfCalls
from fusegrad.compiler.program.loop_bodies import (
    ROUNDS_AT_ONCE,
    CompiledBody,
    MemoryOfOneCall,
    MemoryOfRounds,
    in_rows,
)
from fusegrad.eager.core.op import Params
from fusegrad.eager.core.tensor import Tensor


class _Rounds(MemoryOfRounds):
    """The rounds of one call, and the memory that they work on."""

    def run_while(self, most: int) -> int:
        """Run rounds until the test fails, or so many; how many there were."""
        calls = self.placed.calls
        if calls is None:
            return self._step_by_step_while(most)
        arena = self.placed.take_arena()
        count = self._round_by_round_while(calls, arena, most)
        self.placed.arenas.append(arena)
        return count

    def _step_by_step_while(self, most: int) -> int:
        count = 0
        while count < most:
            arrays = self.placed.run([*self.now, *self.given])
            if not arrays[self.left[0]]:
                break
            self.now = [np.array(arrays[place]) for place in self.on]
            count += 1
        return count

    def _round_by_round_while(self, calls: Calls, arena: np.ndarray, most: int) -> int:
        (test,) = self.made
        count = 0
        while count < most:
            calls.run(*self.arrays(0), arena)
            if not test[0]:
                break
            self.take_turns()
            count += 1
        return count


class AtOnce(NamedTuple):
    """Rounds that are native calls on one thread. several: by how many at the most, what runs them."""

    memory: MemoryOfOneCall
    calls: Calls
    several: dict[int, RoundsOfCalls]

    @classmethod
    def of(cls, of: MemoryOfRounds) -> AtOnce | None:
        """None where there is more to do."""
        calls = of.placed.calls
        return None if calls is None else cls(MemoryOfOneCall.of(of, calls), calls, {})

    def run_while(self, now: list[np.ndarray], given: Sequence[np.ndarray], most: int) -> int:
        """Run rounds until the test fails, or so many; how many there were. What they hand on is in `now`."""
        memory, counted, count = self.memory, np.zeros(1, np.int64), 0
        arrays = memory.arrays([*now, *given], [np.empty(1, np.bool_)])
        arena = memory.placed.take_arena()
        while count < most:
            number = min(most - count, ROUNDS_AT_ONCE)
            several = self.several.get(number) or self._several(number, len(arrays))
            several.run(*arrays, arena, counted)
            done = int(counted[0])
            if done % 2:
                memory.take_turns(now, arrays)
            count += done
            if done < number:
                break
        memory.placed.arenas.append(arena)
        return count

    def _several(self, number: int, arrays: int) -> RoundsOfCalls:
        turns = [(i + 1, beside + 1) for i, beside, _, _ in self.memory.turns]
        # Behind the arrays lies the arena, and then how many rounds there were.
        tested = self.memory.left[0] + 1, arrays + 2
        made = self.several[number] = RoundsOfCalls(self.calls, number, (), turns, tested)
        return made


def run_while(compiled: CompiledBody, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
    """What `Tested` gives for a round that keeps its inputs."""
    now, given = in_rows([t.array for t in tensors], params["carried"])
    if "tested" not in compiled.in_one_call:
        compiled.in_one_call["tested"] = AtOnce.of(_rounds(compiled, now, given))
    at_once: AtOnce | None = compiled.in_one_call["tested"]
    if at_once is not None and at_once.memory.is_alone:
        count = at_once.run_while(now, given, params["most"])
        return (*now, np.array(count))
    rounds = _rounds(compiled, now, given)
    count = rounds.run_while(params["most"])
    return (*rounds.now, np.array(count))


def _rounds(compiled: CompiledBody, now: list[np.ndarray], given: list[np.ndarray]) -> _Rounds:
    params = {"rounds": 1, "rows": 0, "backwards": False}
    return _Rounds(compiled, now, given, [np.empty(1, np.bool_)], params)
