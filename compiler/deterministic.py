"""Who answers a jitted call under `use_deterministic_algorithms(True)`: what it depends on decides alone.

Eager and compiled code differ by rounding. As a rule a function's first calls are eager's, later ones are
compiled, and some are tried both ways by the clock. Here neither time nor earlier calls may tell, so that a
run that goes on and one that was resumed from a checkpoint in another process have the same bits:

- A call that can be replayed is answered by the code of its path, also the call that the path was recorded
  of: what that run has done is taken back (`tracer/record/before.py`), and done again by the replay.
- A call whose run cannot be replayed, or looks at values to go on, is eager's. (Compiled values may lie on
  the other side of what a branch asks than eager's do.)
- Each path has a program of its own, and its forward is the same whether a backward follows or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.answered import finish
from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.entries import Entry, Variant, apart
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.learning import unable
from fusegrad.compiler.native import calls as native_calls
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.path import found_outside
from fusegrad.compiler.paths.plans import OVERLAPS
from fusegrad.compiler.paths.segments import MISSED, Stopped
from fusegrad.compiler.paths.tree import is_branch
from fusegrad.eager.autograd.hooks import any_has_hooks, any_was_made
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.ranks.journal import journal
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.capture.captured import Capture, Reason
from fusegrad.tracer.ir.differentiate import NoGradient
from fusegrad.tracer.observe.hosts import Host, at

# How many kinds of arguments are remembered, and how many runs of each; others are recorded anew.
MOST_KEYS = 256
MOST_RUNS = 16
LOOKS = "looks at values to go on, which is eager's under use_deterministic_algorithms(True)"
EAGER = "its runs are not replayed"


class EagerRun:
    """A run that eager answered, and how to tell that a call will come to the same point."""

    def __init__(self, made: Capture) -> None:
        self._guards = Guards(made.reads)
        self._captured = [*found_outside(made)[0].values()]
        self._asked = [host for host, _ in made.hosts if host.undo() is None]
        self._bare, self._derived = made.bare, made.derived

    def comes_again(self, leaves: Sequence[Any]) -> bool:
        """Whether a call finds all that the run has found."""
        derived = [at(place, leaves) for place in self._derived]
        return (
            self._guards.first_failure() is None
            and all(captured.array() is not None for captured in self._captured)
            and all(leaves[number].gradient is None for number in self._bare)
            and all(_comes_again(host, leaves) for host in self._asked)
            and not any_was_made(*derived)
            and not any_has_hooks(*derived)
        )


def _comes_again(host: Host, leaves: Sequence[Any]) -> bool:
    """As the host says; what raises when it is looked for is not there."""
    try:
        return host.comes_again(leaves)
    except Exception:
        if handler_raised():
            raise
        return False


def answer(
    function: Jitted, key: Any, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a call gives. leaves: of its arguments, which `key` tells apart from others."""
    entry = _entry(function, key, leaves, args, kwargs)
    for variant in list(entry.variants):
        if variant.shared.first_failure() is not None:
            continue
        due = function.is_due()
        found = replay.run(variant.tree, leaves, None, due)
        if not isinstance(found, Stopped):
            return finish(function, variant, found, leaves, args, kwargs, due)
        if found.reason == OVERLAPS:
            return _eagerly(function, entry, args, kwargs)
    if any(run.comes_again(leaves) for run in list(entry.eager_runs)):
        return _eagerly(function, entry, args, kwargs)
    return _recorded(function, entry, leaves, args, kwargs)


def _entry(
    function: Jitted, key: Any, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Entry:
    """What is known for the key of a call."""
    entry = function.entries.get(key)
    if entry is not None and all(anchor() is not None for anchor in entry.anchors):
        return entry
    with compiling:
        if len(function.entries) >= MOST_KEYS:
            function.entries.pop(next(iter(function.entries)))
        return function.new_entry(key, args, kwargs, leaves)


def _eagerly(function: Jitted, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if function.require:
        raise unable(function, entry)
    function.stats.eager_calls += 1
    return function.__wrapped__(*args, **kwargs)


def _recorded(
    function: Jitted, entry: Entry, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run eagerly with the recorder on; the run's replay gives the result, if it has one."""
    native_calls.prepare()
    made = capture(function.__wrapped__, args, kwargs, keeps=True)
    result, made.result = made.result, None
    looks = [] if made.reasons else _looks(made)
    entry.reasons = made.reasons or looks
    entry.given_up = EAGER if entry.reasons else ""
    if looks or made.foretold:
        entry.eager_runs = [EagerRun(made), *entry.eager_runs][:MOST_RUNS]
    variant = None if entry.reasons else _compiled(function, entry, made, leaves)
    if variant is not None:
        replayed = _replayed(made, variant, leaves)
        if replayed is not MISSED:
            function.stats.compiled_calls += 1
            return replayed
    if function.require:
        raise unable(function, entry)
    function.stats.eager_calls += 1
    return result


def _looks(made: Capture) -> list[Reason]:
    """Where a run has looked at values to go on."""
    sources = [e.source for e in made.graph.equations if is_branch(e)]
    return [Reason(LOOKS, *((s.file, s.line) if s is not None else ("", 0))) for s in dict.fromkeys(sources)]


def _compiled(function: Jitted, entry: Entry, made: Capture, leaves: list[Any]) -> Variant | None:
    """What replays a run from now on; None where the compiler does not say."""
    with compiling:
        function.stats.compiles += 1
        try:
            variant = apart(made, leaves, function.contract)
        except NoGradient as refusal:
            entry.given_up = str(refusal)
        except Exception as error:
            # A fault of the compiler must not become one of the user's program.
            if debug.faults_are_raised():
                raise
            entry.given_up = f"the compiler failed: {type(error).__name__}: {error}"
        else:
            entry.variants = [variant, *entry.variants][:MOST_RUNS]
            return variant
    return None


def _replayed(made: Capture, variant: Variant, leaves: list[Any]) -> Any:
    """What the replay of a run gives that has just been made; MISSED where it gives nothing, and what the run
    has done stays done.
    """
    assert made.before is not None
    done, do_again = False, made.before.put_back()
    if do_again is None:
        return MISSED
    try:
        journal.again()
        found = replay.run(variant.tree, leaves, given=made.before.given)
        if isinstance(found, Stopped):
            return MISSED
        result = found.finish()
        done = True
        return result
    finally:
        if not done:
            do_again()
