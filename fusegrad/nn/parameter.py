"""Parameters and buffers, as `torch.nn.parameter`."""

from fusegrad.eager.nn.parameter import *
from fusegrad.eager.nn.parameter import __all__ as __all__
