"""Answered calls: what is known of a key goes in; what the call gives comes out, or why no path answers it.

It is compared with eager's where that was asked for, and calls like it get a shortcut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler import entries, learning
from fusegrad.compiler.entries import Entry, Variant
from fusegrad.compiler.explain.miss_reasons import Difference, difference
from fusegrad.compiler.fastpath.entry import Shortcut
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.segments import Segment, Stopped
from fusegrad.compiler.verify import Again
from fusegrad.tracer.observe.reads import Read


class Missed(Exception):
    """No compiled path answers this call; its argument is the `Difference`."""


def replayed(
    function: Jitted, entry: Entry, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Answer from compiled code, or raise Missed with the reason."""
    if entry.anchors and any(anchor() is None for anchor in entry.anchors):
        # Another object has taken the place in memory that the key is about.
        function.entries.pop(entry.key, None)
        raise Missed(Difference("state", "an object among the arguments is gone"))
    missed: list[tuple[Guards, Read | Stopped]] = []
    for variant in list(entry.variants):
        failed = variant.shared.first_failure()
        if failed is not None:
            missed.append((variant.shared, failed))
            continue
        due = function.is_due()
        found = replay.run(variant.tree, leaves, variant.refusal, due)
        if isinstance(found, Stopped):
            missed.append((variant.shared, found))
            continue
        return finish(function, variant, found, leaves, args, kwargs, due)
    raise Missed(difference(missed))


def finish(
    function: Jitted,
    variant: Variant,
    found: replay.Answer,
    leaves: list[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    due: bool,
) -> Any:
    """What a call gives that a leaf of a variant answers; due: whether eager is to say the same."""
    path = found.leaf.path
    assert path is not None
    function.stats.compiled_calls += 1
    path.calls += 1
    alone = path.derivative.alone and found.leaf.joint is None and found.leaf.followed()
    if alone and found.leaf.earns_joint_program():
        learning.join(function, variant.tree, found.leaf)
    second = Again(found, leaves) if due else None
    result = found.finish()
    if second is not None:
        second.compare(function, result, args, kwargs)
    again = variant.comes_again(found.leaf)
    if not (kwargs or function.verify) and path.calls > entries.SHORTCUT_AFTER:
        function._answer = _shortcut(function, variant, found.leaf, args, leaves) if again else None
    return result


def _shortcut(
    function: Jitted, variant: Variant, leaf: Segment, args: Sequence[Any], leaves: Sequence[Any]
) -> Any:
    """What answers calls like this one faster, if there is such a thing."""
    joint = leaf.derives_at_once()
    if joint is None or (joint and leaf.joint is None):
        return None  # what is compiled beside the program is taken over the long way
    known = variant.shortcuts.get((leaf, joint))
    checks = variant.checks(leaf)
    if known is None or known.checks != checks:  # something else was written for it
        known = Shortcut(variant.tree, checks, leaf, joint, args, leaves, function.stats)
        variant.shortcuts[leaf, joint] = known
    return known.answer
