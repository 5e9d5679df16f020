"""Parameters that are computed from others, as `torch.nn.utils.parametrize`."""

from fusegrad.eager.nn.utils.parametrize import *
from fusegrad.eager.nn.utils.parametrize import __all__ as __all__
