"""Derivatives of functions, as `torch.autograd.functional`."""

from fusegrad.eager.autograd.functional import *
from fusegrad.eager.autograd.functional import __all__ as __all__
