"""MPI itself: it is loaded here, and here is waited for what it carries.

An exchange is a generator that begins what MPI is to do, yields it, and goes on when that is done. Exchanges
of a channel go on in the order in which they began, which is the same on all ranks; whoever waits for one
moves all of them on. So nobody waits for another rank that waits for him. No call of MPI blocks: a wait ends
in an error when its time is up, and Python's signals are heard.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.ranks.journal import journal
from fusegrad.eager.ranks.last_call import last

Steps = Generator[Any, None, None]  # of requests of MPI, each with Test() and Cancel()
# Seconds for which a wait asks MPI without a pause, and for which it only lets others run.
_AWAKE, _YIELDING, _PAUSE = 2e-3, 5e-2, 2e-5
crowded = [False]  # whether the machine has more ranks than cores
_KEPT = 3  # pieces of memory that a channel keeps


def mpi() -> Any:
    """mpi4py's module, which begins MPI. Raises ImportError, with what to install."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise failure(
            ImportError, f"more than one rank needs mpi4py: pip install 'fusegrad[mpi]' ({error})"
        ) from error
    except RuntimeError as error:
        raise failure(
            RuntimeError,
            f"mpi4py finds no MPI library: load the site's own, or pip install mpich. {error}",
        ) from error
    return MPI


class Exchange:
    """Something that ranks do together, and that may go on while the program does."""

    is_recorded = False

    def __init__(self, what: str, steps: Steps, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        self.done = False
        self.error: BaseException | None = None
        self._steps = steps
        self._request: Any = None

    def begin(self) -> None:
        """Have MPI begin the first step."""
        self._next()

    def _next(self) -> None:
        try:
            self._request = next(self._steps)
        except StopIteration:
            self.done = True
        except BaseException as error:
            self.done, self.error = True, error

    def move(self) -> None:
        """Take what MPI has done, and go on."""
        while not self.done and self._request.Test():
            self._next()

    def is_done(self) -> bool:
        """Whether it is done; moves all exchanges on."""
        _move_all()
        return self.done

    def wait(self, seconds: float | None = None) -> None:
        """Have it done. Raises RuntimeError when the time is up, and what went wrong."""
        start = time.perf_counter()
        limit = self.seconds if seconds is None else seconds
        for turn in itertools.count():
            _move_all()
            if self.done:
                break
            if turn % 8 == 7:
                waited = time.perf_counter() - start
                if waited > limit:
                    raise failure(
                        RuntimeError,
                        f"{self.what}: timed out waiting {limit:g} s for other ranks. They may have "
                        f"ended, or "
                        "wait for something else: FUSEGRAD_DISTRIBUTED_DEBUG=1 has ranks say what they do",
                    )
                if waited > _YIELDING:
                    time.sleep(_PAUSE)
                elif waited > (0 if crowded[0] else _AWAKE):
                    os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)
        if self.error is not None:
            raise self.error


# What is going on: in order, by the channel; and single messages, which go on as they come.
_queues: dict[int, deque[Exchange]] = {}
_messages: list[Exchange] = []
_moving = threading.RLock()


def _move_all() -> None:
    with _moving:
        for queue in _queues.values():
            while queue:
                queue[0].move()
                if not queue[0].done:
                    break
                queue.popleft()
        for message in _messages:
            message.move()
        _messages[:] = [message for message in _messages if not message.done]


class Channel:
    """The communicators of a group of ranks: those of first steps, of later ones, and of what is checked."""

    _numbers = itertools.count()

    def __init__(self, communicator: Any) -> None:
        self.first = communicator
        self.later, self.checks = communicator.Dup(), communicator.Dup()
        self.rank, self.size = communicator.rank, communicator.size
        self.number = next(Channel._numbers)
        self._free: list[np.ndarray] = []
        _queues[self.number] = deque()

    def exchange(self, what: str, steps: Steps, seconds: float) -> Exchange:
        """Begin what all ranks of the group do together."""
        journal.must_be_over(what)
        last.note(what)
        made = Exchange(what, steps, seconds)
        with _moving:
            _move_all()  # those that go on may have come to their next steps
            made.begin()
            _queues[self.number].append(made)
        return made

    def message(self, what: str, steps: Steps, seconds: float) -> Exchange:
        """Begin what this rank does with one other."""
        journal.must_be_over(what)
        last.note(what)
        made = Exchange(what, steps, seconds)
        with _moving:
            made.begin()
            _messages.append(made)
        return made

    def take(self, like: np.ndarray) -> np.ndarray:
        """Memory of the size and dtype of an array: what was given back, or else new."""
        for i, found in enumerate(self._free):
            if found.size == like.size and found.dtype == like.dtype:
                return self._free.pop(i)
        return np.empty_like(like)

    def give_back(self, array: np.ndarray) -> None:
        """Keep memory for the next who takes such; the last few."""
        self._free = [*self._free[-_KEPT:], array]

    def close(self) -> None:
        """Give the communicators back. What was going on has to be waited for before."""
        del _queues[self.number]
        for communicator in (self.first, self.later, self.checks):
            communicator.Free()


def end_all(code: int) -> None:
    """End the processes of all ranks."""
    sys.stdout.flush()
    sys.stderr.flush()
    mpi().COMM_WORLD.Abort(code)


_found: Any = None


def end_all_at_errors() -> None:
    """Have an error that nobody handles end all ranks: they would wait for this one forever."""
    global _found
    if _found is None:
        _found = sys.excepthook
        sys.excepthook = _said_and_ended


def leave_errors() -> None:
    """Have errors be those of one process again."""
    global _found
    if _found is not None and sys.excepthook is _said_and_ended:
        sys.excepthook = _found
    _found = None


def _said_and_ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    from fusegrad.eager.ranks.places import place

    where, hook = place(), _found or sys.__excepthook__
    print(
        f"rank {where.rank if where else 0} ends all ranks; its last collective: {last.text}", file=sys.stderr
    )
    hook(kind, error, trace)
    end_all(1)
