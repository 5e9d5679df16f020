"""What programs ask `torch.cuda`: the answers of a machine without such a device."""

from __future__ import annotations

import contextlib
from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.devices.absent import (
    Absent,
    device_count,
    is_available,
    manual_seed,
    manual_seed_all,
    needs_device,
    refuse,
)


class OutOfMemoryError(RuntimeError):
    """What a device without memory raises; never here. Source: `torch.cuda.OutOfMemoryError`."""


def is_initialized() -> bool:
    """False: there is nothing to initialize. Source: `torch.cuda.is_initialized`."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device. Source: `torch.cuda.is_bf16_supported`."""
    return False


def get_arch_list() -> list[str]:
    """No architectures. Source: `torch.cuda.get_arch_list`."""
    return []


def get_rng_state_all() -> list[Any]:
    """The states of no devices. Source: `torch.cuda.get_rng_state_all`."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Nothing, for no states; raises RuntimeError for any. Source: `torch.cuda.set_rng_state_all`."""
    if list(new_states):
        refuse("cuda.set_rng_state_all")


def seed() -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.seed`."""


def seed_all() -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.seed_all`."""


def empty_cache() -> None:
    """Nothing: no memory is kept for a device. Source: `torch.cuda.empty_cache`."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes. Source: `torch.cuda.memory_allocated`."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0 bytes. Source: `torch.cuda.max_memory_allocated`."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0 bytes. Source: `torch.cuda.memory_reserved`."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0 bytes. Source: `torch.cuda.max_memory_reserved`."""
    return 0


def stream(stream: Any) -> Any:
    """A `with` block of no stream; raises RuntimeError for one. Source: `torch.cuda.stream`."""
    if stream is not None:
        refuse("cuda.stream")
    return contextlib.nullcontext()


init = needs_device("cuda.init")
synchronize = needs_device("cuda.synchronize")
current_device = needs_device("cuda.current_device")
set_device = needs_device("cuda.set_device")
get_device_name = needs_device("cuda.get_device_name")
get_device_capability = needs_device("cuda.get_device_capability")
get_device_properties = needs_device("cuda.get_device_properties")
can_device_access_peer = needs_device("cuda.can_device_access_peer")
current_stream = needs_device("cuda.current_stream")
default_stream = needs_device("cuda.default_stream")
initial_seed = needs_device("cuda.initial_seed")
get_rng_state = needs_device("cuda.get_rng_state")
set_rng_state = needs_device("cuda.set_rng_state")
ipc_collect = needs_device("cuda.ipc_collect")
mem_get_info = needs_device("cuda.mem_get_info")
memory_stats = needs_device("cuda.memory_stats")
memory_summary = needs_device("cuda.memory_summary")
reset_peak_memory_stats = needs_device("cuda.reset_peak_memory_stats")
reset_max_memory_allocated = needs_device("cuda.reset_max_memory_allocated")
utilization = needs_device("cuda.utilization")


class Stream(Absent):
    """A queue of work of a device. Source: `torch.cuda.Stream`."""


class Event(Absent):
    """A mark in a queue of work. Source: `torch.cuda.Event`."""


class device(Absent):
    """A `with` block in which a device is chosen. Source: `torch.cuda.device`."""


class BoolTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.BoolTensor`."""


class ByteTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.ByteTensor`."""


class IntTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.IntTensor`."""


class LongTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.LongTensor`."""


class HalfTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.HalfTensor`."""


class FloatTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.FloatTensor`."""


class DoubleTensor(Absent):
    """A type of tensors on the device. Source: `torch.cuda.DoubleTensor`."""


__all__ = [
    "BoolTensor",
    "ByteTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "Stream",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
    "utilization",
]
locate("fusegrad.cuda", globals(), __all__)
