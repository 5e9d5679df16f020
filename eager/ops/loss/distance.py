"""Lengths of vectors, distances and angles between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public


def at_least(x: Tensor, low: float) -> Tensor:
    """`x` lifted to `low`, with the gradient of `x` itself, as PyTorch lifts lengths and variances."""
    return x + ops.where(x < low, low - x, 0.0).detach()  # nothing for one that is infinite


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Length 1 along `dim`. Source: `torch.nn.functional.normalize`."""
    length = ops.clamp(ops.norm(input, p, dim, True), eps)
    result = input / ops.expand(length, input.array.shape)
    return result if out is None else out.copy_(result)


@public
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`. Source: `torch.cosine_similarity`."""
    kind = dtypes.result_type([x1.array, x2.array])
    if kind.kind not in "fcV":
        raise failure(RuntimeError, f"expected common dtype to be floating point, yet common dtype is {kind}")
    size = np.broadcast_shapes(x1.array.shape, x2.array.shape)
    sides = [ops.cast(ops.expand(x, size), kind) for x in (x1, x2)]
    first, second = (x / at_least(ops.norm(x, 2, dim, True), eps) for x in sides)
    return ops.sum(first * second, dim)


@public
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension. Source: `torch.pairwise_distance`."""
    return ops.norm(x1 - x2 + eps, p, -1, keepdim)
