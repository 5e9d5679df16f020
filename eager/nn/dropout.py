"""Dropout layers: random zeros in training. As in `torch.nn`."""

from __future__ import annotations

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.module import Module


class _DropoutNd(Module):
    """A layer that applies a function of `nn.functional` with a probability."""

    function: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise failure(ValueError, f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements set to 0. Source: `torch.nn.Dropout`."""

    function = "dropout"


class Dropout1d(_DropoutNd):
    """Channels of [N, C, L] set to 0. Source: `torch.nn.Dropout1d`."""

    function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Channels of [N, C, H, W] set to 0. Source: `torch.nn.Dropout2d`."""

    function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Channels of [N, C, D, H, W] set to 0. Source: `torch.nn.Dropout3d`."""

    function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps SELU's mean and variance. Source: `torch.nn.AlphaDropout`."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels. Source: `torch.nn.FeatureAlphaDropout`."""

    function = "feature_alpha_dropout"
