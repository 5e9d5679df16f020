"""Sparse tensors by coordinates, as `torch.sparse`."""

from fusegrad.eager.sparse import *
from fusegrad.eager.sparse import __all__ as __all__
