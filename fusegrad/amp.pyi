"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.devices.amp import (
    GradScaler as GradScaler,
    autocast as autocast,
    custom_bwd as custom_bwd,
    custom_fwd as custom_fwd,
)
from fusegrad.eager.devices.autocasting import is_autocast_available as is_autocast_available
