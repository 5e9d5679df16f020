"""Linear algebra, as `torch.linalg`."""

from fusegrad.eager.linalg import *
from fusegrad.eager.linalg import __all__ as __all__
