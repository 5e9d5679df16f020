"""Parameters and buffers, as `torch.nn.parameter`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.parameter import *

__all__ = gather("fusegrad.nn.parameter", globals())
