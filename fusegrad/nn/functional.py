"""Functions of neural networks, as `torch.nn.functional`."""

from fusegrad.eager.core.public import formed as _formed
from fusegrad.eager.nn.functional import *
from fusegrad.eager.nn.functional import __all__ as __all__
from fusegrad.nn import grad as grad

_formed(globals())
