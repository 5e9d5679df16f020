"""Families: calls whose arguments differ in the sizes of tensors and in Python numbers alone.

A new length or learning rate must not be compiled for. Such calls are deferred, with the numbers as inputs
of the stretches and the sizes left open; arguments that come again are captured, since a replay is faster.
"""

from __future__ import annotations

from typing import Any

from fusegrad.compiler.base import lock
from fusegrad.compiler.explain.miss_reasons import MODES
from fusegrad.eager.core.tensor import Tensor

# How often arguments must come before calls with them are captured, and how many are remembered.
SEEN = 2
MOST = 1024
NUMBERS = (int, float)
FIXED = len(MODES)  # what stands in a key before the leaves
noting = lock.made()  # held while a family notes a call


def family_key(key: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, ...] | None:
    """The key of a call without its sizes and numbers; None where it has neither."""
    kinds = tuple([_kind(leaf, part) for leaf, part in zip(leaves, key[FIXED:], strict=True)])
    return None if kinds == key[FIXED:] else ("family", *key[:FIXED], *kinds)


def _kind(leaf: Any, part: Any) -> Any:
    """What a leaf of the arguments is apart from its size or number; part: what its key says."""
    if isinstance(leaf, Tensor):
        shape, dtype, _, *rest = part
        return (len(shape), dtype, *rest) if shape else part
    return type(leaf) if type(leaf) in NUMBERS else part


class Family:
    """What is known of the calls of one family.

    shapes: for each tensor among the arguments its shape, None standing for sizes that differ.
    """

    def __init__(self, first: tuple[Any, ...], leaves: list[Any]) -> None:
        """first: the key of the call that was captured."""
        self.shapes: list[tuple[int | None, ...] | None] = self._shapes(first, leaves)
        self._seen: dict[Any, int] = {}

    @staticmethod
    def _shapes(key: tuple[Any, ...], leaves: list[Any]) -> list[tuple[int | None, ...] | None]:
        parts = zip(leaves, key[FIXED:], strict=True)
        return [part[0] if isinstance(leaf, Tensor) else None for leaf, part in parts]

    @property
    def sizes_change(self) -> bool:
        """Whether the sizes of any tensor differ."""
        return any(shape is not None and None in shape for shape in self.shapes)

    def defers(self, key: tuple[Any, ...], leaves: list[Any]) -> bool:
        """Note a call; whether it is to be deferred, as long as its arguments do not come often."""
        with noting:
            if key not in self._seen:
                if len(self._seen) >= MOST:
                    self._seen.clear()
                self._seen[key] = 0
                self.shapes = [
                    None if old is None or new is None else _common(old, new)
                    for old, new in zip(self.shapes, self._shapes(key, leaves), strict=True)
                ]
            self._seen[key] += 1
            return self._seen[key] <= SEEN


def _common(old: tuple[int | None, ...], new: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return tuple([n if n == m else None for n, m in zip(old, new, strict=True)])
