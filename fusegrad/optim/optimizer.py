"""What all optimizers have, as `torch.optim.optimizer`."""

from fusegrad.eager.optim.optimizer import *
from fusegrad.eager.optim.optimizer import __all__ as __all__
