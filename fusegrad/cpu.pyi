"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.devices.cpu import (
    current_device as current_device,
    device_count as device_count,
    is_available as is_available,
    set_device as set_device,
    synchronize as synchronize,
)
