"""Transforms of functions, as `torch.func`."""

from fusegrad.eager.autograd.func import *
from fusegrad.eager.autograd.func import __all__ as __all__
