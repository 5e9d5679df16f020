"""Normalisation of rows and channels, as `torch.nn.modules.normalization`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.normalization import GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm

__all__ = gather("fusegrad.nn.modules.normalization", globals())
