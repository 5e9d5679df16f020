"""Items of rounds: what a plain loop goes over goes in, what a round gets of it comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.autograd import views
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops.affine import RowRead, RowWrite, TripCount
from fusegrad.tracer.observe.operations import COMPARE
from fusegrad.tracer.record.recorder import Recorder

# How a round takes apart what it gets: () for a variable, the patterns of its parts for a tuple.
Pattern = tuple[Any, ...]


class Zipped(NamedTuple):
    """What `zip` is to go over, which a loop has not asked for yet. strict: see there."""

    given: Sequence[Any]
    strict: bool

    def made(self, function: Callable[..., Any] = zip) -> Any:
        """What `zip` gives."""
        return function(*self.given, strict=True) if self.strict else function(*self.given)


def sources_of(function: Any, given: Sequence[Any], pattern: Pattern) -> Sequence[Any] | None:
    """The ranges and tensors that rounds get their items of; None where they get other things.

    pattern: with these for its names.
    """
    if function is None and len(given) == 1 and type(given[0]) is Zipped:
        zipped = given[0]
        found = sources_of(zip, zipped.given, pattern)
        lengths = {length(x) for x in found or ()}
        return found if len(lengths) == 1 or not zipped.strict else None
    if function is enumerate and len(pattern) == 2 and not pattern[0]:
        over = sources_of(None, given[:1], pattern[1])
        first = given[1] if len(given) == 2 else 0
        if over is None or len(given) > 2 or type(first) is not int:
            return None
        return range(first, first + min(map(length, over))), *over
    if not all(type(x) is range or (isinstance(x, Tensor) and x.array.ndim) for x in given) or not given:
        return None
    if function is None:
        return given if not pattern else None
    if function is zip and len(given) == len(pattern) and not any(pattern):
        return given
    if function is reversed and len(given) == 1 and type(given[0]) is range and not pattern:
        return [given[0][::-1]]
    return None


def length(source: range | Tensor) -> int:
    if isinstance(source, Tensor):
        return len(source)
    return (source[-1] - source[0]) // source.step + 1 if source else 0  # `len` cannot say that of all


class Items:
    """What rounds get: numbers of ranges and rows of tensors."""

    def __init__(self, recorder: Recorder, sources: Sequence[Any], number: int, pattern: Pattern) -> None:
        self._recorder, self.sources, self.number, self._pattern = recorder, sources, number, pattern
        self._arrays: list[Any] = [x.array if isinstance(x, Tensor) else None for x in sources]
        self._versions = [x.version[0] if isinstance(x, Tensor) else 0 for x in sources]
        # By the number of an equation, which row it found or wrote.
        self.found: dict[int, RowRead] = {}
        self.written: dict[int, RowWrite] = {}

    def item(self, number: int, count: TripCount) -> Any:
        """What a round gets, which may follow from how many were left out."""
        at = count.position(number) if count.is_open else None
        items = [
            count.number_of(x, number) if type(x) is range else self._row(i, number, at)
            for i, x in enumerate(self.sources)
        ]
        return _as(self._pattern, iter(items))

    def subscript(self, owner: Tensor, key: Any, place: int, slopes: Sequence[int]) -> RowRead:
        """What `owner[key]` finds, whose entries grow so much with what the range at `place` gives."""
        return RowRead.of(owner, key, slopes, self.sources[place].step)

    def _row(self, place: int, number: int, at: Tensor | None) -> Tensor:
        """A row as `unbind` gives it, which has taken all when the loop began: the memory of that time."""
        tensor = self.sources[place]
        self._recorder.later.meets((tensor,))
        now, then = tensor.array, self._arrays[place]
        known = self._recorder.memory.find(then)
        if known is None:
            self._arrays[place] = now
        elif known is not self._recorder.memory.find(now):
            tensor.array = then
        try:
            row: Tensor
            if at is None:
                row = ops.select(tensor, 0, number)
            else:
                row = bind(SELECT_AT, (tensor, at), {"dim": 0})
        finally:
            tensor.array = now
        self.found[len(self._recorder.equations) - 1] = RowRead.of(tensor, number, (1,), 1)
        views.several([row], "UnbindBackward0", number)
        if tensor.version[0] != self._versions[place] and views.base_of(tensor).needs_grad:
            views.refuse(row)  # as one that was there when that was written
        return row


def _as(pattern: Pattern, items: Iterator[Any]) -> Any:
    """Items, one after the other, as the parts of what a round takes apart so."""
    return tuple([_as(part, items) for part in pattern]) if pattern else next(items)


def alike_for(symbol: str, difference: int, growth: int) -> int:
    """For how many rounds, this one included, a comparison with zero has one outcome."""
    now = COMPARE[symbol](difference, 0)
    near = -difference // growth if growth else 0  # where it comes to zero, or past it
    outcomes = ((n, COMPARE[symbol](difference + n * growth, 0)) for n in range(max(1, near - 1), near + 3))
    return next((n for n, outcome in outcomes if outcome != now), FAR)


def alike_remainders(symbol: str, number: int, modulus: int, right: int, growth: int, most: int) -> int:
    """For how many rounds, of so many, this one included, a comparison of a remainder has one outcome."""
    compare = COMPARE[symbol]
    now, comes_again = compare(number % modulus, right), period(modulus, growth)
    outcomes = (compare((number + n * growth) % modulus, right) for n in range(1, min(most, comes_again)))
    other = next((n for n, outcome in enumerate(outcomes, 1) if outcome != now), None)
    return other or (FAR if comes_again <= most else most)


def period(modulus: int, growth: int) -> int:
    """After how many rounds the remainders come again of a number that grows."""
    return abs(modulus) // math.gcd(modulus, growth)
