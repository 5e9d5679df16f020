"""Periodic plans: the graph of a long Python loop goes in; a plan of few rounds, for all, comes out.

A loop leaves the same equations again and again, each time with other values. So some rounds are divided into
steps as a graph of their own, and the others have the same steps under other names. What comes before and
behind is divided by itself. A round takes what it reads of others from memory. Where each reads another part
of a tensor, as `x[0]`, `x[1]` and so on, the part is what it reads, wherever that begins.

    v1 = getitem(x, index=(4,))                     the steps of    t1 = t0 * v1
    v2 = mul(v0, v1)                                              t3 = t2 * v3
    v3 = getitem(x, index=(5,))     with others             for t0 = v0, v1 = x from 4 * n, t2 = v2 and so on
    v4 = mul(v2, v3)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.fuse.isomorphic_groups import parameters_text
from fusegrad.compiler.fuse.iteration_domain import Sources, is_creation
from fusegrad.compiler.fuse.schedule import is_cheap
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.lower.merge_matmuls import gathered
from fusegrad.compiler.program.pipeline import Division, Given, divided, transposed_once
from fusegrad.eager.core.families import Layout, View, contiguous_layout
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# A turn is as many rounds as have more equations than this: what could share a kernel mostly does. So many
# turns there must be for it to pay. Where each of as few rounds has steps of its own, these are enough.
SMALLEST_TURN, FEWEST_TURNS = 160, 3
# The first rounds mostly differ (they read what was there before), and what comes behind may join the last.
FIRST_ROUNDS, LAST_ROUNDS = 2, 1
# More than so many values of more than so many bytes are not kept in memory for later if these are made again
# as well.
FEW_SAVED, SMALL_SAVED = 8, 1 << 12
# How often a period, and where a round begins, is guessed; and how often turns that are alike are looked at
# in vain: what keeps one of them from standing for all mostly does so wherever rounds begin.
GUESSES, ALIKE_IN_VAIN = 32, 4

Names = dict[Value, Value]


def divided_by_rounds(graph: Graph, given: Given) -> Division:
    """The steps of a graph like `divided`'s; where it has many rounds of a loop, some stand for all."""
    if len(graph.equations) > FEWEST_TURNS * SMALLEST_TURN:
        # What looks at the products of all rounds comes first.
        whole = gathered(graph)
        whole = transposed_once(whole, Sources(whole, given.known))
        unrolling = _Unrolling(whole, given)
        for turns in _guesses(whole):
            found = unrolling.division(turns)
            if found is not None:
                return found
            if unrolling.alike >= ALIKE_IN_VAIN:
                break
    return divided(graph, given)


# Finding them.


class _Turns(NamedTuple):
    """Stretches of equations that may be alike, one behind the other.

    first: where the first one begins; length: of each, in equations; number: how many there are; rounds: of
    the loop in each, which must have steps of their own if there are few of them.
    """

    first: int
    length: int
    number: int
    rounds: int

    @property
    def end(self) -> int:
        return self.first + self.length * self.number

    def begins(self) -> range:
        """Where each of them begins."""
        return range(self.first, self.end, self.length)


def _guesses(graph: Graph) -> Iterator[_Turns]:
    """Stretches that do the same, whatever they do it to."""
    kinds = _kinds(graph)
    stretches = dict.fromkeys(_periodic(kinds, quarter * len(kinds) // 4) for quarter in (2, 1, 3))
    for first, end, period in filter(None, stretches):
        for begins in range(first, first + min(period, GUESSES)):
            yield from _divided_into_turns(begins, end, period)


def _kinds(graph: Graph) -> list[int]:
    """For each equation a number for all of it but the names."""
    known: dict[Any, int] = {}
    kinds: list[int] = []
    for equation in graph.equations:
        operands = tuple([v.type if isinstance(v, Value) else (type(v), repr(v)) for v in equation.inputs])
        results = tuple([v.type for v in equation.outputs])
        # Rounds may look at other parts of one tensor.
        params = "" if isinstance(equation.op, View) else parameters_text(equation)
        key: Any = equation.op.name, params, operands, results
        if equation.op is GUARD:
            key = len(kinds)
        kinds.append(known.setdefault(key, len(known)))
    return kinds


def _periodic(kinds: Sequence[int], middle: int) -> tuple[int, int, int] | None:
    """Where a stretch around `middle` begins and ends in which kinds come again, and after what period."""
    again = (place for place in range(middle + 1, len(kinds)) if kinds[place] == kinds[middle])
    for place in itertools.islice(again, GUESSES):
        period, first, end = place - middle, middle, place
        while first and kinds[first - 1] == kinds[first - 1 + period]:
            first -= 1
        while end < len(kinds) and kinds[end] == kinds[end - period]:
            end += 1
        if any(_divided_into_turns(first, end, period)):
            return first, end, period
    return None


def _divided_into_turns(first: int, end: int, period: int) -> Iterator[_Turns]:
    """Turns of few rounds; and of as many as leave the least to plan: those of one, and those left over."""
    rounds = (end - first) // period - FIRST_ROUNDS - LAST_ROUNDS
    least_to_plan = rounds_of_turn(rounds, period)
    for length in dict.fromkeys([min(FEWEST_TURNS, least_to_plan), least_to_plan]) if least_to_plan else ():
        yield _Turns(first + FIRST_ROUNDS * period, length * period, rounds // length, length)


def rounds_of_turn(rounds: int, equations: int) -> int:
    """How many of so many rounds of so many equations to plan for all, and to have share kernels; 0 where
    they are so few that all of them are one plan.
    """
    least = -(-SMALLEST_TURN // equations)
    lengths = (n for n in range(least, 2 * least) if rounds // n >= FEWEST_TURNS)
    return min(lengths, key=lambda n: n + rounds % n, default=0)


# Planning one for all.


class _Part(NamedTuple):
    """A stretch of equations as a graph of its own. own: the values of these; it may make others again."""

    graph: Graph
    own: set[Value]

    def giving(self, outputs: Sequence[Value]) -> _Part:
        """The part with these outputs, and what they need; those that it does not make go through it."""
        made = {v for e in self.graph.equations for v in e.outputs}
        inputs = dict.fromkeys((*self.graph.inputs, *(v for v in outputs if v not in made)))
        return _Part(passes.dead_code(Graph(tuple(inputs), self.graph.equations, tuple(outputs))), self.own)


class _Unrolling:
    """Divides a graph with turns: what is before them, one of them for all, what is behind.

    alike: how often turns were.
    """

    def __init__(self, graph: Graph, given: Given) -> None:
        self.graph, self.given = graph, given
        self.alike = 0
        self.laid = {*given.results, *given.apart}
        self.sources = Sources(graph, given.known)
        self.place = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}

    def division(self, turns: _Turns) -> Division | None:
        """The steps of all; None where the turns are not alike after all, or hand on what does not lie in
        memory for all of them in the same way.
        """
        looks = self._looks(turns)
        if looks is None:
            return None
        inside = self._without(looks)
        maps = self._maps(turns, looks, inside)
        if not maps:
            return None
        self.alike += 1
        parts = self._parts(turns, maps, looks, inside)
        if parts is None:
            return None
        before, turn, behind = parts
        body = self._divided(turn, divided)
        apart = turns.length >= SMALLEST_TURN or rounds_apart(body.steps, turns.rounds)
        if not (apart and _in_memory(turn, body, turn.own)):
            return None
        head = self._divided(before, divided_by_rounds)
        handed = {v for names in maps for v in names.values() if v not in looks} | {*behind.graph.inputs}
        handed |= {self.sources.base(v) for v in looks}
        if not _in_memory(before, head, handed):
            return None
        joining = _Joining(self.graph)
        joining.add(before, head, {})
        for names in maps:
            views = {v: looks[now] for v, now in names.items() if now in looks}
            joining.add(turn, body, names | joining.looking_at(views, self.sources))
        joining.add(behind, self._divided(behind, divided_by_rounds), {})
        return joining.division(self.given.known)

    def _looks(self, turns: _Turns) -> dict[Value, Equation] | None:
        """What turns see of a tensor from before them, each another part: the views, by their results.

        None where what turns see differs in something else.
        """
        found: dict[Value, Equation] = {}
        rounds = [self.graph.equations[begin : begin + turns.length] for begin in turns.begins()]
        for same in zip(*rounds, strict=True):
            if isinstance(same[0].op, View):
                candidates: list[tuple[Any, ...]] = [tuple([e.output for e in same])]
            else:
                candidates = [*zip(*(e.inputs for e in same), strict=True)]
            for values in candidates:
                if not self._are_looks(values, turns):
                    continue
                for value in values:
                    if not self._is_row_of_before(value, turns):
                        return None
                    found[value] = self.sources.producer[value]
        return found

    def _are_looks(self, values: Sequence[Any], turns: _Turns) -> bool:
        """Whether at one place turns have views that differ, of what is before them."""
        if not all(isinstance(v, Value) for v in values):
            return False
        views = [self.sources.producer.get(v) for v in values]
        first = views[0]
        if first is None or not isinstance(first.op, View):
            return False
        if not all(e is not None and e.op is first.op for e in views):
            return False
        differ = any(e.params != first.params for e in views if e is not None)
        return differ and self.place.get(self.sources.base(values[0]), -1) < turns.first

    def _is_row_of_before(self, value: Value, turns: _Turns) -> bool:
        """Whether a view shows elements, one behind the other, of a tensor from before the turns."""
        layout, base = self.sources.layout(value), self.sources.base(value)
        if layout is None or layout.strides != contiguous_layout(value.shape).strides:
            return False
        return self.place.get(base, -1) < turns.first and value not in self.graph.outputs

    def _without(self, looks: Collection[Value]) -> Sources:
        """The sources of a turn, to which what it sees of something is memory of its own."""
        inside = Sources(self.graph, self.given.known)
        for value in looks:
            del inside.producer[value]
        return inside

    def _maps(self, turns: _Turns, looks: Collection[Value], inside: Sources) -> list[Names] | None:
        """For each turn what it has in the places of the first one's values; None where they differ."""
        template = self.graph.equations[turns.first : turns.first + turns.length]
        maps: list[Names] = []
        for begin in turns.begins():
            names: Names = {}
            end = begin + turns.length
            for ours, theirs in zip(template, self.graph.equations[begin:end], strict=True):
                look = bool(ours.outputs) and ours.output in looks
                if look != (bool(theirs.outputs) and theirs.output in looks):
                    return None
                if isinstance(ours.op, View) and not look and ours.params != theirs.params:
                    return None
                for mine, other in zip(ours.inputs, theirs.inputs, strict=True) if not look else ():
                    if isinstance(mine, Value) and mine not in names:
                        seen = _seen(inside, mine) == _seen(inside, other)
                        if self.place.get(other, -1) >= begin or not seen:
                            return None
                        # From outside: what lies in memory there, seen in the same way.
                        mine, other = inside.base(mine), inside.base(other)
                        if (mine in looks) != (other in looks):
                            return None
                    if isinstance(mine, Value) and names.setdefault(mine, other) != other:
                        return None
                for mine, other in zip(ours.outputs, theirs.outputs, strict=True):
                    if names.setdefault(mine, other) != other:
                        return None
            maps.append(names)
        return maps

    def _parts(
        self, turns: _Turns, maps: Sequence[Names], looks: Collection[Value], inside: Sources
    ) -> tuple[_Part, _Part, _Part] | None:
        """What is before the turns, the first of them, and what is behind."""
        moving = {v for v in maps[0] if any(names[v] != v for names in maps)}
        equations, second = self.graph.equations, turns.first + turns.length
        before = self._part(equations[: turns.first], self.sources)
        template = equations[turns.first : second]
        turn = self._part([e for e in template if not (e.outputs and e.output in looks)], inside, moving)
        behind = self._part(equations[turns.end :], self.sources)
        read = [[names.get(v, v) for v in turn.graph.inputs] for names in maps]
        layouts = [[self._layout(v) for v in values] for values in read]
        looked_at = {self.sources.base(v) for v in looks}
        handed = dict.fromkeys([*itertools.chain(*read), *looked_at, *behind.graph.inputs])
        handed = {v: None for v in handed if v not in looks}
        asked = dict.fromkeys(v for v in self.graph.outputs if isinstance(v, Value))
        gives = self._given_by_turns(maps, turn, {**handed, **asked})
        if not gives or any(here != layouts[0] for here in layouts) or not self.laid.isdisjoint(handed):
            return None
        saved = {names[v] for v in gives for names in maps} - {*itertools.chain(*read)}
        saved |= (before.own & {*handed}) - {v for v in read[0] if v not in moving} - looked_at
        if sum(self._is_made_again(v) for v in saved if v not in asked) > FEW_SAVED:
            return None
        first = [v for v in {**handed, **asked} if v in before.own or (v in asked and v not in self.place)]
        return before.giving(first), turn.giving(gives), behind.giving([v for v in asked if v in behind.own])

    def _layout(self, value: Value) -> Layout:
        return self.given.known.get(value) or contiguous_layout(value.shape)

    def _given_by_turns(
        self, maps: Sequence[Names], turn: _Part, wanted: Collection[Value]
    ) -> list[Value] | None:
        """What a turn gives, as the first one calls it; None where it is not the same for all."""
        *others, last = [{v for v in turn.own if names[v] in wanted} for names in maps]
        if any(given != others[0] for given in others) or not last <= others[0]:
            return None
        views = any(self.sources.base(v) != v for v in others[0])
        if views or any(names[v] in self.laid for v in others[0] for names in maps):
            return None
        return sorted(others[0], key=lambda v: self.place[v])

    def _is_made_again(self, value: Value) -> bool:
        """Whether whoever needs a value later on had better make it again than read it from memory."""
        small = likely(math.prod(value.shape)) * value.dtype.itemsize <= SMALL_SAVED
        return not small and is_cheap(self.graph.equations[self.place[value]])

    def _part(self, equations: Sequence[Equation], sources: Sources, moving: Collection[Value] = ()) -> _Part:
        """The equations of a stretch. Views of what it reads it makes for itself, and what is made of nothing
        unless that is `moving`.
        """
        own = {v for e in equations for v in e.outputs}
        free: dict[int, Equation] = {}
        inputs: dict[Value, None] = {}
        for value in dict.fromkeys(v for e in equations for v in e.values() if v not in own):
            base, chain = sources.resolve(value)
            free.update((self.place[e.output], e) for e in chain if e.output not in own)
            producer = sources.producer.get(base)
            if producer is not None and is_creation(producer) and base not in moving:
                free[self.place[base]] = producer
            elif base not in own:
                inputs[base] = None
        return _Part(Graph(tuple(inputs), (*(free[i] for i in sorted(free)), *equations), ()), own)

    def _divided(self, part: _Part, divide: Callable[..., Division]) -> Division:
        if len(part.graph.equations) >= len(self.graph.equations):
            divide = divided  # what it makes again is as much as was taken off
        known = {v: self._layout(v) for v in part.graph.inputs}
        return divide(part.graph, self.given._replace(known=known, seen={}))


def _seen(sources: Sources, value: Value) -> list[Any]:
    """The views through which a value is seen."""
    return [(e.op, parameters_text(e), e.output.type) for e in sources.resolve(value)[1]]


def _in_memory(part: _Part, division: Division, handed: Collection[Value]) -> bool:
    """Whether those of a part's outputs that are handed on lie in row-major order in memory of their own."""
    sources = division.sources
    pairs = zip(part.graph.outputs, division.graph.outputs, strict=True)
    found = [now for value, now in pairs if value in handed]
    return all(sources.base(v) == v and sources.layout(v) == contiguous_layout(v.shape) for v in found)


def rounds_apart(steps: Sequence[Step], rounds: int) -> bool:
    """Whether each round has steps of its own, and the same ones."""
    kinds = [s.equations[0].op.name if s.kernel is None else s.kernel.kernel.digest for s in steps]
    length = len(kinds) // rounds
    return kinds == rounds * kinds[:length]


class _Joining:
    """The steps of parts one after the other."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.now: Names = {}  # what stands for the values that parts hand on
        self.outputs: Names = {}
        self.equations: list[Equation] = []
        self.producer: dict[Value, Equation] = {}  # what the steps repeat is no equation of the graph
        self.layouts: dict[Value, Layout] = {}
        self.steps: list[Step] = []
        self.checks: list[Value] = []
        self.looks: dict[Value, tuple[Value, int]] = {}  # for parts of something that, and where they begin
        names = graph.names()
        mark = "_part"
        while any(mark in name for name in names):
            mark += "_"
        self._marks = (f"{mark}{number}" for number in itertools.count())

    def looking_at(self, views: Mapping[Value, Equation], sources: Sources) -> Names:
        """Names for parts of what lies in memory, which the next turn reads."""
        names: Names = {}
        for value, view in views.items():
            layout = sources.layout(view.output)
            assert layout is not None, "a part that lies in rows"
            base, chain = sources.resolve(view.output)
            whole = now = self.now.get(base, base)
            mark = next(self._marks)
            for number, step in enumerate(chain):
                seen = Value(f"{view.output.name}{mark}_{number}", step.output.type)
                self.equations.append(Equation(step.op, (now,), step.params, (seen,), step.source))
                now = seen
            names[value], self.looks[now] = now, (whole, layout.offset)
        return names

    def add(self, part: _Part, division: Division, names: Names) -> None:
        """The steps of a part. names: what here stands for its own values, and for those that it reads."""
        new = {v: self.now.get(now, now) for v in part.graph.inputs for now in (names.get(v, v),)}
        renaming = _Renaming(new | {v: names.get(v, v) for v in part.own}, next(self._marks), self.looks)
        self.equations += map(renaming.equation, division.graph.equations)
        own = {id(e) for e in division.graph.equations}
        others = [(v, e) for v, e in division.sources.producer.items() if id(e) not in own]
        self.producer.update((renaming.value(v), renaming.equation(e)) for v, e in others)
        layouts = division.sources.layouts.items()
        self.layouts.update((renaming.value(v), layout) for v, layout in layouts if v not in new)
        self.steps += map(renaming.step, division.steps)
        self.checks += map(renaming.value, division.checks)
        for value, lowered in zip(part.graph.outputs, division.graph.outputs, strict=True):
            here = self.outputs[names.get(value, value)] = renaming.value(lowered)
            if value in part.own:
                self.now[names.get(value, value)] = here

    def division(self, known: Mapping[Value, Layout]) -> Division:
        """The whole."""
        outputs = tuple([self.outputs[v] if isinstance(v, Value) else v for v in self.graph.outputs])
        graph = Graph(self.graph.inputs, tuple(self.equations), outputs)
        sources = Sources(graph, {**known, **self.layouts})
        sources.producer.update(self.producer)
        assert all(
            sources.base(v) in self.graph.inputs or sources.base(v) in sources.producer
            for v in outputs
            if isinstance(v, Value)
        ), "an output that no part makes"
        return Division(graph, sources, self.steps, self.checks)


class _Renaming:
    """The same equations, kernels and steps under other names.

    values: of some; the others get a mark. looks: what is a part of something else in memory, and from which
    element on.
    """

    def __init__(self, values: Names, mark: str, looks: Mapping[Value, tuple[Value, int]]) -> None:
        self._values, self._mark, self._looks = values, mark, looks
        self._equations: dict[int, Equation] = {}

    def value(self, value: Value) -> Value:
        """What a value is called here."""
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = Value(value.name + self._mark, value.type)
        return found

    def equation(self, equation: Equation) -> Equation:
        """The equation with its values called so."""
        found = self._equations.get(id(equation))
        if found is None:
            inputs = tuple([self.value(v) if isinstance(v, Value) else v for v in equation.inputs])
            outputs = tuple(map(self.value, equation.outputs))
            found = Equation(equation.op, inputs, equation.params, outputs, equation.source)
            self._equations[id(equation)] = found
        return found

    def step(self, step: Step) -> Step:
        """The step, its kernel the same."""
        bound = step.kernel
        if bound is not None:
            inputs, outputs = (tuple(map(self._argument, a)) for a in (bound.inputs, bound.outputs))
            bound = BoundKernel(bound.kernel, bound.sizes, inputs, outputs, bound.numbers)
        return Step(step.kind, list(map(self.equation, step.equations)), kernel=bound)

    def _argument(self, argument: Argument) -> Argument:
        value, start = self.value(argument.value), 0
        if value in self._looks:
            value, start = self._looks[value]
        return Argument(value, argument.offset + start, argument.strides)
