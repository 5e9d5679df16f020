"""Collectives that gradients go through, as `torch.distributed.nn`."""

from fusegrad.distributed.nn import functional as functional
from fusegrad.eager.distributed.functional import *
from fusegrad.eager.distributed.functional import __all__ as _names

__all__ = [*_names, "functional"]
