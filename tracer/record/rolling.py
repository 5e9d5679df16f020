"""Rolling loops: rounds that did the same go in, one equation for all rounds comes out; most need not run.

A round of a plain loop (`plain_loops.py`) follows from what it takes over from the one before, from memory
that is written in place, and from what lies outside and is the same for all. So where two rounds began alike,
and did nothing but ops, those that come after do what the first of them did: by induction. Alike are states
whose tensors have the same types, are the same objects or new ones in the same places, and hold values of
which one follows from the other as the next one does from it.

Two rounds are taken together, since many loops let two tensors change places. The recorded rounds are
replaced by one equation (`rolled.py`), which stands for those that are left out, too. Where tensors need
gradients it is one op on the graph, on what the variables held before these rounds. The last rounds run as
ever, so that all variables are what they would be.

Only tensors that have no values yet are carried on so (`later.py`): for others, rounds have to be computed.
In long loops, ops on small tensors wait for that, too. What ops warn of, they say in the rounds that run.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.autograd.node import next_sequence
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.record import references
from fusegrad.tracer.record.memory import Known, Memory
from fusegrad.tracer.record.recorder import Recorder

# So many rounds are one turn. After which rounds the state is looked at: the first ones may differ.
TURN, LOOKS = 2, (2, 4, 6)
# So many rounds must be left out for it to pay: on large tensors; on small ones, or with gradients.
FEWEST, FEWEST_SMALL = 16, 128


def rounds(observer: Observer, items: Any) -> Any:
    """What a plain loop iterates over in place of `items`."""
    recorder = state.interpreter
    if type(items) is not range or type(recorder) is not Recorder or not recorder.later.on:
        return items
    number = (items[-1] - items[0]) // items.step + 1 if items else 0  # `len` cannot say that of all of them
    last = TURN - number % TURN
    left_out = number - LOOKS[-1] - last
    return Rounds(observer, recorder, items, left_out) if left_out >= FEWEST else items


class _Seen(NamedTuple):
    """A tensor that a variable held, without keeping it: its array, how that lies, and if it is a plain one.

    A tensor has one reference as long as somebody has that, so these tell tensors apart.
    """

    reference: weakref.ref[Tensor]
    known: Known | None
    strides: tuple[int, ...]
    plain: bool
    tracked: bool

    @classmethod
    def of(cls, tensor: Tensor, memory: Memory) -> _Seen:
        array, tracked = tensor.array, tensor.needs_grad
        plain = type(tensor) is Tensor and tracked == (tensor.grad_fn is not None)
        return cls(weakref.ref(tensor), memory.find(array), array.strides, plain, tracked)


class _Look(NamedTuple):
    """The state between two rounds.

    equations: how many there are. noted: how much there is of what no round may add to. carried: what the
    variables hold. roots: the value of each array that is no view and that somebody has. counters: the
    version counters of tensors, by id; versions: what they say.
    """

    equations: int
    noted: tuple[int, ...]
    carried: tuple[Any, ...]
    roots: Mapping[Known, Value]
    counters: Mapping[int, list[Any]]
    versions: Mapping[int, int]


class Rounds:
    """Iterates over a range; leaves out the rounds that follow from those before.

    left_out: how many these are.
    """

    def __init__(self, observer: Observer, recorder: Recorder, numbers: range, left_out: int) -> None:
        self._observer, self._recorder = observer, recorder
        self._numbers, self._left_out = numbers, left_out
        self._next: Iterator[int] = iter(numbers)
        self._looks: list[_Look] = []
        self._ended = 0
        self._since, self._noted = next_sequence(), observer.noted()
        self._first: tuple[Any, ...] = ()  # what the variables held at the first look
        if left_out >= FEWEST_SMALL:
            recorder.later.whatever_size, recorder.operands = True, {}

    def __iter__(self) -> Rounds:
        return self

    def __next__(self) -> int:
        return next(self._next)

    def ended(self, *carried: Any) -> tuple[Any, ...]:
        """A round has ended, and leaves these to the next one; what that gets."""
        self._ended += 1
        if self._ended not in LOOKS:
            return carried
        later = self._recorder.later
        if later.on:
            self._look(carried)
        if self._ended == LOOKS[-1]:
            on = self._left_out_rounds(carried)
            self._looks.clear()
            self._first = ()
            if on is not None:
                self._next = iter(self._numbers[self._ended + self._left_out :])
                carried = on
            elif later.whatever_size:
                later.catch_up()
            later.whatever_size, self._recorder.operands = False, None
        return carried

    def _left_out_rounds(self, carried: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Say what the rounds do that are left out; what variables hold after them, or None if it cannot be
        said.
        """
        turn, turns = _turn(self._looks, self._recorder), self._left_out // TURN
        if turn is None:
            return None
        if turn.tracked:
            made = turn.as_an_op(self._recorder, turns, self._first)
            return None if made is None else tuple([made.get(i, x) for i, x in enumerate(carried)])
        return carried if turn.in_memory(self._recorder, turns) else None

    def _look(self, carried: tuple[Any, ...]) -> None:
        recorder, observer = self._recorder, self._observer
        noted = *recorder.noted(), observer.deeds, len(observer.reads), len(observer.effects)
        memory, later = recorder.memory, recorder.later
        observer.forget(self._noted)
        by_graph = references.by_graph(later.tensors(), self._since)
        if by_graph is None:
            return  # with a look less than there should be, nothing is left out
        if not self._looks:
            self._first = carried
        else:
            by_graph.update(map(id, self._first))
        seen = tuple([_Seen.of(x, memory) if isinstance(x, Tensor) else x for x in carried])
        counters = later.versions()
        versions = {key: counter[0] for key, counter in counters.items()}
        roots = memory.roots(lambda array: later.is_held(array, by_graph))
        self._looks.append(_Look(len(recorder.equations), noted, seen, roots, counters, versions))


class _Turn(NamedTuple):
    """What a turn does.

    equations: of the first one; first: where they begin. after: for each value of its the one that the second
    turn has in its place. state: the values that it takes over, and that the next one has others for.
    roots: which array holds which value now, after the second turn. writes: the version counters that were
    there before, and by how much each turn raises them. tracked: whether anything of it needs gradients.
    """

    equations: Sequence[Equation]
    first: int
    after: dict[Value, Value]
    state: list[Value]
    roots: Mapping[Known, Value]
    writes: Sequence[tuple[list[Any], int]]
    tracked: bool

    def _body(self) -> Body:
        state = tuple([self.after[v] for v in self.state])
        return Body(Graph((*self.state, *self._same()), tuple(self.equations), state))

    def as_an_op(self, recorder: Recorder, turns: int, first: tuple[Any, ...]) -> dict[int, Tensor] | None:
        """Say by one op on the graph what the recorded turns did, and so many more would.

        first: what the variables held before. Gives what those hold then that others are put into, by number;
        None where it cannot be said.
        """
        if turns * TURN < FEWEST_SMALL or any(number for _, number in self.writes):
            return None
        tensors = {i: x for i, x in enumerate(first) if isinstance(x, Tensor)}
        found = {i: recorder.memory.find(x.array) for i, x in tensors.items()}
        values = {i: known.value for i, known in found.items() if known is not None and known.is_current()}
        held = {v: tensors[i] for i, v in values.items()}
        one_each = all(held[v] is tensors[i] for i, v in values.items() if v in self.state)
        read = [self._operand(recorder, v) for v in self._same()]
        if not one_each or not held.keys() >= {*self.state} or None in read:
            return None
        if not self.state:
            return {}
        params = loop(self._body(), turns + len(LOOKS) - 1, len(self.state), keeps=True)
        made = bind(ROLLED, (*[held[v] for v in self.state], *read), params)
        return {i: made[self.state.index(v)] for i, v in values.items() if v in self.state}

    @staticmethod
    def _operand(recorder: Recorder, value: Value) -> Tensor | None:
        """The tensor that holds a value, which ops read lately."""
        reference = (recorder.operands or {}).get(value)
        tensor = None if reference is None else reference()
        known = None if tensor is None else recorder.memory.find(tensor.array)
        return tensor if known is not None and known.is_current() and known.value == value else None

    def in_memory(self, recorder: Recorder, turns: int) -> bool:
        """Say in an equation, in the place of the recorded ones, what they did and so many more turns would:
        it changes what lies in memory. False where it cannot be said.
        """
        now = [
            [k for k, value in self.roots.items() if value == self.after[self.after[v]]] for v in self.state
        ]
        same = self._same()
        others = recorder.memory.holding(same)
        if others is None or not now or any(len(holders) != 1 for holders in now):
            return False
        carried, body = [known.array for (known,) in now], self._body()
        if not recorder.later.repeat(ROLLED, carried, others, loop(body, turns, len(now))):
            return False
        params = loop(body, turns + len(LOOKS) - 1, len(now))
        made = recorder.replace(self.first, ROLLED, (*self.state, *same), params)
        for (known,), value in zip(now, made, strict=True):
            known.value = value
        for counter, number in self.writes:
            counter[0] += number * turns
        return True

    def _same(self) -> list[Value]:
        """The values from before that all turns read."""
        own = {*self.state, *(v for e in self.equations for v in e.outputs)}
        return [v for v in dict.fromkeys(v for e in self.equations for v in e.values()) if v not in own]


def _turn(looks: Sequence[_Look], recorder: Recorder) -> _Turn | None:
    """What each turn does; None where two of them differ, or do more than a graph says."""
    if len(looks) < len(LOOKS) or any(look.noted != looks[0].noted for look in looks):
        return None
    first, second = (recorder.equations[a.equations : b.equations] for a, b in itertools.pairwise(looks))
    after = _in_place_of(first, second)
    if after is None or not _carries(looks, after):
        return None
    made = {v for e in first for v in e.outputs}
    carried = [v for v, next_ in after.items() if v not in made and next_ != v]
    needing = _needing(recorder)
    if any(after[v] not in made for v in carried) or not all(_is_derived(e, needing) for e in first):
        return None
    writes, tracked = _writes(looks), not recorder.tracked.isdisjoint((*made, *carried))
    if writes is None:
        return None
    return _Turn(first, looks[0].equations, after, carried, looks[-1].roots, writes, tracked)


def _needing(recorder: Recorder) -> set[Value]:
    """The values of tensors that need gradients: what a run is given may do so from some time on."""
    operands = [(v, reference()) for v, reference in (recorder.operands or {}).items()]
    return recorder.tracked | {v for v, tensor in operands if tensor is not None and tensor.needs_grad}


def _is_derived(equation: Equation, tracked: Collection[Value]) -> bool:
    """Whether what needs gradients are the results of just those ops that such a tensor goes into.

    It is not so of what is computed under no_grad.
    """
    pairs = enumerate(equation.inputs)
    leads = any(v in tracked and equation.op.rule(i) is not None for i, v in pairs if isinstance(v, Value))
    made = [v in tracked for v in equation.outputs if v.dtype.kind in "fcV"]
    return all(made) if leads else not any(made)


def _writes(looks: Sequence[_Look]) -> list[tuple[list[Any], int]] | None:
    """By how much each turn raised the version counters of what was there before; None where turns differ."""
    first, second, third = (look.versions for look in looks)
    found = []
    for key in second.keys() & third.keys():
        number = third[key] - second[key]
        if key in first and second[key] - first[key] != number:
            return None
        found.append((looks[-1].counters[key], number))
    return found


def _in_place_of(first: Sequence[Equation], second: Sequence[Equation]) -> dict[Value, Value] | None:
    """For each value of the first equations that of the second ones in its place; None where they differ."""
    if len(first) != len(second):
        return None
    after: dict[Value, Value] = {}
    for one, other in zip(first, second, strict=True):
        may_fail = one.op is GUARD or one.op.refuses or one.op.family in ("random", "rolled")
        if may_fail or one.op is not other.op or repr(one.params) != repr(other.params):
            return None
        for mine, theirs in zip(one.inputs, other.inputs, strict=True):
            if not _pairs(mine, theirs, after):
                return None
        if not all(map(_pairs, one.outputs, other.outputs, itertools.repeat(after))):
            return None
    return after


def _pairs(mine: Any, theirs: Any, after: dict[Value, Value]) -> bool:
    """Whether the one may stand in the place of the other."""
    if not isinstance(mine, Value) or not isinstance(theirs, Value):
        return type(mine) is type(theirs) and repr(mine) == repr(theirs)
    return mine.type == theirs.type and after.setdefault(mine, theirs) == theirs


def _carries(looks: Sequence[_Look], after: dict[Value, Value]) -> bool:
    """Whether the states are alike, and values follow one another as `after` says, which is completed."""
    start, middle, end = (look.roots for look in looks)
    for known in end.keys() & middle.keys():
        # Memory that is written in place has been there all the time; what is new in each turn goes with it.
        if known not in start or not _follow([roots[known] for roots in (start, middle, end)], after):
            return False
    patterns = [_pattern(look.carried) for look in looks]
    if any(pattern != patterns[0] for pattern in patterns):
        return False
    return all(
        _follow_tensors(items, looks, after) if any(isinstance(x, _Seen) for x in items) else _is_one(items)
        for items in zip(*(look.carried for look in looks), strict=True)
    )


def _pattern(carried: Sequence[Any]) -> list[int]:
    """For what each variable holds, the first of them that holds it."""
    objects = [id(x.reference) if isinstance(x, _Seen) else id(x) for x in carried]
    return [*map(objects.index, objects)]


def _follow(values: Sequence[Value], after: dict[Value, Value]) -> bool:
    """Whether three values of one place follow one another."""
    first, second, third = values
    if first == second:
        return after.setdefault(first, second) == second == third
    return _pairs(first, second, after) and after.get(second) == third


def _follow_tensors(items: Sequence[Any], looks: Sequence[_Look], after: dict[Value, Value]) -> bool:
    """Whether what a variable held at the three looks follows one another: one tensor, or a new one each."""
    strides = items[0].strides if isinstance(items[0], _Seen) else None
    if not all(isinstance(x, _Seen) and x.plain and x.strides == strides for x in items):
        return False
    if len({x.tracked for x in items}) > 1:
        return False
    places = [x.known for x in items]
    values = [look.roots.get(known) for known, look in zip(places, looks, strict=True)]
    if None in values:
        return False
    one = places[0] is places[1] is places[2]
    new = not one and places[1] not in looks[0].roots and places[2] not in looks[1].roots
    objects = len({id(x.reference) for x in items})
    return (objects == 1 if one else new and objects == len(items)) and _follow(values, after)  # type: ignore[arg-type]


def _is_one(items: Sequence[Any]) -> bool:
    """Whether objects that are no tensors are one, or one number."""
    keys = [*map(plain_key, items)]
    return all(x is items[0] for x in items) or (MISSING not in keys and all(key == keys[0] for key in keys))
