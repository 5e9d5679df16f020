"""Normalisation over batches, as `torch.nn.modules.batchnorm`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = gather("fusegrad.nn.modules.batchnorm", globals())
