"""What a jitted call has exchanged with other ranks, for its next attempt to take over.

Compiled code may stop in the middle of a call, where a guard comes out otherwise than in the runs that it was
made of. Then another path is tried, or the function itself runs, from the start. But the other ranks have had
what was exchanged by then, and have gone on, and what functions do that nobody knows is done
(`tracer/observe/world/unknown_calls.py`). So all attempts at one call share a journal: an attempt takes what
an earlier one has exchanged, in order, before it exchanges anything itself. Which exchanges a call makes
follows from the program, never from who answers it; so no rank has to know whether another one compiles,
replays or has missed a guard, and nobody waits for a rank that does not come.

Attempts compute the same to rounding. Where a rounding decides which exchange comes next, what is asked for
is not what is there: that is an error, not another rank's numbers in the wrong place.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fusegrad.eager.core.errors import failure

several = [False]  # whether this process is one of several ranks, or has calls that are made once
_SAMPLED = 64  # elements that are compared of what is sent
_ROUNDING = 1e-2  # what two attempts may differ by, in parts of the largest of these


class Going(Protocol):
    """An exchange that goes on. is_recorded: whether only a run that is recorded can take it over."""

    is_recorded: bool

    def wait(self) -> None:
        """Have it done."""


class _Made(NamedTuple):
    """An exchange that was begun: which it was, some of the numbers that were sent, where things come."""

    what: str
    sent: list[np.ndarray]
    exchange: Going
    came: Any


class Journal(threading.local):
    """That of a thread. A call within another one, which runs its body, goes on in the journal of that."""

    def __init__(self) -> None:
        self._made: list[_Made] = []
        self._at = 0  # how many of them the present attempt has made, or taken over
        self._begins: list[int] = []  # of the calls that go on, where each began
        self.is_last = False  # whether no other attempt can follow the present one

    def begin(self) -> None:
        """A jitted call begins."""
        self._begins.append(self._at)

    def end(self) -> None:
        """It is over."""
        begin = self._begins.pop()
        self.is_last = False
        # Who has called it does not try that again: it runs its body, or is called by a replay itself.
        del self._made[begin : self._at]
        self._at = begin
        if not self._begins:
            self._made.clear()

    def again(self) -> None:
        """What has been tried is given up; the call is tried once more from its start."""
        self.is_last = False
        if self._begins:
            self._at = self._begins[-1]

    def taken(self, what: str, sent: Sequence[np.ndarray]) -> Any:
        """What an earlier attempt got by this exchange, if that has made it."""
        if self._at == len(self._made):
            return None
        made = self._made[self._at]
        if made.what != what or not all(map(_alike, made.sent, map(_sample, sent))):
            raise self._another(what)
        self._at += 1
        made.exchange.wait()
        return made.came

    def must_be_over(self, what: str) -> None:
        """Raise RuntimeError where an earlier attempt has gone on otherwise than by this, which is new."""
        if self._at != len(self._made):
            raise self._another(what)

    def _another(self, what: str) -> Exception:
        return failure(
            RuntimeError,
            f"{what}: a replay of this jitted call has made another exchange at this place "
            f"({self._made[self._at].what}) before it was given up, so a rounding decides which comes next. "
            "Have it decided by what is the same each time, or use_deterministic_algorithms(True)",
        )

    def note(self, what: str, sent: list[np.ndarray], exchange: Going, came: Any) -> None:
        """An exchange has begun. sent: of `sample`."""
        if self.keeps:
            self._made.append(_Made(what, sent, exchange, came))
            self._at += 1

    def sample(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What is kept of arrays that are sent."""
        return [_sample(array) for array in arrays] if self.keeps else []

    def kept(self, came: list[np.ndarray]) -> list[np.ndarray]:
        """What came of an exchange that was noted, for somebody who may write it."""
        return [array.copy() for array in came] if self.keeps else came

    def owes(self) -> bool:
        """Whether an earlier attempt has made a call that only a run that is recorded can take over."""
        return len(self._made) > self._at and bool(self.owed())

    def owed(self) -> list[Any]:
        """What has come of such calls."""
        return [made.came for made in self._made[self._at :] if made.exchange.is_recorded]

    def last(self) -> Any:
        """What came last."""
        return self._made[self._at - 1].came

    @property
    def keeps(self) -> bool:
        """Whether another attempt may follow, which takes over what is noted."""
        return bool(self._begins) and not self.is_last


def _sample(array: np.ndarray) -> np.ndarray:
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLED)].copy()


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    finite = np.abs(one[np.isfinite(one)])
    most = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(one, other, 0.0, most * _ROUNDING, equal_nan=True))


journal = Journal()
