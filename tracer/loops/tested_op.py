"""The op of a loop that tests data: the ways that its rounds went go in; an equation for all comes out.

It is `tested` (`ir/tested.py`) of a round that branches (`ways.py`). If an op before has said how many rounds
there were, that number is handed on, too.

After some rounds two variables may hold one tensor that hold two after others (`best = h`). Then it also says
which do, for each round asks that first, and goes its way; and in the end it is guarded.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from fusegrad.eager.core.op import REGISTRY, bind, wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.cotangent import TRUTH
from fusegrad.tracer.ir.graph import Equation, Graph, Value, free_values
from fusegrad.tracer.ir.rolled import Body, through, ways_of
from fusegrad.tracer.ir.tested import COUNT, FAR, TESTED
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import RoundCount
from fusegrad.tracer.loops.alike import SOME_DERIVED, check_derived, needing, operand
from fusegrad.tracer.loops.kept import apart, handed_on, keeps_its_result, kept_by_nodes
from fusegrad.tracer.loops.ways import Number, Place, State, Terms, Way, round_of
from fusegrad.tracer.record.recorder import Recorder

_ADD, _LESS, _AND = REGISTRY["add"], REGISTRY["lt"], REGISTRY["logical_and"]


def _truth(recorder: Recorder, value: bool) -> Tensor:
    """A constant."""
    tensor: Tensor = wrap(np.array(value))
    recorder.constant(tensor)
    return tensor


class TestedOp:
    """What says what rounds do that begin with this state, and go one of these ways.

    before: how many rounds there were before, if an op says so.
    """

    def __init__(
        self,
        recorder: Recorder,
        begin: State,
        ways: Sequence[Way],
        terms: Terms,
        before: RoundCount | None,
    ) -> None:
        self._recorder, self._begin, self._terms = recorder, begin, terms
        shared = [begin.shared(), *itertools.chain(*((way.shared, way.shared_after) for way in ways))]
        always = frozenset.intersection(*shared)
        # Of what always holds the same as another.
        self._holders = {place: holder for holder, place in always}
        self._asked = sorted(frozenset.union(*shared) - always)
        truths = {value: _truth(recorder, value) for value in (True, False) if self._asked}
        values = {value: recorder.value_of(tensor) for value, tensor in truths.items()}
        self._ways = ways = [way.asking(self._asked, values, terms) for way in ways] if self._asked else ways
        self._held, self._tensors = self._holding(truths)
        own = [place for place, x in self._held.items() if any(way.after[place] is not x for way in ways)]
        self._moving: list[Place] = own
        self._made: dict[Place, Tensor] = {}
        self._state = [self._held[place] for place in own]
        if before is None and any(way.finds_rows for way in ways):
            before = RoundCount(wrap(np.zeros((), np.int64)), begin.number)
            recorder.constant(before.counted)
        self._before = before
        self._count = terms.new("count", COUNT)
        self._more = 0 if before is None else begin.number - int(before.counted.array)
        self._equations, self._results = self._round(ways)
        # The values from before that all rounds read.
        read, known = free_values(self._equations, self._results), {*self._state, self._count}
        self._same = [v for v in read if v not in known]
        self._check_gradients()

    def _round(self, ways: Sequence[Way]) -> tuple[list[Equation], list[Value]]:
        return round_of(ways, self._moving, (self._count, self._more), self._terms)

    def run(self, nodes: Mapping[int, str], most: int) -> RoundCount:
        """Say what these rounds do and all that follow, up to so many, by one op on the graph; how many
        there were.

        nodes: by place, the names of the nodes that make it.
        """
        recorder, before, more = self._recorder, self._before, self._more
        taken, keeps = (*self._state, *self._same), self._needs_gradients()
        tensors = [x if (x := self._tensors.get(v)) is not None else operand(recorder, v) for v in taken]
        carried, then = len(self._state), list[int]()
        if keeps:
            self._check_reach()
            then = self._left_by_nodes(taken)
            tensors = [apart(recorder, x) if i in then else x for i, x in enumerate(tensors)]
        if before is None:
            body, more = self._body(), self._begin.number
        else:
            body = self._body(most + int(before.counted.array) if most < FAR else FAR)
            tensors[carried:carried] = [before.counted]
            then = [i + (i >= carried) for i in then]
            carried, most = carried + 1, FAR
        params = {"body": body, "carried": carried, "most": most, "keeps": keeps, "then": tuple(then)}
        made = recorder.later.at_once(lambda: bind(TESTED, tuple(tensors), params))
        self._made = dict(zip(self._moving, made, strict=False))
        kept = self._kept_by_its_node() if keeps else ()
        for place, x in self._made.items() if keeps else ():
            if isinstance(place, int):
                self._made[place] = handed_on(x, nodes.get(place, ""), place in kept)
        return RoundCount(made[len(self._state)], more)

    def handed_on(self) -> dict[int, Tensor]:
        """By place, what the variables hold in the end that rounds change: one tensor where two hold one."""
        begin, made = self._begin, self._made
        found = {place: x for place, x in made.items() if isinstance(place, int)}
        seen = begin.own()
        pairs = [pair for pair in self._asked if not any(isinstance(seen[i], Number) for i in pair)]
        for pair in pairs:
            self._recorder.doors.guard(made[pair])
        same = [pair for pair in pairs if made[pair].array.item()]
        for holder in dict.fromkeys(holder for holder, _ in same):
            places = [holder, *(place for other, place in same if other == holder)]
            # One that no round changes holds what it held.
            left = [begin.carried[place] for place in places if place not in found]
            found.update(dict.fromkeys(places, left[0] if left else found[holder]))
        found.update((place, found[holder]) for place, holder in self._holders.items() if holder in found)
        return found

    def _holding(self, truths: Mapping[bool, Tensor]) -> tuple[dict[Place, Value], dict[Value, Tensor]]:
        """By place, what stands for what each variable holds that stands for itself; and by those values, the
        tensors that they held first, and some for numbers.
        """
        held: dict[Place, Value] = {}
        tensors: dict[Value, Tensor] = {}
        for place, seen in self._begin.own().items():
            if place not in self._holders:
                item, is_number = self._begin.carried[place], isinstance(seen, Number)
                held[place] = value = self._terms.held(place, seen.value.type)
                tensors[value] = self._recorder.doubles.holding(seen.value, item) if is_number else item
        for pair in self._asked:
            held[pair] = value = self._terms.held(pair, TRUTH)
            tensors[value] = truths[pair in self._begin.shared()]
        return held, tensors

    def _body(self, limit: int | None = None) -> Body:
        """The round. limit: it counts up a number that it is handed last, while that is below this one."""
        equations, (*after, goes_on) = [*self._equations], self._results
        taken = [*self._state, *self._same]
        if limit is not None:
            count, new = self._count, self._terms.new
            more, is_below, both = new("count", COUNT), new("test", TRUTH), new("test", TRUTH)
            taken[len(after) : len(after)] = [count]
            equations.append(Equation(_ADD, (count, 1), {}, (more,)))
            if limit < FAR:
                equations.append(Equation(_LESS, (count, limit), {}, (is_below,)))
                equations.append(Equation(_AND, (goes_on, is_below), {}, (both,)))
                goes_on = both
            after.append(more)
        return Body(Graph(tuple(taken), tuple(equations), (*after, goes_on)))

    # Gradients.

    def _left_by_nodes(self, taken: Sequence[Value]) -> list[int]:
        """Of the tensors that the op is given, by number, those that no node of a round keeps."""
        known, kept = needing(self._recorder), set[Value]()
        for way in self._ways:
            kept |= kept_by_nodes(way.equations, known | way.tracked, [*way.after.values()])
        # Numbers, and which variables hold one thing, nobody can write.
        own = self._begin.own()
        others = {x for p, x in self._held.items() if isinstance(p, tuple) or isinstance(own[p], Number)}
        return [i for i, value in enumerate(taken) if value not in kept and value not in others]

    def _kept_by_its_node(self) -> set[Place]:
        """The variables that hold what the node keeps that made it, whichever way rounds went."""
        known, places = needing(self._recorder), {value: place for place, value in self._held.items()}

        def is_kept(way: Way, place: Place) -> bool:
            value = way.after[place]
            made = next((e for e in way.equations if value in e.outputs), None)
            if made is not None:
                return keeps_its_result(made, value, known | way.tracked)
            return places.get(value) in found

        found: set[Place] = {place for place in self._moving if isinstance(place, int)}
        while (less := {p for p in found if all(is_kept(way, p) for way in self._ways)}) != found:
            found = less
        return found

    def _needs_gradients(self) -> bool:
        return any(way.needs_gradients for way in self._ways)

    def _check_gradients(self) -> None:
        known = needing(self._recorder)
        for way in self._ways:
            made = [e for e in way.equations if e.outputs]
            if state.grad_enabled:
                check_derived(made, known | way.tracked)
            elif way.needs_gradients:
                raise Refused(SOME_DERIVED)

    def _check_reach(self) -> None:
        """The gradient must go to the same leaves, however many rounds there are, and which way they go:
        others have none.
        """
        before, known = self._recorder.equations[: self._begin.equations], self._recorder.tracked
        taken = (*self._state, *self._same, self._count)
        first = {
            self._held[place]: seen.value for place, seen in self._begin.own().items() if place in self._held
        }
        given = tuple([first.get(v, v) for v in taken])
        reached = ways_of(Graph(tuple(free_values(before, given)), tuple(before), given), known)
        # If one round of any way leaves that as it was, any number of them does.
        for way in self._ways:
            equations, results = self._round([way])
            step = ways_of(Graph(taken, tuple(equations), tuple(results)))[: len(self._state)]
            if [through(places, reached) for places in step] != reached[: len(step)]:
                raise Refused("it depends on its rounds what has a gradient")
