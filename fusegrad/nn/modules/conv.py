"""Convolutions, as `torch.nn.modules.conv`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd as _ConvNd,
    _ConvTransposeNd as _ConvTransposeNd,
)
from fusegrad.eager.nn.lazy_layers import (
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
    _LazyConvXdMixin as _LazyConvXdMixin,
)

__all__ = gather("fusegrad.nn.modules.conv", globals())
