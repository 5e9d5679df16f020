"""What programs ask `torch.cpu`: the one device that there is."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.public import locate

__all__ = ["current_device", "device_count", "is_available", "set_device", "synchronize"]


def is_available() -> bool:
    """True. Source: `torch.cpu.is_available`."""
    return True


def device_count() -> int:
    """1. Source: `torch.cpu.device_count`."""
    return 1


def current_device() -> str:
    """The name "cpu". Source: `torch.cpu.current_device`."""
    return "cpu"


def set_device(device: Any) -> None:
    """Takes the CPU, and raises RuntimeError for another device. Source: `torch.cpu.set_device`."""
    on_cpu(device)


def synchronize(device: Any = None) -> None:
    """Nothing: what was called is done. Source: `torch.cpu.synchronize`."""
    on_cpu(device)


locate("fusegrad.cpu", globals(), __all__)
