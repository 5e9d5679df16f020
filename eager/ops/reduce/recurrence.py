"""Linear recurrences along a dimension, which gradients of running products and sums obey.

The op `linear_recurrence` computes h[i] = b[i] + a[i] h[i-1] with h[-1] = 0. Its own gradients are
recurrences again, so whatever is made of it has exact derivatives of every order.
"""

from __future__ import annotations

import math

import numpy as np

from fusegrad.eager.core.families import AnalyticOpaque
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor

_LONG = 512  # from this length on, blocks are quicker


def _recurrence_numpy(a: np.ndarray, b: np.ndarray, dim: int) -> np.ndarray:
    factors, result = np.moveaxis(a, dim, 0), np.array(np.moveaxis(b, dim, 0))
    if len(result) >= _LONG:
        result = _in_blocks(factors, result)
    else:
        _walk(factors, result)
    return np.moveaxis(result, 0, dim)


def _walk(factors: np.ndarray, result: np.ndarray) -> None:
    """Turn b into h in place, along the first dimension."""
    for i in range(1, len(result)):
        result[i] += factors[i] * result[i - 1]


def _in_blocks(factors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """All blocks of about sqrt(n) elements side by side, then what each block hands to the next."""
    n, rest = len(values), values.shape[1:]
    size = math.isqrt(n - 1) + 1
    a, h = np.zeros((2, size * size, *rest), values.dtype)
    a[:n], h[:n] = factors, values
    a, h = (np.moveaxis(x.reshape(size, size, *rest), 1, 0) for x in (a, h))  # [place, block, ...]
    _walk(a, h)
    reach = np.multiply.accumulate(a, axis=0)  # how much of what comes in is left at each place
    for block in range(1, size):
        h[:, block] += reach[:, block] * h[-1, block - 1]
    return np.moveaxis(h, 0, 1).reshape(size * size, *rest)[:n]


def backward_recurrence(g: Tensor, a: Tensor, dim: int) -> Tensor:
    """h[i] = g[i] + a[i+1] h[i+1], from the last element to the first: the gradient of `b`."""
    factors = shifted(reversed_along(a, dim), dim, 0.0)
    return reversed_along(bind(_recurrence, (factors, reversed_along(g, dim)), {"dim": dim}), dim)


_recurrence = AnalyticOpaque(
    "linear_recurrence",
    "a b",
    _recurrence_numpy,
    lambda types, dim: types[1],
    {
        "a": lambda g, a, out, dim: backward_recurrence(g, a, dim) * shifted(out, dim, 0.0),
        "b": backward_recurrence,
    },
    refuses="",
)


def reversed_along(x: Tensor, dim: int) -> Tensor:
    """`x` with the elements along `dim` in the other order."""
    return ops.flip(x, (dim,))


def shifted(x: Tensor, dim: int, first: float) -> Tensor:
    """The element before each along `dim`; `first` before the first."""
    size = x.array.shape
    if not size[dim]:
        return x
    start = ops.full((*size[:dim], 1, *size[dim + 1 :]), first, dtype=x.dtype)
    return ops.cat([start, ops.narrow(x, dim, 0, size[dim] - 1)], dim)
