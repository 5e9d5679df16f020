"""First values of parameters, as `torch.nn.init`."""

from fusegrad.eager.nn.init import *
from fusegrad.eager.nn.init import __all__ as __all__
