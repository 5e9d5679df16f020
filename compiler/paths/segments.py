"""The parts of a trace tree, and what came of running one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from fusegrad.compiler.base.background import Work
from fusegrad.compiler.paths.commit import Commit
from fusegrad.compiler.paths.path import Path
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks.exchange_op import BEGIN, EXCHANGE
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.world.unknown_calls import UNKNOWN, Cut

MISSED: Any = object()  # what a function gives that does not answer


Spot = tuple[int, tuple[Any, ...]]  # which of a program's arrays, and the views to apply


@dataclass(eq=False)
class Code:
    """A compiled program, and what it takes and gives.

    inputs: where each comes from, as (kind, reference): see `Tree`. checks: values that must be true. keeps:
    (environment index, where it is) of what later code reads; held: those values. guard: the value that the
    segment's guard looks at. results, left, gradients: of the path, and what it leaves to the world, at a
    leaf.
    """

    program: Program
    inputs: list[tuple[str, Any]]
    checks: list[Spot] = field(default_factory=list)
    keeps: list[tuple[int, Spot]] = field(default_factory=list)
    guard: Spot | None = None
    results: list[Spot] = field(default_factory=list)
    left: list[Spot] = field(default_factory=list)
    gradients: list[Spot] = field(default_factory=list)
    held: Sequence[Value] = ()


class Stopped(NamedTuple):
    """A run that reached no leaf: the segment where it stopped, and why, if not by its guard.

    seen: the key of the value that the guard met, which has no continuation.
    """

    segment: Segment
    reason: Any = ""
    seen: Any = None


# A leaf gets a joint program when this many of its calls were followed by a plain backward, and
# these were at least three quarters of all. To plan one takes as long as many calls gain by it: of paths of
# more than `LONG_PATH` equations one for each `EQUATIONS_PER_CALL` of them.
JOINT_AFTER = 3
LONG_PATH, EQUATIONS_PER_CALL = 2000, 8
# A joint program that was made in the hope of backwards is given up after so many calls without one. If it is
# made in place of the two others, paths of so many times as many equations have it at once; those of still
# more do if a call may wait for the others, which are planned when hopes are given up.
HOPED_FOR, LONG_HOPED = 2, 2


def equations_of_both(path: Path) -> int:
    """How many equations the results and gradients of a path have together."""
    return len(path.forward) + len(path.derivative.equations)


@dataclass(eq=False)
class Usage:
    """How often a leaf ran, and was derived by a plain backward: of late, when it is often, and ever.

    hoped: whether it has had a joint program from the first call on.
    """

    calls: int = 0
    derived: int = 0
    ever_derived: int = 0
    hoped: bool = False

    def note_derived(self) -> None:
        """Note a plain backward of a call."""
        self.derived += 1
        self.ever_derived += 1

    def note_call(self) -> None:
        """Note a call that may be derived."""
        self.calls += 1
        if self.calls >= 64:
            self.calls, self.derived = self.calls // 2, self.derived // 2

    def followed(self) -> bool:
        """Note a call that may be derived; whether it probably will be."""
        expected = self.expected()
        self.note_call()
        return expected

    def expected(self) -> bool:
        """Whether the next call will probably be derived."""
        hoped = self.hoped and self.calls - self.derived < HOPED_FOR
        return hoped or (self.derived >= JOINT_AFTER and 4 * self.derived >= 3 * self.calls)


@dataclass(eq=False)
class Answers:
    """How calls of a segment are answered.

    plans: the call plans, by whether they are of the joint program; derivation: that of the backward; derive:
    the latter written out, from a node and the gradients of all results; repetition: the plan of the forward
    for what backward reads. facts: for a node, what its backward needs of each input and result, by whether
    its forward kept what backward reads. runs: how often the steps of a plan have answered a tree without
    guards that is not asked about its arguments; straight: these written out, from the leaves.
    """

    plans: dict[bool, Any] = field(default_factory=dict)
    derivation: Any = None
    repetition: Any = None
    derive: Callable[[Any, Sequence[Tensor]], Any] | None = None
    runs: int = 0
    straight: Callable[[Sequence[Tensor]], Any] | None = None
    facts: dict[bool, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


@dataclass(eq=False)
class Segment:
    """A node of the tree: equations up to a guard, and what comes after for each value of it.

    owner: the path that brought the segment; it binds captured tensors and constants. path: that of a leaf.
    hosts: what Python gives before the code runs, with places in the environment. joint: of a leaf, results
    and gradients by one program, for a backward that starts with 1: most losses are made to be derived at
    once; then what forward and backward share is computed once, and nothing is kept in between. joining: the
    work of making that. plan_later: plans `code` and `backward`, where nobody has needed them yet, and tells
    whether it could. above: the segments on the way to a leaf; kept_above: what they keep for it. commit:
    what a leaf leaves in the world. asked: what must be true before its code runs, which writes in place.
    """

    owner: Path
    equations: list[Equation]
    guard: Equation | None = None
    givers: list[Host] = field(default_factory=list)
    children: dict[Any, Segment] = field(default_factory=dict)
    path: Path | None = None
    hosts: list[tuple[Host, int]] = field(default_factory=list)
    joint: Code | None = None
    joining: Work[Any] | None = None
    plan_later: Callable[[], bool] | None = None
    above: list[Segment] = field(default_factory=list)
    kept_above: dict[Value, int] = field(default_factory=dict)
    commit: Commit | None = None
    asked: Code | None = None
    answers: Answers = field(default_factory=Answers)
    _code: Code | None = None
    _backward: Code | None = None

    @property
    def code(self) -> Code | None:
        """Its program, or the forward of a leaf; see `can_run_apart`."""
        self.can_run_apart()
        return self._code

    @code.setter
    def code(self, code: Code) -> None:
        self._code = code

    @property
    def backward(self) -> Code | None:
        """The backward of a leaf; see `can_run_apart`."""
        self.can_run_apart()
        return self._backward

    @backward.setter
    def backward(self, backward: Code) -> None:
        self._backward = backward

    def can_run_apart(self) -> bool:
        """Whether results, and gradients, can be computed apart; what was put off of that is planned now."""
        return self.plan_later is None or self.plan_later()

    def has_begun_backward(self) -> bool:
        """Whether its backward is compiled, or being compiled."""
        return self._backward is not None and self._backward.program.is_begun

    def followed(self) -> bool:
        """Note a call that may be derived; whether it probably will be, by a plain backward."""
        return self.answers.usage.followed()

    def derives_at_once(self) -> bool | None:
        """Whether the next call is one for a joint program; None where too few calls can tell."""
        assert self.path is not None, "asked of leaves"
        if not self.path.derivative.alone:
            return False
        usage = self.answers.usage
        if usage.expected():
            return self.joint is not None or self.earns_joint_program()
        return False if usage.calls - usage.derived >= JOINT_AFTER and self.can_run_apart() else None

    def earns_joint_program(self) -> bool:
        """Whether so many calls have been derived that one program for results and gradients pays."""
        assert self.path is not None, "asked of leaves"
        equations = equations_of_both(self.path)
        return equations <= LONG_PATH or self.answers.usage.ever_derived >= equations // EQUATIONS_PER_CALL

    def programs(self) -> list[Program]:
        """Its programs: forward, backward, both as one, as far as they are planned; and what is asked."""
        codes = self._code, self._backward, self.joint, self.asked
        return [code.program for code in codes if code is not None]

    @cached_property
    def exchanges(self) -> bool:
        """Whether it exchanges anything with other ranks, or calls what nobody knows."""
        return bool(self.calls) or any(equation.op in (EXCHANGE, BEGIN) for equation in self.equations)

    @cached_property
    def calls(self) -> list[Cut]:
        """The calls of functions that nobody knows, one at most."""
        return [equation.params["call"] for equation in self.equations if equation.op is UNKNOWN]

    def refusal(self, refuses: Callable[[Path], Any]) -> Any:
        """Why none of the paths through this node is of the present state of the world; None if one is."""
        leaves = [chain[-1].path for chain in self.chains()]
        reasons = [refuses(path) for path in leaves if path is not None]
        return None if None in reasons else reasons[0]

    def walk(self) -> list[Segment]:
        """This node and all below it."""
        return [self, *(s for child in self.children.values() for s in child.walk())]

    def chains(self) -> list[list[Segment]]:
        """For each leaf at or below this node the nodes down to it."""
        if self.path is not None:
            return [[self]]
        return [[self, *chain] for child in self.children.values() for chain in child.chains()]
