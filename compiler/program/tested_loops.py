"""Loops that test data: a round and its test go in, compiled once; what runs until the test fails comes out.

A round puts what it hands on beside what it was handed: where the test fails, that was the last state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusegrad.compiler.native.calls import Calls
from fusegrad.compiler.native.rounds import RoundsOfCalls
from fusegrad.compiler.program.loop_bodies import ROUNDS_AT_ONCE, CompiledBody, MemoryOfRounds, in_rows
from fusegrad.compiler.runtime import threads
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
        if calls.shared and threads.pool_size() > 1:
            count = self._round_by_round_while(calls, arena, most)
        else:
            count = self._at_once_while(calls, arena, most)
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

    def _at_once_while(self, calls: Calls, arena: np.ndarray, most: int) -> int:
        turns = tuple([(i + 1, self.on[i] + 1) for i in self.turns])
        counted, count = np.zeros(1, np.int64), 0
        while count < most:
            number = min(most - count, ROUNDS_AT_ONCE)
            arrays = [*self.arrays(0), arena, counted]
            tested = self.left[0] + 1, len(arrays)
            several = self.prepared.get((number, turns, tested))
            if several is None:
                several = self.prepared[number, turns, tested] = RoundsOfCalls(
                    calls, number, (), turns, tested
                )
            several.run(*arrays)
            done = int(counted[0])
            if done % 2:
                self.take_turns()
            count += done
            if done < number:
                break
        return count


def run_while(compiled: CompiledBody, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
    """What `Tested` gives for a round that keeps its inputs."""
    now, given = in_rows([t.array for t in tensors], params["carried"])
    rounds = {"rounds": 1, "rows": 0, "backwards": False}
    at_work = _Rounds(compiled, now, given, [np.empty(1, np.bool_)], rounds)
    count = at_work.run_while(params["most"])
    return (*at_work.now, np.array(count))
