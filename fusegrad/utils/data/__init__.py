"""Loading data, as `torch.utils.data`."""

from fusegrad.eager.data.collate import default_collate as default_collate, default_convert as default_convert
from fusegrad.eager.data.dataset import *
from fusegrad.eager.data.dataset import __all__ as _datasets
from fusegrad.eager.data.distributed import DistributedSampler as DistributedSampler
from fusegrad.eager.data.loader import DataLoader as DataLoader
from fusegrad.eager.data.sampler import *
from fusegrad.eager.data.sampler import __all__ as _samplers
from fusegrad.eager.data.worker import get_worker_info as get_worker_info
from fusegrad.utils.data import (
    _utils as _utils,
    dataloader as dataloader,
    dataset as dataset,
    distributed as distributed,
    sampler as sampler,
)

__all__ = [
    *_datasets,
    *_samplers,
    "DataLoader",
    "DistributedSampler",
    "dataloader",
    "dataset",
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "sampler",
]
