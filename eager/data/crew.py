"""The workers of one iterator, from its side: started, given orders, listened to, and ended.

Each has a pipe of its own: when a worker dies, its end of the pipe closes and whoever listens knows at once;
no lock and no queue can be left in a bad state. All have one more pipe in common, into which nothing is
written but the word to stop: that never waits, whatever the workers do.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import weakref
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

from fusegrad.eager.data import channel
from fusegrad.eager.data.worker import Job, work

# How long a worker that is told to stop may take for the batch that it is making, in seconds; and how often
# workers that say nothing are looked at.
PATIENCE = 5.0


class Crew:
    """The processes, and the pipes to those that still have something to say.

    lost: the workers that died, by number.
    """

    def __init__(self, context: BaseContext, jobs: list[Job]) -> None:
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []
        self.lost: set[int] = set()
        stop_here, stop = context.Pipe(duplex=False)
        # When the last reference goes, and when the interpreter ends.
        self.end = weakref.finalize(self, _end, os.getpid(), self.processes, self.pipes, stop)
        try:
            for job in jobs:
                self._start(context, job, stop_here)
        except BaseException:
            self.end()
            raise
        finally:
            stop_here.close()
        self.heard = dict(zip(self.pipes, range(len(jobs)), strict=True))

    def _start(self, context: BaseContext, job: Job, stop: Connection) -> None:
        ours, theirs = context.Pipe()
        self.pipes.append(ours)
        process = context.Process(target=work, args=(job, theirs, stop), daemon=True)  # type: ignore[attr-defined]
        try:
            process.start()
        finally:
            theirs.close()
        self.processes.append(process)

    def tell(self, worker: int, message: Any) -> None:
        """Send a worker an order. One that has gone does not hear it: why it has gone, `listen` finds out."""
        with contextlib.suppress(OSError):
            self.pipes[worker].send(message)

    def dismiss(self, worker: int) -> None:
        """A worker has nothing more to say, and may end."""
        self.heard.pop(self.pipes[worker], None)

    def listen(self, timeout: float) -> tuple[Any, list[memoryview]] | None:
        """What some worker sent next, as `channel.receive` gives it; None where one was found dead.

        timeout: in seconds, after which RuntimeError is raised; 0 to wait as long as it takes.
        """
        deadline = time.monotonic() + (timeout or math.inf)
        while not (ready := self._ready(deadline)):
            if time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            if self._lost_silently():
                return None
        pipe = ready[0]
        try:
            return channel.receive(pipe)
        except (EOFError, OSError):
            self.lost.add(self.heard.pop(pipe))
            return None
        except BaseException:  # interrupted, maybe in the middle of a message: what follows means nothing
            self.lost.add(self.heard.pop(pipe))
            pipe.close()
            raise

    def _ready(self, deadline: float) -> list[Any]:
        """The pipes with something to read, or closed; none if nothing happens for a while."""
        return wait(list(self.heard), min(max(0.0, deadline - time.monotonic()), PATIENCE))

    def _lost_silently(self) -> bool:
        """Whether a worker died whose pipe some other process holds open, which was forked meanwhile."""
        dead = [
            p for p, worker in self.heard.items() if not self.processes[worker].is_alive() and not p.poll()
        ]
        self.lost.update(self.heard.pop(pipe) for pipe in dead)
        return bool(dead)

    def check(self, workers: Iterable[int]) -> None:
        """RuntimeError if one of these workers died."""
        dead = [self.processes[worker] for worker in self.lost.intersection(workers)]
        if not dead:
            return
        for process in dead:
            process.join(PATIENCE)
        pids = ", ".join(str(process.pid) for process in dead)
        how = ", ".join(_manner(process.exitcode) for process in dead)
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly ({how})")


def _manner(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"killed by signal {-exitcode}"
    return f"exit code {exitcode}"


def _end(owner: int, processes: list[Any], pipes: list[Connection], stop: Connection) -> None:
    """Tell the workers to stop, and see that they do."""
    if os.getpid() != owner:  # a forked process has a copy of the iterator, and no say
        return
    with contextlib.suppress(OSError):  # they have all gone
        stop.send_bytes(b"stop")
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():  # it has a handler of its own for SIGTERM
            process.kill()
            process.join()
    for pipe in [*pipes, stop]:
        pipe.close()
