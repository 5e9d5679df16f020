"""Iterators of a loader: one that makes batches itself, and one that has workers make them."""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from typing import Any, Protocol

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell
from fusegrad.eager.data import channel
from fusegrad.eager.data.crew import Crew
from fusegrad.eager.data.fetching import Recipe
from fusegrad.eager.data.sampler import drawn_seed
from fusegrad.eager.data.worker import Caught, Epoch, Job, Order
from fusegrad.eager.random.generator import Generator


class Loader(Protocol):
    """What iterators ask of a `DataLoader`."""

    dataset: Any
    _is_iterable: bool
    num_workers: int
    prefetch_factor: int | None
    timeout: float
    worker_init_fn: Any
    generator: Generator | None
    in_order: bool
    pin_memory: bool
    persistent_workers: bool
    _length_said: int | None

    @property
    def multiprocessing_context(self) -> BaseContext | None: ...
    @property
    def _index_sampler(self) -> Any: ...
    def _recipe(self) -> Recipe: ...


class LoaderIterator(Iterator[Any]):
    """What the two have in common: keys from the sampler, and the count of batches.

    None has a reference to its loader, which may have one to it: both go when nobody needs them any more.
    """

    def __init__(self, loader: Loader) -> None:
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, "
                "then device pinned memory won't be used.",
                stacklevel=4,
            )
        self.recipe, self.sampler = loader._recipe(), loader._index_sampler
        self.workers, self.is_iterable = loader.num_workers, loader._is_iterable
        self._begin(loader)
        self.base_seed = drawn_seed(loader.generator)

    def _begin(self, loader: Loader) -> None:
        tell("iterates over a data loader")
        self.keys = iter(self.sampler)
        self.given = 0
        self.length_said = loader._length_said

    def reset(self, loader: Loader) -> None:
        """Begin a further iteration."""
        raise NotImplementedError

    def _take(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        tell("takes a batch from a data loader")
        batch = self._take()
        self.given += 1
        if self.is_iterable and self.length_said is not None and self.given > self.length_said:
            self._warn_of_length()
        return batch

    def _warn_of_length(self) -> None:
        message = (
            f"Length of IterableDataset {self.recipe.dataset} was reported to be {self.length_said}"
            f"(when accessing len(dataloader)), but {self.given} samples have been fetched. "
        )
        if self.workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class SingleIterator(LoaderIterator):
    """Makes each batch when it is asked for."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise failure(AssertionError, "timeout needs num_workers > 0")
        self.fetch = self.recipe.fetcher()

    def _take(self) -> Any:
        return self.fetch(next(self.keys))


class WorkersIterator(LoaderIterator):
    """Has workers make batches ahead of time, and gives them in order.

    Orders go round the workers. _open: the workers of batches that have not been given, by place, in order;
    _early: the parts of what came before its turn.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise failure(AssertionError, "prefetch_factor must be greater than 0 where there are workers")
        self.ahead, self.timeout = loader.prefetch_factor, loader.timeout
        self.in_order, self.once = loader.in_order, not loader.persistent_workers
        self.epoch, start = 0, loader.worker_init_fn
        self.crew = Crew(
            loader.multiprocessing_context or multiprocessing.get_context(),
            [
                Job(self.recipe, i, self.workers, self.base_seed, start, self.once)
                for i in range(self.workers)
            ],
        )
        self._begin_orders()

    @property
    def _workers(self) -> list[Any]:
        """The processes, under the name that programs know."""
        return self.crew.processes

    def _begin_orders(self) -> None:
        self._open: dict[int, int] = {}
        self._early: dict[int, list[memoryview]] = {}
        self._places = itertools.count()
        self._active = [True] * self.workers
        self._turns = itertools.cycle(range(self.workers))
        for _ in range(self.ahead * self.workers):
            self._order()

    def reset(self, loader: Loader) -> None:
        self._begin(loader)
        self.epoch += 1
        for worker in range(self.workers):
            self.crew.tell(worker, Epoch(self.epoch))
        self._begin_orders()

    def _order(self) -> None:
        """Have one more batch made, if there are keys for it and somebody to make it."""
        worker = self._next_worker()
        if worker is None:
            return
        try:
            keys = next(self.keys)
        except StopIteration:
            return
        place = next(self._places)
        self.crew.tell(worker, Order(self.epoch, place, keys))
        self._open[place] = worker

    def _next_worker(self) -> int | None:
        """Whose turn it is; where batches need no order, the next one who has less to do than its share."""
        share = self.ahead * self.workers // max(1, sum(self._active))
        busy = Counter(self._open.values())
        for worker in itertools.islice(self._turns, self.workers):
            if self._active[worker] and (self.in_order or busy[worker] < share):
                return worker
        return None

    def _take(self) -> Any:
        while self._open:
            place, worker = next(iter(self._open.items()))
            if place in self._early:
                return self._give(place)
            if not self._active[worker]:  # its stream ended before it came to this
                del self._open[place]
                continue
            self.crew.check([worker] if self.in_order else self._open.values())
            came = self._listen()
            if came is not None and not self.in_order:
                return self._give(came)
        if self.once:
            self.crew.end()
        raise StopIteration

    def _listen(self) -> int | None:
        """Put away what comes next; gives its place, or None where no batch came."""
        message = self.crew.listen(self.timeout)
        if message is None:
            return None
        head, parts = message
        if head.epoch != self.epoch or head.place not in self._open:
            return None  # of an iteration that was broken off, or of a stream that had ended before
        if head.ended:
            worker = self._open.pop(head.place)
            self._active[worker] = False
            if self.once:
                self.crew.dismiss(worker)
            self._order()
            return None
        self._early[head.place] = parts
        return head.place

    def _give(self, place: int) -> Any:
        del self._open[place]
        parts = self._early.pop(place)
        self._order()
        content = channel.unpack(parts)
        if isinstance(content, Caught):
            content.reraise()
        return content
