"""Families: calls whose arguments differ in the sizes of tensors and in Python numbers alone.

A new length or learning rate must not be compiled for. Numbers that are arguments by themselves are inputs
of a replay as soon as they have been others (`open_key`), unless a run has shown that it must know them. All
other such calls are deferred, with the numbers as inputs of the stretches and the sizes left open; what comes
again is captured, since a replay is faster.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fusegrad.compiler.explain.miss_reasons import MODES
from fusegrad.eager import forks
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.arrays.known import is_numbers

# How often arguments must come before calls with them are captured, and how many are remembered.
SEEN = 2
MOST = 1024
NUMBERS = (int, float)
ANY = "any"  # stands in a key for the value of a number that changes
FIXED = len(MODES)  # what stands in a key before the leaves
noting = forks.lock()  # held while a family notes a call


def family_key(key: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, ...] | None:
    """The key of a call without its sizes and numbers; None where it has neither."""
    kinds = tuple([_kind(leaf, part) for leaf, part in zip(leaves, key[FIXED:], strict=True)])
    return None if kinds == key[FIXED:] else ("family", *key[:FIXED], *kinds)


def _kind(leaf: Any, part: Any) -> Any:
    """What a leaf of the arguments is apart from its size or number; part: what its key says."""
    if isinstance(leaf, Tensor):
        shape, dtype, _, *rest = part
        return (len(shape), dtype, *rest) if shape else part
    if is_numbers(leaf):
        kind, shape, dtype, _, *rest = part
        return (kind, len(shape), dtype, *rest)
    return type(leaf) if type(leaf) in NUMBERS else part


class Coming:
    """How often a call has come with the same arguments and, as far as that is known, tensors outside of the
    same sizes. moves: whether those were of other sizes when it came last.
    """

    def __init__(self) -> None:
        self.count, self.moves = 0, False
        self._met: Any = None

    def waits(self) -> bool:
        """Note a call; whether it is not to be captured yet."""
        self.count += not self.moves
        return self.count <= SEEN

    def meets(self, sizes: Any) -> None:
        """Note the sizes that the deferred ops of the call had."""
        if self._met is not None and sizes != self._met:
            self.begin()
        else:
            self.moves = False
        self._met = sizes

    def begin(self) -> None:
        """Note that sizes were others."""
        self.count, self.moves = 0, True


class Family:
    """What is known of the calls of one family.

    shapes: for each tensor among the arguments its shape, None standing for sizes that differ. changing: the
    leaves that are numbers, others from call to call, and that a replay may take as inputs.
    """

    def __init__(self, first: tuple[Any, ...], leaves: list[Any], objects: Collection[int]) -> None:
        """first: the key of the call that was captured. objects: the leaves known by their identity."""
        self.shapes: list[tuple[int | None, ...] | None] = self._shapes(first, leaves)
        self.changing: frozenset[int] = frozenset()
        self._first, self._fixed, self._objects = first, frozenset[int](), objects
        self._seen: dict[Any, Coming] = {}

    def open_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of a call without the numbers that change."""
        return without(key, self.changing)

    def fix(self, places: Collection[int]) -> None:
        """Note that a run has to know the numbers at these leaves."""
        with noting:
            self._fixed |= frozenset(places)
            self.changing -= self._fixed

    def is_like_first(self, key: tuple[Any, ...]) -> bool:
        """Whether a call differs from the one that was captured in numbers alone that a replay takes."""
        return bool(self.changing) and self.open_key(key) == self.open_key(self._first)

    @staticmethod
    def _shapes(key: tuple[Any, ...], leaves: list[Any]) -> list[tuple[int | None, ...] | None]:
        parts = zip(leaves, key[FIXED:], strict=True)
        return [part[0] if isinstance(leaf, Tensor) else None for leaf, part in parts]

    @property
    def sizes_change(self) -> bool:
        """Whether the sizes of any tensor differ."""
        return any(shape is not None and None in shape for shape in self.shapes)

    def meets(self, key: tuple[Any, ...], leaves: list[Any]) -> bool:
        """Note a call; whether it may be of sizes that were not met before."""
        with noting:
            if self._kind(key) in self._seen:
                return False
            if len(self._seen) >= MOST:
                self._seen.clear()
            parts = enumerate(zip(leaves, key[FIXED:], self._first[FIXED:], strict=True))
            others = {i for i, (leaf, now, was) in parts if type(leaf) in NUMBERS and now != was}
            self.changing |= others & _arguments(key[0]) - self._fixed
            self._seen[self._kind(key)] = Coming()
            self.shapes = [
                None if old is None or new is None else _common(old, new)
                for old, new in zip(self.shapes, self._shapes(key, leaves), strict=True)
            ]
            return True

    def defers(self, key: tuple[Any, ...]) -> bool:
        """Whether a call is to be deferred, as long as its arguments do not come often."""
        with noting:
            return self.coming(key).waits()

    def coming(self, key: tuple[Any, ...]) -> Coming:
        """How often calls with these arguments have come."""
        return self._seen.setdefault(self._kind(key), Coming())

    def _kind(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The open key without the identity of objects, which may follow each other in one place."""
        return without(self.open_key(key), self._objects)


def without(key: tuple[Any, ...], changing: Collection[int]) -> tuple[Any, ...]:
    """The key of a call without the numbers at these leaves."""
    if not changing:
        return key
    parts = [*key]
    for place in changing:
        parts[FIXED + place] = (parts[FIXED + place][0], ANY)
    return tuple(parts)


def _arguments(structure: Any) -> set[int]:
    """The leaves that are arguments by themselves, from the key of the arguments' structure."""
    kind, _, parts = structure
    if kind is list:  # of positional arguments and keywords
        parts = (*parts[0][2], *parts[1][2])
    places, place = set[int](), 0
    for part in parts:
        if part is None:
            places.add(place)
        place += _count(part)
    return places


def _count(part: Any) -> int:
    """How many leaves a part of a structure has."""
    return 1 if part is None else sum(map(_count, part[2]))


def _common(old: tuple[int | None, ...], new: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return tuple([n if n == m else None for n, m in zip(old, new, strict=True)])
