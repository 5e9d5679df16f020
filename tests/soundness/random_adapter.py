"""The backend with PyTorch's random numbers, so that a run can be compared with PyTorch's.

The two libraries draw other numbers (fusegrad's come from Philox, PyTorch's from the Mersenne twister).
"""

from __future__ import annotations

from typing import Any

import torch
from adapter import *  # noqa: F403
from adapter import (
    __getattr__ as __getattr__,
    _reset as _reset,
    dtype_name as dtype_name,
    is_tensor as is_tensor,
    jit as jit,
)

import fusegrad as fg

manual_seed = torch.manual_seed


def rand(*size: Any) -> fg.Tensor:
    """PyTorch's next uniform numbers."""
    return fg.from_numpy(torch.rand(*size).numpy())
