"""Datasets: what a loader takes samples from, and how they are put together and split.

Source: `torch.utils.data.dataset`.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import Generator, default_generator
from fusegrad.eager.random.random import randperm

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples that are found by a key: a subclass defines `__getitem__`, and mostly `__len__`.

    `__getitems__(keys)`, where a subclass has it, gives a whole batch as a list. `+` joins two datasets.
    Source: `torch.utils.data.Dataset`.

    >>> import fusegrad as fg
    >>> class Squares(fg.utils.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 4
    >>> [batch.tolist() for batch in fg.utils.data.DataLoader(Squares(), batch_size=3)]
    [[0, 1, 4], [9]]
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample], Iterable[Sample]):
    """Samples that come one after the other: a subclass defines `__iter__`. `+` chains two.

    Each worker process iterates a copy of its own; `get_worker_info` tells it which part is its.
    Source: `torch.utils.data.IterableDataset`.
    """

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is a tuple of the i-th row of each. Source: `torch.utils.data.TensorDataset`.

    >>> import fusegrad as fg
    >>> fg.utils.data.TensorDataset(fg.tensor([[1, 2], [3, 4]]), fg.tensor([0, 1]))[1]
    (tensor([3, 4]), tensor(1))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise failure(AssertionError, "Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets of one length side by side: samples are tuples, or dicts where they are given by name.

    Source: `torch.utils.data.StackDataset`.

    >>> import fusegrad as fg
    >>> fg.utils.data.StackDataset(image=["a", "b"], text=["c", "d"])[1]
    {'image': 'b', 'text': 'd'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise failure(
                ValueError,
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given.",
            )
        if not args and not kwargs:
            raise failure(ValueError, "At least one dataset should be passed")
        self.datasets = args or kwargs
        self._length = len(self._parts()[0])
        if any(self._length != len(part) for part in self._parts()):
            raise failure(ValueError, "Size mismatch between datasets")

    def _parts(self) -> Sequence[Any]:
        return [*self.datasets.values()] if isinstance(self.datasets, dict) else self.datasets

    def _sample(self, values: Iterable[Any]) -> Any:
        return (
            dict(zip(self.datasets, values, strict=True)) if isinstance(self.datasets, dict) else (*values,)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._sample(part[index] for part in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = []
        for part in self._parts():
            items = _batch_of(part, indices)
            if len(items) != len(indices):
                raise failure(
                    ValueError,
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}",
                )
            columns.append(items)
        return [self._sample(values) for values in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _batch_of(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """Several samples of a dataset: in one go where it can."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[Sample]):
    """Datasets one behind the other. Source: `torch.utils.data.ConcatDataset`.

    >>> import fusegrad as fg
    >>> both = fg.utils.data.ConcatDataset(["abc", "de"])
    >>> len(both), both[3], both[-1]
    (5, 'd', 'e')
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The lengths of a sequence's parts, each with those before it."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise failure(AssertionError, "datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise failure(AssertionError, "ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise failure(ValueError, "absolute value of index should not exceed dataset length")
            index += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other. Source: `torch.utils.data.ChainDataset`."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise failure(AssertionError, "ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[Sample]):
    """The samples of a dataset at some indices. Source: `torch.utils.data.Subset`.

    A subclass that defines `__getitem__` has to define `__getitems__`, too, which loaders ask.

    >>> import fusegrad as fg
    >>> list(fg.utils.data.Subset("abcd", [3, 1]))
    ['d', 'b']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise failure(
                NotImplementedError,
                f"{kind.__name__} overrides __getitem__ but not __getitems__. "
                "When subclassing Subset and overriding __getitem__, you must also override "
                "__getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]",
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return _batch_of(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Parts of a dataset that do not overlap, drawn at random.

    lengths: how many samples each has, or fractions that sum to 1. These are rounded down; what is left over
    goes round, one to each. Source: `torch.utils.data.random_split`.

    >>> import fusegrad as fg
    >>> parts = fg.utils.data.random_split(range(10), [0.75, 0.25], fg.Generator().manual_seed(0))
    >>> [len(part) for part in parts]
    [8, 2]
    >>> sorted(x for part in parts for x in part)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise failure(ValueError, "Sum of input lengths does not equal the length of the input dataset!")
    indices = randperm(len(dataset), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def _lengths_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise failure(ValueError, f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warn(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return lengths


__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]
locate("fusegrad.utils.data", globals(), __all__)
