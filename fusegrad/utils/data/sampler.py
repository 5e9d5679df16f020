"""Samplers, as `torch.utils.data.sampler`."""

from fusegrad.eager.data.sampler import *
from fusegrad.eager.data.sampler import __all__ as __all__
