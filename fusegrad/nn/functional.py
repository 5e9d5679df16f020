"""Functions of neural networks, as `torch.nn.functional`."""

from fusegrad.eager.nn.functional import *
from fusegrad.eager.nn.functional import __all__ as __all__
