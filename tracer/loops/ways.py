"""Ways of rounds: rounds go in that branched on data, each its way; one round comes out that branches.

What a round did is written in terms of what its variables held before (`Way`). Ways are alike up to where a
test came out otherwise: from there on, each side is a graph of its own (`ir/branch.py`). A round goes on as
long as each test comes out as it has in one of the ways.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.op import REGISTRY, TensorType
from fusegrad.tracer.ir.branch import BRANCH, Side
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.pullback import fresh
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import Position, RowOfRound
from fusegrad.tracer.loops.alike import NESTED, Done, Seen
from fusegrad.tracer.loops.induction import NumberOfRound
from fusegrad.tracer.record.memory import Known
from fusegrad.tracer.record.recorder import Recorder

# Ops that may be evaluated of anything.
_TOTAL = frozenset({"elementwise", "reduction", "contraction", "composite", "view"})
_TOTAL_OPS = frozenset({"cat", "embed", "assign"})
# Of these families, what looks up: a class that there is not is an error.
_LOOKUPS = frozenset({"nll_loss", "nll_loss_weighted", "nll_loss_spread"})
_BOOL = TensorType((), np.dtype(np.bool_))
_NOT, _AND, _FULL = REGISTRY["logical_not"], REGISTRY["logical_and"], REGISTRY["full"]


# Two variables, by their places, of which it is asked whether they hold one thing; what rounds hand on: what
# a variable holds, or whether two do so.
Pair = tuple[int, int]
Place = int | Pair


class Number(NamedTuple):
    """A number that a variable held, for which this value stands."""

    value: Value
    kind: type


class Kind(NamedTuple):
    """What stays the same of what a variable holds.

    what: "tensor", "number", "counter" or "object". detail: whether a tensor needs gradients, or the class of
    a number, and the type of what stands for it. value: what is held, where others may have that, too; None
    for what the loop has made.
    """

    what: str
    detail: Any = None
    value: Value | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is what the loop has made."""
        return self.value is None and self.what in ("tensor", "number")


class State(NamedTuple):
    """The state between two rounds.

    number: how many rounds there were. equations: how many there are. noted: how much there is of what no
    round may add to; stores: which attributes were set, and counted up. carried, seen: what the variables
    hold. kinds: of each. values: of each array that is no view.
    """

    number: int
    equations: int
    noted: Done
    stores: tuple[Any, ...]
    carried: tuple[Any, ...]
    seen: tuple[Any, ...]
    kinds: tuple[Kind, ...]
    values: Mapping[Known, Value]

    def holders(self) -> list[int]:
        """For each variable the one that stands for all that hold the same, if the loop has made that: one
        that holds a tensor, if there is one.
        """
        own = [i for i, kind in enumerate(self.kinds) if kind.is_own]
        first: dict[Value, int] = {}
        for place in sorted(own, key=lambda i: isinstance(self.seen[i], Number)):
            first.setdefault(self.seen[place].value, place)
        return [first[x.value] if i in own else i for i, x in enumerate(self.seen)]

    def own(self) -> dict[int, Any]:
        """By place, what variables hold that the loop has made."""
        return {i: x for i, x in enumerate(self.seen) if self.kinds[i].is_own}

    def shared(self) -> frozenset[Pair]:
        """Which two of its variables hold one thing that the loop has made: first who stands for it."""
        return frozenset((holder, i) for i, holder in enumerate(self.holders()) if holder != i)

    def shares_memory(self) -> bool:
        """Whether what several variables hold is the same memory, and not one tensor."""
        own = [
            x for x, kind in zip(self.seen, self.kinds, strict=True) if kind.is_own and isinstance(x, Seen)
        ]
        return len({id(x.reference) for x in own}) != len({x.root for x in own})

    def counters(self) -> dict[int, Any]:
        """By place, what is counted up."""
        return {i: self.carried[i] for i, kind in enumerate(self.kinds) if kind.what == "counter"}


# Ways between them.


class Held(NamedTuple):
    """What a variable held before the round, or whether two held one thing."""

    place: Place


class Made(NamedTuple):
    """What an equation of the round made, both by number."""

    equation: int
    output: int


class Way(NamedTuple):
    """What a round did.

    operands: of each equation its inputs, and after: by place what variables hold then, each as `Held`,
    `Made`, or a value from before the loop. shared, shared_after: which variables held one thing before it,
    and do so then.
    """

    equations: tuple[Equation, ...]
    operands: tuple[tuple[Any, ...], ...]
    after: Mapping[Place, Any]
    shared: frozenset[Pair]
    shared_after: frozenset[Pair]

    def step(self, number: int) -> Any:
        """What an equation says, but for how a test came out."""
        equation = self.equations[number]
        given = tuple([x if _is_role(x) else (type(x), repr(x)) for x in self.operands[number]])
        params = "" if equation.op is GUARD else repr(equation.params)
        return equation.op, given, params, tuple([v.type for v in equation.outputs])

    def outcome(self, number: int) -> bool | None:
        """How a test came out; None for an equation that is no test."""
        equation = self.equations[number]
        return bool(equation.params["expected"]) if equation.op is GUARD else None

    def is_like(self, other: Way) -> bool:
        """Whether it is the same way."""
        return (
            (self.after, self.shared, self.shared_after) == (other.after, other.shared, other.shared_after)
            and len(self.equations) == len(other.equations)
            and all(
                self.step(i) == other.step(i) and self.outcome(i) == other.outcome(i)
                for i in range(len(self.equations))
            )
        )

    def asking(self, pairs: Sequence[Pair], truths: Mapping[bool, Value]) -> Way:
        """The way of a round that asks first which of these variables hold one thing, and hands on which of
        them do so then. truths: constants. Raises Refused for an op that no round may have behind a test.
        """
        for equation, given in zip(self.equations, self.operands, strict=True):
            if not _finds_row(given):
                _check_total(equation)

        def behind(role: Any) -> Any:
            return role._replace(equation=role.equation + len(pairs)) if isinstance(role, Made) else role

        source = self.equations[0].source
        asked = [
            Equation(GUARD, (truths[True],), {"expected": pair in self.shared, "kind": "branch"}, (), source)
            for pair in pairs
        ]
        operands = [tuple(map(behind, given)) for given in self.operands]
        after: dict[Place, Any] = {place: behind(role) for place, role in self.after.items()}
        after.update((pair, truths[pair in self.shared_after]) for pair in pairs)
        return self._replace(
            equations=(*asked, *self.equations),
            operands=(*((Held(pair),) for pair in pairs), *operands),
            after=after,
        )

    @property
    def finds_rows(self) -> bool:
        """Whether it goes by the number of the round."""
        return any(map(_finds_row, self.operands))

    def values(self) -> list[Value]:
        """What it made."""
        return [v for e in self.equations for v in e.outputs]


def _finds_row(given: Sequence[Any]) -> bool:
    """Whether an equation with these operands finds a row, which there is in each round."""
    return any(isinstance(x, Position) for x in given)


def _is_role(item: Any) -> bool:
    return isinstance(item, (Held, Made, Value))


def way_of(
    equations: Sequence[Equation],
    begin: State,
    end: State,
    counting: Collection[Value],
    own: Collection[Value],
    rows: Mapping[int, RowOfRound | NumberOfRound],
    recorder: Recorder,
) -> Way:
    """What a round did that is recorded.

    begin, end: the states between which it lies. counting: what follows from the number of the round alone,
    which an op counts. own: what the loop has made. rows: by the number of an equation, which row it finds,
    or is given. Raises Refused for a round that does what cannot be left to an op.
    """
    roles: dict[Value, Any] = {begin.seen[i].value: Held(i) for i in begin.holders() if begin.kinds[i].is_own}
    has_tested, names = False, {v.name for e in equations for v in (*e.values(), *e.outputs)}
    taken: list[Equation] = []
    operands: list[tuple[Any, ...]] = []

    def role(operand: Any) -> Any:
        if not isinstance(operand, Value) or operand in roles:
            return roles.get(operand, operand) if isinstance(operand, Value) else operand
        if operand in own:
            raise Refused("its rounds hand on what is in no variable")
        return operand

    def take(equation: Equation, *given: Any) -> None:
        operands.append((*map(role, equation.inputs[: len(equation.inputs) - len(given)]), *given))
        roles.update((v, Made(len(taken), i)) for i, v in enumerate(equation.outputs))
        taken.append(equation)

    for number, equation in enumerate(equations):
        if number in rows:
            for step, position in rows[number].steps(equation, names):
                take(step, *([] if position is None else [position]))
                if isinstance(rows[number], RowOfRound) and equation.output in recorder.tracked:
                    recorder.tracked.add(step.output)
            continue
        if (given := equation.values()) and all(v in counting for v in given):
            continue
        _check(equation, has_tested, recorder)
        has_tested = has_tested or equation.op is GUARD
        take(equation)
    if not has_tested:
        raise Refused("its rounds test no data")
    after: dict[Place, Any] = {place: role(seen.value) for place, seen in end.own().items()}
    return Way(tuple(taken), tuple(operands), after, begin.shared(), end.shared())


def _check(equation: Equation, behind: bool, recorder: Recorder) -> None:
    """Raise Refused for an equation that no round may have. behind: whether a test stands before it."""
    op, line = equation.op, f"(line {equation.source.line})" if equation.source is not None else ""
    if op is GUARD:
        if equation.inputs[0].dtype != np.bool_:
            raise Refused(f"its rounds look at values {line}")
    elif op.family in NESTED or (
        op.refuses and not recorder.ranges.is_fit(op, equation.inputs, equation.params)
    ):
        raise Refused(f"its rounds have an op that is not rolled, {op.name} {line}")
    elif behind:
        _check_total(equation)


def _check_total(equation: Equation) -> None:
    """Raise Refused for what must not stand behind a test.

    A round that is given up, or whose other side is taken, is computed all the same.
    """
    op = equation.op
    is_total = op is GUARD or op.family in _TOTAL or op.name in _TOTAL_OPS
    if op.name in _LOOKUPS or not is_total:
        raise Refused(f"its rounds have {op.name} behind a test")


def round_of(
    ways: Sequence[Way],
    held: Mapping[Place, Value],
    moving: Sequence[Place],
    count: tuple[Value, int] | None = None,
) -> tuple[list[Equation], list[Value]]:
    """The equations of a round that goes one of these ways, and its results: what it hands on by the `moving`
    variables, and whether it went one of them. held: what variables hold before, by place. count: how many
    rounds there were before, as a value and so many more, for rounds that find rows.

    Raises Refused where ways differ in more than how their tests came out.
    """
    names = {v.name for w in ways for e in w.equations for v in (*e.values(), *e.outputs)}
    names |= {v.name for v in held.values()}
    return _Merged(names, moving, count).side(ways, 0, {}, held)


class _Merged:
    """Puts ways together. names: those that are taken; count: see `round_of`."""

    def __init__(self, names: set[str], moving: Sequence[Place], count: tuple[Value, int] | None) -> None:
        self._names, self._moving, self._count = names, moving, count

    def side(
        self, ways: Sequence[Way], begin: int, known: Mapping[Made, Value], held: Mapping[Place, Value]
    ) -> tuple[list[Equation], list[Value]]:
        """What these ways do from an equation on, and what they give. known: what was made before."""
        first, known = ways[0], {**known}
        equations: list[Equation] = []
        tests: list[Value] = []

        def value(role: Any) -> Any:
            if isinstance(role, Position):
                assert self._count is not None, "rounds that find rows are counted"
                equations.extend(role.computed(*self._count, self._names))
                return equations[-1].output
            return held[role.place] if isinstance(role, Held) else known.get(role, role)

        for i in range(begin, max(len(w.equations) for w in ways)):
            _check_alike(ways, i)
            equation, operands = first.equations[i], tuple(map(value, first.operands[i]))
            if equation.op is not GUARD:
                made = tuple([self._made(v, held) for v in equation.outputs])
                known.update((Made(i, j), v) for j, v in enumerate(made))
                equations.append(replace(equation, inputs=operands, outputs=made))
                continue
            (test,) = operands
            sides = [[w for w in ways if w.outcome(i) is outcome] for outcome in (True, False)]
            if all(sides):
                graphs = [self.side(side, i + 1, known, held) for side in sides]
                equations.append(self._branch(test, graphs, equation))
                *after, goes_on = equations[-1].outputs
                return equations, [*after, self._all(equations, [*tests, goes_on], equation)]
            tests.append(test if sides[0] else self._add(equations, _NOT, [test], equation))
        if any(w.after != first.after for w in ways):
            raise Refused("what its variables hold does not go on from round to round in one way")
        after = [value(first.after[place]) for place in self._moving]
        return equations, [*after, self._all(equations, tests, first.equations[-1])]

    def _made(self, value: Value, held: Mapping[Place, Value]) -> Value:
        """What an equation makes: variables may hold before what that round made."""
        return fresh(value.name, value.type, self._names) if value in held.values() else value

    def _branch(
        self, test: Value, sides: Sequence[tuple[list[Equation], list[Value]]], origin: Equation
    ) -> Equation:
        read = (v for equations, results in sides for v in (*_read(equations), *results))
        made = {v for equations, _ in sides for e in equations for v in e.outputs}
        free = tuple([v for v in dict.fromkeys(read) if v not in made])
        then, otherwise = (Side(Graph(free, tuple(e), tuple(results))) for e, results in sides)
        outputs = tuple([fresh(f"{v.name}_chosen", v.type, self._names) for v in sides[0][1]])
        params = {"then": then, "otherwise": otherwise}
        return Equation(BRANCH, (test, *free), params, outputs, origin.source)

    def _all(self, equations: list[Equation], tests: Sequence[Value], origin: Equation) -> Value:
        """Whether all of these are true."""
        if not tests:
            made = fresh("test", _BOOL, self._names)
            params = {"shape": (), "value": True, "dtype": FROM_NUMPY[_BOOL.dtype]}
            equations.append(Equation(_FULL, (), params, (made,), origin.source))
            return made
        found = tests[0]
        for test in tests[1:]:
            found = self._add(equations, _AND, [found, test], origin)
        return found

    def _add(self, equations: list[Equation], op: Any, operands: list[Value], origin: Equation) -> Value:
        made = fresh("test", _BOOL, self._names)
        equations.append(Equation(op, tuple(operands), {}, (made,), origin.source))
        return made


def _check_alike(ways: Sequence[Way], number: int) -> None:
    """Raise Refused where an equation is not the same in all ways."""
    lasting = [w for w in ways if number < len(w.equations)]
    source = lasting[0].equations[number].source
    line = f"(line {source.line})" if source is not None else ""
    if len(lasting) < len(ways) or len({w.equations[number].op for w in ways}) > 1:
        raise Refused(f"its rounds do not all have the same ops {line}")
    if any(w.step(number) != ways[0].step(number) for w in ways):
        raise Refused(f"its rounds compute with other numbers, sizes or tensors from round to round {line}")


def _read(equations: Sequence[Equation]) -> list[Value]:
    return [v for e in equations for v in e.values()]
