"""Normalisation: mean 0 and variance 1 over some dimensions, then weight and bias.

Layer, group, instance and batch norm are one op over different dimensions; batch norm also keeps
running statistics, which it uses in evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticComposite
from fusegrad.eager.core.memory_order import Order, channels
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape import padding


def _standardized(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """x with mean 0 and variance 1 over `dims`, and what it was scaled by."""
    away = x - ops.mean(x, dims, True)
    scale = ops.rsqrt(ops.mean(away * away, dims, True) + eps)
    return away * scale, scale


def _standardized_numpy(x: np.ndarray, dims: tuple[int, ...], eps: float, node: str) -> Any:
    count = x.dtype.type(math.prod(x.shape[d] for d in dims))
    away = x - np.add.reduce(x, axis=dims, keepdims=True) / count
    variance = np.add.reduce(away * away, axis=dims, keepdims=True) / count
    return away * (1 / np.sqrt(variance + x.dtype.type(eps)))


def _standardized_gradient(g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    out, scale = _standardized(x, dims, eps)
    return (g - ops.mean(g, dims, True) - out * ops.mean(g * out, dims, True)) * scale


_CHANNELS = channels(4, 5)


def _standardized_order(shape: tuple[int, ...], operands: Any, params: Any) -> Order:
    return _CHANNELS(shape, operands, params) if params["node"] == "batch" else None


# node: which of PyTorch's ops it stands for; its backward node has the name ("layer", "batch", "group").
_standardize = AnalyticComposite(
    "standardize",
    "x",
    lambda x, dims, eps, node: _standardized(x, dims, eps)[0],
    _standardized_numpy,
    {"x": _standardized_gradient},
    lambda params: f"Native{params['node'].capitalize()}NormBackward0",
    _standardized_order,
)
_standardize_affine = AnalyticComposite(
    "standardize_affine",
    "x weight bias",
    lambda x, weight, bias, dims, eps, node: _standardized(x, dims, eps)[0] * weight + bias,
    lambda x, weight, bias, dims, eps, node: _standardized_numpy(x, dims, eps, node) * weight + bias,
    {
        "x": lambda g, x, weight, dims, eps: _standardized_gradient(g * weight, x, dims, eps),
        "weight": lambda g, x, dims, eps: g * _standardized(x, dims, eps)[0],
        "bias": lambda g: g,
    },
    lambda params: f"Native{params['node'].capitalize()}NormBackward0",
    _standardized_order,
)

_standardize.numbers_vary = _standardize_affine.numbers_vary = True
_standardize.turns = _standardize_affine.turns = 4


def _normalized(
    x: Tensor, dims: tuple[int, ...], eps: float, node: str, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Standardised over `dims`, with a weight and bias that broadcast."""
    if dtypes.opmath(x.array.dtype) != x.array.dtype:  # squares of half precision overflow
        wide, weight, bias = (_in_single(t) for t in (x, weight, bias))
        return ops.cast(_normalized(wide, dims, eps, node, weight, bias), x.dtype)
    params = {"dims": dims, "eps": dtypes.as_float(eps), "node": node}
    if weight is not None and bias is not None and weight.array.dtype == x.array.dtype == bias.array.dtype:
        return bind(_standardize_affine, (x, weight, bias), params)
    return _scaled(bind(_standardize, (x,), params), weight, bias)


def _in_single(tensor: Tensor | None) -> Any:
    """Half precision as float32."""
    if tensor is None or dtypes.opmath(tensor.array.dtype) == tensor.array.dtype:
        return tensor
    return ops.cast(tensor, dtypes.float32)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias, as far as they are given, in the dtype of x."""
    result = x if weight is None else x * weight
    result = result if bias is None else result + bias
    return result if result.array.dtype == x.array.dtype else ops.cast(result, x.dtype)


def _check_floating(input: Tensor) -> None:
    if input.array.dtype.kind not in "fcV":
        raise failure(RuntimeError, f"expected a floating-point input, got {input.array.dtype.name}")


def _check_sizes(size: Sequence[int], **tensors: Tensor | None) -> None:
    """Raise RuntimeError for a tensor that does not have this size (of no channels: any)."""
    for name, tensor in tensors.items():
        if tensor is not None and size and tensor.array.shape != tuple(size):
            raise failure(
                RuntimeError, f"{name} should have shape {list(size)}, got {list(tensor.array.shape)}"
            )


# Over the last dimensions.


def _trailing(input: Tensor, normalized_shape: Any, **tensors: Tensor | None) -> tuple[int, ...]:
    """The dimensions that `normalized_shape` names, checked."""
    wanted = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    size = input.array.shape
    if not wanted or size[len(size) - len(wanted) :] != wanted or len(wanted) > len(size):
        raise failure(
            RuntimeError,
            f"Given normalized_shape={list(wanted)}, expected input with shape [*, "
            f"{', '.join(map(str, wanted))}], but got input of size{list(size)}",
        )
    _check_sizes(wanted, **tensors)
    return tuple(range(len(size) - len(wanted), len(size)))


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, then weight and bias.

    Raises RuntimeError when the last sizes are not `normalized_shape`.
    Source: `torch.nn.functional.layer_norm`.
    """
    _check_floating(input)
    dims = _trailing(input, normalized_shape, weight=weight, bias=bias)
    return _normalized(input, dims, eps, "layer", weight, bias)


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Root mean square 1 over the last dimensions, then weight. Source: `torch.nn.functional.rms_norm`."""
    _check_floating(input)
    dims = _trailing(input, normalized_shape, weight=weight)
    wide = _in_single(input.contiguous())
    small = dtypes.finfo(wide.dtype).eps if eps is None else eps  # of what it is computed in
    made = _scaled(wide * ops.rsqrt(ops.mean(wide * wide, dims, True) + small), _in_single(weight), None)
    return ops.cast(made, input.dtype)


# Over channels, the second dimension.


def _per_channel(tensor: Tensor | None, ndim: int) -> Tensor | None:
    """A tensor [C] that broadcasts over [N, C, ...]."""
    return tensor if tensor is None or ndim <= 2 else ops.reshape(tensor, (-1,) + (1,) * (ndim - 2))


def _check_many(count: int, size: Sequence[int], what: str) -> None:
    if count == 1:
        raise failure(ValueError, f"Expected more than 1 {what} when training, got input size {list(size)}")


def _moved_to(running: Tensor | None, fresh: Tensor, momentum: float) -> None:
    """Move a running statistic toward a fresh one, in place."""
    if running is not None:
        running.copy_(running * (1 - momentum) + ops.cast(fresh, running.dtype) * momentum)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 of each channel over the batch, then weight and bias.

    input: [N, C, ...]. training: by the batch's own statistics, toward which the running ones are
    moved in place (the variance without bias); else by the running statistics.
    Raises ValueError where one value per channel is to train on. Source: `torch.nn.functional.batch_norm`.
    """
    size = input.array.shape
    if training:
        _check_many(math.prod((*size[:1], *size[2:])), size, "value per channel")
    if eps < 0 or (training and eps == 0):
        raise failure(ValueError, f"eps must be {'positive' if training else 'non-negative'}, got {eps}")
    _check_floating(input)
    _check_sizes(size[1:2], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    weight, bias = _per_channel(weight, len(size)), _per_channel(bias, len(size))
    wide = _in_single(input)
    if not training:
        if running_mean is None or running_var is None:
            raise failure(RuntimeError, "running_mean and running_var must be defined in evaluation mode")
        scale = ops.rsqrt(_in_single(_per_channel(running_var, len(size))) + eps)
        scale = scale if weight is None else scale * _in_single(weight)
        shift = -_in_single(_per_channel(running_mean, len(size))) * scale
        if _CHANNELS(size, [input.array], {}) is None:
            wide = wide.contiguous()
        made = _scaled(wide, scale, shift if bias is None else shift + _in_single(bias))
        return ops.cast(made, input.dtype)
    dims = (0, *range(2, len(size)))
    # A batch of no rows has no statistics, and leaves the running ones as they are.
    if (running_mean is not None or running_var is not None) and math.prod(size) != 0:
        with no_grad():
            _moved_to(running_mean, ops.mean(wide, dims), momentum)
            _moved_to(running_var, wide.var(dims), momentum)
    return _normalized(input, dims, eps, "batch", weight, bias)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 of each channel of each row of the batch, then weight and bias.

    input: [N, C, ...]. Running statistics as in `batch_norm`, averaged over the batch; they are used
    unless `use_input_stats`. Source: `torch.nn.functional.instance_norm`.
    """
    size = input.array.shape
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_many(math.prod(size[2:]), size, "spatial element")
    _check_floating(input)
    if len(size) < 3:
        raise failure(RuntimeError, f"expected an input [N, C, ...], got shape {list(size)}")
    _check_sizes(size[1:2], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    dims = tuple(range(2, len(size)))
    if running_mean is not None or running_var is not None:
        with no_grad():
            _moved_to(running_mean, ops.mean(input, (0, *dims)), momentum)
            _moved_to(running_var, ops.mean(input.var(dims), 0), momentum)
    normalized = _normalized(
        input, dims, eps, "batch", _per_channel(weight, len(size)), _per_channel(bias, len(size))
    )
    return ops.contiguous(normalized)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over groups of channels, then weight and bias of each channel.

    input: [N, C, ...] with C divisible by `num_groups`. Source: `torch.nn.functional.group_norm`.
    """
    size = input.array.shape
    if len(size) < 2:
        raise failure(
            RuntimeError, f"Expected at least 2 dimensions for input tensor but received {len(size)}"
        )
    if num_groups <= 0 or size[1] % num_groups:
        raise failure(
            RuntimeError,
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(size)} and num_groups={num_groups}",
        )
    _check_many(math.prod((*size[:2], *size[2:])) // num_groups, size, "value per channel")
    _check_floating(input)
    _check_sizes(size[1:2], weight=weight, bias=bias)
    inner = (size[1] // num_groups, *size[2:])
    affine = (num_groups, inner[0]) + (1,) * (len(size) - 2)
    weight, bias = (None if t is None else ops.reshape(t, affine) for t in (weight, bias))
    groups = ops.reshape(input, (size[0], num_groups, *inner))
    out = _normalized(groups, tuple(range(2, len(size) + 1)), eps, "group", weight, bias)
    return ops.lying_as_images(owned(ops.reshape(out, size)), input)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divided by (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    input: [N, C, ...], with at least one dimension behind the channels, else ValueError.
    Source: `torch.nn.functional.local_response_norm`.
    """
    sizes = input.array.shape
    if len(sizes) < 3:
        raise failure(ValueError, f"Expected 3D or higher dimensionality input (got {len(sizes)} dimensions)")
    if not input.array.size:
        return input
    widths = [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (len(sizes) - 2)
    squares = padding.padded(input * input, widths, 0.0)
    total = sum((ops.narrow(squares, 1, i, sizes[1]) for i in range(1, size)), squares[:, : sizes[1]])
    mean = total / size if squares.array.dtype.kind in "fV" else ops.div(total, size, rounding_mode="floor")
    return input / (mean * alpha + k) ** beta


# With the statistics, under the names of PyTorch's inner functions.


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The mean over `dims`, and 1 / the deviation."""
    variance = x.var(dims, correction=0, keepdim=keepdim)
    return ops.mean(x, dims, keepdim), ops.rsqrt(variance + eps)


@public
def native_layer_norm(
    input: Tensor, normalized_shape: Ints, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`, the means and 1 / the deviations. Source: `torch.native_layer_norm`."""
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    return out, *_statistics(input, _trailing(input, normalized_shape), eps, True)


@public
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm`, the means and 1 / the deviations [N, group]. Source: `torch.native_group_norm`."""
    out = group_norm(input, group, weight, bias, eps)
    return out, *_statistics(ops.reshape(input, (N, group, C // group * HxW)), (2,), eps, False)


@public
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm`, the batch's means and 1 / the deviations (empty in evaluation).

    Source: `torch.native_batch_norm`.
    """
    out = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, ops.empty(0, dtype=input.dtype), ops.empty(0, dtype=input.dtype)
    return out, *_statistics(input, (0, *range(2, input.array.ndim)), eps, False)
