"""Functions with gradients of their own, as `torch.autograd.function`."""

from fusegrad.eager.autograd.function import *
from fusegrad.eager.autograd.function import __all__ as __all__
