"""`Module`, and the hooks of all modules, as `torch.nn.modules.module`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from fusegrad.eager.nn.module import Module

__all__ = gather("fusegrad.nn.modules.module", globals())
