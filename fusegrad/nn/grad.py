"""Gradients of convolutions, as `torch.nn.grad`."""

from fusegrad.eager.nn.utils.grad import *
from fusegrad.eager.nn.utils.grad import __all__ as __all__
