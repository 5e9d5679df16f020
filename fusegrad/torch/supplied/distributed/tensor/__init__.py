"""`torch.distributed.tensor`: how tensors would be spread over ranks, of which there is one."""

from fusegrad.torch.supplied.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
