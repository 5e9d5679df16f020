"""Turns: what was recorded of two turns of a loop goes in; what a turn does comes out, if they do the same.

See `rolling.py` for what makes turns alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.autograd import views
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Equation, Graph, Value, free_values
from fusegrad.tracer.ir.pullback import fresh
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import Forward, RowRead, RowWrite, written_rows
from fusegrad.tracer.loops.alike import (
    Done,
    Seen,
    check_derived,
    follow,
    in_place_of,
    is_one,
    needing,
    operand,
    pattern,
    share_memory,
)
from fusegrad.tracer.loops.appended import Appended, by_list, check_appended
from fusegrad.tracer.loops.induction import Computed
from fusegrad.tracer.loops.kept import apart, handed_on, is_kept, kept_by_nodes
from fusegrad.tracer.record.memory import Known
from fusegrad.tracer.record.recorder import Recorder

# So many rounds are one turn: two, or one where rounds are long (so many equations) and many, which is all to
# record then, and to compile.
TURN, LONG_ROUND = 2, 24
# After so many turns the state is looked at: the first one may differ.
LOOKS = 3
# Where rounds differed, others are looked at after a few more, and each time after so many times as many.
AGAIN = 4


def looks_after(rounds: int) -> range:
    """After which rounds the state is looked at, if a turn is so many of them."""
    return range(rounds, LOOKS * rounds + 1, rounds)


class Look(NamedTuple):
    """The state between two rounds.

    equations: how many there are. noted: how much there is of what no round may add to. carried: what the
    variables hold. roots: the value of each array that is no view and that somebody has. counters: the
    version counters of tensors, by id; versions: what they say. appended: how much was appended to lists.
    counts: the attributes that the run has only added to, with their objects and what they are; and so the
    variables of the loop, by number, with None.
    """

    equations: int
    noted: Done
    carried: tuple[Any, ...]
    roots: Mapping[Known, Value]
    counters: Mapping[int, list[Any]]
    versions: Mapping[int, int]
    appended: int
    counts: tuple[tuple[Any, Any, int], ...]


class Turn(NamedTuple):
    """What a turn does.

    equations: of the first one; first: where they begin. after: for each value of its the one that the second
    turn has in its place. state: the values that it takes over, and that the next one has others for.
    roots: which array holds which value now, after the second turn. writes: the version counters that were
    there before, and by how much each turn raises them. tracked: whether anything of it needs gradients.
    rows, written: by the number of the equation, what reads a row or writes one; numbers: which number of the
    round it is given, and what stands for that; forwards: what reads a row that was written; ahead: what
    reads one that is not by then, and what writes that tensor. appended: what it appends to lists.
    """

    equations: Sequence[Equation]
    first: int
    after: dict[Value, Value]
    state: list[Value]
    roots: Mapping[Known, Value]
    writes: Sequence[tuple[list[Any], int]]
    tracked: bool
    rows: Mapping[int, RowRead]
    written: Mapping[int, RowWrite]
    numbers: Mapping[int, tuple[Computed, Value]]
    forwards: Mapping[int, Forward]
    ahead: Mapping[int, int]
    appended: Sequence[Appended]

    def _body(self) -> Body:
        rows = [*(self.equations[i].outputs[0] for i in self.rows), *(v for _, v in self.numbers.values())]
        handed = self._handed()
        taken = (*self.state, *(forward.output for forward in handed), *rows, *self._same())
        state = [*(self.after[v] for v in self.state), *(forward.value for forward in handed)]
        return Body(Graph(taken, self._others(), (*map(self._written, state), *self._left())))

    def _handed(self) -> list[Forward]:
        """What reads a row that was written in the turn before."""
        return [forward for forward in self.forwards.values() if forward.before]

    def _written(self, value: Value) -> Value:
        """A value, or what was written where it was read in the same turn."""
        written = {f.output: f.value for f in self.forwards.values() if not f.before}
        while value in written:
            value = written[value]
        return value

    def _others(self) -> tuple[Equation, ...]:
        """The equations that neither read rows nor write them, with the numbers of the round as values."""
        apart = self.rows.keys() | self.written.keys() | self.forwards.keys()
        return tuple([self._among_values(i, e) for i, e in enumerate(self.equations) if i not in apart])

    def _among_values(self, number: int, equation: Equation) -> Equation:
        inputs = [self._written(v) if isinstance(v, Value) else v for v in equation.inputs]
        if number in self.numbers:
            computed, value = self.numbers[number]
            inputs[computed.place] = value
        return Equation(equation.op, tuple(inputs), equation.params, equation.outputs, equation.source)

    def _left(self) -> list[Any]:
        """What it leaves in rows: appended to lists, and written."""
        left = [*(a.value for a in self.appended), *(self.equations[i].inputs[1] for i in self._lasting())]
        return [*map(self._written, left)]

    def _pairs_left(self, made: Sequence[Tensor]) -> list[tuple[Any, Tensor]]:
        """The same, each with the rows that all rounds leave of it, which come last of what they give."""
        left = self._left()
        return [*zip(left, made[len(made) - len(left) :], strict=True)]

    def _lasting(self) -> list[int]:
        """The equations that write rows, but for those whose row is written again, as by `u[t] += h`."""
        last = {(w.owner, w.row.entries): i for i, w in self.written.items()}
        return [i for i in self.written if i in last.values()]

    @property
    def is_op(self) -> bool:
        """Whether it is an op on the graph, and changes no memory."""
        return bool(self.tracked or self.rows or self.appended or self.written or self.numbers)

    def limit(self, turns: int) -> int:
        """How many of so many more turns do what these do, as far as rows tell."""
        written = [write.row for write in self.written.values()]
        return min([turns, *(row.limit() for row in (*self.rows.values(), *written))])

    def as_an_op(
        self, recorder: Recorder, turns: int, looks: Sequence[Any], is_written: bool
    ) -> tuple[dict[int, Tensor], list[tuple[list[Any], list[Tensor], list[Tensor | None]]]]:
        """Say by one op on the graph what so many more turns do, and what the recorded ones did, where nobody
        has that yet.

        looks: what the variables held before, and what they hold. is_written: whether rounds may write into
        that, which must not be what the graph keeps. Gives what those hold then that others are
        put into, by number, and what is appended to lists (see `by_list`).
        """
        owners = self._owners(recorder)
        leaves = bool(self.appended or self.written)
        begun = 0 if leaves else LOOKS - 1  # how many of the recorded turns are done again
        at = self._at(LOOKS - 1 - begun)
        tensors = {i: x for i, x in enumerate(looks[0 if begun else -1]) if isinstance(x, Tensor)}
        found = {i: recorder.memory.find(x.array) for i, x in tensors.items()}
        values = {i: known.value for i, known in found.items() if known is not None and known.is_current()}
        held = {v: tensors[i] for i, v in values.items()}
        state = [at(v) for v in self.state]
        if not held.keys() >= {*state} or not all(
            held[v] is tensors[i] for i, v in values.items() if v in state
        ):
            raise Refused("its rounds hand on what is in no variable")
        owner = dict(zip(self.written, owners, strict=True))
        body = self._body()
        ends = body.graph.outputs
        kept = kept_by_nodes(self.equations, needing(recorder), ends) if self.tracked else None

        def read(value: Value, as_found: Value) -> Tensor:
            tensor = operand(recorder, value)
            return tensor if kept is None or as_found in kept else apart(recorder, tensor)

        sources = [
            owner[self.ahead[i]]
            if i in self.ahead
            else read(self.equations[i].inputs[0], self.equations[i].output)
            for i in self.rows
        ]
        same = [read(v, v) for v in self._same()]
        if not state and not leaves:
            return {}, []
        rows = [
            row.rows(x, 1 - begun, turns + begun) for x, row in zip(sources, self.rows.values(), strict=True)
        ]
        # In memory of their own: what is kept of them for backward is not written.
        rows = [ops.clone(x) if i in self.ahead else x for i, x in zip(self.rows, rows, strict=True)]
        rows += self._number_rows(recorder, 1 - begun, turns + begun)
        handed = [ops.clone(forward.row.row(owner[forward.write], LOOKS - 1)) for forward in self._handed()]
        params = loop(body, turns + begun, len(state) + len(handed), len(rows), keeps=self.tracked)
        # Rows that variables keep are parts of what others have.
        is_part = {v: views.base_of(held[v]) is not held[v] for v in state}
        parts = {v for v in state if is_part[v] and kept is not None and v not in kept}
        begin = [apart(recorder, held[v]) if v in parts else held[v] for v in state]
        made = bind(ROLLED, (*begin, *handed, *rows, *same), params)
        for value, tensor in (*zip(self.state, made, strict=False), *self._pairs_left(made)):
            recorder.ranges.note_alike(recorder.value_of(tensor), value)
        if kept is not None:
            results = [
                self._handed_on(recorder, x, v, kept, is_written)
                for v, x in zip(self.state, made, strict=False)
            ]
            made = (*results, *made[len(results) :])
        on = {i: made[state.index(v)] for i, v in values.items() if v in state}
        left = [tensor for _, tensor in self._pairs_left(made)]
        self._write(recorder, owners, left[len(self.appended) :], turns)
        last = {self.after[v]: tensor for v, tensor in zip(self.state, made, strict=False)}
        return on, by_list(self.appended, left[: len(self.appended)], last)

    def _handed_on(
        self, recorder: Recorder, result: Tensor, begin: Value, kept: Collection[Value], is_written: bool
    ) -> Tensor:
        """What a variable holds in the end, apart from what the op of all rounds keeps.

        It is kept where eager's node keeps what it made, and not even there if rounds may write it.
        """
        value = self.after[begin]
        made = [e for e in self.equations if value in e.outputs]
        keeps = not is_written and is_kept(value, self.equations, kept, needing(recorder))
        return handed_on(result, made[0].op.grad_name(dict(made[0].params)) if made else "", keeps)

    def _number_rows(self, recorder: Recorder, after: int, turns: int) -> list[Tensor]:
        """The numbers of so many turns, as rows."""
        rows = [computed.rows(after, turns) for computed, _ in self.numbers.values()]
        for row in rows:
            recorder.constant(row)
        return rows

    def _owners(self, recorder: Recorder) -> list[Tensor]:
        """The tensors whose rows are written. Raises Refused where more than these is."""
        owners, counts = [], dict.fromkeys((id(counter) for counter, number in self.writes if number), 0)
        for write in self.written.values():
            owner = write.owner()
            known = None if owner is None else recorder.memory.find(owner.array)
            if owner is None or known is None or not recorder.later.has_waiting(owner):
                raise Refused("nobody has a tensor any more whose rows its rounds write")
            counts[id(owner.version)] = counts.get(id(owner.version), 0) + 1
            owners.append(owner)
        if any(counts.get(id(counter), 0) != number for counter, number in self.writes):
            raise Refused("its rounds write into memory, and with gradients or rows they may only write rows")
        return owners

    def _write(
        self, recorder: Recorder, owners: Sequence[Tensor], left: Sequence[Tensor], turns: int
    ) -> None:
        """Write what so many more turns leave in rows into these tensors, which count those writes."""
        rows = dict(zip(self._lasting(), left, strict=True))
        for (i, write), owner in zip(self.written.items(), owners, strict=True):
            version: Any = owner.version
            number = version[0]
            if i in rows:
                recorder.later.writes_rows = True
                try:
                    write.row.put(owner, rows[i], 1, turns)
                finally:
                    recorder.later.writes_rows = False
            version[:2] = number + turns, (number + turns, version[1][1])

    def _at(self, turns: int) -> Any:
        """What gives for a value of the first turn the one in its place so many turns later."""

        def at(value: Value) -> Value:
            for _ in range(turns):
                value = self.after[value]
            return value

        return at

    def in_memory(self, recorder: Recorder, turns: int) -> None:
        """Say in an equation, in the place of the recorded ones, what they did and so many more turns would:
        it changes what lies in memory.
        """
        now = [
            [k for k, value in self.roots.items() if value == self.after[self.after[v]]] for v in self.state
        ]
        same = self._same()
        others = recorder.memory.holding(same)
        if others is None or not now or any(len(holders) != 1 for holders in now):
            raise Refused("its rounds hand on what is in no memory, or in several places")
        carried, body = [known.array for (known,) in now], self._body()
        if not recorder.later.repeat(ROLLED, carried, others, loop(body, turns, len(now))):
            raise Refused("what its rounds hand on had to be computed")
        params = loop(body, turns + LOOKS - 1, len(now))
        made = recorder.replace(self.first, ROLLED, (*self.state, *same), params)
        for (known,), value in zip(now, made, strict=True):
            known.value = value
        for counter, number in self.writes:
            counter[0] += number * turns

    def _same(self) -> list[Value]:
        """The values from before that all turns read."""
        own = {*self.state, *(v for e in self.equations for v in e.outputs)}
        own.update(value for _, value in self.numbers.values())
        return [v for v in free_values(self._others(), self._left()) if v not in own]


def turn_of(
    looks: Sequence[Look],
    recorder: Recorder,
    found: tuple[Mapping[int, RowRead], Mapping[int, RowWrite], Mapping[int, Computed]],
    appended: Sequence[Appended],
    rounds: int,
) -> Turn:
    """What each turn of so many rounds does. Raises Refused where two of them differ, or do more than a graph
    says.

    found: by the number of an equation, what reads the row of a round, what writes it, and which number of
    the round it is given. appended: what was appended to lists.
    """
    if len(looks) < LOOKS:
        raise Refused("something has put hooks on what its rounds compute")
    for look in looks:
        if not look.noted.is_like(looks[0].noted):
            raise Refused(look.noted.added(looks[0].noted))
    pairs = [*itertools.pairwise(looks)]
    first, second = (recorder.equations[a.equations : b.equations] for a, b in pairs)
    ours, written, numbers = ([_within(known, a, b, rounds) for a, b in pairs] for known in found)
    subscripts = [read | {i: w.row for i, w in w_.items()} for read, w_ in zip(ours, written, strict=True)]
    after = in_place_of(
        first,
        second,
        subscripts[0],
        subscripts[1],
        numbers[0],
        numbers[1],
        recorder.ranges,
    )
    chain, forwards, ahead = written_rows(first, written[0], written[1], ours[0], after)
    # Rows that were read, which variables keep for a while, are views of one tensor.
    read = [{e[i].outputs[0] for i in rows_of} for e, rows_of in zip((first, second), ours, strict=True)]
    if not _carries(looks, after, read):
        raise Refused("what its variables hold does not go on from round to round in one way")
    made = {v for e in first for v in e.outputs}
    carried = [v for v, next_ in after.items() if v not in made and next_ != v and v not in chain]
    if any(after[v] not in made for v in carried):
        raise Refused("its rounds only hand something on that they do not make")
    check_derived(first, needing(recorder))
    rows = {i: read for i, read in ours[0].items() if i not in forwards}
    if any(first[i].inputs[0] in (*made, *carried) for i in rows if i not in ahead):
        raise Refused("its rounds find rows in what they change")
    counted, tracked = _writes(looks), not recorder.tracked.isdisjoint((*made, *carried))
    left, again = (appended[a.appended : b.appended] for a, b in pairs)
    held = [x for look in looks for x in look.carried if isinstance(x, Seen)]
    check_appended(appended, left, again, after, made, [(x.reference, x.root) for x in held])
    shown = {x.value for x in held} | {a.value for a in left}
    forwarded = {*(f.output for f in forwards.values()), *(first[i].outputs[0] for i in ahead)}
    if not (chain | forwarded).isdisjoint(shown):
        raise Refused("its rounds write rows of what they hand on")
    later = {i: ours[1][i] for i in rows}
    given = {
        i: (computed, fresh("number", TensorType((), computed.dtype), recorder.names))
        for i, computed in numbers[1].items()
    }
    begin, roots = looks[0].equations, looks[-1].roots
    turn = Turn(
        first, begin, after, carried, roots, counted, tracked, later, written[1], given, forwards, ahead, left
    )
    if turn.is_op and _share_memory(looks, read[1]):
        raise Refused("its rounds hand on several tensors that share memory")
    return turn


def counted_up(looks: Sequence[Look]) -> list[tuple[Any, Any, int]]:
    """By how much each turn adds to what the run only adds to; see `Look`."""
    found = []
    for counts in zip(*(look.counts for look in looks), strict=False):
        (owner, name, first), second, third = counts
        same = all(c[0] is owner and c[1] == name for c in counts)
        if not same or third[2] - second[2] != second[2] - first:
            raise Refused("its rounds do not all count as much")
        found.append((owner, name, third[2] - second[2]))
    if len({len(look.counts) for look in looks}) > 1:
        raise Refused("its rounds do not all add to the same attributes")
    return found


def _within(found: Mapping[int, Any], begin: Look, end: Look, rounds: int) -> dict[int, Any]:
    """What was found between two looks, for turns of so many rounds, by the number of the equation from the
    first one on.
    """
    first = begin.equations
    return {i - first: known.by_turns(rounds) for i, known in found.items() if first <= i < end.equations}


def _writes(looks: Sequence[Look]) -> list[tuple[list[Any], int]]:
    """By how much each turn raised the version counters of what was there before."""
    first, second, third = (look.versions for look in looks)
    found = []
    for key in second.keys() & third.keys():
        number = third[key] - second[key]
        if key in first and second[key] - first[key] != number:
            raise Refused("its rounds write into memory, and not each as often")
        found.append((looks[-1].counters[key], number))
    return found


def _share_memory(looks: Sequence[Look], read: Collection[Value]) -> bool:
    """Whether several variables hold tensors, other ones after each turn, that share memory: an op gives each
    of them memory of its own. read: the rows of the last turn, which nobody writes.
    """
    pairs = zip(looks[0].carried, looks[-1].carried, strict=True)
    seen = [now for then, now in pairs if isinstance(now, Seen) and now.reference is not then.reference]
    return share_memory(x for x in seen if x.value not in read and x.root is not None)


def _carries(looks: Sequence[Look], after: dict[Value, Value], read: Sequence[Collection[Value]]) -> bool:
    """Whether the states are alike, and values follow one another as `after` says, which is completed.

    read: the rows that the turns have read.
    """
    start, middle, end = (look.roots for look in looks)
    for known in end.keys() & middle.keys():
        # Memory that is written in place has been there all the time; what is new in each turn goes with it.
        if known not in start or not follow([roots[known] for roots in (start, middle, end)], after):
            return False
    patterns = [pattern(look.carried) for look in looks]
    if any(found != patterns[0] for found in patterns):
        return False
    return all(
        _follow_tensors(items, looks, after, read)
        if any(isinstance(x, Seen) for x in items)
        else is_one(items)
        for items in zip(*(look.carried for look in looks), strict=True)
    )


def _follow_tensors(
    items: Sequence[Any],
    looks: Sequence[Look],
    after: dict[Value, Value],
    read: Sequence[Collection[Value]],
) -> bool:
    """Whether what a variable held at the three looks follows one another: one tensor, or a new one each,
    which may be a row of one.
    """
    strides = items[0].strides if isinstance(items[0], Seen) else None
    if not all(isinstance(x, Seen) and x.strides == strides for x in items):
        return False
    # A tensor of another kind, such as a leaf, only stays what it is.
    stays = len({(id(x.reference), x.value) for x in items}) == 1
    if not (stays or all(x.plain for x in items)) or len({x.tracked for x in items}) > 1:
        return False
    places, values = [x.root for x in items], [x.value for x in items]
    if None in values or not all(root in look.roots for root, look in zip(places, looks, strict=True)):
        return False
    one = places[0] is places[1] is places[2]
    new = not one and places[1] not in looks[0].roots and places[2] not in looks[1].roots
    objects = len({id(x.reference) for x in items})
    rows = one and values[1] in read[0] and values[2] in read[1]
    alike = objects == len(items) if new or rows else one and objects == 1
    return alike and follow(values, after)
