"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.optim.optimizer import (
    Optimizer as Optimizer,
    ParameterGroup as ParameterGroup,
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)
