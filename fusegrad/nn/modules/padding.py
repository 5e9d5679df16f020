"""Padding, as `torch.nn.modules.padding`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.resampling import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
    _CircularPadNd as _CircularPadNd,
    _ConstantPadNd as _ConstantPadNd,
    _ReflectionPadNd as _ReflectionPadNd,
    _ReplicationPadNd as _ReplicationPadNd,
)

__all__ = gather("fusegrad.nn.modules.padding", globals())
