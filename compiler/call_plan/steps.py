"""The steps of a call plan, and the interpreter that runs them.

A plan is a straight line. Where a test fails, or an op refuses its input, the call leaves it unanswered;
nothing outside has changed by then but random generators that were drawn from, which are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler.call_plan.expressions import Expression
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.op import EXPLAINED
from fusegrad.tracer.observe.hosts import Host


class Frame:
    """The variables of one call. undo: what takes back what was drawn from generators.

    given: of a call that has been made already by other means, what hosts gave then.
    """

    __slots__ = ("given", "undo", "variables")

    def __init__(self, variables: dict[str, Any], given: Mapping[Host, np.ndarray] | None = None) -> None:
        self.variables, self.given = variables, given
        self.undo: list[Callable[[], None]] = []


class Step:
    """Something that a call does. reason: why a call is not answered that leaves the plan here, in words, or
    what knows those.
    """

    __slots__ = ()
    reason: Any = ""

    def run(self, frame: Frame) -> bool:
        """Do it; whether the call goes on."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Step):
    """Give a variable a value."""

    name: str
    value: Expression

    def run(self, frame: Frame) -> bool:
        frame.variables[self.name] = self.value.evaluate(frame.variables)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Attempt(Step):
    """Give a variable a value; leave the plan where that raises."""

    name: str
    value: Expression
    reason: Any = ""

    def run(self, frame: Frame) -> bool:
        try:
            frame.variables[self.name] = self.value.evaluate(frame.variables)
        except Exception:
            if handler_raised():
                raise
            return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Unpack(Step):
    """Give several variables the items of a value."""

    names: tuple[str, ...]
    value: Expression

    def run(self, frame: Frame) -> bool:
        frame.variables.update(zip(self.names, self.value.evaluate(frame.variables), strict=True))
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Do(Step):
    """Call something for what it does."""

    value: Expression

    def run(self, frame: Frame) -> bool:
        self.value.evaluate(frame.variables)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Unless(Step):
    """Leave the plan where a condition is not true. refuses: where evaluating it raises, too."""

    condition: Expression
    reason: Any = ""
    refuses: bool = False

    def run(self, frame: Frame) -> bool:
        if not self.refuses:
            return bool(self.condition.evaluate(frame.variables))
        try:
            return bool(self.condition.evaluate(frame.variables))
        except Exception:
            if handler_raised():
                raise
            return False


@dataclass(frozen=True, slots=True, eq=False)
class Ask(Step):
    """Have Python give what a program reads; `leaves` are those of the call. copied: it may be lent, and a
    later backward reads it. numbers: what the host takes.
    """

    name: str
    host: Host
    copied: bool
    numbers: tuple[Expression, ...] = ()

    @property
    def reason(self) -> Any:
        """See `Step`."""
        return self.host.missed()

    def run(self, frame: Frame) -> bool:
        if frame.given is not None and self.host in frame.given:
            frame.variables[self.name] = frame.given[self.host]
            return True
        restore = self.host.undo()
        if restore is not None:
            frame.undo.append(restore)
        numbers = [number.evaluate(frame.variables) for number in self.numbers]
        array = self.host.array(frame.variables["leaves"], *numbers)
        if array is None:
            return False
        frame.variables[self.name] = np.array(array) if self.copied else array
        return True

    @property
    def changes_something(self) -> bool:
        """Whether something outside is another one afterwards: a generator of random numbers."""
        return type(self.host).undo is not Host.undo


@dataclass(frozen=True, slots=True, eq=False)
class Run(Step):
    """Run a program; the variable `name` holds its arrays, as `Program.run` gives them.

    begin: done when nothing can stop it any more. seen: the arrays that somebody looks at, through these
    views, where that is known.
    """

    name: str
    program: Program
    inputs: tuple[Expression, ...]
    begin: tuple[Step, ...] = ()
    seen: Sequence[tuple[int, Any]] = ()

    def run(self, frame: Frame) -> bool:
        inputs = [value.evaluate(frame.variables) for value in self.inputs]
        for step in self.begin:
            step.run(frame)
        try:
            frame.variables[self.name] = self.program.run(inputs)
        except EXPLAINED:
            # An op that NumPy runs refuses its input; eager raises the error that says why.
            return False
        return True

    @property
    def may_stop(self) -> bool:
        """Whether the program may refuse its input."""
        return bool(self.program.checks) or self.program.placed().calls is None


def execute(steps: Iterable[Step], frame: Frame) -> Step | None:
    """Run steps; the one where the call left them unanswered, if it did."""
    for step in steps:
        if not step.run(frame):
            return step
    return None
