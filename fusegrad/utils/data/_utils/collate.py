"""Collation with functions by type, as `torch.utils.data._utils.collate`."""

from fusegrad.eager.data.collate import *
from fusegrad.eager.data.collate import __all__ as __all__
