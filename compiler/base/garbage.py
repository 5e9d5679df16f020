"""Compiling without Python's garbage collector."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with the collector of reference cycles put off until it is done.

    The compiler makes many small objects that live until it ends. The collector would look through all of
    them, and through all that was imported, again and again: that took a quarter of the time. For what runs
    under the lock of compiling, and runs nothing of the user's.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        collects = gc.isenabled()
        try:
            gc.disable()
            return function(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return call
