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
from fusegrad.eager.data.fetching import DatasetKind, Recipe
from fusegrad.eager.data.sampler import drawn_seed
from fusegrad.eager.data.worker import Caught, Epoch, Job, Order
from fusegrad.eager.random.generator import Generator


class Loader(Protocol):
    """What iterators ask of a `DataLoader`, or of what a library has in its place."""

    dataset: Any
    _dataset_kind: int
    collate_fn: Any
    drop_last: bool
    num_workers: int
    prefetch_factor: int | None
    timeout: float
    worker_init_fn: Any
    generator: Generator | None
    in_order: bool
    pin_memory: bool
    persistent_workers: bool
    _IterableDataset_len_called: int | None

    @property
    def _auto_collation(self) -> bool: ...
    @property
    def multiprocessing_context(self) -> BaseContext | None: ...
    @property
    def _index_sampler(self) -> Any: ...


class LoaderIterator(Iterator[Any]):
    """What the two have in common: keys from the sampler, and the count of batches.

    None has a reference to its loader, which may have one to it: both go when nobody needs them any more.
    Libraries derive their own from these, under the names that attributes have in
    `torch.utils.data.dataloader._BaseDataLoaderIter`.
    """

    def __init__(self, loader: Loader) -> None:
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, "
                "then device pinned memory won't be used.",
                stacklevel=4,
            )
        self.recipe = Recipe(
            loader._dataset_kind, loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )
        self._index_sampler, self._num_workers = loader._index_sampler, loader.num_workers
        self._begin(loader)
        self._base_seed = drawn_seed(loader.generator)

    def _begin(self, loader: Loader) -> None:
        tell("iterates over a data loader")
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _reset(self, loader: Loader) -> None:
        """Begin a further iteration."""
        raise NotImplementedError

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        tell("takes a batch from a data loader")
        batch = self._next_data()
        self._num_yielded += 1
        if (
            self.recipe.kind == DatasetKind.Iterable
            and self._IterableDataset_len_called is not None
            and self._num_yielded > self._IterableDataset_len_called
        ):
            self._warn_of_length()
        return batch

    def _warn_of_length(self) -> None:
        message = (
            f"Length of IterableDataset {self.recipe.dataset} was reported to be "
            f"{self._IterableDataset_len_called}(when accessing len(dataloader)), but {self._num_yielded} "
            "samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class SingleIterator(LoaderIterator):
    """Makes each batch when it is asked for."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise failure(AssertionError, "timeout needs num_workers > 0")
        self._dataset_fetcher = self.recipe.fetcher()

    def _next_data(self) -> Any:
        return self._dataset_fetcher(self._next_index())


class WorkersIterator(LoaderIterator):
    """Has workers make batches ahead of time, and gives them in order.

    Orders go round the workers. _open: the workers of batches that have not been given, by place, in order;
    _early: the parts of what came before its turn.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise failure(AssertionError, "prefetch_factor must be greater than 0 where there are workers")
        self._prefetch_factor, self._timeout = loader.prefetch_factor, loader.timeout
        self._in_order, self.once = loader.in_order, not loader.persistent_workers
        self.epoch, start = 0, loader.worker_init_fn
        self.crew = Crew(
            loader.multiprocessing_context or multiprocessing.get_context(),
            [
                Job(self.recipe, i, self._num_workers, self._base_seed, start, self.once)
                for i in range(self._num_workers)
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
        self._active = [True] * self._num_workers
        self._turns = itertools.cycle(range(self._num_workers))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._order()

    def _reset(self, loader: Loader) -> None:
        self._begin(loader)
        self.epoch += 1
        for worker in range(self._num_workers):
            self.crew.tell(worker, Epoch(self.epoch))
        self._begin_orders()

    def _order(self) -> None:
        """Have one more batch made, if there are keys for it and somebody to make it."""
        worker = self._next_worker()
        if worker is None:
            return
        try:
            keys = self._next_index()
        except StopIteration:
            return
        place = next(self._places)
        self.crew.tell(worker, Order(self.epoch, place, keys))
        self._open[place] = worker

    def _next_worker(self) -> int | None:
        """Whose turn it is; where batches need no order, the next one who has less to do than its share."""
        share = self._prefetch_factor * self._num_workers // max(1, sum(self._active))
        busy = Counter(self._open.values())
        for worker in itertools.islice(self._turns, self._num_workers):
            if self._active[worker] and (self._in_order or busy[worker] < share):
                return worker
        return None

    def _next_data(self) -> Any:
        while self._open:
            place, worker = next(iter(self._open.items()))
            if place in self._early:
                return self._give(place)
            if not self._active[worker]:  # its stream ended before it came to this
                del self._open[place]
                continue
            self.crew.check([worker] if self._in_order else self._open.values())
            came = self._listen()
            if came is not None and not self._in_order:
                return self._give(came)
        if self.once:
            self.crew.end()
        raise StopIteration

    def _listen(self) -> int | None:
        """Put away what comes next; gives its place, or None where no batch came."""
        message = self.crew.listen(self._timeout)
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
