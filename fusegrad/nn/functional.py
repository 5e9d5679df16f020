"""Functions of neural networks, as `torch.nn.functional`."""

from fusegrad.eager.core.public import formed as _formed
from fusegrad.eager.nn.functional import *
from fusegrad.eager.nn.functional import __all__ as __all__
from fusegrad.eager.ops.shape.out import give_forms as _give_forms
from fusegrad.nn import grad as grad

_give_forms("fusegrad.nn.functional", globals())
_formed(globals())
