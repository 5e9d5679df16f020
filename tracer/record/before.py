"""What a recorded run found before it changed it, so that the same call can be answered once more.

The run has computed, written memory and set gradients by itself. Where its replay is to give the call's
result instead, memory and gradients must be what they were; what Python gave (random numbers, an optimizer's
numbers) is handed to the replay as it was, so that no generator is asked twice and no schedule steps twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.hosts import Gradient, Host

if TYPE_CHECKING:
    from fusegrad.tracer.record.memory import Known


class Before:
    """Kept while the run goes on.

    given: for each host whose values lie in no memory of the world, a copy of what it gave.
    """

    def __init__(self, gradients: Mapping[int, Gradient]) -> None:
        """gradients: where the run notes the `.grad`s that it looks at or sets."""
        self.given: dict[Host, np.ndarray] = {}
        self._gradients = gradients
        self._arrays: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by id: what is written, and a copy

    def note_write(self, known: Known) -> None:
        """An array is going to be written, maybe for the first time."""
        root = known.root()
        if root.outside:
            array = root.array
            if id(array) not in self._arrays:
                self._arrays[id(array)] = array, array.copy()

    def has(self, known: Known) -> bool:
        """Whether a copy was taken of an array, if it needs one."""
        root = known.root()
        return not root.outside or id(root.array) in self._arrays

    def put_back(self) -> Callable[[], None]:
        """Make memory and gradients what they were; gives what makes them again what the run left."""
        arrays = [(array, copy, array.copy()) for array, copy in self._arrays.values()]
        gradients: list[tuple[Tensor, Tensor | None, Tensor | None]] = [
            (g.tensor, g.before, g.tensor.grad) for g in self._gradients.values()
        ]

        def make(then: bool) -> None:
            for array, before, after in arrays:
                array[...] = before if then else after
            for tensor, first, last in gradients:
                tensor.grad = first if then else last

        make(True)
        return lambda: make(False)
