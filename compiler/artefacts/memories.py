"""Memory that tensors share: those whose bytes overlap are told of by the first of them that was met."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from numpy.lib.array_utils import byte_bounds

from fusegrad.eager.core.tensor import Tensor


class Memories:
    """The memory of the tensors that have been met, as stretches that lie apart, in order."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        # Where each begins and ends, and who was first there.
        self._stretches: list[tuple[int, int, Tensor]] = []
        self._numbers: dict[int, int] = {}

    def told(self, tensor: Tensor, number: int) -> list[Any]:
        """With whom a tensor that is met now shares memory: the number of each, how far its own begins behind
        that one's, and whether they have one array and one count of writes.
        """
        self._numbers[id(tensor)] = number
        if not tensor.array.size:
            return []
        low, high = byte_bounds(tensor.array)
        place = bisect_left(self._begins, low)
        place -= bool(place and self._stretches[place - 1][1] > low)
        end = place
        while end < len(self._begins) and self._begins[end] < high:
            end += 1
        there = self._stretches[place:end]
        begins, ends = [low, *(s[0] for s in there)], [high, *(s[1] for s in there)]
        self._begins[place:end] = [min(begins)]
        self._stretches[place:end] = [(min(begins), max(ends), there[0][2] if there else tensor)]
        return [self._shared(tensor, low, first) for _, _, first in there]

    def _shared(self, tensor: Tensor, low: int, first: Any) -> list[Any]:
        behind = low - byte_bounds(first.array)[0]
        same = int(tensor.array is first.array), int(tensor.version is first.version)
        return [self._numbers[id(first)], behind, *same]
