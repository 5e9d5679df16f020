"""Random numbers, as `torch.random`."""

from fusegrad.eager.random import *
from fusegrad.eager.random import __all__ as __all__
