"""What programs ask `torch.xpu`: there is none."""

from fusegrad.eager.devices.xpu import *
from fusegrad.eager.devices.xpu import __all__ as __all__
