"""Modules without their first values, as `torch.nn.utils.init`."""

from fusegrad.eager.nn.utils.init import *
from fusegrad.eager.nn.utils.init import __all__ as __all__
