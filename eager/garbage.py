"""Python's collector of reference cycles, asked less often for what it looks for in vain.

Each op that eager puts on the autograd graph leaves half a dozen small objects until backward, none of them
in a cycle: they go by their reference counts. Python's collector does not know that. It counts what was made
and is still there, and on a graph of some thousand ops it looks through all that the process holds at every
step: of the time of such a program that was up to a third. PyTorch's graph is not made of Python's objects.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# By how much full collections become rarer at most. A graph here has many times the objects that Python
# counts of the same program with PyTorch: old garbage, which may hold large arrays, waits as many steps as it
# does there, or fewer.
RAREST = 8


class Rarer:
    """Makes full collections rarer while they find nothing: after each, the next comes after twice as many of
    the younger generations. One that finds something has the usual number be in force again.

    Young garbage is found as soon as ever. Who sets thresholds himself is left alone: nothing is done while
    the number is not the one that was put there last.
    """

    def __init__(self) -> None:
        self._usual = self._last = gc.get_threshold()[2]

    def __call__(self, phase: str, told: dict[str, Any]) -> None:
        """What the collector calls before and after each collection."""
        if phase == "start" or told["generation"] < 2:
            return
        first, second, number = gc.get_threshold()
        if number != self._last:
            return
        found = told["collected"] or told["uncollectable"]
        self._last = self._usual if found else min(2 * number, RAREST * self._usual)
        gc.set_threshold(first, second, self._last)


def look_less_often() -> None:
    """Have it so in this process."""
    gc.callbacks.append(Rarer())


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Inside, the collector of reference cycles does nothing.

    The compiler makes many small objects that live until it ends. The collector would look through all of
    them, and through all that was imported, again and again: that took a quarter of the time.
    """
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with the collector put off until it is done. For what runs under the lock of compiling, and
    runs nothing of the user's.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with put_off():
            return function(*args, **kwargs)

    return call
