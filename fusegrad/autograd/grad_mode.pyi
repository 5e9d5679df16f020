"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.core.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
