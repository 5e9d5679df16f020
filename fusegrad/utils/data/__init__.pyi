"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.data.collate import default_collate as default_collate, default_convert as default_convert
from fusegrad.eager.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from fusegrad.eager.data.distributed import DistributedSampler as DistributedSampler
from fusegrad.eager.data.loader import DataLoader as DataLoader
from fusegrad.eager.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
from fusegrad.eager.data.worker import get_worker_info as get_worker_info
from fusegrad.utils.data import (
    dataloader as dataloader,
    dataset as dataset,
    distributed as distributed,
    sampler as sampler,
)
