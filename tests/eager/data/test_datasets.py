"""Datasets and samplers: beside PyTorch's where nothing is drawn, by their contracts where something is."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.utils import data


def outcome(make: Any) -> Any:
    """What comes out, or the error, alike for both libraries."""
    try:
        value = make()
    except Exception as error:
        return type(error), str(error)
    return value


def same_outcome(make: Any) -> None:
    """`make` is given a library and its `data`; errors have torch's words in them."""
    ours, theirs = outcome(lambda: make(fg, data)), outcome(lambda: make(torch, torch.utils.data))
    if isinstance(theirs, tuple) and theirs and isinstance(theirs[0], type):
        assert isinstance(ours, tuple) and ours[0] is theirs[0], ours
        assert theirs[1] in ours[1], ours
    else:
        assert ours == theirs


class Batched(list):
    """A list that gives whole batches, one too few where `wrong`."""

    wrong = False

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [f"batched {self[i]}" for i in indices][self.wrong :]


class Wrong(Batched):
    wrong = True


def streams(D: Any, *sizes: int) -> list[Any]:
    class Stream(D.IterableDataset):
        def __init__(self, size: int) -> None:
            self.size = size

        def __iter__(self) -> Any:
            return iter(range(self.size))

        def __len__(self) -> int:
            return self.size

    return [Stream(size) for size in sizes]


def nested(items: Any) -> Any:
    return [[t.tolist() for t in item] for item in items]


def rows(T: Any, D: Any) -> Any:
    return D.TensorDataset(T.arange(6).view(3, 2), T.arange(3))


def half(D: Any) -> Any:
    return type("Half", (D.Subset,), {"__getitem__": lambda subset, index: index})


DATASETS: dict[str, Any] = {
    "rows": lambda T, D: nested(map(rows(T, D).__getitem__, (0, -1, slice(1, 3)))),
    "rows, length": lambda T, D: len(D.TensorDataset(T.ones(4, 2))),
    "rows, sizes": lambda T, D: D.TensorDataset(T.ones(4, 2), T.ones(3)),
    "no getitem": lambda T, D: D.Dataset()[0],
    "no length": lambda T, D: len(D.Dataset()),
    "stack": lambda T, D: [D.StackDataset("abc", [1, 2, 3])[i] for i in (0, -1)],
    "stack by name": lambda T, D: D.StackDataset(a="abc", b=[1, 2, 3])[1],
    "stack, batch": lambda T, D: D.StackDataset("abc", Batched([1, 2, 3])).__getitems__([2, 0]),
    "stack by name, batch": lambda T, D: D.StackDataset(x="abc", y=Batched("def")).__getitems__([2, 0]),
    "stack, length": lambda T, D: len(D.StackDataset("abc", "def")),
    "stack, sizes": lambda T, D: D.StackDataset("abc", "de"),
    "stack by name, sizes": lambda T, D: D.StackDataset(a="abc", b="de"),
    "stack, both": lambda T, D: D.StackDataset("abc", b="def"),
    "stack, none": lambda T, D: D.StackDataset(),
    "stack, wrong batch": lambda T, D: D.StackDataset(Wrong("abc")).__getitems__([0, 1]),
    "stack by name, wrong batch": lambda T, D: D.StackDataset(a=Wrong("abc")).__getitems__([0, 1]),
    "concat": lambda T, D: [D.ConcatDataset(["abc", "", "de"])[i] for i in (0, 2, 3, 4, -1, -5)],
    "concat, sizes": lambda T, D: D.ConcatDataset(["abc", "", "de"]).cumulative_sizes,
    "concat, none": lambda T, D: D.ConcatDataset([]),
    "concat, beyond": lambda T, D: D.ConcatDataset(["abc"])[3],
    "concat, before": lambda T, D: D.ConcatDataset(["abc"])[-4],
    "concat, stream": lambda T, D: D.ConcatDataset(streams(D, 3)),
    "plus": lambda T, D: list(map((D.Subset("abc", [0]) + D.Subset("abc", [2])).__getitem__, (0, 1))),
    "chain": lambda T, D: list(D.ChainDataset(streams(D, 3, 0, 2))),
    "chain, length": lambda T, D: len(D.ChainDataset(streams(D, 3, 2))),
    "chain, plus": lambda T, D: list(streams(D, 3)[0] + streams(D, 2)[0]),
    "chain, no stream": lambda T, D: list(D.ChainDataset(["abc"])),
    "chain, no stream, length": lambda T, D: len(D.ChainDataset(["abc"])),
    "subset": lambda T, D: (list(D.Subset("abcd", [3, 1])), len(D.Subset("abcd", [3, 1]))),
    "subset, list": lambda T, D: D.Subset(T.arange(5) * 2, [4, 2, 0])[[0, 2]].tolist(),
    "subset, batch": lambda T, D: D.Subset(Batched("abcd"), [3, 1]).__getitems__([1, 0]),
    "subset, plain batch": lambda T, D: D.Subset("abcd", [3, 1]).__getitems__([1, 0]),
    "subset, half a subclass": lambda T, D: half(D)("ab", [0]),
    "split, sum": lambda T, D: D.random_split(range(5), [2, 2]),
    "split, fraction": lambda T, D: D.random_split(range(5), [1.5, -0.5]),
    "sequential": lambda T, D: list(D.SequentialSampler("abc")),
    "batches": lambda T, D: list(D.BatchSampler(range(7), 3, False)),
    "batches, dropped": lambda T, D: list(D.BatchSampler(range(7), 3, True)),
    "batches, lengths": lambda T, D: [
        len(D.BatchSampler(range(7), size, drop)) for size in (1, 3, 7, 8) for drop in (True, False)
    ],
    "batches, size 0": lambda T, D: D.BatchSampler(range(7), 0, False),
    "batches, size True": lambda T, D: D.BatchSampler(range(7), True, False),
    "batches, drop 1": lambda T, D: D.BatchSampler(range(7), 2, 1),
    "sampler": lambda T, D: iter(D.Sampler()),
    "random, replacement": lambda T, D: D.RandomSampler("abc", replacement=1),
    "random, none": lambda T, D: D.RandomSampler("abc", num_samples=0),
    "random, 1.5": lambda T, D: D.RandomSampler("abc", num_samples=1.5),
    "random, empty": lambda T, D: D.RandomSampler(""),
    "random, lengths": lambda T, D: [len(D.RandomSampler("abc")), len(D.RandomSampler("abc", num_samples=8))],
    "weighted, none": lambda T, D: D.WeightedRandomSampler([1.0], 0),
    "weighted, True": lambda T, D: D.WeightedRandomSampler([1.0], True),
    "weighted, replacement": lambda T, D: D.WeightedRandomSampler([1.0], 1, 1),
    "weighted, 2d": lambda T, D: D.WeightedRandomSampler([[1.0]], 1),
    "weighted, certain": lambda T, D: list(D.WeightedRandomSampler([0.0, 2.0, 0.0], 3)),
    "distributed": lambda T, D: [
        [list(D.DistributedSampler(range(n), r, i, shuffle=False, drop_last=d)) for i in range(r)]
        for n in (1, 7, 8)
        for r in (1, 3, 4)
        for d in (False, True)
    ],
    "distributed, rank": lambda T, D: D.DistributedSampler(range(3), 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_datasets_and_samplers_are_those_of_torch(name: str) -> None:
    same_outcome(DATASETS[name])


@pytest.mark.parametrize(
    "lengths", [[3, 7], [0, 10], [0.3, 0.7], [0.33, 0.33, 0.34], [0.05, 0.95], [1 / 3] * 3, [1.0], [1]]
)
@pytest.mark.parametrize("size", [1, 3, 10, 29])
def test_splits_have_the_sizes_of_torch(lengths: list[Any], size: int) -> None:
    def sizes(T: Any, D: Any) -> list[int]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parts = D.random_split(range(size), lengths, T.Generator().manual_seed(1))
        assert sorted(x for part in parts for x in part) == list(range(size))
        return [*map(len, parts), *(str(w.message) for w in caught)]

    same_outcome(sizes)


def test_splits_follow_from_a_generator() -> None:
    def split(seed: int) -> list[Any]:
        return [
            part.indices for part in data.random_split(range(20), [5, 15], fg.Generator().manual_seed(seed))
        ]

    assert split(1) == split(1) != split(2)
    fg.manual_seed(7)
    by_default = [part.indices for part in data.random_split(range(20), [5, 15])]
    assert by_default == split(7)


def test_random_samplers_give_each_index_as_often() -> None:
    for count in (1, 4, 5, 9, 10, 12):
        drawn = Counter(data.RandomSampler(range(5), num_samples=count))
        assert sum(drawn.values()) == count and set(drawn) <= set(range(5))
        assert max(drawn.values()) - min(drawn[i] for i in range(5)) <= 1
    for count in (1, 31, 32, 33, 64, 100):
        drawn = list(data.RandomSampler(range(5), replacement=True, num_samples=count))
        assert len(drawn) == count and set(drawn) <= set(range(5))
    assert sorted(data.SubsetRandomSampler([5, 3, 3])) == [3, 3, 5]
    assert len(set(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False))) == 3
    with pytest.raises(ValueError):
        list(data.RandomSampler([], num_samples=2))


SEEDED = {
    "random": lambda g: data.RandomSampler(range(50), generator=g),
    "random, replacement": lambda g: data.RandomSampler(range(50), True, 70, generator=g),
    "subset": lambda g: data.SubsetRandomSampler(range(50), generator=g),
    "weighted": lambda g: data.WeightedRandomSampler([1.0] * 50, 40, generator=g),
    "loader": lambda g: map(int, data.DataLoader(range(50), shuffle=True, generator=g)),
}


@pytest.mark.parametrize("name", SEEDED)
def test_random_orders_follow_from_the_seed(name: str) -> None:
    def by_default(seed: int) -> list[int]:
        fg.manual_seed(seed)
        return list(SEEDED[name](None))

    def by_generator(seed: int) -> list[int]:
        return list(SEEDED[name](fg.Generator().manual_seed(seed)))

    for drawn in (by_default, by_generator):
        assert drawn(1) == drawn(1) != drawn(2)
    fg.manual_seed(1)
    sampler = SEEDED["random"](None)
    assert list(sampler) != list(sampler)


def test_a_seed_for_all_processes_and_another_order_each_epoch() -> None:
    samplers = [data.DistributedSampler(range(10), 2, rank, seed=3) for rank in (0, 1)]
    first = [list(sampler) for sampler in samplers]
    assert sorted(first[0] + first[1]) == list(range(10)) and first == [list(s) for s in samplers]
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != first[0]
    with pytest.raises(ValueError, match="process group has not been initialized"):
        data.DistributedSampler(range(10))
