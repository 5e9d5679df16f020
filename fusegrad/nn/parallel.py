"""Modules on several devices, as `torch.nn.parallel`."""

from fusegrad.eager.devices.parallel import DataParallel as DataParallel
from fusegrad.eager.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]
