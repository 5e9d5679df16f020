"""`torch.nn.init`: what users' ways to begin take from it."""

from __future__ import annotations

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.init import _calculate_fan_in_and_fan_out

__all__ = ["_calculate_correct_fan"]


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """How many inputs an output of a weight has, or the other way round. Raises ValueError for another mode.

    >>> import fusegrad as fg
    >>> _calculate_correct_fan(fg.empty(4, 2, 3, 3), "fan_in")
    18
    """
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise failure(ValueError, f"Mode {mode} not supported, please use one of {list(modes)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]
