"""Loops that test data: rounds of which each went a known way go in, one equation for those and the ones to
come comes out.

Rounds of such a loop are computed as they are recorded, since Python asks for values. What each did is
written in terms of what its variables held before (`ways.py`). As soon as two went one way, all others are
left to one op (`ir/tested.py`), which goes on until a test comes out as in none of the known ways: for that
round, Python is asked again. If it then goes another way, the op is told of it, and does all once more. So
the number of rounds is guarded nowhere, nor which way each goes, and what follows must not depend on it but
through what the loop hands on: tensors, and numbers that are counted up.

A variable that some rounds leave as it is may hold what others hold, too, until a round gives it something
new. So ways are known only from states that are alike in that (`ways.py`).

A round that goes no known way is computed to its end, and dropped. So what comes behind a test must be ops
that may be evaluated of anything.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any, NamedTuple

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import GUARD, Value
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import RoundCount, RowOfRound
from fusegrad.tracer.loops.alike import Seen, done, is_one, share_memory
from fusegrad.tracer.loops.induction import NumberOfRound, RoundNumbers
from fusegrad.tracer.loops.items import Items, alike_for
from fusegrad.tracer.loops.tested_op import TestedOp
from fusegrad.tracer.loops.turns import AGAIN, TURN
from fusegrad.tracer.loops.ways import Kind, Number, State, Terms, Way, way_of
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.record import references
from fusegrad.tracer.record.later import alive
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.record.scalars import fits_float64

# An op knows so many ways at the most.
MOST_WAYS = 8


class TestedLoop(NamedTuple):
    """counters: which variables its rounds only count up. changing: which some of them change by what they
    were. number_is_used: whether somebody asks for the number of the last round.
    """

    counters: Collection[int]
    changing: Collection[int]
    number_is_used: bool


class TestedRounds:
    """Looks at the rounds of a loop that tests data, and leaves out those to come.

    reason: why it did not.
    """

    def __init__(
        self,
        observer: Observer,
        recorder: Recorder,
        items: Items,
        numbers: RoundNumbers,
        source: TestedLoop,
        since: int,
    ) -> None:
        """items: of the rounds that there are at the most. source: what the source says of the loop, whose
        variables are all handed on that anybody asks for. since: the number of the next node of the autograd
        graph.
        """
        self._observer, self._recorder = observer, recorder
        self._items, self._most, self._since = items, items.number, since
        self._numbers, self._count = numbers, numbers.count
        self._counters, changing, number_is_used = source
        self._kept = observer.noted()
        self._from, self._wait, self._tries = 1, TURN, 0
        self._equations = len(recorder.equations)
        # Before the rounds that are looked at, and by now; by how much counters grow.
        self._first: State | None = None
        self._last: State | None = None
        self._ways: list[Way] = []
        self._terms = Terms(recorder)
        self._steps: dict[int, int] = {}
        # Which variables hold numbers that rounds change otherwise than all by as much.
        self._changing = {*changing}
        # What follows from how many rounds there were alone, and up to which equation that is known.
        self._counting: set[Value] = set()
        self._known_to = self._equations
        self._before: list[weakref.ref[Tensor]] = []  # what the round before the last one made
        self._made, self._is_first = 0, False  # where the last one's begin, and whether no loop around looks
        # How many rounds there were before those that are looked at, if an op says so; and whether that has
        # begun with the first of them.
        self._rounds_before: RoundCount | None = None
        self._is_left_out = False
        # The number of the last round is known to the loop alone.
        self._left_to_op = self._most - number_is_used
        # From which round on, and up to how many, comparisons of what they count come out alike.
        self._alike_from, self._alike, self.reason = 0, self._most, ""
        # Up to how many rounds there are all rows that the last one finds, and that those before it find.
        self._has_rows = self._with_rows = self._most

    def ended(self, number: int, carried: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """A round has ended, which was the one with this number, counted from one; how many there are with
        those that are left out, and what the next one is handed.
        """
        found = self._ended(number, carried)
        self._items.found.clear()
        self._numbers.noted.clear()
        return found

    def _ended(self, number: int, carried: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        if number < self._from:
            return number, carried
        changing = len(self._changing)
        if self._first is None:
            carried = self._as_tensors(carried)
        try:
            before, self._last = self._last, self._look(number, carried)
            if self._first is None or before is None:
                self._begin()
            elif self._learns(before, self._last):
                if self._alike_from > self._first.number:
                    self._begin()  # what some of these rounds did, others may not do
                    return number, carried
                number, carried = self._leave_out(self._first, self._last)
                self.reason = ""
        except Refused as refusal:
            self.reason = str(refusal)
            if len(self._changing) > changing:
                carried = self._as_tensors(carried)
                self._last = self._state(number, carried)
                self._begin()
                return number, carried
            self._tries += 1
            # The first rounds may differ: those from the next one on are looked at, and those behind it.
            if self._tries > TURN:
                self._from, self._wait, self._tries = number + self._wait, self._wait * AGAIN, 0
                self.over()
            elif self._last is not None:
                self._begin()
        return number, carried

    def _as_tensors(self, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the variables hold, with numbers that tensors compute in place of those that are changing."""
        on = [*carried]
        for place in self._changing:
            is_number = type(on[place]) in (int, float) and fits_float64(on[place])
            if is_number and self._recorder.numbers.of(on[place]) is None:
                on[place] = self._recorder.doubles.begun_with(on[place])
        return tuple(on)

    def _begin(self) -> None:
        """The rounds that are looked at begin with the next one."""
        self._first, self._ways, self._is_left_out = self._last, [], False
        self._rounds_before, self._with_rows = self._count.rounds, self._most
        self._alike_from, self._alike = 0, self._most

    def compared(self, symbol: str, difference: int, growth: int, number: int) -> None:
        """The round with this number, counted from one, has compared what grows so much in each: that comes
        out alike in some before it and some behind.
        """
        behind, before = (alike_for(symbol, difference, by) for by in (growth, -growth))
        self._alike = min(self._alike, number - 1 + behind)
        self._alike_from = max(self._alike_from, number - before)

    def over(self) -> None:
        """Forget what was seen."""
        self._first = self._last = None
        self._before = []
        if self._is_first:
            self._recorder.operands = self._recorder.results = None
            self._is_first = False

    # Looking.

    def _look(self, number: int, carried: tuple[Any, ...]) -> State:
        recorder, observer = self._recorder, self._observer
        observer.forget(self._kept)
        tensors = [x for x in carried if isinstance(x, Tensor)]
        # Variables that are handed on to nobody have a graph, too, and so has what these states hold.
        last = (recorder.results or [])[self._made :] if self._first is not None else []
        states = {id(x): x for x in (self._first, self._last) if x is not None}
        held = [x for known in states.values() for x in known.carried if isinstance(x, Tensor)]
        by_graph = references.by_graph([*tensors, *alive(last), *held], self._since)
        if by_graph is None:
            raise Refused("something has put hooks on what its rounds compute")
        if references.is_stale(tensors, self._since):
            raise Refused("its rounds write what their gradients need")
        # Each is one more who has it.
        by_graph.update(map(id, held))
        del states, held
        handed = {id(x) for x in tensors}
        # What rounds before the last one made has nobody but the variables.
        if any(_is_left(r, handed, by_graph) for r in self._before):
            raise Refused("its rounds leave tensors where others find them")
        if recorder.results is None:
            self._is_first, recorder.results, recorder.operands = True, [], {}
        recorder.operands = {} if recorder.operands is None else recorder.operands
        self._before = last
        return self._state(number, carried)

    def _state(self, number: int, carried: tuple[Any, ...]) -> State:
        recorder, observer = self._recorder, self._observer
        self._made = len(recorder.results or [])
        for equation in recorder.equations[self._known_to :]:
            if (given := equation.values()) and self._counting.issuperset(given):
                self._counting.update(equation.outputs)
        self._known_to = len(recorder.equations)
        counts = tuple((id(c.owner), c.name, c.value()) for c in observer.stores.counts())
        # A number that is taken is followed.
        noted, stores = done(recorder, observer, -recorder.numbers.takes), (observer.loops.stores, counts)
        seen = tuple(map(self._seen, carried))
        values = recorder.memory.roots(lambda array: True)
        own = {v for e in recorder.equations[self._equations :] for v in e.outputs}
        kinds = tuple([self._kind(place, x, own) for place, x in enumerate(seen)])
        return State(number, len(recorder.equations), noted, stores, carried, seen, kinds, values)

    def _seen(self, item: Any) -> Any:
        """What a variable held, without keeping it; numbers and other objects are themselves."""
        if isinstance(item, Tensor):
            return Seen.of(item, self._recorder.memory)
        taken = self._recorder.numbers.of(item)
        value = None if taken is None else self._recorder.doubles.value_of(taken)
        return item if value is None else Number(value, type(item))

    def _kind(self, place: int, item: Any, own: Collection[Value]) -> Kind:
        """own: what the loop has made."""
        value = item.value if isinstance(item, Number) else None
        is_counter = place in self._counters and place not in self._changing
        if is_counter and (type(item) is int or value in self._counting):
            return Kind("counter")
        if not isinstance(item, (Seen, Number)):
            return Kind("object")
        if item.value is None:
            raise Refused("its rounds hand on other numbers or objects each time")
        what, detail = ("tensor", item.tracked) if isinstance(item, Seen) else ("number", item.kind)
        return Kind(what, (detail, item.value.type), None if item.value in own else item.value)

    # Learning what rounds do.

    def _learns(self, begin: State, end: State) -> bool:
        """Take in what the last round did; whether rounds can be left out now."""
        way = self._way(begin, end)
        if not any(way.is_like(known) for known in self._ways):
            self._ways.append(way)
            if len(self._ways) > MOST_WAYS:
                raise Refused("its rounds go too many ways")
            self._with_rows = min(self._with_rows, self._has_rows)
            return self._is_left_out
        is_over = self._is_left_out
        if is_over:
            # The op has ended for another reason than a test.
            self._begin()
            self._ways = [way]
        self._with_rows = min(self._with_rows, self._has_rows)
        return not is_over

    def _way(self, begin: State, end: State) -> Way:
        self._check(begin, end)
        recorder = self._recorder
        found = self._items.found.items()
        reads = {i - begin.equations: read for i, read in found if i >= begin.equations}
        self._has_rows = min([self._most, *(begin.number + 1 + r.limit() for r in reads.values())])
        steps: dict[int, RowOfRound | NumberOfRound] = {}
        steps.update((i, RowOfRound(read, begin.number)) for i, read in reads.items())
        for i, computed in self._numbers.noted.items():
            if i >= begin.equations:
                rows = recorder.value_of(self._numbers.rows(computed, begin.number))
                steps[i - begin.equations] = NumberOfRound(computed.place, rows)
        return way_of(
            recorder.equations[begin.equations : end.equations],
            begin,
            end,
            self._counting,
            {v for e in recorder.equations[self._equations :] for v in e.outputs},
            steps,
            recorder,
            self._terms,
        )

    def _check(self, begin: State, end: State) -> None:
        """Raise Refused unless the states between which a round lies are alike."""
        if not end.noted.is_like(begin.noted):
            raise Refused(end.noted.added(begin.noted))
        if begin.stores != end.stores:
            raise Refused("its rounds set attributes or items, and test data")
        before = begin.values
        if any(before[known] is not end.values[known] for known in before.keys() & end.values.keys()):
            raise Refused("its rounds write into memory, and test data")
        if begin.kinds != end.kinds:
            raise Refused("what its variables hold does not go on from round to round in one way")
        objects = [i for i, kind in enumerate(end.kinds) if kind.what == "object"]
        if not all(is_one((begin.seen[i], end.seen[i])) for i in objects):
            self._changing.update(i for i in objects if type(end.seen[i]) in (int, float))
            raise Refused("its rounds hand on other numbers or objects each time")
        if not all(map(fits_float64, end.counters().values())):
            raise Refused("its rounds count numbers that no tensor holds as they are")
        steps = {place: x - begin.carried[place] for place, x in end.counters().items()}
        # One that stands for a symbol must be what it is.
        self._recorder.numbers.look(*(begin.seen[i] for i in steps if type(begin.seen[i]) is int))
        # What an op has counted goes on from op to op as one number.
        if steps != self._steps and (self._ways or self._count.is_open):
            self._changing.update(i for i, step in steps.items() if self._steps.get(i) != step)
            raise Refused("its rounds do not all count as much")
        self._steps = steps
        tensors = [x for x in end.own().values() if isinstance(x, Seen)]
        if not all(x.plain and x.is_whole for x in tensors):
            raise Refused("its variables hold views, or other tensors than plain ones in row-major order")
        if share_memory(tensors):
            raise Refused("its variables share memory")

    # Leaving rounds out.

    def _leave_out(self, begin: State, end: State) -> tuple[int, tuple[Any, ...]]:
        recorder = self._recorder
        most = min(self._left_to_op, self._alike, self._with_rows) - begin.number
        op = TestedOp(recorder, begin, self._ways, self._terms, self._rounds_before)
        rounds = op.run(self._nodes(end), most if most < FAR // 2 else FAR)
        self._count.rounds, self._is_left_out = rounds, True
        # They are done again by the op, which tests as they did.
        _without_guards(recorder, begin.equations)
        self._counting.add(recorder.value_of(rounds.counted))
        self._known_to = begin.equations
        on = [*end.carried]
        numbers: dict[tuple[int, type], Any] = {}  # variables that hold one number go on so
        for place, tensor in op.handed_on().items():
            seen = begin.seen[place]
            on[place] = tensor
            if isinstance(seen, Number):
                key = id(tensor), seen.kind
                if key not in numbers:
                    numbers[key] = recorder.doubles.number_in(tensor, seen.kind)
                on[place] = numbers[key]
        for place, step in self._steps.items():
            first = begin.carried[place] + step * (rounds.more - begin.number)
            on[place] = recorder.doubles.counted(first, step, rounds.counted)
        self._before = []
        self._last = self._state(rounds.number, tuple(on))
        return rounds.number, self._last.carried

    def _nodes(self, end: State) -> dict[int, str]:
        """The names of the nodes that made what variables hold."""
        held = enumerate(end.carried)
        return {i: x.grad_fn.name() for i, x in held if isinstance(x, Tensor) and x.grad_fn is not None}


def _is_left(reference: weakref.ref[Tensor], handed: Collection[int], by_graph: Any) -> bool:
    """Whether somebody has a tensor but the graph and the variables that rounds hand on."""
    tensor = reference()
    if tensor is None or id(tensor) in handed:
        return False
    del tensor  # one reference less
    return references.others(reference, by_graph)


def _without_guards(recorder: Recorder, first: int) -> None:
    """Take the guards out of the equations from the one numbered `first` on: an op tests the same."""
    rest = recorder.equations[first:]
    for place, (host, number) in enumerate(recorder.hosts):
        if number > first:
            before = sum(e.op is GUARD for e in rest[: number - first])
            recorder.hosts[place] = host, number - before
    recorder.equations[first:] = [e for e in rest if e.op is not GUARD]
