"""Packs: tuples and lists that rounds hand on go in; their parts come out, which go on like variables.

What rounds hand on as `state = (h, c)` is another tuple each time: that is made anew of the parts that it has
then. So is a list, but for one that stays the same and whose items are set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe import purity

# So many parts a pack has at the most.
MOST_PARTS = 32


class Pack(NamedTuple):
    """What stands for a pack among the variables; there is one of each."""

    kind: type
    number: int


_PACKS: dict[Pack, Pack] = {}


class Opened(NamedTuple):
    """What variables hold, with the parts of packs behind them.

    given: as it was; state: with packs in the place of what was taken apart; inner: where the parts begin.
    """

    given: list[Any]
    state: tuple[Any, ...]
    inner: dict[int, int]

    def closed(self, after: Sequence[Any], number: int, own: Callable[[Any], Any]) -> list[Any]:
        """The first values of what holds these parts now, so many: what was, if it holds what it did.

        own: called with each pack that is made.
        """
        made: dict[int, Any] = {}
        return [self._at(place, after, made, own) for place in range(number)]

    def _at(self, place: int, after: Sequence[Any], made: dict[int, Any], own: Callable[[Any], Any]) -> Any:
        # A method, as a function that calls itself is garbage that keeps what it has for a while.
        if place not in self.inner:
            return after[place]
        old = self.given[place]
        if id(old) not in made:
            begin = self.inner[place]
            parts = [self._at(i, after, made, own) for i in range(begin, begin + len(old))]
            same = all(a is b for a, b in zip(old, parts, strict=True))
            made[id(old)] = old if same else own(_packed(type(old), parts))
        return made[id(old)]


def opened(values: Sequence[Any], whole: Collection[int]) -> Opened:
    """Values with the parts of packs among them. whole: the ids of lists that stay what they are."""
    given, state, inner = [*values], [], {}
    for place, value in enumerate(given):
        if _is_pack(value) and id(value) not in whole:
            inner[place] = len(given)
            given.extend(value)  # which are gone over, too
            pack = Pack(type(value), len(value))
            value = _PACKS.setdefault(pack, pack)
        state.append(value)
    return Opened(given, tuple(state), inner)


def _is_pack(value: Any) -> bool:
    kind = type(value)
    if not (kind is tuple or kind is list or purity.is_namedtuple(value)) or len(value) > MOST_PARTS:
        return False
    return any(isinstance(part, Tensor) or _is_pack(part) for part in value)


def _packed(kind: type, parts: list[Any]) -> Any:
    return parts if kind is list else tuple.__new__(kind, parts)
