"""What programs ask `torch.mps`: there is none."""

from fusegrad.eager.devices.mps import *
from fusegrad.eager.devices.mps import __all__ as __all__
