"""Iterators of loaders, as libraries make them, derive others from them, and ask for them; beside PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.torch.supplied.utils.data import dataloader

LIBRARIES = ((torch.utils.data, torch.utils.data.dataloader), (fg.utils.data, dataloader))


class Stands:
    """What a library has in a loader's place: an endless sampler, and batches that it makes itself."""

    def __init__(self, module: Any, batches: Any) -> None:
        self.batches, self.dataset, self.collate_fn = batches, self, lambda batch: batch
        self._dataset_kind, self._index_sampler = module._DatasetKind.Iterable, itertools.count()
        self._auto_collation = self.drop_last = self.pin_memory = self.persistent_workers = False
        self._IterableDataset_len_called = self.generator = self.worker_init_fn = None
        self.multiprocessing_context, self.pin_memory_device, self.in_order = None, "", True
        self.num_workers, self.prefetch_factor, self.timeout = 0, None, 0

    def __iter__(self) -> Any:
        return iter(self.batches)


def made_by_a_library(data: Any, module: Any) -> Any:
    return [*module._SingleProcessDataLoaderIter(Stands(module, [[1, 2], [3]]))]


def a_class_with_other_batches(data: Any, module: Any) -> Any:
    class Twice(module._SingleProcessDataLoaderIter):  # type: ignore[misc, name-defined]
        def _next_data(self) -> Any:
            return super()._next_data() * 2, self._num_yielded, self._num_workers, len(self)

    class Loader(data.DataLoader):  # type: ignore[misc, name-defined]
        def _get_iterator(self) -> Any:
            return Twice(self)

    batches = Loader([*range(5)], batch_size=2, sampler=[4, 3, 2, 1, 0])
    return [(batch.tolist(), *rest) for batch, *rest in batches]


def a_class_with_other_keys(data: Any, module: Any) -> Any:
    class Backwards(module._SingleProcessDataLoaderIter):  # type: ignore[misc, name-defined]
        def _next_index(self) -> Any:
            return super()._next_index()[::-1]

    return [batch.tolist() for batch in Backwards(data.DataLoader([*range(5)], batch_size=2))]


def what_they_are(data: Any, module: Any) -> Any:
    class Stream(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(range(3))

    loaders = data.DataLoader([1, 2]), data.DataLoader(Stream())
    kinds = (
        module._BaseDataLoaderIter,
        module._SingleProcessDataLoaderIter,
        module._MultiProcessingDataLoaderIter,
    )
    made = [iter(loader) for loader in loaders]
    return [[isinstance(it, kind) for kind in kinds] for it in made], [
        (loader._dataset_kind, loader._auto_collation, it._base_seed > 0)
        for loader, it in zip(loaders, made, strict=True)
    ]


CASES = [made_by_a_library, a_class_with_other_batches, a_class_with_other_keys, what_they_are]


@pytest.mark.parametrize("case", CASES)
def test_they_are_as_pytorchs(case: Any) -> None:
    theirs, ours = (case(*library) for library in LIBRARIES)
    assert ours == theirs
