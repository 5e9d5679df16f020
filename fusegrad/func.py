"""Transforms of functions, as `torch.func`."""

from fusegrad.eager.autograd.func import *
from fusegrad.eager.autograd.func import __all__ as _names
from fusegrad.eager.utils.vmap import stack_module_state as stack_module_state, vmap as vmap

__all__ = [*_names, "stack_module_state", "vmap"]
