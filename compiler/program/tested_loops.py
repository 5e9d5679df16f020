"""Loops that test data: a round and its test go in, compiled once; what runs until the test fails comes out.

A round puts what it hands on beside what it was handed: where the test fails, that was the last state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusegrad.compiler.program.loop_bodies import CompiledBody, MemoryOfRounds
from fusegrad.eager.core.op import Params
from fusegrad.eager.core.tensor import Tensor


class _Rounds(MemoryOfRounds):
    """The rounds of one call, and the memory that they work on."""

    def run_while(self, most: int) -> int:
        """Run rounds until the test fails, or so many; how many there were."""
        calls, (test,) = self.placed.calls, self.made
        arena = None if calls is None else self.placed.take_arena()
        count = 0
        while count < most:
            if calls is None:
                arrays = self.placed.run([*self.now, *self.given])
                test[0] = arrays[self.left[0]]
                if not test[0]:
                    break
                self.now = [np.array(arrays[place]) for place in self.on]
            else:
                calls.run(*self.arrays(0), arena)
                if not test[0]:
                    break
                self.take_turns()
            count += 1
        if arena is not None:
            self.placed.arenas.append(arena)
        return count


def run_while(compiled: CompiledBody, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
    """What `Tested` gives for a round that keeps its inputs."""
    carried = params["carried"]
    arrays = [np.ascontiguousarray(t.array).reshape(t.array.shape) for t in tensors]
    now, others = [np.array(a) for a in arrays[:carried]], arrays[carried:]
    rounds = {"rounds": 1, "rows": 0, "backwards": False}
    at_work = _Rounds(compiled, now, others, [np.empty(1, np.bool_)], rounds)
    count = at_work.run_while(params["most"])
    return (*at_work.now, np.array(count))
