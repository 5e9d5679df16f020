"""Datasets, as `torch.utils.data.dataset`."""

from fusegrad.eager.data.dataset import *
from fusegrad.eager.data.dataset import __all__ as __all__
