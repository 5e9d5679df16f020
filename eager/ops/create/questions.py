"""Methods of tensors that say what they are, as functions."""

from __future__ import annotations

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public


@public
def is_inference(input: Tensor) -> bool:
    """Whether it was made in `inference_mode`. Source: `torch.is_inference`."""
    return input.is_inference()


@public
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0. Source: `torch.is_nonzero`."""
    return input.is_nonzero()


@public
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers. Source: `torch.is_signed`."""
    return input.is_signed()


@public(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape. Source: `torch.is_same_size`."""
    return input.shape == other.shape


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both have the same memory, shape and strides. Source: `torch.Tensor.is_set_to`."""
    mine, other = self.array, tensor.array
    same = (mine.shape, mine.strides, mine.dtype) == (other.shape, other.strides, other.dtype)
    return same and self.data_ptr() == tensor.data_ptr()
