"""What programs ask `torch.accelerator`: there is none."""

from fusegrad.eager.devices.accelerator import *
from fusegrad.eager.devices.accelerator import __all__ as __all__
