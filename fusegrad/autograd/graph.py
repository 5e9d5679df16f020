"""The autograd graph and what it keeps, as `torch.autograd.graph`."""

from fusegrad.eager.autograd.graph import *
from fusegrad.eager.autograd.graph import __all__ as __all__
