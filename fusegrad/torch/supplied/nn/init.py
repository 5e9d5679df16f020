"""`torch.nn.init`: what users' ways to begin take from it."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import init
from fusegrad.eager.nn.init import _calculate_fan_in_and_fan_out

__all__ = ["_calculate_correct_fan", "_no_grad_fill_", "_no_grad_normal_", "_no_grad_trunc_normal_"]
__all__ += ["_no_grad_uniform_", "_no_grad_zero_"]


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


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return init.uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return init.normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    return init.trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return init.constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return init.zeros_(tensor)
