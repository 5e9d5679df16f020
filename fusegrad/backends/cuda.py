"""Settings of a device that is not there, as `torch.backends.cuda`: they are kept, and nobody reads them."""

from fusegrad.eager.devices.absent import is_built as is_built
from fusegrad.eager.devices.backends import *
from fusegrad.eager.devices.backends import CuBLASSettings, __all__ as _names

matmul = CuBLASSettings()

__all__ = [*_names, "is_built", "matmul"]
