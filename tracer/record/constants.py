"""Constants of a run: arrays of Python data go in; the values of the graph that stand for them come out."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.tracer.ir.graph import Value

# So many elements are looked at, to tell whether two constants are the same.
SMALL = 256


class Constants(dict[Value, np.ndarray]):
    """What the values hold, by the value."""

    def __init__(self) -> None:
        super().__init__()
        self._by_content: dict[Any, Value] = {}

    def same(self, array: np.ndarray) -> Value | None:
        """The value that stands for such an array, if there is one, and the array is small."""
        return self._by_content.get(self._key(array))

    def add(self, value: Value, array: np.ndarray) -> None:
        """Note that a value stands for an array, as that is now."""
        self._by_content[self._key(array)] = value
        self[value] = array.copy()

    def _key(self, array: np.ndarray) -> Any:
        content = array.tobytes() if array.size <= SMALL else len(self)
        return array.dtype, array.shape, content
