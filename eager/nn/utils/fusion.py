"""A layer and the batch norm behind it as one layer, for inference. Source: `torch.nn.utils.fusion`."""

from __future__ import annotations

import copy
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module, Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that gives what `bn(conv(x))` gives; both modules stay as they are.

    transpose: whether the convolution is a transposed one. Raises AssertionError unless both are in eval
    mode, and `bn` has kept statistics. Source: `torch.nn.utils.fusion.fuse_conv_bn_eval`.

    >>> import fusegrad as fg
    >>> conv, bn = fg.nn.Conv2d(3, 4, 3).eval(), fg.nn.BatchNorm2d(4).eval()
    >>> x = fg.randn(1, 3, 8, 8)
    >>> fg.allclose(fg.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    True
    """
    return _fused(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that gives what `bn(linear(x))` gives; see `fuse_conv_bn_eval`.

    Raises AssertionError, besides, for another number of features than the layer gives, unless `bn` has one.
    Source: `torch.nn.utils.fusion.fuse_linear_bn_eval`.
    """
    if bn.num_features not in (1, linear.out_features):
        raise failure(
            AssertionError,
            f"fuse_linear_bn_eval: To fuse, linear.out_features ({linear.out_features}) == bn.num_features "
            f"({bn.num_features}) or bn.num_features == 1",
        )
    return _fused(linear, bn, 0)


def _fused(layer: Module, bn: Any, dim: int) -> Module:
    if layer.training or bn.training:
        raise failure(AssertionError, "Fusion only for eval!: call eval() of both modules before")
    if bn.running_mean is None or bn.running_var is None:
        raise failure(AssertionError, "a batch norm without running statistics cannot be fused with a layer")
    fused: Any = copy.deepcopy(layer)
    known = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = _weights(fused.weight, fused.bias, *known, dim)
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with the batch norm behind it.

    conv_w: [out, in, ...], transposed [in, out, ...]; the others: [out]. bn_rm, bn_rv: running mean and
    variance; None stands for weights of 1 and biases of 0.
    Source: `torch.nn.utils.fusion.fuse_conv_bn_weights`.
    """
    return _weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight [out, in] and bias [out] of a linear layer with the batch norm behind it.

    Source: `torch.nn.utils.fusion.fuse_linear_bn_weights`.
    """
    return _weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _weights(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """The layer's weight, whose outputs are along `dim`, and its bias, scaled and moved by the batch norm."""
    factor = ops.rsqrt(variance + eps)
    if scale is not None:
        factor = scale * factor
    moved = -mean * factor if bias is None else (bias - mean) * factor
    if shift is not None:
        moved = moved + shift
    along = [1] * weight.array.ndim
    along[dim] = -1
    made = ops.cast(weight * ops.reshape(factor, tuple(along)), weight.dtype)
    moved = ops.cast(moved, weight.dtype if bias is None else bias.dtype)
    needs_gradient = bias is not None and bias.requires_grad
    return Parameter(made.detach(), weight.requires_grad), Parameter(moved.detach(), needs_gradient)
