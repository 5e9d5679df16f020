"""The shortcut of a path: the call plan of a leaf written out as one straight Python function.

`jit` finds the code for a call by a key of all its arguments, and runs a tree that may branch. Where a
function has answered such a call before, it is known beforehand what that comes to:

    def answer(args):
        if not (state.interpreter is None and not state.inference and not watchers): return MISSED
        if not (type(args) is tuple and len(args) == 2): return MISSED
        leaf0, leaf1, = args
        if not (match(leaf0, leaf1)): return MISSED
        if check() is not None: return MISSED
        run0_2, run0_2_tensor, = make(leaf0.array, leaf1.array, nothing)
        stats.calls += 1
        result0 = run0_2_tensor
        return result0

What it misses is answered as ever, so it changes nothing until it is sure to answer: what a path leaves in
the world, and draws from generators, comes behind all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.stats import Stats
from fusegrad.compiler.call_plan.expressions import Name, Row
from fusegrad.compiler.call_plan.python_writer import TooDifficult, Writer
from fusegrad.compiler.call_plan.steps import Ask, Unless
from fusegrad.compiler.fastpath.derivative import written_derivative
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths.path import guard_key
from fusegrad.compiler.paths.plans import Plan, Unplanned, is_plain, plan_of
from fusegrad.compiler.paths.segments import MISSED, Segment
from fusegrad.compiler.paths.tree import Tree
from fusegrad.compiler.paths.variables import LEAVES, leaf_name
from fusegrad.eager.autograd.node import watchers
from fusegrad.eager.core import dtypes, settings
from fusegrad.eager.core.pytree import contents, is_container
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks.journal import journal
from fusegrad.tracer.observe.arrays.known import array_key, is_numbers
from fusegrad.tracer.observe.values import MISSING, Expected

# What asks whether all is as it was of what a path has read.
Checks = Sequence[Callable[[], int | None]]
MOST_TENSORS = 64  # each is compared with all others


class Shortcut:
    """The written function for calls that end at one leaf of a tree.

    checks: what asks whether what the path has read is as it was.
    """

    def __init__(
        self,
        tree: Tree,
        checks: Checks,
        leaf: Segment,
        joint: bool,
        args: Sequence[Any],
        leaves: Sequence[Any],
        stats: Stats,
    ) -> None:
        """joint: whether gradients are computed at once. args, leaves: of a call that was answered."""
        self.leaf, self.checks = leaf, checks
        self.text = ""
        self.answer: Any = None
        try:
            writer = _EntryWriter(tree, checks, leaf, joint, leaves, stats)
            text = writer.write_call(args)
            answer = writer.function(text, "shortcut")
            # A backward of its own that no call has needed so far is not compiled, or not even planned.
            if leaf.answers.derive is None and leaf.has_begun_backward():
                leaf.answers.derive = written_derivative(leaf)
        except TooDifficult:
            return
        except Exception:
            # The long way works; a fault of ours must not become one of the user's program.
            if debug.faults_are_raised():
                raise
            return
        self.text, self.answer = text, answer
        debug.show(2, "shortcut", lambda: self.text)


class _EntryWriter(Writer):
    def __init__(
        self, tree: Tree, checks: Checks, leaf: Segment, joint: bool, leaves: Sequence[Any], stats: Stats
    ) -> None:
        super().__init__(MISSED)
        self.checks, self.leaf, self.leaves = checks, leaf, leaves
        (chain,) = [chain for chain in tree.root.chains() if chain[-1] is leaf]
        # The plans on the way; at the leaf that of forward and backward at once, if there is one.
        assert leaf.path is not None
        self.joint, self.path = joint, leaf.path
        self.plans: list[Plan] = [s.answers.plans[False] for s in chain[:-1]]
        try:
            self.plans.append(plan_of(tree, leaf, self.joint, self.plans, leaves))
        except Unplanned:
            raise TooDifficult from None
        self.chain = chain
        self.constants |= {
            "dtypes": dtypes,
            "determinism": settings.setting,
            "watchers": watchers,
            "stats": stats,
            "path": self.path,
            "usage": leaf.answers.usage,
            "is_": is_,
            "guard_key": guard_key,
        }
        self.names = [leaf_name(number).name for number in range(len(leaves))]

    def write_call(self, args: Sequence[Any]) -> str:
        """The source. Raises TooDifficult."""
        self._refuse_what_may_stop_late()
        self._modes()
        self._arguments(args)
        self._reads_hold()
        self._as_often_derived()
        row = len(self.lines)
        self.lines.append("")  # for the tuple of all leaves, if anybody reads it
        for plan, segment, after in zip(self.plans, self.chain, [*self.chain[1:], None], strict=True):
            self.write(plan.before)
            is_last = segment.exchanges and plan.is_sure
            if is_last:
                self.lines.append(f"{self.constant('journal', journal)}.is_last = True")
            self.write([plan.run])
            if is_last:
                self.lines.append(f"{self.constant('journal', journal)}.is_last = False")
            self.write(plan.after)
            if after is not None:
                (key,) = [key for key, child in segment.children.items() if child is after]
                assert plan.seen is not None
                seen = self.text_of(plan.seen)
                self._unless_true(f"guard_key({seen}) == {self.constant('key', key)}")
            if segment.calls:
                self._reads_hold()
        self.lines += ["stats.calls += 1", "stats.compiled_calls += 1", "path.calls += 1"]
        if self.path.derivative.alone:
            self.lines.append("usage.note_call()")
        last = self.plans[-1]
        self.write([*last.finish, *last.commit, *last.last, *last.late])
        self.returns(last.result)
        if LEAVES.name in self.used:
            self.lines[row] = f"{LEAVES.name} = {self.text_of(Row(tuple(map(Name, self.names))))}"
        return self.text("args")

    def _reads_hold(self) -> None:
        for check in self.checks:
            line = f"    if {self.constant('check', check)}() is not None: return MISSED"
            self.lines += ["try:", line, *self.unless_it_raises()]

    def _refuse_what_may_stop_late(self) -> None:
        """What was drawn would have to be put back where a later step leaves the function."""
        draws = [plan for plan in self.plans if _draws(plan)]
        last = self.plans[-1]
        may_stop = last.run.may_stop or any(isinstance(step, Unless) for step in last.after)
        if draws and (draws != [last] or may_stop):
            raise TooDifficult

    # Whether the call is as expected.

    def _unless_true(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return MISSED")

    def _modes(self) -> None:
        self._unless_true("state.interpreter is None and not state.inference and not watchers")
        self._unless_true(f"state.grad_enabled is {state.grad_enabled}")
        self._unless_true(f"determinism.wanted is {settings.setting.wanted}")
        self._unless_true(f"dtypes.default_float() is {self.constant('dtype', dtypes.default_float())}")

    def _as_often_derived(self) -> None:
        """Whether this is still the way for calls that are derived as often as they are of late."""
        if self.joint:
            self._unless_true("usage.expected()")
        elif self.path.derivative.alone:
            at_once = self.constant("derives_at_once", self.leaf.derives_at_once)
            self._unless_true(f"not {at_once}()")

    def _arguments(self, args: Sequence[Any]) -> None:
        """Take the arguments apart, as `flatten` does, and compare the leaves."""
        self._take_apart("args", args, iter(self.names))
        tensors: dict[str, Tensor] = {}
        changing = self.path.capture.changing.leaves
        for place, (name, leaf) in enumerate(zip(self.names, self.leaves, strict=True)):
            if isinstance(leaf, Tensor):
                tensors[name] = leaf
                continue
            if place in changing:
                self._unless_true(f"type({name}) is {type(leaf).__name__}")
                continue
            if is_numbers(leaf):
                self._match_array(name, leaf)
                continue
            expected = Expected(leaf)
            same = f"{self.constant('matches', expected.matches)}({name})"
            if expected.key is not MISSING:
                same = f"{name} is {self.constant('value', leaf)} or {same}"
            self._unless_true(same)
        self._match(tensors)

    def _match_array(self, name: str, leaf: np.ndarray) -> None:
        """Lines that ask whether an array is of the kind that this one is; no two are one."""
        if sum(other is leaf for other in self.leaves) > 1:
            raise TooDifficult
        key, expected = self.constant("array_key", array_key), self.constant("array", array_key(leaf))
        self._unless_true(f"type({name}) is {self.constant('ndarray', np.ndarray)}")
        self._unless_true(f"{key}({name}) == {expected}")

    def _match(self, tensors: dict[str, Tensor]) -> None:
        """A line that asks whether tensors are of the types that these have, and no two of them one."""
        if not tensors:
            return
        known = [*tensors.values()]
        if not all(map(is_plain, known)):
            raise TooDifficult
        if len({id(x) for x in known}) < len(known) or len(known) > MOST_TENSORS:
            raise TooDifficult
        match = Match(known)
        self.constant("types", match)  # which keeps them alive
        self._unless_true(f"{self.constant('match', match.matches)}({', '.join(tensors)})")

    def _take_apart(self, name: str, value: Any, names: Iterator[str]) -> None:
        kind, parts = type(value), contents(value)
        inner = [f"{name}_{i}" if is_container(part) else next(names) for i, part in enumerate(parts)]
        test = f"type({name}) is {kind.__name__} and len({name}) == {len(parts)}"
        if kind is dict:
            if not all(type(key) is str for key in value):
                raise TooDifficult
            test += f" and all(map(is_, {name}, {self.constant('keys', list(value))}))"
        elif kind is not list and kind is not tuple:
            raise TooDifficult
        self._unless_true(test)
        if inner:
            self.lines.append(f"{', '.join(inner)}, = {name}{'.values()' if kind is dict else ''}")
        for part_name, part in zip(inner, parts, strict=True):
            if is_container(part):
                self._take_apart(part_name, part, names)


def _draws(plan: Plan) -> bool:
    """Whether random numbers are drawn."""
    return any(isinstance(step, Ask) and step.changes_something for step in plan.before)
