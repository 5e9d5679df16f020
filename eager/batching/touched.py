"""Who has read and written memory that examples share: side by side they must not differ from one by one."""

from __future__ import annotations

import weakref

import numpy as np

from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import failure

_CONFLICT = (
    "batched: example {later} has {done} a tensor of shape {shape} before example {earlier} came to {doing} "
    "it. Examples run side by side, as far as their questions of values go, so one must not see what another "
    "writes. Write such a tensor outside of the batched function, or call the function for one example after "
    "the other"
)


class _Known:
    """The last example that has read some memory, and the last that has written it."""

    __slots__ = ("owner", "read", "written")

    def __init__(self, owner: weakref.ref[np.ndarray]) -> None:
        self.owner, self.read, self.written = owner, -1, -1


class Touched:
    """For memory from outside: which example, of all that have read it and that have written it, is the
    last."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}  # by the id of the array that owns the memory
        self.is_written = False  # whether any example has written any

    def _of(self, array: np.ndarray) -> _Known:
        owner = shared.owner(array)
        key = id(owner)
        known = self._known.get(key)
        if known is None:
            forget = self._known.pop
            known = self._known[key] = _Known(weakref.ref(owner, lambda _: forget(key, None)))
        return known

    def read(self, array: np.ndarray, example: int) -> None:
        """Raises RuntimeError if a later example has written it."""
        known = self._of(array)
        if known.written > example:
            raise _conflict(array, example, "read", known.written, "written")
        known.read = max(known.read, example)

    def has_read(self, array: np.ndarray, example: int) -> None:
        """Note a read that came before all that was written since."""
        known = self._of(array)
        known.read = max(known.read, example)

    def write(self, array: np.ndarray, example: int) -> None:
        """Raises RuntimeError if a later example has read or written it."""
        known = self._of(array)
        for last, done in ((known.written, "written"), (known.read, "read")):
            if last > example:
                raise _conflict(array, example, "write", last, done)
        self.is_written = True
        known.written = example


def _conflict(array: np.ndarray, example: int, doing: str, last: int, done: str) -> Exception:
    text = _CONFLICT.format(later=last, done=done, shape=list(array.shape), earlier=example, doing=doing)
    return failure(RuntimeError, text)
