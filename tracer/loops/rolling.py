"""Rolling loops: rounds that did the same go in, one equation for all rounds comes out; most need not run.

A round of a plain loop (`plain_loops.py`) follows from what it takes over from the one before, from memory
that is written in place, and from what lies outside and is the same for all. So where two rounds began alike,
and did nothing but ops, those that come after do what the first of them did: by induction. Alike are states
whose tensors have the same types, are the same objects or new ones in the same places, and hold values of
which one follows from the other as the next one does from it.

Two rounds are taken together, since many loops let two tensors change places; long ones are tried one by one
before. The recorded rounds are replaced by one equation (`rolled.py`), which stands for those that are left
out, too. Where tensors need gradients it is one op on the graph, on what the variables held before these
rounds. The last rounds run as ever, so that all variables are what they would be.

Only tensors that have no values yet are carried on so (`later.py`): for others, rounds have to be computed.
In long loops, ops on small tensors wait for that, too. What ops warn of, they say in the rounds that run.

Where a round finds rows by its number, they are the rows of the loop (`affine.py`). The source shows that
their places grow evenly with the number: all else that they are found by is the same whole number in each.
What rounds append to a list that nobody sees before they are over (`loops.py`) are rows, too, and so is what
each writes into a row of a tensor that the run has made, and that they do not read: that is written at once.
Numbers that Python computes from that of the round, and that meet a tensor, come as rows (`induction.py`). If
the rounds that are left out end before the loop does, as places are counted from the other end then, those
that follow are looked at again; and so they are where the first ones were not alike.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import next_sequence
from fusegrad.eager.core.handlers import at_work
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import GUARD
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import RowWrite, TripCount, asks_for_row
from fusegrad.tracer.loops.alike import Seen, done
from fusegrad.tracer.loops.appended import RoundLists
from fusegrad.tracer.loops.induction import RoundNumbers
from fusegrad.tracer.loops.items import Items, alike_for, alike_remainders, period
from fusegrad.tracer.loops.packs import opened
from fusegrad.tracer.loops.replaced import may_replace, may_replace_part
from fusegrad.tracer.loops.tested_rounds import TestedLoop, TestedRounds
from fusegrad.tracer.loops.turns import (
    AGAIN,
    LONG_ROUND,
    TURN,
    Look,
    counted_up,
    looks_after,
    turn_of,
)
from fusegrad.tracer.observe import stores
from fusegrad.tracer.observe.loops import LONG
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.record import references
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.record.scalars import fits_float64
from fusegrad.tracer.twin.plain_loops import COUNTED
from fusegrad.tracer.twin.sites import Site

# So many rounds must be left out for it to pay: on large tensors; on small ones, or with gradients.
FEWEST, FEWEST_SMALL = 16, LONG
# So many rounds one turn has at the most, where every third or tenth is another one.
MOST_ROUNDS = 20


def settled(recorder: Recorder, before: bool) -> str:
    """Why ops do not wait. before: whether that was so before the loop."""
    why, line = recorder.later.settled
    return f"{'before it' if before else 'in its rounds'} {why} (line {line})"


class Rounds:
    """Iterates over the items of a plain loop; leaves out the rounds that follow from those before.

    items: what rounds get. counters: the variables that they only count up. tested: looks at them in a loop
    that tests data.
    """

    def __init__(
        self,
        observer: Observer,
        recorder: Recorder,
        items: Items,
        site: Site,
        counters: Sequence[int],
        tested: TestedLoop | None,
    ) -> None:
        self.observer, self.recorder, self.items, self._site = observer, recorder, items, site
        self._counters, self.lists = counters, RoundLists(observer, recorder.memory)
        self._next = 0  # the number of the next round
        self._kept = observer.noted()
        self._since = next_sequence()
        self._left_out = 0
        self._has_waited, self._reason = recorder.later.on, ""
        self._replaces = False  # whether results stand for what is written in place
        self._round = len(recorder.equations)  # where the last round begins
        number_is_used = tested is not None and tested.number_is_used
        self._count = TripCount(recorder, items.number, number_is_used, items.found)
        self._numbers = RoundNumbers(observer, recorder, items.sources, items.number, self._count)
        self.recurrences = self._numbers.recurrences
        self.tested: TestedRounds | None = None
        if tested is not None:
            self.tested = TestedRounds(observer, recorder, items, self._numbers, tested, self._since)
        observer.loops.rolling += 1
        # From which round on rounds are looked at again, and after how many more if those differ, too.
        self._again, self._wait = 0, TURN
        self._begin(0)

    def _begin(self, number: int) -> None:
        """Look at the rounds from the one with this number on."""
        self._begins, self._stores = number, self.observer.loops.stores
        self._equations = len(self.recorder.equations)
        self._looks: dict[int, Look] = {}  # after how many rounds
        self._firsts: dict[int, tuple[Any, ...]] = {}  # what the variables held then, after the first turn
        self._turns: tuple[int, ...] = (TURN,)  # how many rounds may be one
        self.lists.begin()
        self.recurrences.begin()
        # The last round that did what is not the same from round to round, and what that was.
        self._odd = 0, ""
        # Which rounds compare their number, up to which one all those are alike that this tells apart, and
        # after how many the outcomes come again.
        self._alike: list[tuple[int, int, int]] = []
        for found in (self.items.found, self.items.written, self._numbers.noted):
            found.clear()
        if self._may_leave_out() >= self._fewest_small() and self.recorder.later.on:
            self.recorder.later.whatever_size, self.recorder.operands = True, {}

    def _fewest_small(self) -> int:
        return FEWEST if self.recorder.later.short_loops else FEWEST_SMALL

    def _may_leave_out(self, rounds: int = TURN) -> int:
        """How many rounds, in turns of so many, are between those that are looked at and the last ones."""
        left = self.items.number - self._begins - looks_after(rounds)[-1]
        return left - (rounds - left % rounds)

    def __iter__(self) -> Rounds:
        return self

    def __next__(self) -> Any:
        count = self._count
        if count.is_open:
            at_work(count.another, self._next)
        if self._next >= self.items.number:
            self.over()
            raise StopIteration
        self._next += 1
        if not count.is_open:
            return self.items.item(self._next - 1, count)
        return at_work(self.items.item, self._next - 1, count)

    def ended(self, *carried: Any) -> tuple[Any, ...]:
        """A round has ended, and leaves these to the next one; what that gets."""
        found: tuple[Any, ...] = at_work(self._ended, carried)
        return found

    def _ended(self, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        self.lists.ended()
        self.recurrences.ended()
        if self.tested is not None and self._has_tested():
            if self.lists.appended or self.lists.read or self._odd[0]:
                return carried
            whole = {id(owner) for owner, _ in self.observer.loops.attributes(self._stores)}
            before, state = self._next, opened(carried, whole)
            self._next, on = self.tested.ended(self._next, state.state)
            self._left_out += self._next - before
            self._reason = self.tested.reason
            return tuple(state.closed(on, len(carried), self.observer.local))
        if self._next == self._again:
            self._begin(self._next)
        looked = self._next - self._begins
        if looked == 1:
            self._turns = self._turns_of_rounds()
        if self._may_leave_out() < FEWEST or not any(looked in looks_after(r) for r in self._turns):
            return carried
        later = self.recorder.later
        # Attributes that were set are handed on like variables.
        places = self.observer.loops.attributes(self._stores)
        attributes = [stores.held(owner, name) for owner, name in places]
        # So are the last items of lists that are read.
        items = self.lists.last()
        whole = {*self.lists.read, *(id(owner) for owner, _ in places)}
        state = opened((*carried, *attributes, *items), whole)
        del items
        if later.on:
            self._look(state.state)
        rounds = next((r for r in self._turns if looked == looks_after(r)[-1]), None)
        if rounds is None:
            return carried
        on = self._on(state.state, rounds)
        after = state.closed(on, len(carried) + len(places), self.observer.local)
        for (owner, name), old, value in zip(places, attributes, after[len(carried) :], strict=True):
            if value is not old:
                stores.own(owner)[name] = value
        return tuple(after[: len(carried)])

    def _turns_of_rounds(self) -> tuple[int, ...]:
        """How many rounds may be one turn, after the first one."""
        periods = [number for _, _, number in self._alike if number <= MOST_ROUNDS]
        shortest, longest = math.lcm(*periods), math.lcm(TURN, *periods)
        if longest > MOST_ROUNDS:
            return (TURN,)
        long = len(self.recorder.equations) - self._equations >= LONG_ROUND
        many = long and shortest < longest and self._may_leave_out() >= LONG
        return (shortest, longest) if many else (longest,)

    def _has_tested(self) -> bool:
        """Whether the last round has asked for values."""
        equations, begin = self.recorder.equations, self._round
        self._round = len(equations)
        return any(e.op is GUARD for e in equations[begin:])

    def _on(self, carried: tuple[Any, ...], rounds: int) -> tuple[Any, ...]:
        """Leave out the rounds that follow from those that were looked at, in turns of so many; what the
        variables hold after them.
        """
        later = self.recorder.later
        try:
            carried = self._leave_out(carried, rounds)
            self._reason = ""
        except Refused as refusal:
            if rounds != self._turns[-1]:
                return carried  # longer turns may be alike
            self._reason = str(refusal)
            if later.whatever_size:
                later.catch_up()
        later.whatever_size, self.recorder.operands = False, None
        self._looks.clear()
        self._firsts.clear()
        self.lists.appended = []
        if self._reason:
            self._again, self._wait = self._next + self._wait, self._wait * AGAIN
        else:
            self._wait = TURN
            self._begin(self._next)
        return carried

    def _leave_out(self, carried: tuple[Any, ...], rounds: int) -> tuple[Any, ...]:
        later = self.recorder.later
        number, reason = self._odd
        if number > rounds:  # the first turn may differ
            raise Refused(reason)
        if not later.on:
            raise Refused(settled(self.recorder, before=not self._has_waited))
        found = self.items.found, self.items.written, self._numbers.noted
        seen = [self._looks[number] for number in looks_after(rounds) if number in self._looks]
        turn = turn_of(seen, self.recorder, found, self.lists.appended, rounds)
        counted = counted_up(seen)
        told = [(last, again) for number, last, again in self._alike if number > rounds]
        alike = min((last - self._next for last, again in told if rounds % again), default=FAR)
        turns = turn.limit(min(self._may_leave_out(rounds), alike) // rounds)
        # Where every hundredth round is another one, say, each stretch in between is left out by itself.
        is_periodic = any(number < FAR for _, _, number in self._alike)
        recurring = {
            place: self.recurrences.after(place, carried[place], turns * rounds)
            for place in self.recurrences.steps
        }
        fewest = self._fewest_small() if turn.is_op and not is_periodic else FEWEST
        if turns * rounds < fewest:
            raise Refused(f"fewer than {fewest} rounds do what those before them did")
        if turn.is_op:
            looks = self._firsts[rounds], carried
            made, lists = turn.as_an_op(self.recorder, turns, looks, self._replaces)
            carried = tuple([made.get(i, x) for i, x in enumerate(carried)])
            for items, rows, last in lists:
                self.observer.loops.misses(items, rows, last)
        else:
            turn.in_memory(self.recorder, turns)
        for owner, name, growth in counted:
            if owner is not None:
                stores.own(owner)[name] += growth * turns
        on = {place: carried[place] + growth * turns for owner, place, growth in counted if owner is None}
        on |= recurring
        carried = tuple([on.get(i, x) for i, x in enumerate(carried)])
        self._next += turns * rounds
        self._left_out += turns * rounds
        return carried

    def _look(self, carried: tuple[Any, ...]) -> None:
        recorder, observer = self.recorder, self.observer
        noted = done(recorder, observer)
        memory, later = recorder.memory, recorder.later
        observer.forget(self._kept)
        by_graph = references.by_graph(later.tensors(), self._since)
        if by_graph is None:
            return  # with a look less than there should be, nothing is left out
        for first in self._firsts.values():
            by_graph.update(map(id, first))
        looked = self._next - self._begins
        if looked in self._turns:
            self._firsts[looked] = carried
        by_graph.update(id(x) for a in self.lists.appended if (x := a.tensor()) is not None)
        own = {place: carried[place] for place in self._counters if type(carried[place]) is int}
        numbers = own.keys() | self.recurrences.steps.keys()
        items = [None if i in numbers else x for i, x in enumerate(carried)]
        seen = tuple([Seen.of(x, memory) if isinstance(x, Tensor) else x for x in items])
        observer.numbers.look(*own.values())
        counters = later.versions()
        versions = {key: counter[0] for key, counter in counters.items()}
        roots = memory.roots(lambda array: later.is_held(array, by_graph))
        # Who makes a tensor of Python data makes it anew in each round.
        roots = {known: value for known, value in roots.items() if value not in recorder.constants}
        appended = len(self.lists.appended)
        counts: list[tuple[Any, Any, int]] = [(c.owner, c.name, c.value()) for c in observer.stores.counts()]
        counts += [(None, place, number) for place, number in own.items()]
        length = len(recorder.equations)
        self._looks[looked] = Look(length, noted, seen, roots, counters, versions, appended, tuple(counts))

    def over(self) -> None:
        """The loop is over: say why its rounds ran, if they did."""
        self.observer.loops.rolling -= 1
        if self.tested is not None:
            self.tested.over()
        if not self._left_out and self._reason:
            self.observer.loops.ran(self._reason, self._next, self._site)

    def left(self) -> None:
        """The loop is left by `break`."""
        later = self.recorder.later
        if later.whatever_size:
            later.whatever_size, self.recorder.operands = False, None
            later.catch_up()
        self.over()

    def may_replace(self, symbol: str, left: Any, right: Any) -> bool:
        """Whether a round may make a tensor where it says `left += right`; see `replaced.py`."""
        later, held = self.recorder.later, itertools.chain(*self._firsts.values())
        found = self._makes_anew() and may_replace(symbol, left, right, later, held)
        self._replaces = self._replaces or found
        return found

    def may_replace_part(self, symbol: str | None, owner: Any, key: Any, value: Any) -> bool:
        """The same where it says `owner[key] = value`, or `+=`."""
        later, held = self.recorder.later, itertools.chain(*self._firsts.values())
        found = self._makes_anew() and may_replace_part(symbol, owner, key, value, later, held)
        self._replaces = self._replaces or found
        return found

    def _makes_anew(self) -> bool:
        later = self.recorder.later
        return self.tested is None and ((later.on and later.whatever_size) or self._left_out > 0)

    def row(self, take: Any, owner: Any, key: Any, place: int, slopes: Sequence[int]) -> Any:
        """What `owner[key]` gives by `take`.

        slopes: by how much each index grows with what the round got from the source at `place`.
        """
        if self._count.is_open:
            if self._is_row(owner, key, place, slopes, False):
                return self._count.row(owner, self.items.subscript(owner, key, place, slopes))
            self._is_odd("its rounds find by their number what is no row of a tensor, and test data")
        found = take()
        if self._is_row(owner, key, place, slopes):
            number = len(self.recorder.equations) - 1
            self.items.found[number] = self.items.subscript(owner, key, place, slopes)
        else:
            self._is_odd("its rounds find by their number what is no row of a tensor")
        return found

    def write(
        self,
        store: Callable[[], Any],
        value: Any,
        owner: Any,
        key: Any,
        place: int,
        slopes: Sequence[int],
    ) -> Any:
        """What `store` gives, which writes a value into the row `owner[key]`; see `row`."""
        later, equations = self.recorder.later, self.recorder.equations
        reason = "its rounds write by their number what is no row of a tensor"
        if self._is_row(owner, key, place, slopes, False):
            reason = self.begins_to_write(owner, value)
        later.writes_rows = not reason
        try:
            stored = store()
        finally:
            later.writes_rows = False
        if not reason and later.on and equations[-1].op.name == "assign":
            row = self.items.subscript(owner, key, place, slopes)
            self.items.written[len(equations) - 1] = RowWrite(row, weakref.ref(owner))
        else:
            self._is_odd(reason or "its rounds write otherwise than in rows")
        return stored

    def begins_to_write(self, owner: Any, value: Any = None) -> str:
        """Have writes of rows into a tensor wait, if they can; why they do not, or ""."""
        later, recorder = self.recorder.later, self.recorder
        if type(owner) is not Tensor:
            return "its rounds write rows of what is no plain tensor"
        waits = later.whatever_size or (isinstance(value, Tensor) and later.has_waiting(value))
        if not later.on or not (waits or later.has_waiting(owner)):
            return "it is too short for tensors as small, or values were needed before"
        if recorder.is_outside(owner) or views.base_of(owner) is not owner:
            return "its rounds write rows of what was there before the call, or of a view"
        return "" if later.put_off(owner) else "its rounds write rows of memory that something else has, too"

    def _is_row(self, owner: Any, key: Any, place: int, slopes: Sequence[int], windows: bool = True) -> bool:
        """Whether a subscript finds a row of a tensor, or a window; see `row`."""
        from_range = type(self.items.sources[place]) is range
        return from_range and asks_for_row(key, slopes, windows) and self.observer.is_tensor(owner)

    def computed(
        self, symbol: str, compute: Callable[[Any, Any], Any], sides: Sequence[Any], leaves: bool
    ) -> Any:
        """What an operator gives by `compute`.

        sides: what it takes, each with the place of the source whose number it follows from, the function by
        which it does, and what else that takes; or None. leaves: whether the result goes to no other one.
        """
        result, is_odd = self._numbers.operated(symbol, compute, sides, leaves, self._next - 1)
        if is_odd:
            self._is_odd("its rounds use their number otherwise than in sums and products")
        return result

    def stepped(self, value: Any, before: Any, place: int, step: Any, others: tuple[Any, ...]) -> None:
        """A variable gets its next value, by what it was before alone; see `Recurrences`."""
        if not self.recurrences.stepped(COUNTED - 1 - place, before, value, step, others):
            self._is_odd("its rounds change a number in other ways")

    def mixed(self, value: Any) -> Any:
        """What a variable holds that may follow from the number of the round, and goes to no operator."""
        if type(value) is not Tensor:
            self._is_odd("its rounds use their number otherwise than in sums and products")
        return value

    def kept_number(self, number: Any, place: int) -> Any:
        """What a branch gives a variable, of the source at `place`: one that holds for all rounds alike."""
        source = self.items.sources[place]
        if type(source) is not range:
            return number
        if self.tested is None or not fits_float64(number):
            return self.mixed(number)
        return self._numbers.kept(number, source, self._next - 1)

    def looks(self, *sides: Any) -> None:
        """A round is about to compare its number: what with is the same in all replays."""
        numbers = self.observer.numbers
        # How many rounds an op has made is guarded by how that comes out.
        numbers.look(*(x for x in sides if (known := numbers.of(x)) is None or known.value is None))

    def compared(self, symbol: str, number: Any, modulus: Any, right: Any, place: int, slope: int) -> None:
        """A round has compared its number, or what is left of it when it is divided by `modulus`: both sides
        differ by `slope` times what it gets from the source at `place`, and by what is the same. If that is
        -1, it was a variable that is counted up, and they differ by `slope` more after each round.
        """
        source = range(1) if place == COUNTED else self.items.sources[place]
        whole = all(type(x) is int for x in (number, right, 1 if modulus is None else modulus))
        if type(source) is not range or not whole:
            self._is_odd("its rounds compare their number with what is no whole number")
            return
        difference, growth, now = number - right, slope * source.step, self._next - self._begins
        if modulus is not None and self.recorder.later.on:
            most = self.items.number - self._next + 1
            alike = alike_remainders(symbol, number, modulus, right, growth, most)
            self._alike.append((now, self._next - 1 + alike, period(modulus, growth)))
        elif modulus is None:
            if place != COUNTED:
                self._alike.append((now, self._next - 1 + alike_for(symbol, difference, growth), FAR))
            if self.tested is not None:
                self.tested.compared(symbol, difference, growth, self._next)

    def _is_odd(self, reason: str) -> None:
        """A round does what is not the same from round to round."""
        self._odd = self._next - self._begins, reason
        self._count.fix()

    def offset(self, value: Any) -> Any:
        """What is added to the number of the round, to find a row."""
        if type(value) is not int:
            self._is_odd("its rounds find rows by their number and by what is no whole number")
        return value

    def looks_at(self, items: list[Any], key: Any) -> None:
        """A round reads an item of such a list; the last ones are handed on."""
        if type(key) is int and -TURN <= key < 0:
            self.lists.reads(items, -key)
        elif type(key) is not int or not 0 <= key < len(items):
            self._is_odd("its rounds read other items of a list than the first and the last ones")
