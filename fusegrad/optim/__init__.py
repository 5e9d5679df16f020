"""Optimizers, as `torch.optim`."""

from fusegrad.eager.optim import *
from fusegrad.eager.optim import __all__ as _names
from fusegrad.optim import lr_scheduler as lr_scheduler, optimizer as optimizer, swa_utils as swa_utils

__all__ = [*_names, "lr_scheduler", "optimizer", "swa_utils"]
