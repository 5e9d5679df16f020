"""Uninterrupted work: a function goes in and runs where no interrupt can come; its result comes out."""

from __future__ import annotations

import _thread
import functools
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Running(Generic[R]):
    """A function that runs in a thread of its own, where Python raises no KeyboardInterrupt.

    llvmlite takes its lock in Python code. One that was interrupted there would stay taken, and whoever
    compiles next would wait for ever.
    """

    def __init__(self, function: Callable[[], R]) -> None:
        self._made: list[R] = []
        self._failed: list[BaseException] = []
        # Threads and events of `threading` are Python code as well.
        self._done = threading.Lock()
        self._done.acquire()
        _thread.start_new_thread(self._run, (function,))

    def _run(self, function: Callable[[], R]) -> None:
        try:
            self._made.append(function())
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._done.release()

    @property
    def failed(self) -> bool:
        """Whether it has raised something."""
        return bool(self._failed)

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return bool(self._made or self._failed)

    def wait(self) -> list[BaseException]:
        """Wait for its end. Gives the interrupts that came meanwhile."""
        interrupts: list[BaseException] = []
        while not self.finished:
            try:
                # Of several who wait the lock wakes one; the others look again.
                self._done.acquire(timeout=0.01)
            except KeyboardInterrupt as interrupt:
                interrupts.append(interrupt)
        return interrupts

    def result(self) -> R:
        """What it gives. Raises what it raises, and interrupts that came while one waited."""
        for error in (*self.wait(), *self._failed):
            raise error
        return self._made[0]


class Finished(Generic[R]):
    """What would have run, and was known."""

    failed, finished = False, True

    def __init__(self, result: R) -> None:
        self._result = result

    def wait(self) -> list[BaseException]:
        """No time."""
        return []

    def result(self) -> R:
        """What it gives."""
        return self._result


def undisturbed(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in a thread of its own where it would be in Python's main one, for whose end one waits."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **kwargs)
        return Running(lambda: function(*args, **kwargs)).result()

    return call
