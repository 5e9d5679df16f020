"""What programs ask `torch.cuda` before they use the CPU: there is no such device."""

from fusegrad.cuda import amp as amp
from fusegrad.eager.devices.cuda import *
from fusegrad.eager.devices.cuda import __all__ as _names

__all__ = [*_names, "amp"]
