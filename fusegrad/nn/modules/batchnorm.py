"""Normalisation over batches, as `torch.nn.modules.batchnorm`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm
from fusegrad.eager.nn.lazy_layers import (
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    _LazyNormBase as _LazyNormBase,
)
from fusegrad.eager.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    _BatchNorm as _BatchNorm,
    _NormBase as _NormBase,
)

__all__ = gather("fusegrad.nn.modules.batchnorm", globals())
