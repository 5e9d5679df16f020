"""Running a trace tree: from guard to guard down to a leaf, by the steps of call plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler.call_plan.steps import Frame, execute
from fusegrad.compiler.paths.path import Path, guard_key
from fusegrad.compiler.paths.plans import Plan, Unplanned, plan_of
from fusegrad.compiler.paths.segments import Segment, Stopped
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, mark_inference
from fusegrad.eager.ranks.journal import journal
from fusegrad.tracer.observe.hosts import Host

if TYPE_CHECKING:
    from fusegrad.compiler.paths.tree import Tree


class Answer:
    """A run that reached a leaf; nothing outside has changed yet but what its program writes in place.

    written: the tensors that are to be written; memory: copies of what they held before, if those were asked
    for.
    """

    __slots__ = ("frame", "leaf", "memory", "plan", "written")

    def __init__(
        self, leaf: Segment, plan: Plan, frame: Frame, written: list[Tensor], memory: list[np.ndarray]
    ):
        self.leaf, self.plan, self.frame, self.written, self.memory = leaf, plan, frame, written, memory

    @property
    def undo(self) -> list[Callable[[], None]]:
        """What takes back the drawing of random numbers."""
        return self.frame.undo

    def finish(self) -> Any:
        """The function's result, on the graph; memory is written and gradients are set."""
        plan, variables = self.plan, self.frame.variables
        execute(plan.finish, self.frame)
        if state.inference:
            mark_inference([result.evaluate(variables) for result in plan.results])
        execute(plan.commit, self.frame)
        if self.frame.given is None:
            execute(plan.last, self.frame)
        execute(plan.late, self.frame)
        return plan.result.evaluate(variables)


def run(
    tree: Tree,
    leaves: Sequence[Any],
    refuses: Callable[[Path], Any] | None = None,
    keep: bool = False,
    given: Mapping[Host, np.ndarray] | None = None,
) -> Answer | Stopped:
    """Run to a leaf.

    refuses: asked before the last stretch of a path, why (if at all) its results must not be used.
    keep: give back copies of the memory that is about to be written. given: what hosts gave, of a call that
    was made already: memory and gradients are what they were before it, and the Python code that it ran in
    the end is not run again. Stopped says why no leaf was reached; then nothing outside has changed.
    """
    variables = {"leaves": leaves, **{f"leaf{number}": leaf for number, leaf in enumerate(leaves)}}
    frame = Frame(variables, given)
    found = _walk(tree, leaves, refuses, keep, frame)
    if isinstance(found, Stopped):
        for restore in reversed(frame.undo):
            restore()
        journal.again()
    return found


def _walk(
    tree: Tree, leaves: Sequence[Any], refuses: Callable[[Path], Any] | None, keep: bool, frame: Frame
) -> Answer | Stopped:
    segment, above = tree.root, list[Plan]()
    while True:
        if segment.path is not None and refuses is not None:
            reason = refuses(segment.path)
            if reason is not None:
                return Stopped(segment, reason)
        if segment.exchanges and refuses is not None:
            # Other ranks get what it computes: that must be right before it is known which leaf follows.
            reason = segment.refusal(refuses)
            if reason is not None:
                return Stopped(segment, reason)
        joint = segment.joint is not None and (
            segment.answers.usage.expected() or not segment.can_run_apart()
        )
        try:
            plan = plan_of(tree, segment, joint, above, leaves)
        except Unplanned as error:
            return Stopped(segment, error.args[0])
        left = execute(plan.before, frame)
        if left is not None:
            return Stopped(segment, left.reason)
        written = [tensor.evaluate(frame.variables) for tensor in plan.written]
        memory = [np.array(tensor.array) for tensor in written] if keep else []
        journal.is_last = segment.exchanges and plan.is_sure and not keep
        try:
            left = execute([plan.run, *plan.after], frame)
        finally:
            journal.is_last = False
        if left is not None:
            return Stopped(segment, left.reason)
        if plan.seen is None:
            if segment.joint is not None:
                segment.followed()
            return Answer(segment, plan, frame, written, memory)
        seen = guard_key(plan.seen.evaluate(frame.variables))
        child = segment.children.get(seen)
        if child is None:
            return Stopped(segment, seen=seen)
        above.append(plan)
        segment = child
