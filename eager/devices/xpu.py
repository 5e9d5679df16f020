"""What programs ask `torch.xpu`: the answers of a machine without such a device."""

from __future__ import annotations

from fusegrad.eager.core.public import locate
from fusegrad.eager.devices.absent import (
    device_count,
    is_available,
    manual_seed,
    manual_seed_all,
    needs_device,
)


def empty_cache() -> None:
    """Nothing: no memory is kept for a device. Source: `torch.xpu.empty_cache`."""


synchronize = needs_device("xpu.synchronize")
current_device = needs_device("xpu.current_device")
set_device = needs_device("xpu.set_device")
get_device_name = needs_device("xpu.get_device_name")

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "set_device",
    "synchronize",
]
locate("fusegrad.xpu", globals(), __all__)
