"""`torch.distributed.tensor.placement_types`: plans of what lies on which rank, to write down and compare."""

from __future__ import annotations

import dataclasses


class Placement:
    """How a tensor lies on the ranks. Source: `torch.distributed.tensor.Placement`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut, along `dim` if that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each rank has it whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each rank has a summand of it."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Cut along a dim. Source: `torch.distributed.tensor.Shard`."""

    dim: int


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each rank. Source: `torch.distributed.tensor.Replicate`."""


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """A summand on each rank. Source: `torch.distributed.tensor.Partial`."""

    reduce_op: str = "sum"
