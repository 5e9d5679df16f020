"""Loaders in one process against PyTorch's: batches, lengths, and what is refused in which words."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.utils import data


class Rows:
    """A dataset that is of no class of ours, with keys of its own."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: Any) -> Any:
        return {"key": str(key), "row": np.full(2, key, np.float32)}


def stream(D: Any, size: int = 7) -> Any:
    class Stream(D.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(size))

        def __len__(self) -> int:
            return size - 1

    return Stream()


def both(make: Any) -> list[Any]:
    """Outcomes with torch and here: what `make` gives of a library's `data`, warnings, or the error."""
    outcomes = []
    for D in (torch.utils.data, data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = make(D)
            except Exception as error:
                outcomes.append((type(error), str(error)))
                continue
        texts = [str(w.message).split("<")[0] for w in caught]
        words = [text for text in texts if "pin_memory" in text or "Length" in text]
        outcomes.append((value, words))
    return outcomes


def plain(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [plain(value) for value in batch]
    return (str(batch.dtype), batch.tolist()) if hasattr(batch, "tolist") else batch


OPTIONS = [
    {},
    {"batch_size": 3},
    {"batch_size": 3, "drop_last": True},
    {"batch_size": None},
    {"batch_size": 20},
    {"batch_size": 20, "drop_last": True},
    {"sampler": [4, 0, 4]},
    {"sampler": [4, 0, 4], "batch_size": None},
    {"batch_sampler": [[1, 2], [5]]},
    {"collate_fn": len, "batch_size": 4},
    {"shuffle": False, "batch_size": np.int64(2).item()},
    {"pin_memory": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_are_those_of_torch(options: dict[str, Any]) -> None:
    theirs, ours = both(lambda D: [plain(b) for b in D.DataLoader(Rows(7), **options)])
    assert ours == theirs and ours[0] is not None
    theirs, ours = both(lambda D: len(D.DataLoader(Rows(7), **options)))
    assert ours == theirs
    if not {"sampler", "batch_sampler"} & set(options):
        theirs, ours = both(lambda D: [plain(b) for b in D.DataLoader(stream(D), **options)])
        assert ours == theirs and ours[0] is not None


def test_lengths_of_streams_are_those_of_torch() -> None:
    for size, drop in itertools.product((None, 1, 4, 20), (False, True)):
        if size is None and drop:
            continue
        theirs, ours = both(lambda D: len(D.DataLoader(stream(D), size, drop_last=drop)))  # noqa: B023
        assert ours == theirs

    def counted(D: Any) -> int:
        loader = D.DataLoader(stream(D))
        return len(loader) + len(list(loader))

    theirs, ours = both(counted)
    assert ours == theirs and ours[1]


REFUSED: dict[str, Any] = {
    "workers": lambda D: D.DataLoader([1], num_workers=-1),
    "timeout": lambda D: D.DataLoader([1], timeout=-1),
    "prefetch without workers": lambda D: D.DataLoader([1], prefetch_factor=2),
    "prefetch": lambda D: D.DataLoader([1], num_workers=1, prefetch_factor=-1),
    "persistent": lambda D: D.DataLoader([1], persistent_workers=True),
    "stream, shuffle": lambda D: D.DataLoader(stream(D), shuffle=True),
    "stream, sampler": lambda D: D.DataLoader(stream(D), sampler=[1]),
    "stream, batch sampler": lambda D: D.DataLoader(stream(D), batch_sampler=[[1]]),
    "sampler and shuffle": lambda D: D.DataLoader([1], sampler=[0], shuffle=True),
    "batch sampler and size": lambda D: D.DataLoader([1], batch_sampler=[[0]], batch_size=2),
    "batch sampler and drop": lambda D: D.DataLoader([1], batch_sampler=[[0]], drop_last=True),
    "no batches and drop": lambda D: D.DataLoader([1], batch_size=None, drop_last=True),
    "size 0": lambda D: D.DataLoader([1], batch_size=0),
    "size 1.5": lambda D: D.DataLoader([1], batch_size=1.5),
    "context without workers": lambda D: D.DataLoader([1], multiprocessing_context="fork"),
    "context": lambda D: D.DataLoader([1], num_workers=1, multiprocessing_context="thread"),
    "context of a type": lambda D: D.DataLoader([1], num_workers=1, multiprocessing_context=5),
    "set batch_size": lambda D: setattr(D.DataLoader([1]), "batch_size", 2),
    "set dataset": lambda D: setattr(D.DataLoader([1]), "dataset", []),
    "set sampler": lambda D: setattr(D.DataLoader([1]), "sampler", []),
    "no length": lambda D: len(D.DataLoader(iter([1]))),
    "shuffle nothing": lambda D: D.DataLoader([], shuffle=True),
    "None in a batch": lambda D: list(D.DataLoader([None])),
    "beyond the end": lambda D: list(D.DataLoader([1], sampler=[3])),
    "a stream's own end": lambda D: next(iter(D.DataLoader(stream(D, 0)))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_in_the_words_of_torch(name: str) -> None:
    theirs, ours = both(REFUSED[name])
    assert isinstance(theirs[0], type) and ours[0] is theirs[0], ours
    assert theirs[1] in ours[1]


def test_a_loader_keeps_what_it_was_given() -> None:
    sampler, generator = [2, 0], fg.Generator()
    loader = data.DataLoader("abc", 2, sampler=sampler, generator=generator, timeout=0)
    assert loader.sampler is sampler and loader.generator is generator and loader.dataset == "abc"
    assert loader.batch_sampler.sampler is sampler and loader.batch_size == 2 and loader.drop_last is False
    assert loader.collate_fn is data.default_collate and not loader.pin_memory
    assert data.DataLoader("abc", None).collate_fn is data.default_convert
    assert data.DataLoader("abc", batch_sampler=[[0]]).batch_size is None
    loader.num_workers = 1
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    assert copy.copy(loader).sampler is sampler


def test_loaders_and_iterators_are_generic_and_independent() -> None:
    class Ints(data.Dataset[int]):
        def __getitem__(self, index: int) -> int:
            return range(4)[index]

        def __len__(self) -> int:
            return 4

    loader: data.DataLoader[int] = data.DataLoader(Ints())
    pairs = [(int(a), int(b)) for a, b in zip(loader, loader, strict=True)]
    assert pairs == [(i, i) for i in range(4)]
    iterator = iter(loader)
    assert iter(iterator) is iterator and len(iterator) == 4
    assert list(map(int, iterator)) == [0, 1, 2, 3] and list(iterator) == []


def test_iterators_are_not_pickled() -> None:
    with pytest.raises(NotImplementedError, match="SingleIterator cannot be pickled"):
        pickle.dumps(iter(data.DataLoader([1])))


def test_whole_batches_are_asked_for_where_a_dataset_gives_them() -> None:
    class Whole(data.Dataset):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [sum(indices)]

    assert [b.tolist() for b in data.DataLoader(Whole(), batch_sampler=[[1, 2], [4]])] == [[3], [4]]


def test_more_workers_than_cores_are_warned_of() -> None:
    texts = []
    for D in (torch.utils.data, data):
        with pytest.warns(UserWarning, match="This DataLoader will create 5000 worker") as caught:
            D.DataLoader([1], num_workers=5000)
        texts.append(str(caught[0].message))
        assert caught[0].filename == __file__ or D is not data
    assert texts[0] == texts[1]


def test_names_stand_where_torch_has_them() -> None:
    for name in ("dataset", "sampler", "dataloader", "distributed"):
        module = getattr(data, name)
        assert all(getattr(data, n) is getattr(module, n) for n in module.__all__)
        assert set(module.__all__) <= set(dir(getattr(torch.utils.data, name)))
    assert pickle.loads(pickle.dumps(data.TensorDataset)) is data.TensorDataset
    assert repr(data.DataLoader) == "<class 'fusegrad.utils.data.DataLoader'>"
