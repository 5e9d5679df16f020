"""What programs ask `torch.cpu`: the one device."""

from fusegrad.eager.devices.cpu import *
from fusegrad.eager.devices.cpu import __all__ as __all__
