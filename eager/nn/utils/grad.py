"""Gradients of convolutions with respect to input and weight. Source: `torch.nn.grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import enable_grad
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.eager.nn import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _pulled_back(make: Callable[[Tensor], Tensor], size: Sequence[int], grad_output: Tensor) -> Tensor:
    """What `grad_output` is pulled back to along a linear function of a tensor of `size`."""
    with enable_grad():
        leaf = require_grad(ops.zeros(tuple(size), dtype=grad_output.dtype))
        output = make(leaf)
    (found,) = autograd.grad(output, leaf, grad_output)
    assert found is not None
    return found


def _of_input(rank: int) -> Callable[..., Tensor]:
    convolution = _CONVOLUTIONS[rank]

    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """The gradient of a convolution's input, from that of its output."""
        kernel = weight.detach()
        return _pulled_back(
            lambda input: convolution(input, kernel, None, stride, padding, dilation, groups),
            input_size,
            grad_output,
        )

    return renamed(conv_input, f"conv{rank}d_input")


def _of_weight(rank: int) -> Callable[..., Tensor]:
    convolution = _CONVOLUTIONS[rank]

    def conv_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """The gradient of a convolution's weight, from that of its output."""
        given = input.detach()
        return _pulled_back(
            lambda weight: convolution(given, weight, None, stride, padding, dilation, groups),
            weight_size,
            grad_output,
        )

    return renamed(conv_weight, f"conv{rank}d_weight")


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))

locate("fusegrad.nn.grad", globals(), __all__)
