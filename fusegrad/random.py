"""Random numbers, as `torch.random`."""

from fusegrad.eager.core.public import formed as _formed
from fusegrad.eager.random import *
from fusegrad.eager.random import __all__ as __all__

_formed(globals())
