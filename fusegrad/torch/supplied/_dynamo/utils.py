"""`torch._dynamo.utils`."""

from __future__ import annotations

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` works for a device: for the CPU."""
    return str(device_type) == "cpu"
