"""Checkpointed calls within a recorded run: functions that backward runs again, on what then lies in memory.

A backward within the run records the second runs like all else. For one after it, the capture says which
values backward computes again (`Recomputed`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fusegrad.eager.core.handlers import behind
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import default_generator
from fusegrad.tracer.ir.evaluation import Recomputed
from fusegrad.tracer.ir.graph import Value

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder


class Checkpoints:
    """The checkpointed calls of one run.

    made: those whose first run is over, of those within others the outer ones. within: those whose first run
    goes on. repeated: those whose second run goes on. deeds: what such calls did besides ops.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.made: list[Recomputed] = []
        self.within: list[Checkpoint] = []
        self.repeated: list[Checkpoint] = []
        self.deeds: list[str] = []

    def begin(self, args: Sequence[Any], preserves: bool) -> Checkpoint:
        """A call of these arguments."""
        self._recorder.later.settle()
        return Checkpoint(self._recorder, args, preserves)

    def drawn(self, tensor: Tensor, generator: Any) -> None:
        """Random numbers were drawn."""
        for checkpoint in self.within:
            if checkpoint.preserves and generator is default_generator:
                checkpoint.keep_drawn(tensor)
            else:
                self.deeds.append("draws random numbers in a checkpointed function, and anew in backward")

    def draw(self, generator: Any) -> Tensor | None:
        """The next of the random numbers that the first run has drawn, if this is a second one."""
        is_again = bool(self.repeated) and self.repeated[-1].preserves and generator is default_generator
        return self.repeated[-1].next_drawn() if is_again else None

    def evaluated(self) -> None:
        """An op was recorded: a second run that has given all ends with it."""
        if self.repeated and self.repeated[-1].enough is not None:
            raise self.repeated[-1].enough

    def noted(self) -> tuple[int, int, int]:
        """What grows with each round of a loop that calls such functions, is in one, or exchanges tensors."""
        equations = len(self._recorder.equations) if self.within else 0
        return len(self.made), equations, len(self._recorder.with_ranks.made)


class Checkpoint:
    """One call. preserves: whether the second run draws the same random numbers. enough: what ends it."""

    enough: Exception | None = None

    def __init__(self, recorder: Recorder, args: Sequence[Any], preserves: bool) -> None:
        self._recorder, self.preserves = recorder, preserves
        self._arguments = tuple(recorder.value_of(arg) for arg in args if isinstance(arg, Tensor))
        self._drawn: list[tuple[Tensor, Value]] = []
        self._given = 0

    def is_going_on(self) -> bool:
        """Whether the run that the call belongs to is recorded still."""
        return behind(state.interpreter) is self._recorder

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """The first run."""
        recorder, calls = self._recorder, self._recorder.calls_again
        start, deeds = len(recorder.equations), self._deeds()
        calls.within.append(self)
        try:
            yield
        finally:
            calls.within.pop()
        equations = recorder.equations[start:]
        if not calls.within:
            values = frozenset(v for equation in equations for v in equation.outputs)
            calls.made.append(Recomputed(values, self._arguments))
        if self._deeds() != deeds:
            calls.deeds.append("changes things in a checkpointed function, which backward runs again")
        if any(equation.op.written_out is not None for equation in equations):
            calls.deeds.append("has a loop that tests values in a checkpointed function")

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """The second run."""
        repeated, self._given, self.enough = self._recorder.calls_again.repeated, 0, None
        repeated.append(self)
        try:
            yield
        finally:
            repeated.pop()

    def _deeds(self) -> tuple[int, ...]:
        """How much was done besides ops and draws."""
        recorder = self._recorder
        callbacks = recorder.graph_changes.callbacks
        drawn = sum(what.startswith("draws") for what, *_ in recorder.changes)
        return (
            len(recorder.changes) - drawn,
            len(recorder.open_reasons),
            0 if callbacks is None else callbacks.deeds(),
        )

    def keep_drawn(self, tensor: Tensor) -> None:
        """The call has drawn these."""
        self._drawn.append((wrap(tensor.array.copy()), self._recorder.value_of(tensor)))

    def next_drawn(self) -> Tensor | None:
        """What was drawn next; None where the second run draws more than the first."""
        if self._given == len(self._drawn):
            return None
        kept, value = self._drawn[self._given]
        self._given += 1
        again = wrap(kept.array.copy())
        self._recorder.memory.define(again.array, value)
        return again
