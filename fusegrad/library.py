"""Users' own ops, as `torch.library`."""

from fusegrad.eager.library.api import *
from fusegrad.eager.library.api import __all__ as __all__
