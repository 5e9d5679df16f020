"""The sampler for several processes. Source: `torch.utils.data.distributed`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.data.sampler import Sampler
from fusegrad.eager.distributed.world import get_rank, get_world_size
from fusegrad.eager.random.generator import Generator
from fusegrad.eager.random.random import randperm


class DistributedSampler(Sampler[int]):
    """The part of a dataset's indices that is one of several processes': every `num_replicas`-th from `rank`.

    What is not said, the process group is asked for; without one that is a ValueError. The order depends on
    seed and epoch alone;
    drop_last leaves out what does not go round, rather than repeating indices.
    Source: `torch.utils.data.DistributedSampler`.

    >>> import fusegrad as fg
    >>> [list(fg.utils.data.DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise failure(
                ValueError, f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.num_samples = len(dataset) // num_replicas if drop_last else -(-len(dataset) // num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        indices = [*range(len(self.dataset))]
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(len(indices), generator=generator).tolist()
        rounds = math.ceil(self.total_size / len(indices)) if indices else 0
        return iter((indices * rounds)[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Have the next iterations shuffle as those of this epoch do in all processes."""
        self.epoch = epoch


__all__ = ["DistributedSampler"]
locate("fusegrad.utils.data", globals(), __all__)
