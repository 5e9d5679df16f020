"""Special functions, as `torch.special`."""

from fusegrad.eager.special import *
from fusegrad.eager.special import __all__ as __all__
