"""Learning rate schedules, as `torch.optim.lr_scheduler`."""

from fusegrad.eager.optim.lr_scheduler import *
from fusegrad.eager.optim.lr_scheduler import __all__ as __all__
