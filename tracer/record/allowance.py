"""How long recording may take: told of when ops are evaluated, it says whether the rest was too much."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fusegrad.tracer.ir.graph import Equation

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder

# Recording an op takes no longer: in what lies between two ops beyond that the function does something else.
LONGEST = 0.01


class Allowance:
    """So many seconds of recording. Computing, and what else the function does, does not count.

    seconds: how many there were at first; left: how many there are. spent: whether it is used up: the rest of
    the run goes by. told: called then, once, with the equations so far.
    """

    def __init__(
        self, seconds: float = math.inf, told: Callable[[Sequence[Equation]], None] = lambda equations: None
    ) -> None:
        self.seconds, self._told, self.spent = seconds, told, False
        self.left = seconds
        self._since = time.perf_counter()

    def is_spent(self, recorder: Recorder) -> bool:
        """An op is about to be evaluated: whether no more is recorded."""
        if not self.spent:
            self.left -= min(time.perf_counter() - self._since, LONGEST)
            if self.left < 0:
                recorder.effect(f"takes longer than {self.seconds:g} s to record", "long")
                self.spent = True
                self._told(recorder.equations)
        return self.spent

    def goes_on(self) -> None:
        """The op has been evaluated."""
        self._since = time.perf_counter()
