"""Items of rounds: what a plain loop goes over goes in, what a round gets of it comes out."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusegrad.eager.autograd import views
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.eager.ops.shape.slicing import basic_index
from fusegrad.tracer.ir.tested import FAR
from fusegrad.tracer.loops.round_numbers import Computed
from fusegrad.tracer.loops.rows import RowRead, RowWrite
from fusegrad.tracer.observe.operations import COMPARE
from fusegrad.tracer.record.recorder import Recorder

if TYPE_CHECKING:
    from fusegrad.tracer.loops.tested_rounds import TestedRounds


def sources_of(function: Any, given: Sequence[Any], targets: int) -> Sequence[Any] | None:
    """The ranges and tensors that rounds get their items of; None where they get other things."""
    first = 0
    if function is enumerate and len(given) == 2 and type(given[1]) is int:
        first, given = given[1], given[:1]
    if not all(type(x) is range or (isinstance(x, Tensor) and x.array.ndim) for x in given) or not given:
        return None
    if function is None:
        return given if not targets else None
    if function is enumerate and len(given) == 1 and targets == 2:
        return range(first, first + length(given[0])), given[0]
    if function is zip and len(given) == targets:
        return given
    if function is reversed and len(given) == 1 and type(given[0]) is range and not targets:
        return [given[0][::-1]]
    return None


def length(source: range | Tensor) -> int:
    if isinstance(source, Tensor):
        return len(source)
    return (source[-1] - source[0]) // source.step + 1 if source else 0  # `len` cannot say that of all


class Items:
    """What rounds get: numbers of ranges and rows of tensors."""

    def __init__(self, recorder: Recorder, sources: Sequence[Any], number: int, alone: bool) -> None:
        self._recorder, self.sources, self.number, self._alone = recorder, sources, number, alone
        self._arrays: list[Any] = [x.array if isinstance(x, Tensor) else None for x in sources]
        # By the number of an equation, which row it found or wrote, and which number it was given.
        self.found: dict[int, RowRead] = {}
        self.written: dict[int, RowWrite] = {}
        self.numbers: dict[int, Computed] = {}

    def item(self, number: int, tested: TestedRounds | None) -> Any:
        """What a round gets. tested: of a loop that tests data, whose rounds may follow from how many were
        left out.
        """
        number_of = operator.getitem if tested is None else tested.number_of
        at = None if tested is None or not tested.is_counted else tested.position(number)
        sources = enumerate(self.sources)
        items = [number_of(x, number) if type(x) is range else self._row(i, number, at) for i, x in sources]
        return items[0] if self._alone else tuple(items)

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
        entries: Any = basic_index(number, tensor.array.shape)
        self.found[len(self._recorder.equations) - 1] = RowRead(entries, 0, (number,), 1, len(tensor))
        return views.several([row], "UnbindBackward0")[0]


def alike_for(symbol: str, difference: int, growth: int) -> int:
    """For how many rounds, this one included, a comparison with zero has one outcome."""
    now = COMPARE[symbol](difference, 0)
    if not growth or (COMPARE[symbol](difference + FAR * growth, 0) == now and symbol not in ("==", "!=")):
        return FAR
    if symbol in ("==", "!="):
        zero = difference % growth == 0 and -difference // growth >= 0
        return FAR if not zero else max(1, -difference // growth)
    # Where it comes to zero or past it.
    near = -difference // growth
    return next(
        n for n in range(max(1, near - 1), near + 3) if COMPARE[symbol](difference + n * growth, 0) != now
    )


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


def asked(part: Any) -> tuple[Any, ...]:
    """An index, or the ends of a slice."""
    return (part.start, part.stop) if type(part) is slice else (part,)
