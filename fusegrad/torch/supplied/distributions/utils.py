"""`torch.distributions.utils`: what users' distributions take from it."""

from __future__ import annotations

from typing import Any

import fusegrad as fg
from fusegrad.eager.core.tensor import Tensor

__all__ = ["_standard_normal", "_sum_rightmost"]
euler_constant = 0.57721566490153286060  # Euler's and Mascheroni's


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions.

    >>> _sum_rightmost(fg.ones(2, 3, 4), 2)
    tensor([12., 12.])
    """
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draws of a normal distribution around 0."""
    return fg.randn(tuple(shape), dtype=dtype, device=device)
