"""Ready-made parametrizations, as `torch.nn.utils.parametrizations`."""

from fusegrad.eager.nn.utils.parametrizations import *
from fusegrad.eager.nn.utils.parametrizations import __all__ as __all__
