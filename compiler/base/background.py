"""Compiling now or later: a piece of work goes in; what came of it is asked for when it is done.

What is short is done at once, in the thread that asks. What may take longer than a call waits for the
compiler (`set_compile_budget`) is done in a thread beside the program, one piece after the other. The call
waits for as long as it may, and goes on without it; a later call finds it done, and takes it over. What the
next call waits for does not wait behind that: it is done in a thread beside.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.uninterrupted import Running
from fusegrad.eager.core.settings import budget, setting

R = TypeVar("R")

# So many recorded ops are compiled in a second at least, also on a slow machine that does other things, too.
OPS_PER_SECOND = 100


class _Thread(threading.local):
    """Whether the current thread compiles beside the program."""

    aside = False


_thread = _Thread()


def here() -> bool:
    """Whether this is a thread that compiles beside the program, for which no call waits."""
    return _thread.aside


class Work(Generic[R]):
    """Something to compile.

    title: whose it is; ops: how many there are, and `most`, how many of them come from the line `line`.
    stage: what of it is at work, in words. lost: whether the thread that was at work is another process's.
    taken: whether somebody has asked what came of it. left: whether its call has gone on without it.
    """

    def __init__(
        self, function: Callable[[Work[R]], R], title: str, ops: int = 0, line: str = "", most: int = 0
    ) -> None:
        self.title, self.ops, self.line, self.most = title, ops, line, most
        self.stage = "waiting to plan"
        self.lost = self.taken = self.left = False
        self.begun = time.monotonic()
        self._function: Callable[[Work[R]], R] | None = function
        self._made: list[R] = []
        self._failed: list[BaseException] = []
        # An event of `threading` is Python code, which an interrupt may leave half done.
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Do it."""
        function, self._function = self._function, None
        assert function is not None, "work is done once"
        try:
            self._made.append(function(self))
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._done.release()

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return bool(self.lost or self._made or self._failed)

    @property
    def failed(self) -> bool:
        """Whether it has raised something."""
        return bool(self._failed)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, so long at most; whether it is. Interrupts are raised."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self.over:
            left = 0.05 if until is None else min(0.05, until - time.monotonic())
            if left <= 0:
                self.left = True
                return False
            if self._done.acquire(timeout=left):
                self._done.release()  # others may wait as well
        return True

    def result(self) -> R:
        """What came of it, once it is over. Raises what it has raised."""
        self.taken = True
        for error in self._failed:
            raise error
        return self._made[0]

    def __str__(self) -> str:
        where = f", {self.most:,} of them from {self.line}" if self.line else ""
        return f"{self.stage} {self.ops:,} ops{where}"


_workers: list[Worker] = []


def end_workers() -> None:
    """The process ends: workers begin nothing else, and what is at work is waited for, unless it is aside.

    Who ends what workers need calls this before.
    """
    for each in _workers:
        each.end()


atexit.register(end_workers)


class Worker:
    """A thread that does pieces of work, one after the other, beside the program.

    aside: whether it gives way to calls that compile, and to who ends the process.
    """

    def __init__(self, aside: bool) -> None:
        self._aside = aside
        self._lock = threading.Lock()
        self._asked: deque[Work[object]] = deque()
        self._at_work: Work[object] | None = None
        self._beside: Work[object] | None = None
        self._unasked: list[Work[object]] = []  # what is at work, and what has failed
        self._running: Running[None] | None = None
        self._ended = False
        budget.waits.append(self.wait)
        _workers.append(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def ask(self, work: Work[object], is_alone: bool = False) -> None:
        """Have it done: at once, where there can be no thread. is_alone: it may be done beside any other."""
        with self._lock:
            if not self._ended:
                with contextlib.suppress(RuntimeError):
                    if is_alone and self._is_left():
                        Running(functools.partial(self._do, work))
                        self._beside = work
                        return
                    self._running = self._running or Running(self._do_all)
            if self._running is not None:
                self._asked.append(work)
                return
        work.run()

    def _is_left(self) -> bool:
        """Whether nobody waits for what is at work, and nothing is done beside it."""
        at_work, beside = self._at_work, self._beside
        is_free = beside is None or beside.over
        return self._aside and is_free and at_work is not None and at_work.left and not at_work.over

    def _do(self, work: Work[object]) -> None:
        self._unasked.append(work)
        work.run()
        if not (work.failed and debug.faults_are_raised()):
            self._unasked.remove(work)

    def _do_all(self) -> None:
        _thread.aside = self._aside
        while True:
            with self._lock:
                self._at_work = None
                if not self._asked or self._ended:
                    # Who asks from here on begins the thread anew.
                    self._running = None
                    return
                self._at_work = work = self._asked.popleft()
            self._do(work)

    def wait(self) -> None:
        """Until all is done that was asked for. Raises what failed, where faults are raised."""
        with self._lock:
            asked = [work for work in (self._beside, self._at_work, *self._asked) if work is not None]
        for work in asked:
            work.wait()
        for work in [work for work in self._unasked if work.failed]:
            self._unasked.remove(work)
            if not work.taken:
                work.result()

    def end(self) -> None:
        """The process ends: nothing else is begun."""
        self._ended = True
        if not self._aside and self._running is not None:
            self._running.wait()

    def _begin_anew(self) -> None:
        """In a forked child, which has no thread that works."""
        for work in (self._beside, self._at_work, *self._asked):
            if work is not None and not work.over:
                work.lost = True
        self._lock, self._running, self._at_work, self._beside = threading.Lock(), None, None, None
        self._asked.clear()
        self._unasked.clear()


worker = Worker(aside=True)


def bound() -> float | None:
    """How many seconds a call may wait; None for as long as it takes."""
    return None if setting.wanted else budget.seconds


def takes_long(ops: int) -> bool:
    """Whether compiling so many recorded ops may take longer than a call waits."""
    seconds = bound()
    return seconds is not None and ops > OPS_PER_SECOND * seconds
