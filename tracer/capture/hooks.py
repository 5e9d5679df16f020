"""The hooks of a twin: each does what Python does there, and tells the thread's observer if there is one."""

from __future__ import annotations

import builtins
import itertools
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from fusegrad.tracer.loops import beginning, rolling
from fusegrad.tracer.loops.items import sources_of
from fusegrad.tracer.observe import attributes, calls, operations, purity
from fusegrad.tracer.observe.loops import Part
from fusegrad.tracer.observe.observer import Following, Observer, active
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.plain_loops import Tested
from fusegrad.tracer.twin.sites import Site, SiteTable


class Hooks:
    """The hooks of one function; what they are for stands in the modules that they call."""

    __slots__ = ("function", "sites")

    def __init__(self, function: FunctionType, sites: SiteTable):
        self.function, self.sites = function, sites

    # Names.

    def global_(self, name: str, value: Any, site: int) -> Any:
        """A global or builtin name, already loaded."""
        observer = active()
        return (
            value if observer is None else observer.read_global(self.function, name, value, self.sites[site])
        )

    def cell(self, name: str, value: Any, site: int) -> Any:
        """A variable of the function's closure, already loaded."""
        observer = active()
        return value if observer is None else observer.read_cell(self.function, name, value, self.sites[site])

    # Attributes and items.

    def attribute(self, owner: Any, name: str, site: int) -> Any:
        """``owner.name``"""
        observer = active()
        return (
            getattr(owner, name)
            if observer is None
            else attributes.load(observer, owner, name, self.sites[site])
        )

    def counted_attribute(self, owner: Any, name: str, site: int) -> Any:
        """`owner.name` of `owner.name += ...`"""
        observer = active()
        if observer is None:
            return getattr(owner, name)
        return attributes.load_counted(observer, owner, name, self.sites[site])

    def store_counted_attribute(self, value: Any, owner: Any, name: str, site: int) -> None:
        """The end of `owner.name += ...`"""
        observer = active()
        if observer is None:
            setattr(owner, name, value)
        else:
            attributes.store_counted(observer, value, owner, name, self.sites[site])

    def store_attribute(self, value: Any, owner: Any, name: str, site: int) -> None:
        """``owner.name = value``"""
        observer = active()
        if observer is None:
            setattr(owner, name, value)
        else:
            attributes.store(observer, value, owner, name, self.sites[site])

    def delete_attribute(self, owner: Any, name: str, site: int) -> None:
        """``del owner.name``"""
        observer = active()
        if observer is None:
            delattr(owner, name)
        else:
            attributes.delete(observer, owner, name, self.sites[site])

    def item(self, owner: Any, key: Any, site: int) -> Any:
        """``owner[key]``"""
        observer = active()
        return owner[key] if observer is None else operations.item(observer, owner, key, self.sites[site])

    def store_item(self, value: Any, owner: Any, key: Any, site: int) -> None:
        """``owner[key] = value``"""
        observer = active()
        if observer is None:
            owner[key] = value
        else:
            operations.store_item(observer, value, owner, key, self.sites[site])

    def delete_item(self, owner: Any, key: Any, site: int) -> None:
        """``del owner[key]``"""
        observer = active()
        if observer is None:
            del owner[key]
        else:
            operations.delete_item(observer, owner, key, self.sites[site])

    slice = builtins.slice

    # Calls.

    def callee(self, function: Any, site: int) -> Any:
        """What to call in place of ``function``."""
        observer = active()
        return function if observer is None else calls.callee(observer, function, self.sites[site])

    def method(self, owner: Any, name: str, site: int) -> Any:
        """What to call in place of ``owner.name``."""
        observer = active()
        if observer is None:
            return getattr(owner, name)
        place = self.sites[site]
        return calls.callee(observer, attributes.load(observer, owner, name, place), place)

    def mapping(self, value: Any, site: int) -> Any:
        """``**value``"""
        observer = active()
        return value if observer is None else operations.mapping(observer, value, self.sites[site])

    # Operators.

    def binary(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left + right`` and the like"""
        observer, function = active(), operations.BINARY[symbol]
        if observer is None:
            return function(left, right)
        return operations.apply(observer, function, symbol, (left, right), self.sites[site])

    def inplace(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left += right`` and the like, without the store"""
        observer = active()
        if observer is None:
            return operations.INPLACE[symbol](left, right)
        return operations.inplace(observer, symbol, left, right, self.sites[site])

    def inplace_in_round(self, symbol: str, left: Any, right: Any, rounds: Any, site: int) -> Any:
        """The same of a variable of a plain loop, in whose rounds it stands."""
        if isinstance(rounds, rolling.Rounds) and rounds.may_replace(symbol, left, right):
            return self.binary(symbol, left, right, site)
        return self.inplace(symbol, left, right, site)

    def unary(self, symbol: str, operand: Any, site: int) -> Any:
        """``-operand`` and the like"""
        observer, function = active(), operations.UNARY[symbol]
        if observer is None:
            return function(operand)
        return operations.apply(observer, function, symbol, (operand,), self.sites[site])

    def compare(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left < right`` and the like"""
        observer = active()
        if observer is None:
            return operations.COMPARE[symbol](left, right)
        return operations.compare(observer, symbol, left, right, self.sites[site])

    def identity(self, left: Any, right: Any, negate: bool, site: int) -> bool:
        """``left is right``, ``left is not right``"""
        observer = active()
        if observer is None:
            return (left is right) is not negate
        return operations.identity(observer, left, right, self.sites[site]) is not negate

    def contains(self, left: Any, right: Any, negate: bool, site: int) -> bool:
        """``left in right``, ``left not in right``"""
        observer = active()
        if observer is None:
            return (left in right) is not negate
        return operations.contains(observer, left, right, self.sites[site]) is not negate

    def truth(self, value: Any, site: int) -> bool:
        """``bool(value)``, as a condition asks for it"""
        observer = active()
        return bool(value) if observer is None else operations.truth(observer, value, self.sites[site])

    # Iteration.

    def iterate(self, value: Any, site: int) -> Any:
        """What is iterated over or unpacked, natively, afterwards."""
        observer = active()
        return value if observer is None else operations.iterate(observer, value, self.sites[site])

    def iterate_unpacked(self, value: Any, pattern: tuple[Any, ...], site: int) -> Any:
        """What a loop with a tuple target iterates over."""
        observer = active()
        if observer is None:
            return value
        return operations.iterate_unpacked(observer, value, pattern, self.sites[site])

    def rounds(
        self,
        value: Any,
        pattern: tuple[Any, ...],
        used: tuple[int, ...],
        tested: Tested | None,
        site: int,
    ) -> Any:
        """What a plain loop (see `plain_loops.py`) iterates over."""
        observer = active()
        if observer is None:
            return value
        place = self.sites[site]
        found = beginning.rounds(observer, None, (value,), pattern, used, place, tested)
        told = sources_of(None, (value,), len(pattern)) is not None
        return _unpacked(observer, value, pattern, told, place) if found is None else found

    def rounds_of(self, pattern: tuple[Any, ...], used: tuple[int, ...], function: Any, *rest: Any) -> Any:
        """What a plain loop iterates over: what the function gives of things that it goes over together."""
        observer, (*given, site) = active(), rest
        if observer is None:
            return function(*given)
        place = self.sites[site]
        found = beginning.rounds(observer, function, given, pattern, used, place)
        if found is not None:
            return found
        told = sources_of(function, given, len(pattern)) is not None
        return _unpacked(observer, calls.callee(observer, function, place)(*given), pattern, told, place)

    @staticmethod
    def round_ended(rounds: Any, *carried: Any) -> tuple[Any, ...]:
        """The end of a round of a plain loop; what the next one takes over."""
        return rounds.ended(*carried) if isinstance(rounds, rolling.Rounds) else carried

    def counting(self, number: Any, step: int, used: int, tested: Tested | None, site: int) -> Any:
        """The numbers that a plain `while` loop counts; see `rounds`."""
        observer, place = active(), self.sites[site]
        if observer is None:
            return self._counted_on(number, step, site)
        if type(number) is int:
            observer.numbers.look(number)
            given = (beginning.endless(number, step),)
            found = beginning.rounds(observer, None, given, (), (used,), place, tested)
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
            given = (beginning.endless(0, 1),)
            found = beginning.rounds(observer, None, given, (), (0,), place, tested)
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
        self, symbol: str, left: Any, right: Any, rounds: Any, place: int, slope: int, site: int
    ) -> Any:
        """`left < right` and the like, which differ by `slope` more with the number of each round."""
        if isinstance(rounds, rolling.Rounds):
            rounds.looks(left, right)
        result = self.compare(symbol, left, right, site)
        if isinstance(rounds, rolling.Rounds):
            rounds.compared(symbol, left, right, place, slope)
        return result

    def compare_remainder(
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
        """`number % modulus < right` and the like, where the first follows from the number of the round."""
        if not isinstance(rounds, rolling.Rounds):
            return self.compare(symbol, self.binary("%", number, modulus, site), right, site)
        rounds.looks(number, modulus, right)
        result = self.compare(symbol, self.binary("%", number, modulus, site), right, site)
        rounds.compared_remainder(symbol, number, modulus, right, place, slope)
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
        return rounds.computed(lambda: self.binary(symbol, left, right, site), sides, leaves)

    @staticmethod
    def mixed(value: Any, rounds: Any) -> Any:
        """A variable is read that may hold what follows from the number of the round."""
        return rounds.mixed(value) if isinstance(rounds, rolling.Rounds) else value

    @staticmethod
    def offset(value: Any, rounds: Any) -> Any:
        """What such a key has besides the number of the round."""
        return rounds.offset(value) if isinstance(rounds, rolling.Rounds) else value

    def append(self, items: Any, value: Any, rounds: Any, seen: bool, site: int) -> None:
        """`items.append(value)`, the last that a round does with a value; see `Rounds.append`."""
        if not isinstance(rounds, rolling.Rounds) or not rounds.append(items, value, seen):
            self.method(items, "append", site)(value)

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

    def unpacked(self, value: Any, pattern: tuple[Any, ...], site: int) -> Any:
        """What a tuple target takes apart."""
        observer = active()
        return value if observer is None else operations.unpacked(observer, pattern, self.sites[site], value)

    # New objects.

    def local(self, value: Any, site: int) -> Any:
        """The value of a display, comprehension or lambda."""
        observer = active()
        if observer is not None:
            observer.local(value)
            if isinstance(value, (set, dict)):
                for key in value:
                    operations.check_key(observer, key, self.sites[site])
        return value

    def new_function(self, function: FunctionType) -> FunctionType:
        """A nested function, just defined."""
        observer = active()
        return function if observer is None else observer.local(function)

    def entry(self, *containers: Any) -> None:
        """``*args`` and ``**kwargs`` of the call that begins."""
        observer = active()
        if observer is not None:
            for container in containers:
                observer.local(container)

    # Text, context managers, exceptions.

    def formatted(self, value: Any, site: int) -> Any:
        """A value that an f-string is about to format."""
        observer = active()
        if observer is not None and is_plain(value):
            observer.numbers.look(value)
        elif observer is not None:
            place = self.sites[site]
            if observer.is_tensor(value):
                observer.open("formats a tensor", place)
            else:
                observer.consume(value, place, "formats", tensors=False)
        return value

    def context(self, manager: Any, site: int) -> Any:
        """A context manager that is about to be entered."""
        observer = active()
        if observer is not None and not purity.is_known_context(manager):
            observer.open(f"enters a {type(manager).__name__}, whose effects are not known", self.sites[site])
        return manager

    def raised(self, error: Any, site: int) -> Any:
        """An exception (or its class) that a raise statement is about to raise."""
        observer = active()
        if observer is None:
            return error
        if isinstance(error, type) and issubclass(error, BaseException) and purity.is_pure_type(error):
            error = error()
        if isinstance(error, BaseException) and observer.is_known(error):
            observer.explain(error)
        return error

    def caught(self, site: int) -> None:
        """The start of an except clause."""
        observer = active()
        if observer is not None and not observer.is_explained(sys.exc_info()[1]):
            observer.open("catches an exception whose cause is not guarded", self.sites[site])


def _unpacked(observer: Observer, value: Any, pattern: tuple[Any, ...], told: bool, site: Site) -> Any:
    """What a plain loop iterates over whose rounds all run. told: whether that was noted."""
    reason = "it does not go over a range, or over rows of tensors"
    if pattern:
        found = operations.iterate_unpacked(observer, value, pattern, site)
    else:
        found = operations.iterate(observer, value, site)
    return found if told else observer.loops.counted(found, reason, site)


FOLLOWING = Following(calls.callee, Hooks)
