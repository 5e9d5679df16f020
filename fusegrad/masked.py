"""Reductions of what a mask keeps, as `torch.masked`."""

from fusegrad.eager.masked import *
from fusegrad.eager.masked import __all__ as __all__
