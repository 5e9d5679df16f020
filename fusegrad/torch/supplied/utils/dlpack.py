"""`torch.utils.dlpack`."""

from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.io.interop import from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the memory of a tensor. Source: `torch.utils.dlpack.to_dlpack`."""
    return tensor.__dlpack__()
