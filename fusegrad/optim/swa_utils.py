"""Averages of weights, as `torch.optim.swa_utils`."""

from fusegrad.eager.optim.swa_utils import *
from fusegrad.eager.optim.swa_utils import __all__ as __all__
