"""Optimizers, as `torch.optim`."""

from fusegrad.eager.optim import *
from fusegrad.eager.optim import __all__ as _names
from fusegrad.optim import lr_scheduler as lr_scheduler, optimizer as optimizer

__all__ = [*_names, "lr_scheduler", "optimizer"]
