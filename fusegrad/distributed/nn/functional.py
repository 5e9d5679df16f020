"""Collectives that gradients go through, as `torch.distributed.nn.functional`."""

from fusegrad.eager.distributed.functional import *
from fusegrad.eager.distributed.functional import __all__ as __all__
