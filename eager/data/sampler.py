"""Samplers: the order in which a loader asks for samples. Source: `torch.utils.data.sampler`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.classes import multinomial
from fusegrad.eager.random.generator import Generator
from fusegrad.eager.random.random import randint, randperm

Key = TypeVar("Key", covariant=True)


def drawn_seed(generator: Generator | None = None) -> int:
    """A seed from a generator, the default one if none is given."""
    return int(randint(0, 2**63 - 1, (), dtype=dtypes.int64, generator=generator).item())


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler(Generic[Key]):
    """Keys of samples, or lists of them: a subclass defines `__iter__`, and mostly `__len__`.

    Source: `torch.utils.data.Sampler`.
    """

    def __iter__(self) -> Iterator[Key]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... Source: `torch.utils.data.SequentialSampler`."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices of a dataset in random order, or drawn with replacement.

    num_samples: how many; the dataset's length if nothing is said. Without replacement each index comes once
    before any comes again. generator: what is drawn from; if none is given, one that the default generator
    seeds anew for each iteration. Source: `torch.utils.data.RandomSampler`.

    >>> import fusegrad as fg
    >>> sorted(fg.utils.data.RandomSampler(range(3), num_samples=6))
    [0, 0, 1, 1, 2, 2]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise failure(
                TypeError, f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise failure(
                ValueError,
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}",
            )

    @property
    def num_samples(self) -> int:
        """How many indices an iteration gives; the dataset's length may change between two."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, count, generator = len(self.data_source), self.num_samples, self.generator
        if generator is None:
            generator = Generator().manual_seed(drawn_seed())
        at_once = 32 if self.replacement else size
        for done in range(0, count, at_once):
            if self.replacement:
                drawn = randint(0, size, (at_once,), dtype=dtypes.int64, generator=generator)
            else:
                drawn = randperm(size, generator=generator)
            yield from drawn[: count - done].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order. Source: `torch.utils.data.SubsetRandomSampler`.

    >>> import fusegrad as fg
    >>> sorted(fg.utils.data.SubsetRandomSampler([7, 3, 5]))
    [3, 5, 7]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to weights.

    Source: `torch.utils.data.WeightedRandomSampler`.

    >>> import fusegrad as fg
    >>> list(fg.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
    [1, 1, 1]
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not _positive(num_samples):
            raise failure(
                ValueError,
                f"num_samples should be a positive integer value, but got num_samples={num_samples}",
            )
        if not isinstance(replacement, bool):
            raise failure(
                ValueError, f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = ops.as_tensor(weights, dtype=dtypes.float64)
        if self.weights.dim() != 1:
            raise failure(
                ValueError,
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}",
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of a sampler's keys, `batch_size` in each; drop_last leaves out a last one that is shorter.

    Source: `torch.utils.data.BatchSampler`.

    >>> import fusegrad as fg
    >>> list(fg.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not _positive(batch_size):
            raise failure(
                ValueError, f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise failure(ValueError, f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        keys = iter(self.sampler)
        while batch := [*itertools.islice(keys, self.batch_size)]:
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
locate("fusegrad.utils.data", globals(), __all__)
