"""Optimizers and learning-rate schedules. Laid out as `torch.optim`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.optim.adafactor import Adafactor
from fusegrad.eager.optim.adaptive import Adam, Adamax, AdamW, NAdam, RAdam
from fusegrad.eager.optim.descent import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop
from fusegrad.eager.optim.lbfgs import LBFGS
from fusegrad.eager.optim.muon import Muon
from fusegrad.eager.optim.optimizer import Optimizer

__all__ = gather("fusegrad.optim", globals())
