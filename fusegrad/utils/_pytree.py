"""Containers of tensors, as `torch.utils._pytree`."""

from fusegrad.eager.utils.containers import *
from fusegrad.eager.utils.containers import __all__ as __all__
