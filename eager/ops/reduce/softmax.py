"""Softmax and log_softmax: rows shifted by their largest element, so that nothing overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.shape import normal_dim


def _softmax_numpy(x: np.ndarray, dim: int) -> Any:
    shifted = np.exp(x - np.maximum.reduce(x, axis=dim, keepdims=True))
    return shifted / np.add.reduce(shifted, axis=dim, keepdims=True)


def _softmax_decomposed(x: Tensor, dim: int) -> Tensor:
    shifted = ops.exp(x - ops.amax(x, dim, True))
    # The sum is 1 at least; one division a row is enough.
    return shifted * (1 / ops.sum(shifted, dim, True))


def _log_softmax_numpy(x: np.ndarray, dim: int) -> Any:
    shifted = x - np.maximum.reduce(x, axis=dim, keepdims=True)
    return shifted - np.log(np.add.reduce(np.exp(shifted), axis=dim, keepdims=True))


def _log_softmax_decomposed(x: Tensor, dim: int) -> Tensor:
    shifted = x - ops.amax(x, dim, True)
    return shifted - ops.log(ops.sum(ops.exp(shifted), dim, True))


_softmax = Composite(
    "softmax",
    "x",
    _softmax_decomposed,
    lambda x, dim: _softmax_numpy(x, dim) if x.size else x.copy(),
    {"x": lambda g, out, dim: out * (g - ops.sum(g * out, dim, True))},
)
_log_softmax = Composite(
    "log_softmax",
    "x",
    _log_softmax_decomposed,
    lambda x, dim: _log_softmax_numpy(x, dim) if x.size else x.copy(),
    {"x": lambda g, out, dim: g - ops.exp(out) * ops.sum(g, dim, True)},
)


def _soft(op: Composite, input: Tensor, dim: int | None, dtype: Any) -> Tensor:
    if dtype is not None:
        input = ops.cast(input, dtype)
    if input.array.dtype.kind not in "fV":
        raise failure(RuntimeError, f"not implemented for {input.array.dtype.name}; pass dtype=float32")
    if dim is None:  # PyTorch's choice for old programs
        dim = 0 if input.array.ndim in (0, 1, 3) else 1
    if not input.array.ndim:
        normal_dim(dim, 0)
        return owned(bind(op, (input.reshape(1),), {"dim": 0}).reshape(()))
    return bind(op, (input,), {"dim": normal_dim(dim, input.array.ndim)})


@public(method=True)
def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) scaled to sum to 1 along `dim`. Source: `torch.softmax`.

    >>> import fusegrad as fg
    >>> fg.softmax(fg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _soft(_softmax, input, dim, dtype)


@public(method=True)
def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """log(softmax(x)) without overflow. Source: `torch.log_softmax`."""
    return _soft(_log_softmax, input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x). Source: `torch.nn.functional.softmin`."""
    return softmax(-input, dim, dtype=dtype)
