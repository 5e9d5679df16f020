"""What programs ask `torch.accelerator`: the answers of a machine that has the CPU alone."""

from __future__ import annotations

from fusegrad.eager.core.public import locate
from fusegrad.eager.devices.absent import device_count, is_available, needs_device


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no other device than the CPU. Source: `torch.accelerator.current_accelerator`."""
    return None


synchronize = needs_device("accelerator.synchronize")
empty_cache = needs_device("accelerator.empty_cache")
current_device_index = needs_device("accelerator.current_device_index")
current_stream = needs_device("accelerator.current_stream")
set_device_index = needs_device("accelerator.set_device_index")
memory_allocated = needs_device("accelerator.memory_allocated")

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "memory_allocated",
    "set_device_index",
    "synchronize",
]
locate("fusegrad.accelerator", globals(), __all__)
