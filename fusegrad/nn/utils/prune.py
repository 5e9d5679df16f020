"""Parameters with parts set to 0, as `torch.nn.utils.prune`."""

from fusegrad.eager.nn.utils.prune import *
from fusegrad.eager.nn.utils.prune import __all__ as __all__
