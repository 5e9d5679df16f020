"""`torch.utils.checkpoint`: the states of devices, of which there are none."""

from __future__ import annotations

from typing import Any

__all__ = ["get_device_states", "set_device_states"]


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices of tensors, and the states of their random numbers: none beside the CPU's."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Set the states of devices' random numbers: there are none."""
