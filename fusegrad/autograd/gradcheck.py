"""Gradients against differences, as `torch.autograd.gradcheck`."""

from fusegrad.eager.autograd.gradcheck import *
from fusegrad.eager.autograd.gradcheck import __all__ as __all__
