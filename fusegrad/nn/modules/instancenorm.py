"""Normalisation of single rows, as `torch.nn.modules.instancenorm`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.lazy_layers import LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d
from fusegrad.eager.nn.normalization import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _InstanceNorm

__all__ = gather("fusegrad.nn.modules.instancenorm", globals())
