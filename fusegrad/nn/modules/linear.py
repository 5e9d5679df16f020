"""Linear layers, as `torch.nn.modules.linear`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.lazy_layers import LazyLinear
from fusegrad.eager.nn.linear import Bilinear, Identity, Linear

__all__ = gather("fusegrad.nn.modules.linear", globals())
