"""`torch.utils.data.dataloader`: the iterators, of which libraries make objects, and derive classes."""

from fusegrad.eager.data.fetching import DatasetKind as _DatasetKind
from fusegrad.eager.data.iteration import (
    LoaderIterator as _BaseDataLoaderIter,
    SingleIterator as _SingleProcessDataLoaderIter,
    WorkersIterator as _MultiProcessingDataLoaderIter,
)

__all__ = [
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
]
