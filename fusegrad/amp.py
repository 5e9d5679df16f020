"""Mixed precision, as `torch.amp`."""

from fusegrad.eager.devices.amp import *
from fusegrad.eager.devices.amp import __all__ as __all__
