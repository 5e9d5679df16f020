"""Where the time of eager ops goes, as `torch.profiler`."""

from fusegrad.eager.profiler import *
from fusegrad.eager.profiler import __all__ as __all__
