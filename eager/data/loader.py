"""`DataLoader`: what it is told, checked, and what its iterators are made of.

Source: `torch.utils.data.dataloader`.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.public import locate
from fusegrad.eager.data.collate import default_collate, default_convert
from fusegrad.eager.data.dataset import IterableDataset
from fusegrad.eager.data.fetching import DatasetKind
from fusegrad.eager.data.iteration import LoaderIterator, SingleIterator, WorkersIterator
from fusegrad.eager.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from fusegrad.eager.random.generator import Generator

Sample = TypeVar("Sample", covariant=True)


class _Endless(Sampler[None]):
    """None again and again: an iterable dataset is asked for samples, not for keys."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[Sample]):
    """Batches of a dataset: in the order of a sampler, collated, made here or by worker processes.

    Args are PyTorch's. With `num_workers`, processes make batches ahead of time, `prefetch_factor` each, and
    the loader gives them in order; each is seeded by the loader's `generator` and its number. What a worker
    raises is raised here, with its traceback; a worker that dies is a RuntimeError. There is no device that
    memory could be pinned for: `pin_memory` is accepted with a warning.

    Source: `torch.utils.data.DataLoader`.

    >>> import fusegrad as fg
    >>> dataset = fg.utils.data.TensorDataset(fg.arange(5), fg.arange(5) ** 2)
    >>> for x, y in fg.utils.data.DataLoader(dataset, batch_size=3):
    ...     print(x, y)
    tensor([0, 1, 2]) tensor([0, 1, 4])
    tensor([3, 4]) tensor([ 9, 16])
    """

    _FIXED = frozenset("batch_size batch_sampler sampler drop_last dataset persistent_workers".split())
    _initialized = False

    dataset: Any
    batch_size: int | None
    sampler: Any
    batch_sampler: Any
    drop_last: bool
    persistent_workers: bool

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        is_stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = DatasetKind.Iterable if is_stream else DatasetKind.Map
        if is_stream:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            sampler = self._default_sampler(shuffle, generator)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: LoaderIterator | None = None
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool | None, generator: Generator | None) -> Sampler[Any]:
        if self._dataset_kind == DatasetKind.Iterable:
            return _Endless()
        return (
            RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in self._FIXED:
            raise failure(
                ValueError,
                f"{name} attribute should not be set after {type(self).__name__} is initialized",
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How worker processes are started; None for the system's way."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        if context is not None and self.num_workers == 0:
            raise failure(
                ValueError,
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                f"but got num_workers={self.num_workers}",
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise failure(
                    ValueError,
                    f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                    f"but got multiprocessing_context={context!r}",
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, BaseContext):
            raise failure(
                TypeError,
                "multiprocessing_context option should be a valid context object or a string specifying "
                f"the start method, but got multiprocessing_context={context}",
            )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """Whose elements are what a batch is fetched for."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> LoaderIterator:
        if self.num_workers == 0:
            return SingleIterator(self)
        self.check_worker_number_rationality()
        return WorkersIterator(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self.check_worker_number_rationality()
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn where there are more workers than cores that this process may use."""
        if not self.num_workers:
            return
        has_cpuset = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if has_cpuset else os.cpu_count()
        if cores is None:
            suggestion = (
                "DataLoader is not able to compute a suggested max number of worker in current system."
            )
        elif self.num_workers > cores:
            suggestion = (
                f"Our suggested max number of worker in current system is {cores}"
                f"{'' if has_cpuset else ' (`cpuset` is not taken into account)'}, which is smaller "
                "than what this DataLoader is going to create."
            )
        else:
            return
        warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {suggestion} "
            "Please be aware that excessive worker creation might get DataLoader running slow or even "
            "freeze, lower the worker number to avoid potential slowness/freeze if necessary."
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise failure(
            ValueError,
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.",
        )
    if timeout < 0:
        raise failure(ValueError, "timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise failure(
            ValueError,
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.",
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise failure(ValueError, "prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise failure(ValueError, "persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    for name, given, unspecified in (
        ("shuffle", shuffle, shuffle in (False, None)),
        ("sampler", sampler, sampler is None),
        ("batch_sampler", batch_sampler, batch_sampler is None),
    ):
        if not unspecified:
            raise failure(
                ValueError,
                f"DataLoader with IterableDataset: expected unspecified {name} option, "
                f"but got {name}={given}",
            )


def _check_sampling(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise failure(ValueError, "sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise failure(
                ValueError,
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
            )
    elif batch_size is None and drop_last:
        raise failure(
            ValueError,
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last",
        )


__all__ = ["DataLoader"]
locate("fusegrad.utils.data", globals(), __all__)
