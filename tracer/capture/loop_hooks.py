"""The hooks of loops in a twin: of rounds that may be left out, and of lists that they append to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.eager.core.handlers import behind
from fusegrad.eager.core.state import state
from fusegrad.tracer.capture.hooks import Hooks
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops import rolling
from fusegrad.tracer.loops.items import Items, Zipped, length, sources_of
from fusegrad.tracer.loops.replaced import with_part
from fusegrad.tracer.loops.tested_rounds import TestedLoop
from fusegrad.tracer.loops.turns import TURN, looks_after
from fusegrad.tracer.observe import calls, operations
from fusegrad.tracer.observe.lookup import ITERATORS, lookup
from fusegrad.tracer.observe.loops import Part
from fusegrad.tracer.observe.observer import Following, Observer, active
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.twin.plain_loops import Summary, Tested
from fusegrad.tracer.twin.sites import Site

# What goes over things together, or from the last one on.
_TOGETHER = (zip, enumerate, reversed)


class LoopHooks(Hooks):
    """All hooks of one function."""

    __slots__ = ()

    def rounds(self, value: Any, pattern: tuple[Any, ...], summary: Summary, site: int) -> Any:
        """What a plain loop (see `plain_loops.py`) iterates over."""
        return self.rounds_of(pattern, summary, None, value, site)

    def rounds_of(self, pattern: tuple[Any, ...], summary: Summary, function: Any, *rest: Any) -> Any:
        """What a plain loop iterates over: what the function gives of things that it goes over together; that
        itself, if there is none.
        """
        observer, (*given, site) = active(), rest
        if observer is None:
            return given[0] if function is None else function(*given)
        place = self.sites[site]
        found = _rounds(observer, function, given, pattern, summary, place)
        if found is not None:
            return found
        told, deeds = sources_of(function, given, pattern) is not None, observer.deeds
        given = [_zip(observer, x, place) if type(x) is Zipped else x for x in given]
        over = given[0] if function is None else calls.callee(observer, function, place)(*given)
        items = _unpacked(observer, over, pattern, told, place)
        if function in _TOGETHER and not any(type(x) in ITERATORS for x in given):
            observer.deeds = deeds  # the loop alone has the iterator
        return items

    def zipped(self, strict: bool, function: Any, *rest: Any) -> Any:
        """What `zip` gives of things, or these, where a plain loop may go over them."""
        *given, site = rest
        found, observer = Zipped(given, strict), active()
        if observer is None:
            return found.made(function)
        if function is zip and all(type(x) is range or observer.is_tensor(x) for x in given):
            return found
        return found.made(calls.callee(observer, function, self.sites[site]))

    @staticmethod
    def round_ended(rounds: Any, *carried: Any) -> tuple[Any, ...]:
        """The end of a round of a plain loop; what the next one takes over."""
        return rounds.ended(*carried) if isinstance(rounds, rolling.Rounds) else carried

    def counting(self, number: Any, step: int, summary: Summary, site: int) -> Any:
        """The numbers that a plain `while` loop counts; see `rounds`."""
        observer, place = active(), self.sites[site]
        if observer is None:
            return self._counted_on(number, step, site)
        if type(number) is int:
            observer.numbers.look(number)
            given = (_endless(number, step),)
            found = _rounds(observer, None, given, (), summary, place)
            if found is not None:
                return found
        reason = "its rounds ask for the number that they count, or values were needed before it"
        return observer.loops.counted(self._counted_on(number, step, site), reason, place)

    def tested_rounds(self, tested: Tested | None, site: int) -> Any:
        """What a plain `while` loop iterates over in place of its test; see `rounds`."""
        observer = active()
        if observer is None:
            return itertools.count()
        place = self.sites[site]
        found = None
        if tested is not None:
            given = (_endless(0, 1),)
            found = _rounds(observer, None, given, (), ((0,), (), tested), place)
        reason = "`while` asks in each round whether there is another; `for` over a range does not"
        return observer.loops.counted(itertools.count(), reason, place) if found is None else found

    def _counted_on(self, number: Any, step: int, site: int) -> Iterator[Any]:
        while True:
            yield number
            number = self.inplace("+", number, step, site)

    @staticmethod
    def rounds_left(rounds: Any) -> None:
        """A plain loop is left by `break`."""
        if isinstance(rounds, rolling.Rounds):
            rounds.left()

    @staticmethod
    def rolling(*loops: Any) -> Any:
        """The rounds of the first of these loops of which some may be left out."""
        return next((rounds for rounds in loops if isinstance(rounds, rolling.Rounds)), loops[0])

    def row(
        self,
        owner: Any,
        key: Any,
        rounds: Any,
        place: int,
        slopes: tuple[int, ...],
        is_written: bool,
        site: int,
    ) -> Any:
        """`owner[key]`, where the key grows with the number of the round, which may write rows there."""
        if isinstance(rounds, rolling.Rounds):
            if is_written:
                rounds.begins_to_write(owner)
            return rounds.row(lambda: self.item(owner, key, site), owner, key, place, slopes)
        return self.item(owner, key, site)

    def store_row(
        self, value: Any, owner: Any, key: Any, rounds: Any, place: int, slopes: tuple[int, ...], site: int
    ) -> None:
        """`owner[key] = value`, where the key grows with the number of the round."""
        if isinstance(rounds, rolling.Rounds):
            rounds.write(lambda: self.store_item(value, owner, key, site), value, owner, key, place, slopes)
        else:
            self.store_item(value, owner, key, site)

    def inplace_row(
        self,
        symbol: str,
        row: Any,
        value: Any,
        owner: Any,
        key: Any,
        rounds: Any,
        place: int,
        slopes: tuple[int, ...],
        site: int,
    ) -> Any:
        """`owner[key] += value` and the like, without the store, where the key grows likewise."""
        if not isinstance(rounds, rolling.Rounds):
            return self.inplace(symbol, row, value, site)
        return rounds.write(lambda: self.inplace(symbol, row, value, site), value, owner, key, place, slopes)

    def compare_number(
        self,
        symbol: str,
        number: Any,
        modulus: Any,
        right: Any,
        rounds: Any,
        place: int,
        slope: int,
        site: int,
    ) -> Any:
        """`number < right` and the like, which differ by `slope` more with the number of each round; with a
        modulus `number % modulus < right`, of which the first follows from that number.
        """
        is_followed = isinstance(rounds, rolling.Rounds)
        if is_followed:
            rounds.looks(number, modulus, right)
        left = number if modulus is None else self.binary("%", number, modulus, site)
        result = self.compare(symbol, left, right, site)
        if is_followed:
            rounds.compared(symbol, number, modulus, right, place, slope)
        return result

    def binary_of_number(
        self,
        symbol: str,
        left: Any,
        right: Any,
        rounds: Any,
        first: Any,
        second: Any,
        leaves: bool,
        site: int,
    ) -> Any:
        """`left * right` and the like, of which one side or both may follow from the number of the round."""
        if not isinstance(rounds, rolling.Rounds):
            return self.binary(symbol, left, right, site)
        sides = (left, first), (right, second)
        return rounds.computed(symbol, lambda x, y: self.binary(symbol, x, y, site), sides, leaves)

    def held(self, owner: Any, name: str, site: int) -> Any:
        """`owner.name`, if it is there, and nothing computes it; or None."""
        is_there = active() is not None and lookup(owner, name).where in ("instance", "module")
        return self.attribute(owner, name, site) if is_there else None

    @staticmethod
    def stepped(value: Any, before: Any, rounds: Any, place: int, step: Any, *others: Any) -> Any:
        """A variable gets its next value, by what it was before alone."""
        if isinstance(rounds, rolling.Rounds):
            rounds.stepped(value, before, place, step, others)
        return value

    @staticmethod
    def mixed(value: Any, rounds: Any) -> Any:
        """A variable is read that may hold what follows from the number of the round."""
        return rounds.mixed(value) if isinstance(rounds, rolling.Rounds) else value

    @staticmethod
    def kept_number(number: Any, rounds: Any, place: int) -> Any:
        """A branch gives a variable what follows from the number of the round."""
        return rounds.kept_number(number, place) if isinstance(rounds, rolling.Rounds) else number

    @staticmethod
    def offset(value: Any, rounds: Any) -> Any:
        """What such a key has besides the number of the round."""
        return rounds.offset(value) if isinstance(rounds, rolling.Rounds) else value

    def append(self, items: Any, value: Any, rounds: Any, seen: bool, site: int) -> None:
        """`items.append(value)`, the last that a round does with a value; see `Rounds.append`."""
        if not isinstance(rounds, rolling.Rounds) or not rounds.lists.append(items, value, seen):
            self.method(items, "append", site)(value)

    @staticmethod
    def made_in_round(items: list[Any], rounds: Any) -> list[Any]:
        """A list that is written out in a round, and appended to there."""
        return rounds.lists.made(items) if isinstance(rounds, rolling.Rounds) else items

    @staticmethod
    def complete(items: Any) -> Any:
        """A list that only one variable has is read, which may miss items."""
        observer = active()
        return items if observer is None else observer.loops.complete(items)

    def listed(self, items: list[Any], key: Any, rounds: Any, site: int) -> Any:
        """`items[key]` of such a list."""
        observer = active()
        if observer is None:
            return items[key]
        if isinstance(rounds, rolling.Rounds):
            rounds.looks_at(items, key)
        if observer.loops.missed(items):
            observer.numbers.look(key)
            if observer.loops.has(items, key):
                found = observer.loops.at(items, key)
                return observer.local(found) if type(key) is slice else found
            observer.loops.complete(items)
        return self.item(items, key, site)

    def part(self, items: list[Any], key: Any, site: int) -> Any:
        """`items[key]` of such a list, which is going to be joined."""
        observer = active()
        if observer is not None and observer.loops.missed(items):
            observer.numbers.look(key)
            if observer.loops.has(items, key):
                return Part(items, key)
            observer.loops.complete(items)
        return self.item(items, key, site)

    def join(self, function: Any, items: list[Any], is_part: bool, site: int) -> Any:
        """What to call in place of a function that joins the items of a list."""
        observer = active()
        if observer is None:
            return function
        found = observer.loops.join(function, items, is_part, observer.numbers.look)
        return calls.callee(observer, function, self.sites[site]) if found is None else found

    def not_plain(self, items: Any, reason: str, line: int, site: int) -> Any:
        """What a loop iterates over that is not plain."""
        observer = active()
        if observer is None:
            return items
        return observer.loops.counted(items, f"{reason} (line {line})", self.sites[site])

    def while_begins(self, site: int) -> Any:
        """What counts the rounds of a `while` loop."""
        observer = active()
        if observer is None:
            return None
        reason = "`while` asks in each round whether there is another; `for` over a range does not"
        return observer.loops.counted(itertools.repeat(True), reason, self.sites[site])

    @staticmethod
    def while_goes_on(rounds: Any) -> bool:
        """Another round of a `while` loop begins."""
        return rounds is None or next(rounds)

    def inplace_in_round(self, symbol: str, left: Any, right: Any, rounds: Any, site: int) -> Any:
        """The same of a variable of a plain loop, in whose rounds it stands."""
        if isinstance(rounds, rolling.Rounds) and rounds.may_replace(symbol, left, right):
            return self.binary(symbol, left, right, site)
        return self.inplace(symbol, left, right, site)

    def store_part(self, value: Any, owner: Any, key: Any, rounds: Any, site: int) -> Any:
        """`owner[key] = value` in such a round, of a variable, and what that holds then."""
        if isinstance(rounds, rolling.Rounds) and rounds.may_replace_part(None, owner, key, value):
            return with_part(owner, key, value)
        self.store_item(value, owner, key, site)
        return owner

    def change_part(self, symbol: str, value: Any, owner: Any, key: Any, rounds: Any, site: int) -> Any:
        """The same of `owner[key] += value`."""
        if isinstance(rounds, rolling.Rounds) and rounds.may_replace_part(symbol, owner, key, value):
            return with_part(owner, key, self.binary(symbol, owner[key], value, site))
        changed = self.inplace(symbol, self.item(owner, key, site), value, site)
        self.store_item(changed, owner, key, site)
        return owner


def _rounds(
    observer: Observer,
    function: Any,
    given: Sequence[Any],
    pattern: tuple[Any, ...],
    summary: Summary,
    site: Site,
) -> Any:
    """What a plain loop iterates over in place of what `function` gives of `given`, or of that itself; None
    where that is to run as ever.

    pattern: how a round takes apart what it gets. summary: see there; of a loop whose rounds branch it has
    what a `TestedLoop` says, and which of the things that it goes over must not be ranges for it to be one.
    """
    used, counters, tested = summary
    recorder = behind(state.interpreter)
    if type(recorder) is not Recorder:
        return None
    over = sources_of(function, given, pattern)
    if over is None:
        return None
    observer.numbers.look(*(x for x in given if type(x) is int))  # from where on `enumerate` counts
    number = min(map(length, over))
    loop = None
    if tested is not None and not any(type(over[i]) is range for i in tested[-1]):
        loop = TestedLoop(*tested[:-1])
    # Rounds that test data are computed as they are recorded: a turn of them pays for being left out.
    if number - looks_after(TURN)[-1] < (rolling.FEWEST if loop is None else TURN):
        return None
    lines = [line for source, line in zip(over, used, strict=True) if type(source) is range and line]
    if lines:
        reason = f"its rounds use their number, and not only to find rows (line {lines[0]})"
    elif recorder.later.on or loop is not None:
        return rolling.Rounds(
            observer, recorder, Items(recorder, over, number, pattern), site, counters, loop
        )
    else:
        reason = rolling.settled(recorder, before=True)
    if number < FAR:
        observer.loops.ran(reason, number, site)
    return None


def _endless(number: int, step: int) -> range:
    """The numbers that are counted from one on, which a loop leaves by `break`."""
    return range(number, number + FAR * step, step)


def _zip(observer: Observer, zipped: Zipped, site: Site) -> Any:
    deeds = observer.deeds
    made = zipped.made(calls.callee(observer, zip, site))
    observer.deeds = deeds  # the loop alone has the iterator
    return made


def _unpacked(observer: Observer, value: Any, pattern: tuple[Any, ...], told: bool, site: Site) -> Any:
    """What a plain loop iterates over whose rounds all run. told: whether that was noted."""
    reason = "it does not go over a range, or over rows of tensors"
    if pattern:
        found = operations.iterate_unpacked(observer, value, pattern, site)
    else:
        found = operations.iterate(observer, value, site)
    return found if told else observer.loops.counted(found, reason, site)


FOLLOWING = Following(calls.callee, LoopHooks)
