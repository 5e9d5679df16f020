"""Mixed precision on a device that is not there, as `torch.cuda.amp`."""

from fusegrad.eager.devices.cuda_amp import *
from fusegrad.eager.devices.cuda_amp import __all__ as __all__
