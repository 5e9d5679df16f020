"""The eager engine as a backend of the corpus: `jit` gives the function as it is.

The two libraries draw other random numbers (fusegrad's come from Philox, PyTorch's from the Mersenne
twister). Here they are PyTorch's, so that everything else about such a program can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from adapter import *  # noqa: F403
from adapter import __getattr__ as __getattr__, dtype_name as dtype_name, is_tensor as is_tensor

import fusegrad as fg

manual_seed = torch.manual_seed


def rand(*size: Any) -> fg.Tensor:
    """PyTorch's next uniform numbers."""
    return fg.from_numpy(torch.rand(*size).numpy())


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
