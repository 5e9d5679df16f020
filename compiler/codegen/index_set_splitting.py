"""The interior of a vector loop: where its conditions on the index hold for certain.

Slices and pads become loads with a condition, `x[i] if lower <= i < upper else 0`. Tested lane by lane they
cost more than the loads. But what is tested is the index against a number that the loop does not change,
so there is one range of indices in which all of it is true, and the loop can run without tests there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegrad.compiler.kernel.ir import Compute, Load, Operand, Progression, Statement, Store

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True)
class Bound:
    """`index op limit`, where `index` is the loop's, moved by what does not change."""

    op: str
    index: str
    limit: Operand


@dataclass(frozen=True)
class Interior:
    """Where the conditions of a loop hold.

    before: the statements that these need, to be computed at index 0 before the loop. bounds, facts: what
    must hold, of the index and of the rest. names: the booleans that are true then.
    """

    before: tuple[Statement, ...]
    bounds: tuple[Bound, ...]
    facts: tuple[str, ...]
    names: frozenset[str]


def interior(axis: str, body: Iterable[Statement]) -> Interior | None:
    """The interior of a loop over `axis`; None if no load or store of it depends on where it stands."""
    found = _Conditions(axis, body)
    asked = {s.when for s in found.accesses if s.when is not None and found.bounds_of(s.when)}
    bounds = {b for name in asked for b in found.bounds_of(name)}
    if not bounds:
        return None
    for name in found.selects:
        # Most of these repeat what is asked of a load: a value of it, or another one.
        own = found.bounds_of(name)
        if own and own <= bounds:
            asked.add(name)
    names = frozenset(part for name in asked for part in found.parts(name))
    facts = tuple(n for n in found.uniform if n in names)
    facts += tuple(sorted(n for n in names if n not in found.made))
    before = found.needed_for([*facts, *(operand for b in bounds for operand in (b.index, b.limit))])
    return Interior(before, tuple(sorted(bounds, key=repr)), facts, names)


class _Conditions:
    """What the straight statements of a loop's body compute of its index.

    made: the statements by target. uniform: targets that no iteration changes; moved: those that are the
    index and something that none changes; before: the statements of both, in order. tests, both: the
    booleans that are bounds, and those that are conjunctions.
    """

    def __init__(self, axis: str, body: Iterable[Statement]) -> None:
        self.axis = axis
        self.made: dict[str, Statement] = {}
        self.uniform: dict[str, None] = {}
        self.moved: set[str] = set()
        self.before: list[Compute | Progression] = []
        self.tests: dict[str, Bound] = {}
        self.both: dict[str, tuple[str, str]] = {}
        self.accesses: list[Load | Store] = []
        self.selects: list[str] = []
        for statement in body:
            self._see(statement)

    def _see(self, statement: Statement) -> None:
        if isinstance(statement, (Load, Store)):
            self.accesses.append(statement)
        target = getattr(statement, "target", None)
        if target is None:
            return
        self.made[target] = statement
        if isinstance(statement, Progression):
            if statement.axis != self.axis:
                self._keep(statement)
            elif statement.step == 1 and statement.dtype == "i64":
                self.moved.add(target)
                self.before.append(statement)
        elif isinstance(statement, Compute):
            self._see_compute(statement)

    def _keep(self, statement: Compute | Progression) -> None:
        self.uniform[statement.target] = None
        self.before.append(statement)

    def _is_uniform(self, operand: Operand) -> bool:
        return operand in self.uniform or operand not in self.made

    def _see_compute(self, statement: Compute) -> None:
        target, op, operands = statement.target, statement.op, statement.operands
        if all(map(self._is_uniform, operands)):
            self._keep(statement)
        elif op == "select" and isinstance(operands[0], str):
            self.selects.append(operands[0])
        elif op == "and_" and all(isinstance(o, str) for o in operands):
            self.both[target] = operands[0], operands[1]
        elif op in _FLIPPED:
            left, right = operands
            if left in self.moved and self._is_uniform(right):
                self.tests[target] = Bound(op, left, right)
            elif right in self.moved and self._is_uniform(left):
                self.tests[target] = Bound(_FLIPPED[op], right, left)
        elif op in ("add", "sub") and statement.dtype == "i64":
            left, right = operands
            forwards = left in self.moved and self._is_uniform(right)
            if forwards or (op == "add" and right in self.moved and self._is_uniform(left)):
                self.moved.add(target)
                self.before.append(statement)

    def parts(self, name: str) -> set[str]:
        """`name` and the booleans that it is the conjunction of; empty if there are others in it."""
        if name in self.tests or self._is_uniform(name):
            return {name}
        if name not in self.both:
            return set()
        left, right = (self.parts(part) for part in self.both[name])
        return {name, *left, *right} if left and right else set()

    def bounds_of(self, name: str) -> set[Bound]:
        """What `name` asks of the index; empty if it is more than bounds, or nothing."""
        return {self.tests[part] for part in self.parts(name) if part in self.tests}

    def needed_for(self, operands: Iterable[Operand]) -> tuple[Statement, ...]:
        """Those of the statements in `before` that `operands` are computed from, in order."""
        needed = set(operands)
        found: list[Statement] = []
        for statement in reversed(self.before):
            if statement.target in needed:
                found.append(statement)
                needed.update(statement.operands if isinstance(statement, Compute) else ())
        return tuple(reversed(found))
