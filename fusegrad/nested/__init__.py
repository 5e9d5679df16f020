"""Batches of examples that have another length each, as `torch.nested` with `layout=torch.jagged`."""

from fusegrad.eager.nested.api import *
from fusegrad.eager.nested.api import __all__ as __all__
