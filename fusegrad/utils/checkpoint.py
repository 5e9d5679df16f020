"""Memory saved by computing again, as `torch.utils.checkpoint`."""

from fusegrad.eager.utils.checkpoint import *
from fusegrad.eager.utils.checkpoint import __all__ as __all__
