"""Normalisation of the last dimensions, and by length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.families import Composite
from fusegrad.eager.op import bind
from fusegrad.eager.ops import reduction, shape
from fusegrad.eager.ops.elementwise import rsqrt
from fusegrad.eager.ops.special import clamp
from fusegrad.eager.tensor import Tensor


def _standardized(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """x with mean 0 and variance 1 over `dims`, and what it was scaled by."""
    away = x - reduction.mean(x, dims, True)
    scale = rsqrt(reduction.mean(away * away, dims, True) + eps)
    return away * scale, scale


def _layer_norm_numpy(x: np.ndarray, dims: tuple[int, ...], eps: float) -> Any:
    count = x.dtype.type(math.prod(x.shape[d] for d in dims))
    away = x - np.add.reduce(x, axis=dims, keepdims=True) / count
    variance = np.add.reduce(away * away, axis=dims, keepdims=True) / count
    return away * (1 / np.sqrt(variance + x.dtype.type(eps)))


def _layer_norm_gradient(g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    out, scale = _standardized(x, dims, eps)
    return (g - reduction.mean(g, dims, True) - out * reduction.mean(g * out, dims, True)) * scale


_layer_norm = Composite(
    "layer_norm",
    "x",
    lambda x, dims, eps: _standardized(x, dims, eps)[0],
    _layer_norm_numpy,
    {"x": _layer_norm_gradient},
    "NativeLayerNormBackward0",
)


def _affine_sum(g: Tensor, size: tuple[int, ...]) -> Tensor:
    """The gradient of a weight of shape `size` that was broadcast over leading dimensions."""
    leading = tuple(range(g.array.ndim - len(size)))
    return reduction.sum(g, leading) if leading else g


_layer_norm_affine = Composite(
    "layer_norm_affine",
    "x weight bias",
    lambda x, weight, bias, dims, eps: _standardized(x, dims, eps)[0] * weight + bias,
    lambda x, weight, bias, dims, eps: _layer_norm_numpy(x, dims, eps) * weight + bias,
    {
        "x": lambda g, x, weight, dims, eps: _layer_norm_gradient(g * weight, x, dims, eps),
        "weight": lambda g, x, weight_type, dims, eps: _affine_sum(
            g * _standardized(x, dims, eps)[0], weight_type.shape
        ),
        "bias": lambda g, bias_type: _affine_sum(g, bias_type.shape),
    },
    "NativeLayerNormBackward0",
)


def _trailing(input: Tensor, normalized_shape: Any) -> tuple[int, ...]:
    """The dimensions that `normalized_shape` names, checked."""
    wanted = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    size = input.array.shape
    if not wanted or size[len(size) - len(wanted) :] != wanted:
        raise failure(
            RuntimeError,
            f"Given normalized_shape={list(wanted)}, expected input with shape [*, "
            f"{', '.join(map(str, wanted))}], but got input of size{list(size)}",
        )
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
    params = {"dims": _trailing(input, normalized_shape), "eps": eps}
    if weight is not None and bias is not None:
        return bind(_layer_norm_affine, (input, weight, bias), params)
    result = bind(_layer_norm, (input,), params)
    if weight is not None:
        result = result * weight
    return result if bias is None else result + bias


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Root mean square 1 over the last dimensions, then weight. Source: `torch.nn.functional.rms_norm`."""
    dims = _trailing(input, normalized_shape)
    small = float(np.finfo(input.array.dtype).eps) if eps is None else eps
    result = input * rsqrt(reduction.mean(input * input, dims, True) + small)
    return result if weight is None else result * weight


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """Length 1 along `dim`. Source: `torch.nn.functional.normalize`."""
    length = clamp(reduction.norm(input, p, dim, True), eps)
    return input / shape.expand(length, input.array.shape)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`. Source: `torch.cosine_similarity`."""
    first = clamp(reduction.norm(x1, 2, dim, True), eps)
    second = clamp(reduction.norm(x2, 2, dim, True), eps)
    return reduction.sum((x1 / first) * (x2 / second), dim)
