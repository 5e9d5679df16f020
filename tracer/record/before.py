"""What a recorded run found before it changed it, so that the same call can be answered once more.

The run has computed, written memory and set gradients by itself. Where its replay is to give the call's
result instead, memory and gradients must be what they were; what Python gave (random numbers, an optimizer's
numbers) is handed to the replay as it was, so that no generator is asked twice and no schedule steps twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
        # By id, what is written: the array, a copy, and what counts the writes.
        self._arrays: dict[int, tuple[np.ndarray, np.ndarray, list[Any]]] = {}
        self._counts: list[int] = []
        self._set: list[tuple[Tensor, Tensor | None, Tensor | None]] = []

    def note_write(self, known: Known, version: list[Any]) -> None:
        """An array is going to be written, maybe for the first time."""
        root = known.root()
        if root.outside:
            array = root.array
            if id(array) not in self._arrays:
                self._arrays[id(array)] = array, array.copy(), version

    def has(self, known: Known) -> bool:
        """Whether a copy was taken of an array, if it needs one."""
        root = known.root()
        return not root.outside or id(root.array) in self._arrays

    def over(self) -> None:
        """The run is over: what is changed from now on is not its doing."""
        self._counts = [version[0] for _, _, version in self._arrays.values()]
        self._set = [(g.tensor, g.before, g.tensor.gradient) for g in self._gradients.values()]

    def put_back(self) -> Callable[[], None] | None:
        """Make memory and gradients what they were; gives what makes them again what the run left.

        None, with nothing changed, where somebody else (a signal handler) has changed them since. Python
        calls those where a call has returned, and so nowhere between a look and what follows from it here.
        """
        written: list[tuple[np.ndarray, np.ndarray]] = []
        replaced: list[tuple[Tensor, Tensor | None]] = []

        def do_again() -> None:
            for array, values in written:
                array[...] = values
            for tensor, gradient in replaced:
                tensor.gradient = gradient

        for (array, values, version), count in zip(self._arrays.values(), self._counts, strict=True):
            written.append((array, array.copy()))
            if version[0] != count:
                del written[-1]
                do_again()
                return None
            array[...] = values
        for tensor, first, last in self._set:
            replaced.append((tensor, last))
            if tensor.gradient is not last:
                del replaced[-1]
                do_again()
                return None
            tensor.gradient = first
        return do_again
