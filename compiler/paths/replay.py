"""Running a trace tree: from guard to guard down to a leaf, whose results are handed out if all held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler.paths.path import Path, guard_key
from fusegrad.compiler.paths.segments import Joint, Run, Segment, Stopped
from fusegrad.compiler.program.program import viewed
from fusegrad.eager.core.op import EXPLAINED
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.api import Capture
from fusegrad.tracer.observe.hosts import at

if TYPE_CHECKING:
    from fusegrad.compiler.paths.tree import Tree


def run(
    tree: Tree,
    leaves: Sequence[Any],
    refuses: Callable[[Path], Any] | None = None,
    keep: bool = False,
) -> Run | Stopped:
    """Run to a leaf.

    refuses: asked before the last stretch of a path, why (if at all) its results must not be used.
    keep: give back copies of the memory that is about to be written. Stopped says why no leaf was
    reached; then nothing outside has changed.
    """
    undo: list[Callable[[], None]] = []
    found = _walk(tree, leaves, refuses, undo, keep)
    if isinstance(found, Run):
        found.undo = undo
        return found
    for restore in reversed(undo):
        restore()
    return found


def _walk(
    tree: Tree,
    leaves: Sequence[Any],
    refuses: Callable[[Path], Any] | None,
    undo: list[Callable[[], None]],
    keep: bool,
) -> Run | Stopped:
    segment = tree.root
    environment: list[Any] = [None] * tree.environment
    written: list[Tensor] = []
    while True:
        if segment.path is not None:
            reason = refuses(segment.path) if refuses is not None else None
            if reason is not None:
                return Stopped(segment, reason)
            capture = segment.path.capture
            changed = _changed(capture, leaves) if capture.same or capture.bare else ""
            if changed:
                return Stopped(segment, changed)
            targets = [] if segment.commit is None else segment.commit.tensors(leaves)
            if targets is None:
                return Stopped(segment, "memory that is written overlaps with what is read")
            written = targets
        if segment.hosts and not _ask(tree, segment, leaves, environment, undo):
            return Stopped(segment, "a gradient, or an optimizer's number, is not what it was")
        memory = [np.array(t.array) for t in written] if keep else []
        joint = segment.joint
        if joint is not None and segment.followed():
            found = _run_joint(joint, leaves, environment)
            if found is None:
                return Stopped(segment)
            results, left, gradients = found
            return Run(segment, results, left, environment, written, memory, undo, gradients)
        if segment.commit is not None and segment.commit.begins:
            segment.commit.begin(written)
        made = _run_segment(segment, leaves, environment)
        if made is None:
            return Stopped(segment)
        if segment.guard is None:
            left = _at(made, segment.left)
            return Run(segment, _at(made, segment.results), left, environment, written, memory, undo)
        assert segment.guard_place is not None
        index, chain = segment.guard_place
        seen = guard_key(viewed(made[index], chain).item())
        child = segment.children.get(seen)
        if child is None:
            return Stopped(segment, seen=seen)
        segment = child


def _ask(
    tree: Tree,
    segment: Segment,
    leaves: Sequence[Any],
    environment: list[Any],
    undo: list[Callable[[], None]],
) -> bool:
    """Have Python give what the segment's program reads; whether it could."""
    for host, place in segment.hosts:
        restore = host.undo()
        if restore is not None:
            undo.append(restore)
        array = host.array(leaves)
        if array is None:
            return False
        # What a later backward reads must not change meanwhile.
        environment[place] = np.array(array) if host.lent and tree.derived else array
    return True


def _changed(capture: Capture, leaves: Sequence[Any]) -> str:
    """What is no longer true of the tensors of the call; empty if all is as it was."""
    for i, place in capture.same:
        tensor = at(place, leaves)
        if tensor is None or leaves[i].array is not tensor.array:
            return "two tensors that were one are not one now"
    if any(leaves[i].grad is not None for i in capture.bare):
        return "an argument has a .grad now"
    return ""


def _run_joint(
    joint: Joint, leaves: Sequence[Any], environment: list[Any]
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]] | None:
    """Results, what is left, and gradients at once; None where the program does not answer this call."""
    arrays = gather(joint.inputs, leaves, environment)
    if arrays is None:
        return None
    try:
        made = joint.program.run(arrays)
    except EXPLAINED:
        return None
    if joint.checks and not all(array.item() for array in _at(made, joint.checks)):
        return None
    results, left = _at(made, joint.results), _at(made, joint.left)
    gradients = gradients_at(made, joint.gradients, (*arrays, *results, *left))
    return results, left, gradients


def _at(made: Sequence[np.ndarray], places: Sequence[tuple[int, tuple[Any, ...]]]) -> list[np.ndarray]:
    """The arrays at `places` of what a program made."""
    return [viewed(made[index], chain) if chain else made[index] for index, chain in places] if places else []


def gradients_at(
    made: Sequence[np.ndarray], places: Sequence[tuple[int, tuple[Any, ...]]], others: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The gradients at `places`, each in memory of its own: `.grad` is written in place.

    others: arrays that somebody else has, among them what the program was given.
    """
    taken = {id(array) for array in others}
    found = []
    for index, chain in places:
        array = viewed(made[index], chain) if chain else made[index]
        found.append(np.array(array) if id(made[index]) in taken else array)
        taken.add(id(made[index]))
    return found


def _run_segment(segment: Segment, leaves: Sequence[Any], environment: list[Any]) -> list[np.ndarray] | None:
    """Run a segment's program and note what is kept; None where it does not answer this call."""
    arrays = gather(segment.inputs, leaves, environment)
    if arrays is None:
        return None
    assert segment.program is not None
    try:
        made = segment.program.run(arrays)
    except EXPLAINED:
        # An op that NumPy runs refuses its input; eager raises the error that says why.
        return None
    for place, index in segment.gives:
        environment[place] = made[index]
    if segment.checks and not all(array.item() for array in _at(made, segment.checks)):
        return None
    return made


def refill(leaf: Segment, leaves: Sequence[Any], environment: list[Any]) -> None:
    """Keep what the backward program reads, which a joint run did not."""
    _run_segment(leaf, leaves, environment)


def gather(
    inputs: list[tuple[str, Any]],
    leaves: Sequence[Any],
    environment: list[Any],
    seeds: Sequence[Any] = (),
    preserved: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> list[np.ndarray] | None:
    """The arrays that a program takes; None where a captured tensor is not what it was.

    preserved: what captured tensors (by id of their `Captured`) held before they were written.
    """
    arrays = []
    for kind, reference in inputs:
        if kind == "argument":
            arrays.append(leaves[reference].array)
        elif kind == "kept":
            array = environment[reference]
            # Native code would read whatever lies there.
            assert array is not None, "a value is read that no segment kept"
            arrays.append(array)
        elif kind == "constant":
            arrays.append(reference)
        elif kind == "seed":
            arrays.append(seeds[reference])
        else:
            array = preserved.get(id(reference)) if preserved else None
            if array is None:
                array = reference.array()
            if array is None:
                return None
            arrays.append(array)
    return arrays
