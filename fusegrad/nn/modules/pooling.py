"""Pools, as `torch.nn.modules.pooling`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
    _AdaptiveAvgPoolNd as _AdaptiveAvgPoolNd,
    _AdaptiveMaxPoolNd as _AdaptiveMaxPoolNd,
    _AvgPoolNd as _AvgPoolNd,
    _LPPoolNd as _LPPoolNd,
    _MaxPoolNd as _MaxPoolNd,
    _MaxUnpoolNd as _MaxUnpoolNd,
)

__all__ = gather("fusegrad.nn.modules.pooling", globals())
