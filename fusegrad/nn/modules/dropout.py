"""Dropout, as `torch.nn.modules.dropout`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
    _DropoutNd as _DropoutNd,
)

__all__ = gather("fusegrad.nn.modules.dropout", globals())
