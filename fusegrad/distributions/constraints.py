"""Where numbers may lie, as `torch.distributions.constraints`."""

from fusegrad.eager.distributions.constraints import *
from fusegrad.eager.distributions.constraints import __all__ as __all__
