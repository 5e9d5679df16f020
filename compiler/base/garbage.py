"""Compiling without Python's garbage collector."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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
