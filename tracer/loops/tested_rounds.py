"""Loops that test data: rounds that did the same go in, one equation for those and the ones to come comes
out.

Rounds of such a loop are computed as they are recorded, since Python asks for values. After a few of them
that did the same, and went the same way at each test, all others are left to one op (`ir/tested.py`), which
goes on until a test comes out otherwise: for that round, Python is asked again. So the number of rounds is
guarded nowhere, and what follows must not depend on it but through what the loop hands on: tensors, and
numbers that are counted up.

A round that fails its test is computed to its end, and dropped. So what comes behind a test must be ops that
may be evaluated of anything.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import REGISTRY, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, identifier
from fusegrad.tracer.ir.rolled import Body, ways_of
from fusegrad.tracer.ir.tested import FAR, HANDED_ON, TESTED, ways
from fusegrad.tracer.loops.alike import (
    Refused,
    Seen,
    done,
    follow,
    in_place_of,
    is_derived,
    is_one,
    needing,
    operand,
    pattern,
)
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.record import references
from fusegrad.tracer.record.later import alive
from fusegrad.tracer.record.memory import Known
from fusegrad.tracer.record.recorder import Recorder

# So many states are compared, of rounds that follow one another.
LOOKED = 3
# Where rounds differed, others are looked at after so many more, and each time after so many times as many;
# before that, so many times those that begin with the next one.
WAIT, AGAIN, TRIES = 2, 4, 2
# Ops that may be evaluated of anything.
_TOTAL = frozenset({"elementwise", "reduction", "contraction", "composite", "view"})
_TOTAL_OPS = frozenset({"cat", "embed", "assign"})
_NOT, _AND = REGISTRY["logical_not"], REGISTRY["logical_and"]
_BOOL = TensorType((), np.dtype(np.bool_))


class TestedLoop(NamedTuple):
    """counters: which variables its rounds only count up. number_is_used: whether somebody asks for the
    number of the last round.
    """

    counters: Collection[int]
    number_is_used: bool


class Number(NamedTuple):
    """A number that a variable held, for which this value stands."""

    value: Value
    kind: type


class State(NamedTuple):
    """The state between two rounds.

    number: how many rounds there were. equations: how many there are. noted: how much there is of what no
    round may add to. carried: what the variables hold. values: of each array that is no view.
    """

    number: int
    equations: int
    noted: tuple[Any, ...]
    carried: tuple[Any, ...]
    values: Mapping[Known, Value]


class TestedRounds:
    """Looks at the rounds of a loop that tests data, and leaves out those to come.

    alike: up to how many rounds comparisons of what they count come out alike. reason: why it did not.
    """

    def __init__(
        self, observer: Observer, recorder: Recorder, most: int, source: TestedLoop, since: int
    ) -> None:
        """most: how many rounds there are at the most. source: what the source says of the loop. since: the
        number of the next node of the autograd graph.
        """
        self._observer, self._recorder = observer, recorder
        self._most, self._since = most, since
        self._counters, self._number_is_used = source
        self._kept = observer.noted()
        self._from, self._wait = 1, WAIT
        self._states: list[State] = []
        self._carried: list[tuple[Any, ...]] = []  # what the variables held in these states
        self._before: list[weakref.ref[Tensor]] = []  # what the round before the last one made
        self._made, self._is_first = 0, False  # where the last one's begin, and whether no loop around looks
        # How many rounds were left to the op, and the number of the one behind them.
        self._count: Tensor | None = None
        self._behind = 0
        self.alike, self.reason = most, ""

    def ended(self, number: int, carried: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """A round has ended, which was the one with this number, counted from one; how many there are with
        those that are left out, and what the next one is handed.
        """
        if number < self._from:
            return number, carried
        try:
            self._look(number, carried)
            if len(self._states) < LOOKED:
                return number, carried
            number, carried = self._leave_out(carried)
            self.reason = ""
        except Refused as refusal:
            self.reason = str(refusal)
            if number < self._from + LOOKED + TRIES and self._states:
                # The first rounds may differ.
                del self._states[0], self._carried[0]
                return number, carried
        self._from, self._wait = number + self._wait, self._wait * AGAIN
        self.over()
        return number, carried

    def another(self, number: int) -> None:
        """The loop asks whether there is a round with this number, counted from zero.

        That depends on how many were left out.
        """
        count = self._count
        if count is None or self._most >= FAR:
            return
        below = self._most - (number - int(count.array))
        # The first one behind them is there for sure.
        if number > self._behind:
            self._recorder.doors.guard(self._recorder.later.at_once(lambda: ops.lt(count, below)))

    def number_of(self, source: range, number: int) -> int:
        """What a range gives for the round with this number, counted from zero: it follows from how many
        rounds were left out.
        """
        if self._count is None or not self._number_is_used:
            return source[number]
        first = source[0] + source.step * (number - int(self._count.array))
        return self._recorder.doubles.counted(first, source.step, self._count)

    def over(self) -> None:
        """Forget what was seen."""
        self._states.clear()
        self._carried.clear()
        self._before = []
        if self._is_first:
            self._recorder.operands = self._recorder.results = None
            self._is_first = False

    def _look(self, number: int, carried: tuple[Any, ...]) -> None:
        recorder, observer = self._recorder, self._observer
        observer.forget(self._kept)
        tensors = [x for x in carried if isinstance(x, Tensor)]
        # Variables that are handed on to nobody have a graph, too.
        last = (recorder.results or [])[self._made :] if self._states else []
        by_graph = references.by_graph([*tensors, *alive(last)], self._since)
        if by_graph is None:
            raise Refused("something has put hooks on what its rounds compute")
        by_graph.update(id(x) for held in self._carried for x in held)
        handed = {id(x) for x in tensors}
        # What rounds before the last one made has nobody but the variables.
        if any(_is_left(r, handed, by_graph) for r in self._before):
            raise Refused("its rounds leave tensors where others find them")
        if recorder.results is None:
            self._is_first, recorder.results, recorder.operands = True, [], {}
        recorder.operands = {} if recorder.operands is None else recorder.operands
        self._before, self._made = last, len(recorder.results)
        counts = tuple((id(c.owner), c.name, c.value()) for c in observer.stores.counts())
        # A number that is taken is followed.
        noted = done(recorder, observer, -recorder.numbers.takes), observer.loops.stores, counts
        seen = tuple(map(self._seen, carried))
        values = recorder.memory.roots(lambda array: True)
        self._carried.append(carried)
        self._states.append(State(number, len(recorder.equations), noted, seen, values))

    def _seen(self, item: Any) -> Any:
        """What a variable held, without keeping it; numbers and other objects are themselves."""
        if isinstance(item, Tensor):
            return Seen.of(item, self._recorder.memory)
        taken = self._recorder.numbers.of(item)
        value = None if taken is None else self._recorder.doubles.value_of(taken)
        return item if value is None else Number(value, type(item))

    def _leave_out(self, carried: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        begin, middle, end = self._states
        recorder = self._recorder
        if not begin.noted == middle.noted == end.noted:
            raise Refused("its rounds do more than ops on tensors")
        first = recorder.equations[begin.equations : middle.equations]
        second = recorder.equations[middle.equations : end.equations]
        after = in_place_of(first, second, tests=True)
        for known in begin.values.keys() & middle.values.keys():
            if begin.values[known] is not middle.values[known]:
                raise Refused("its rounds write into memory, and test data")
        counts = self._carries(after)
        round_ = _Round(recorder, first, after, self._held(), begin.equations)
        most = min(self._most - 1, self.alike) - begin.number
        bounded = most < FAR // 2
        if self._count is not None and (bounded or counts):
            raise Refused("how many rounds there were is known to replays alone")
        held, count = round_.as_an_op(most if bounded else FAR, self._nodes())
        self._count, self._behind = count, begin.number + int(count.array)
        # They are done again by the op, which tests as they did.
        recorder.without_guards(begin.equations)
        on = [*carried]
        for place, item in enumerate(begin.carried):
            if isinstance(item, (Seen, Number)) and item.value in held:
                made = held[item.value]
                on[place] = made if isinstance(item, Seen) else recorder.doubles.number_in(made, item.kind)
        for place, step in counts.items():
            on[place] = recorder.doubles.counted(self._carried[0][place], step, count)
        return self._behind, tuple(on)

    def _held(self) -> dict[Value, Tensor]:
        """The tensors of the first state, by the values that they held, and some for numbers."""
        found: dict[Value, Tensor] = {}
        for item, seen in zip(self._carried[0], self._states[0].carried, strict=True):
            if isinstance(seen, Seen) and seen.value is not None:
                found[seen.value] = item
            elif isinstance(seen, Number) and seen.value not in found:
                found[seen.value] = self._recorder.doubles.holding(seen.value, item)
        return found

    def _nodes(self) -> dict[Value, str]:
        """The names of the nodes that made what the last state holds, by what it was in the first."""
        held = zip(self._states[0].carried, self._carried[-1], strict=True)
        tensors = [(seen.value, x) for seen, x in held if isinstance(seen, Seen) and seen.value is not None]
        return {v: x.grad_fn.name() for v, x in tensors if x.grad_fn is not None}

    def _carries(self, after: dict[Value, Value]) -> dict[int, int]:
        """By how much the variables grow that are counted up. Raises Refused unless the states are alike, and
        values follow one another as `after` says, which is completed.
        """
        states = [s.carried for s in self._states]
        if any(pattern(x) != pattern(states[0]) for x in states):
            raise Refused("what its variables hold does not go on from round to round in one way")
        counts, roots = {}, []
        for place, items in enumerate(zip(*states, strict=True)):
            if any(isinstance(x, Seen) for x in items):
                roots += self._root_of(items, after)
            elif all(isinstance(x, Number) for x in items):
                if not follow([x.value for x in items], after) or len({x.kind for x in items}) > 1:
                    raise Refused("what its variables hold does not go on from round to round in one way")
            elif place in self._counters and all(type(x) is int for x in items):
                # One that stands for a symbol must be what it is.
                self._recorder.numbers.look(*items)
                counts[place] = items[1] - items[0]
                if items[2] - items[1] != counts[place]:
                    raise Refused("its rounds do not all count as much")
            elif not is_one(items):
                raise Refused("its rounds hand on other numbers or objects each time")
        if len({*roots}) < len(roots):
            raise Refused("its variables share memory")
        return counts

    def _root_of(self, items: Sequence[Any], after: dict[Value, Value]) -> list[Known]:
        """The memory of what a variable holds, if that is another tensor after each round."""
        if not all(isinstance(x, Seen) and x.value is not None for x in items):
            raise Refused("its rounds hand on other numbers or objects each time")
        if not follow([x.value for x in items], after) or len({x.tracked for x in items}) > 1:
            raise Refused("what its variables hold does not go on from round to round in one way")
        if len({id(x.reference) for x in items}) == 1:
            return []
        if not all(x.plain and x.is_whole for x in items):
            raise Refused("its variables hold views, or other tensors than plain ones in row-major order")
        return [items[-1].root]


def _is_left(reference: weakref.ref[Tensor], handed: Collection[int], by_graph: Any) -> bool:
    """Whether somebody has a tensor but the graph and the variables that rounds hand on."""
    tensor = reference()
    if tensor is None or id(tensor) in handed:
        return False
    del tensor  # one reference less
    return references.others(reference, by_graph)


class _Round:
    """What a round does, of which the first equations are recorded.

    held: the tensors that its variables held before, by their values.
    """

    def __init__(
        self,
        recorder: Recorder,
        equations: Sequence[Equation],
        after: Mapping[Value, Value],
        held: Mapping[Value, Tensor],
        begin: int,
    ) -> None:
        self._recorder, self._after, self._begin, self._held = recorder, after, begin, held
        self._made = {v for e in equations for v in e.outputs}
        self.state = [v for v, next_ in after.items() if v not in self._made and next_ != v]
        tests = [i for i, e in enumerate(equations) if e.op is GUARD]
        if not tests:
            raise Refused("its rounds test no data")
        self._tests = [equations[i] for i in tests]
        self._others = [e for e in equations if e.op is not GUARD]
        behind = [e for e in equations[tests[0] :] if e.op is not GUARD]
        partial = next((e for e in behind if not _is_total(e)), None)
        if partial is not None:
            raise Refused(f"its rounds have {partial.op.name} behind a test")
        if not self._held.keys() >= {*self.state}:
            raise Refused("its rounds hand on what is in no variable")
        self._check_gradients()

    def _check_gradients(self) -> None:
        tracked = self._recorder.tracked
        if not state.grad_enabled:
            if not tracked.isdisjoint(self._made):
                raise Refused("gradients are taken of only some of what its rounds compute")
            return
        known = needing(self._recorder)
        if not all(is_derived(e, known) for e in self._others):
            raise Refused("gradients are taken of only some of what its rounds compute")

    def as_an_op(self, most: int, nodes: Mapping[Value, str]) -> tuple[dict[Value, Tensor], Tensor]:
        """Say what these rounds do and all that follow, up to so many, by one op on the graph; what is handed
        on in the end, by the value that it was first, and how many rounds there were. nodes: the names of the
        nodes that make it, by the same.
        """
        same = self._same()
        tensors = [*(self._held[v] for v in self.state), *(self._tensor(v) for v in same)]
        body = self._body(same)
        carried, keeps = len(self.state), not self._recorder.tracked.isdisjoint(self._made)
        if keeps:
            self._check_reach(ways(body, carried), [*self.state, *same])
        params = {"body": body, "carried": carried, "most": most, "keeps": keeps}
        made = self._recorder.later.at_once(lambda: bind(TESTED, tuple(tensors), params))
        on = made[:carried]
        if keeps:
            named = zip(on, self.state, strict=True)
            on = tuple([bind(HANDED_ON, (x,), {"node": nodes.get(v, "")}) for x, v in named])
        return dict(zip(self.state, on, strict=True)), made[carried]

    def _same(self) -> list[Value]:
        """The values from before that all rounds read."""
        given = (v for e in self._others for v in e.values())
        tests = (v for e in self._tests for v in e.values())
        handed = (self._after[v] for v in self.state)
        own = {*self.state, *self._made}
        return [v for v in dict.fromkeys((*given, *tests, *handed)) if v not in own]

    def _tensor(self, value: Value) -> Tensor:
        return self._held[value] if value in self._held else operand(self._recorder, value)

    def _body(self, same: Sequence[Value]) -> Body:
        taken = (*self.state, *same)
        names = {v.name for v in (*taken, *self._made)}
        equations = [*self._others]

        def add(op: Any, *operands: Value) -> Value:
            made = Value(identifier("test", names), _BOOL)
            names.add(made.name)
            equations.append(Equation(op, operands, {}, (made,), self._tests[0].source))
            return made

        outcomes = []
        for test in self._tests:
            (value,) = test.values()
            outcomes.append(value if test.params["expected"] else add(_NOT, value))
        goes_on = outcomes[0]
        for outcome in outcomes[1:]:
            goes_on = add(_AND, goes_on, outcome)
        return Body(Graph(taken, tuple(equations), (*(self._after[v] for v in self.state), goes_on)))

    def _check_reach(self, ways_: Sequence[Sequence[Collection[int]]], taken: Sequence[Value]) -> None:
        """The gradient must go to the same leaves, however many rounds there are: others have none."""
        before, known = self._recorder.equations[: self._begin], self._recorder.tracked
        made = {v for e in before for v in e.outputs}
        read = dict.fromkeys((*(v for e in before for v in e.values()), *taken))
        leaves = tuple([v for v in read if v not in made])
        reached = ways_of(Graph(leaves, tuple(before), tuple(taken)), known)
        for place in range(len(self.state)):
            sets = {frozenset().union(*(reached[i] for i in way[place])) for way in ways_}
            if len(sets) > 1:
                raise Refused("it depends on the number of its rounds what has a gradient")


def _is_total(equation: Equation) -> bool:
    """Whether an op may be evaluated of anything."""
    op = equation.op
    return (op.family in _TOTAL or op.name in _TOTAL_OPS) and not op.refuses
