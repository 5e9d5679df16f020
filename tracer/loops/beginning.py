"""The beginning of a plain loop: what it goes over goes in; what its rounds get, and leave out, comes out.

See `rolling.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.handlers import behind
from fusegrad.eager.core.state import state
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import rolling
from fusegrad.tracer.loops.items import Items, length, sources_of
from fusegrad.tracer.loops.tested_rounds import TestedLoop
from fusegrad.tracer.loops.turns import TURN, looks_after
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.twin.plain_loops import Summary
from fusegrad.tracer.twin.sites import Site

# So many rounds there must be that may be left out, where they test data.
FEWEST_TESTED = 2


def rounds(
    observer: Observer,
    function: Any,
    given: Sequence[Any],
    pattern: tuple[Any, ...],
    summary: Summary,
    site: Site,
) -> Any:
    """What a plain loop iterates over in place of what `function` gives of `given`, or of that itself; None
    where that is to run as ever.

    pattern: how a round takes apart what it gets. summary: see there; of a loop whose rounds branch it has
    what a `TestedLoop` says, and which of the things that it goes over must not be ranges for it to be one.
    """
    used, counters, tested = summary
    recorder = behind(state.interpreter)
    if type(recorder) is not Recorder:
        return None
    over = sources_of(function, given, pattern)
    if over is None:
        return None
    observer.numbers.look(*(x for x in given if type(x) is int))  # from where on `enumerate` counts
    number = min(map(length, over))
    loop = None
    if tested is not None and not any(type(over[i]) is range for i in tested[-1]):
        loop = TestedLoop(*tested[:-1])
    if number - looks_after(TURN)[-1] < (rolling.FEWEST if loop is None else FEWEST_TESTED):
        return None
    lines = [line for source, line in zip(over, used, strict=True) if type(source) is range and line]
    if lines:
        reason = f"its rounds use their number, and not only to find rows (line {lines[0]})"
    elif recorder.later.on or loop is not None:
        return rolling.Rounds(
            observer, recorder, Items(recorder, over, number, pattern), site, counters, loop
        )
    else:
        reason = rolling.settled(recorder, before=True)
    if number < FAR:
        observer.loops.ran(reason, number, site)
    return None


def endless(number: int, step: int) -> range:
    """The numbers that are counted from one on, which a loop leaves by `break`."""
    return range(number, number + FAR * step, step)
