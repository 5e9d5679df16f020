"""What a recorded run exchanges with other ranks: ops in order, as long as a replay can make the same ones.

See `eager/ranks/exchange_op.py` for the ops, and `eager/ranks/journal.py` for replays that stop behind one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fusegrad.eager.core.dtypes import is_half
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder


class Exchanges:
    """Those of one run. made: their names. token: what the last one gave."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.token: Tensor | None = None
        self._awaited: list[Callable[[], bool]] = []
        self.made: list[str] = []

    def begin(self, name: str, tensors: Sequence[Tensor]) -> Tensor | None:
        """The token of the exchange before, or the first; None where the exchange is an effect."""
        recorder = self._recorder
        calls = recorder.calls_again
        if calls.within or calls.repeated:
            recorder.effect(f"exchanges tensors with other ranks ({name}) in a checkpointed function")
            return None
        if any(is_half(tensor.array.dtype) for tensor in tensors):  # ops widen them
            recorder.effect(f"exchanges tensors with other ranks ({name}) of half types")
            return None
        recorder.later.settle(f"it exchanges tensors with other ranks ({name})")
        self.made.append(name)
        if self.token is None:
            self.token = wrap(np.zeros(1, np.uint8))
            recorder.constant(self.token)
        return self.token

    def averaging(self, awaits: Callable[[], bool]) -> None:
        """The gradients of the next backward are to be averaged; it has to come within the run.

        awaits: tells whether it has yet to come.
        """
        self._recorder.later.settle("it awaits gradients")
        self._awaited.append(awaits)

    @property
    def averages(self) -> bool:
        """Whether gradients are averaged as the run has asked for."""
        return bool(self._awaited)

    def finish(self) -> None:
        """The run is over."""
        if any(awaits() for awaits in self._awaited):
            self._recorder.effect("leaves gradients to be averaged over ranks by a later backward")
