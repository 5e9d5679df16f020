"""Runs that earlier processes have recorded: a call goes in, and what it gives comes out, if one of them
answers.

What is recorded here is left for later processes, where it has words; the entry of the call knows what came
of it, for `explain`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fusegrad.compiler import learning
from fusegrad.compiler.answered import Missed, replayed
from fusegrad.compiler.artefacts import captures
from fusegrad.compiler.artefacts.world import Unsayable
from fusegrad.compiler.base import debug
from fusegrad.compiler.call_family import Family
from fusegrad.compiler.entries import Entry
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.observe.world.ahead import any_waiting
from fusegrad.tracer.record.allowance import Allowance


class Earlier:
    """What the cache has for a call that no path answers, and what it gets of the run that is recorded."""

    def __init__(
        self,
        function: Jitted,
        key: Any,
        leaves: list[Any],
        family: Family | None,
        changing: Collection[int] = (),
    ) -> None:
        """changing: the leaves that are numbers, which the key leaves out."""
        self._function, self._key, self._leaves, self._family = function, key, leaves, family
        self._told: Any = None
        self._remembered: captures.Remembered | None = None
        self._why_recorded = self._why_not_kept = ""
        if not captures.is_wanted():
            return
        how = (function.contract, *sorted(function.avoided))
        try:
            self._remembered = captures.Remembered(function.__wrapped__, key[0], leaves, how, changing)
        except Unsayable as error:
            self._why_recorded = self._why_not_kept = str(error)

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any], allowance: Allowance | None) -> Any:
        """What the call gives, by a run that an earlier process recorded; MISSED where there is none."""
        function, remembered = self._function, self._remembered
        if remembered is None or any_waiting():  # only a run that is recorded gets what is waited for
            return MISSED
        for made in remembered.find(function.recalled):
            entry = learning.learn(function, self._key, made, args, kwargs, self._leaves, allowance)
            entry.recalled += 1
            if self._family is not None:
                entry.coming = self._family.coming(self._key)
            try:
                return replayed(function, entry, self._leaves, args, kwargs)
            except Missed:  # it branched elsewhere, or is compiled beside the program
                is_waiting = entry.compiling is not None
            if is_waiting:
                function.stats.eager_calls += 1
                return function.__wrapped__(*args, **kwargs)
        self._why_recorded = remembered.why
        return MISSED

    def tell(self, made: Capture) -> None:
        """Take down what a run has recorded, before it is compiled."""
        if self._remembered is None or made.reasons:
            return
        try:
            self._told = self._remembered.told(made)
        except Unsayable as error:
            self._why_not_kept = str(error)
        except Exception as error:
            if handler_raised() or debug.faults_are_raised():
                raise
            self._why_not_kept = f"telling of it failed: {type(error).__name__}"

    def keep(self, entry: Entry) -> None:
        """Leave it for later processes, once it answers calls."""
        if self._told is not None and self._remembered is not None and not entry.given_up:
            kept = self._remembered.keep(self._told, self._function.recalled)
            self._why_not_kept = "" if kept else "it could not be written"
        entry.not_recalled, entry.not_kept = self._why_recorded, self._why_not_kept
