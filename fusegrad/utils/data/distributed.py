"""The sampler for several processes, as `torch.utils.data.distributed`."""

from fusegrad.eager.data.distributed import *
from fusegrad.eager.data.distributed import __all__ as __all__
