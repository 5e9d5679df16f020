"""What programs ask `torch.mps`: the answers of a machine without such a device."""

from __future__ import annotations

from fusegrad.eager.core.public import locate
from fusegrad.eager.devices.absent import device_count, is_available, manual_seed, needs_device

synchronize = needs_device("mps.synchronize")
empty_cache = needs_device("mps.empty_cache")
current_allocated_memory = needs_device("mps.current_allocated_memory")
driver_allocated_memory = needs_device("mps.driver_allocated_memory")
get_rng_state = needs_device("mps.get_rng_state")
set_rng_state = needs_device("mps.set_rng_state")
set_per_process_memory_fraction = needs_device("mps.set_per_process_memory_fraction")

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "manual_seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]
locate("fusegrad.mps", globals(), __all__)
