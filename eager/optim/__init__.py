"""Optimizers and learning-rate schedules. Laid out as `torch.optim`."""

from fusegrad.eager.optim import lr_scheduler
from fusegrad.eager.optim.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
