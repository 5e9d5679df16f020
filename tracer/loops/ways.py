"""Ways of rounds: rounds go in that branched on data, each its way; one round comes out that branches.

What a round did is written in terms that are the same for all rounds (`Way`, `Terms`): what its variables
held before, and what its equations make, by number. Ways are alike up to where a test came out otherwise:
from there on, each side is a graph of its own (`ir/branch.py`). A round goes on as long as each test comes
out as it has in one of the ways.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.op import REGISTRY, TensorType
from fusegrad.tracer.ir.branch import BRANCH, Side
from fusegrad.tracer.ir.cotangent import TRUTH
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, free_values
from fusegrad.tracer.ir.pullback import fresh
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import NewValue, Position, RowOfRound
from fusegrad.tracer.loops.alike import Done, check_op, line_of, needing
from fusegrad.tracer.loops.induction import NumberOfRound
from fusegrad.tracer.record.memory import Known
from fusegrad.tracer.record.recorder import Recorder

# Ops that may be evaluated of anything.
_TOTAL = frozenset({"elementwise", "reduction", "contraction", "composite", "view"})
_TOTAL_OPS = frozenset({"cat", "embed", "assign"})
# Of these families, what looks up: a class that there is not is an error.
_LOOKUPS = frozenset({"nll_loss", "nll_loss_weighted", "nll_loss_spread"})
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

    def counters(self) -> dict[int, Any]:
        """By place, what is counted up."""
        return {i: self.carried[i] for i, kind in enumerate(self.kinds) if kind.what == "counter"}


# Ways between them.


class Terms:
    """Values that stand for what any round is handed, and for what it makes."""

    def __init__(self, recorder: Recorder) -> None:
        self._names = recorder.names
        self._known: dict[Any, Value] = {}

    def held(self, place: Place, type_: TensorType) -> Value:
        """What a variable held before the round, or whether two held one thing."""
        if isinstance(place, tuple):
            return self._value("same{}_{}", place, type_)
        return self._value("held{}", (place,), type_)

    def made(self, equation: int, output: int, type_: TensorType) -> Value:
        """What an equation of the round made, both by number."""
        return self._value("made{}_{}" if output else "made{}", (equation, output), type_)

    def new(self, name: str, type_: TensorType) -> Value:
        """A value of no equation yet, called like that or nearly so."""
        return fresh(name, type_, self._names)

    def _value(self, name: str, numbers: tuple[int, ...], type_: TensorType) -> Value:
        key = name, numbers, type_
        if key not in self._known:
            self._known[key] = self.new(name.format(*numbers), type_)
        return self._known[key]


class Way(NamedTuple):
    """What a round did: its equations, of `Terms` and of values from before the loop.

    after: by place what variables hold then. tracked: what needs gradients of what it was handed, and made.
    shared, shared_after: which variables held one thing before it, and do so then.
    """

    equations: tuple[Equation, ...]
    after: Mapping[Place, Value]
    tracked: frozenset[Value]
    shared: frozenset[Pair]
    shared_after: frozenset[Pair]

    def step(self, number: int) -> Any:
        """What an equation says, but for how a test came out."""
        equation = self.equations[number]
        return (replace(equation, params={}) if equation.op is GUARD else equation).key(), equation.outputs

    def outcome(self, number: int) -> bool | None:
        """How a test came out; None for an equation that is no test."""
        equation = self.equations[number]
        return bool(equation.params["expected"]) if equation.op is GUARD else None

    def is_like(self, other: Way) -> bool:
        """Whether it is the same way."""
        mine, theirs = (
            (w.after, w.shared, w.shared_after, [(w.step(i), w.outcome(i)) for i in range(len(w.equations))])
            for w in (self, other)
        )
        return mine == theirs

    def asking(self, pairs: Sequence[Pair], truths: Mapping[bool, Value], terms: Terms) -> Way:
        """The way of a round that asks first which of these variables hold one thing, and hands on which of
        them do so then. truths: constants. Raises Refused for an op that no round may have behind a test.
        """
        for equation in self.equations:
            if not _finds_row(equation):
                _check_total(equation)
        source = self.equations[0].source
        kinds = ({"expected": pair in self.shared, "kind": "branch"} for pair in pairs)
        asked = [
            Equation(GUARD, (terms.held(pair, TRUTH),), kind, (), source)
            for pair, kind in zip(pairs, kinds, strict=True)
        ]
        after: dict[Place, Value] = {**self.after}
        after.update((pair, truths[pair in self.shared_after]) for pair in pairs)
        return self._replace(equations=(*asked, *self.equations), after=after)

    @property
    def finds_rows(self) -> bool:
        """Whether it goes by the number of the round."""
        return any(map(_finds_row, self.equations))

    @property
    def needs_gradients(self) -> bool:
        """Whether anything that it made does."""
        return any(v in self.tracked for e in self.equations for v in e.outputs)


def _finds_row(equation: Equation) -> bool:
    """Whether an equation finds a row, which there is in each round."""
    return any(isinstance(x, Position) for x in equation.inputs)


def way_of(
    equations: Sequence[Equation],
    begin: State,
    end: State,
    counting: Collection[Value],
    own: Collection[Value],
    rows: Mapping[int, RowOfRound | NumberOfRound],
    recorder: Recorder,
    terms: Terms,
) -> Way:
    """What a round did that is recorded.

    begin, end: the states between which it lies. counting: what follows from the number of the round alone,
    which an op counts. own: what the loop has made. rows: by the number of an equation, which row it finds,
    or is given. Raises Refused for a round that does what cannot be left to an op.
    """
    places = [(begin.seen[i].value, i) for i in begin.holders() if begin.kinds[i].is_own]
    known = {value: terms.held(place, value.type) for value, place in places}
    needing_gradients = needing(recorder)
    tracked = {term for value, term in known.items() if value in needing_gradients}
    has_tested, taken = False, list[Equation]()

    def term(operand: Any) -> Any:
        if operand in own and operand not in known:
            raise Refused("its rounds hand on what is in no variable")
        return known.get(operand, operand) if isinstance(operand, Value) else operand

    def take(equation: Equation) -> None:
        inputs = tuple(map(term, equation.inputs))
        made = [terms.made(len(taken), i, v.type) for i, v in enumerate(equation.outputs)]
        known.update(zip(equation.outputs, made, strict=True))
        taken.append(replace(equation, inputs=inputs, outputs=tuple(made)))

    for number, equation in enumerate(equations):
        if number in rows:
            steps = rows[number].steps(equation, terms.new)
            is_part = isinstance(rows[number], RowOfRound) and equation.output in recorder.tracked
        elif (given := equation.values()) and all(v in counting for v in given):
            continue
        else:
            _check(equation, has_tested, recorder)
            has_tested = has_tested or equation.op is GUARD
            steps, is_part = [equation], False
        for step in steps:
            take(step)
            tracked.update(known[v] for v in step.outputs if is_part or v in recorder.tracked)
    if not has_tested:
        raise Refused("its rounds test no data")
    after: dict[Place, Value] = {place: term(seen.value) for place, seen in end.own().items()}
    return Way(tuple(taken), after, frozenset(tracked), begin.shared(), end.shared())


def _check(equation: Equation, behind: bool, recorder: Recorder) -> None:
    """Raise Refused for an equation that no round may have. behind: whether a test stands before it."""
    if equation.op is not GUARD:
        check_op(equation, recorder.ranges)
        if behind:
            _check_total(equation)
    elif equation.inputs[0].dtype != np.bool_:
        raise Refused(f"its rounds look at values {line_of(equation)}")


def _check_total(equation: Equation) -> None:
    """Raise Refused for what must not stand behind a test.

    A round that is given up, or whose other side is taken, is computed all the same.
    """
    op = equation.op
    is_total = op is GUARD or op.family in _TOTAL or op.name in _TOTAL_OPS
    if op.name in _LOOKUPS or not is_total:
        raise Refused(f"its rounds have {op.name} behind a test")


def round_of(
    ways: Sequence[Way], moving: Sequence[Place], count: tuple[Value, int], terms: Terms
) -> tuple[list[Equation], list[Value]]:
    """The equations of a round that goes one of these ways, and its results: what it hands on by the `moving`
    variables, and whether it went one of them. count: how many rounds there were before, as a value and so
    many more, for rounds that find rows.

    Raises Refused where ways differ in more than how their tests came out.
    """
    return _Merged(moving, count, terms.new).side(ways, 0)


class _Merged:
    """Puts ways together. new: gives values of names and types; count: see `round_of`."""

    def __init__(self, moving: Sequence[Place], count: tuple[Value, int], new: NewValue) -> None:
        self._moving, self._count, self._new = moving, count, new

    def side(self, ways: Sequence[Way], begin: int) -> tuple[list[Equation], list[Value]]:
        """What these ways do from an equation on, and what they give."""
        first = ways[0]
        equations: list[Equation] = []
        tests: list[Value] = []
        for i in range(begin, max(len(w.equations) for w in ways)):
            _check_alike(ways, i)
            equation = first.equations[i]
            if equation.op is not GUARD:
                equations += self._in_its_round(equation)
                continue
            (test,) = equation.inputs
            sides = [[w for w in ways if w.outcome(i) is outcome] for outcome in (True, False)]
            if all(sides):
                graphs = [self.side(side, i + 1) for side in sides]
                equations.append(self._branch(test, graphs, equation))
                *after, goes_on = equations[-1].outputs
                return equations, [*after, self._all(equations, [*tests, goes_on], equation)]
            tests.append(test if sides[0] else self._add(equations, _NOT, [test], equation))
        if any(w.after != first.after for w in ways):
            raise Refused("what its variables hold does not go on from round to round in one way")
        after = [first.after[place] for place in self._moving]
        return equations, [*after, self._all(equations, tests, first.equations[-1])]

    def _in_its_round(self, equation: Equation) -> list[Equation]:
        """An equation behind what computes the positions that it takes."""
        found: list[Equation] = []
        inputs = [*equation.inputs]
        for i, given in enumerate(inputs):
            if isinstance(given, Position):
                found += given.computed(*self._count, self._new)
                inputs[i] = found[-1].output
        return [*found, replace(equation, inputs=tuple(inputs))]

    def _branch(
        self, test: Value, sides: Sequence[tuple[list[Equation], list[Value]]], origin: Equation
    ) -> Equation:
        free = tuple(dict.fromkeys(v for side in sides for v in free_values(*side)))
        then, otherwise = (Side(Graph(free, tuple(e), tuple(results))) for e, results in sides)
        outputs = tuple([self._new(f"{v.name}_chosen", v.type) for v in sides[0][1]])
        params = {"then": then, "otherwise": otherwise}
        return Equation(BRANCH, (test, *free), params, outputs, origin.source)

    def _all(self, equations: list[Equation], tests: Sequence[Value], origin: Equation) -> Value:
        """Whether all of these are true."""
        if not tests:
            made = self._new("test", TRUTH)
            params = {"shape": (), "value": True, "dtype": FROM_NUMPY[TRUTH.dtype]}
            equations.append(Equation(_FULL, (), params, (made,), origin.source))
            return made
        found = tests[0]
        for test in tests[1:]:
            found = self._add(equations, _AND, [found, test], origin)
        return found

    def _add(self, equations: list[Equation], op: Any, operands: list[Value], origin: Equation) -> Value:
        made = self._new("test", TRUTH)
        equations.append(Equation(op, tuple(operands), {}, (made,), origin.source))
        return made


def _check_alike(ways: Sequence[Way], number: int) -> None:
    """Raise Refused where an equation is not the same in all ways."""
    lasting = [w for w in ways if number < len(w.equations)]
    line = line_of(lasting[0].equations[number])
    if len(lasting) < len(ways) or len({w.equations[number].op for w in ways}) > 1:
        raise Refused(f"its rounds do not all have the same ops {line}")
    if any(w.step(number) != ways[0].step(number) for w in ways):
        raise Refused(f"its rounds compute with other numbers, sizes or tensors from round to round {line}")
