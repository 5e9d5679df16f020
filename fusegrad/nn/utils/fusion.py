"""A layer and the batch norm behind it as one layer, as `torch.nn.utils.fusion`."""

from fusegrad.eager.nn.utils.fusion import *
from fusegrad.eager.nn.utils.fusion import __all__ as __all__
