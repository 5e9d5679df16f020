"""A worker process: takes keys, makes batches, and sends them back until it is told to stop.

One thread takes orders in and another one sends batches, so that neither the worker nor its parent waits for
the other one to have time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import queue
import random
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import state
from fusegrad.eager.data import channel
from fusegrad.eager.data.fetching import Recipe, StreamFetcher
from fusegrad.eager.random.generator import manual_seed


@dataclass(init=False)
class WorkerInfo:
    """What a worker process knows of itself: its number, how many there are, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        vars(self).update(id=id, num_workers=num_workers, seed=seed, dataset=dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")


_here: dict[str, WorkerInfo] = {}


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a loader what it knows of itself, elsewhere None.

    Source: `torch.utils.data.get_worker_info`.

    >>> import fusegrad as fg
    >>> fg.utils.data.get_worker_info() is None
    True
    """
    return _here.get("info")


class _KeyErrorMessage(str):
    """A message that a KeyError shows as it stands."""

    def __repr__(self) -> str:
        return str(self)


class Caught:
    """The exception that is being handled, as it is sent to the parent: its type, and its traceback."""

    def __init__(self, where: str = "in background", exc_info: Any = None) -> None:
        kind, error, trace = exc_info or sys.exc_info()
        assert kind is not None
        self.kind = next(base for base in kind.__mro__ if _can_be_sent(base))
        self.name = kind.__name__
        self.where = where
        self.text = "".join(traceback.format_exception(kind, error, trace))

    def reraise(self) -> None:
        """Raise it here: the same type, if that takes a message, and RuntimeError otherwise."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _KeyErrorMessage(message)
        elif getattr(self.kind, "message", None):
            raise self.kind(message=message)
        try:
            error = self.kind(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


def _can_be_sent(kind: type) -> bool:
    """Whether the other process finds a class: not one that a function defined."""
    try:
        pickle.dumps(kind)
    except Exception:
        return False
    return True


@dataclass(frozen=True)
class Order:
    """Keys for a worker. What it sends back has the epoch, and the place among all batches."""

    epoch: int
    place: int
    keys: Any


@dataclass(frozen=True)
class Epoch:
    """A further iteration begins."""

    number: int


@dataclass(frozen=True)
class Head:
    """What is said of a batch that comes, or of its absence: that the worker's stream has ended."""

    epoch: int
    place: int
    ended: bool = False


@dataclass(frozen=True)
class Job:
    """What a worker is started with.

    once: whether it is done when an iterable dataset has ended. start: what the user has called first.
    """

    recipe: Recipe
    number: int
    workers: int
    base_seed: int
    start: Callable[[int], None] | None
    once: bool


class _Sender:
    """A thread that sends what it is given, in order."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waiting: queue.SimpleQueue[tuple[Head, list[memoryview]] | None] = queue.SimpleQueue()
        self.put = self.waiting.put
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (message := self.waiting.get()) is not None:
            try:
                channel.send(self.connection, *message)
            except OSError:  # nobody is there any more
                return

    def finish(self) -> None:
        """Return when everything has been sent."""
        self.put(None)
        self.thread.join()


class _Receiver:
    """A thread that takes orders in, so that a parent never waits for a busy worker to do so.

    It waits for three things at once: orders, the word to stop, and the end of the parent.
    """

    def __init__(self, connection: Connection, stop: Connection) -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        self.connection = connection
        self.watched: list[Any] = [connection, stop, parent.sentinel]
        self.orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with contextlib.suppress(EOFError, OSError):  # the parent has gone
                while wait(self.watched) == [self.connection]:
                    self.orders.put(self.connection.recv())
        finally:
            self.ended.set()
            self.orders.put(None)

    def next(self) -> Any:
        """The next order; None when it is time to stop, whatever was ordered before."""
        order = self.orders.get()
        return None if self.ended.is_set() else order


def work(job: Job, connection: Connection, stop: Connection) -> None:
    """The worker's whole life. stop: becomes readable when it is to stop, whatever else it was told."""
    state.interpreter = None  # a fork may have left it in the middle of a recorded run
    with contextlib.suppress(KeyboardInterrupt):  # the parent is interrupted as well
        _work(job, connection, stop)


def _work(job: Job, connection: Connection, stop: Connection) -> None:
    seed = _seed_all(job)
    _here["info"] = WorkerInfo(job.number, job.workers, seed, job.recipe.dataset)
    sender, receiver = _Sender(connection), _Receiver(connection, stop)
    where = f"in DataLoader worker process {job.number}"
    fetch, failed = _caught(lambda: _begun(job), where)
    while (order := receiver.next()) is not None:
        if isinstance(order, Epoch):
            fetch, failed = _caught(job.recipe.fetcher, where)
            continue
        head, parts = _made(order, fetch, failed, where)
        sender.put((head, parts))
        failed = None
        if head.ended and job.once:
            sender.finish()
            return


def _seed_all(job: Job) -> int:
    """Seed all that a dataset may draw from; NumPy otherwise, since its algorithm is that of `random`."""
    seed = job.base_seed + job.number
    random.seed(seed)
    manual_seed(seed)
    entropy = [job.number, job.base_seed & 0xFFFFFFFF, job.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))
    return seed


def _begun(job: Job) -> Callable[[Any], Any]:
    if job.start is not None:
        job.start(job.number)
    return job.recipe.fetcher()


def _caught(make: Callable[[], Any], where: str) -> tuple[Any, Caught | None]:
    try:
        return make(), None
    except Exception:
        return None, Caught(where)


def _made(order: Order, fetch: Any, failed: Caught | None, where: str) -> tuple[Head, list[memoryview]]:
    """What becomes of an order, packed; what failed before is said once, in the place of a batch."""
    head = Head(order.epoch, order.place)
    if failed is not None:
        return head, channel.pack(failed)
    try:
        return head, channel.pack(fetch(order.keys))
    except Exception as error:
        if isinstance(error, StopIteration) and isinstance(fetch, StreamFetcher):
            return Head(order.epoch, order.place, ended=True), []
        return head, channel.pack(Caught(where))


__all__ = ["get_worker_info"]
locate("fusegrad.utils.data", globals(), __all__)
