"""What runs along a dimension: sums, extremes and logarithms of sums of exponentials up to each element.

Running products stand in `prod.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticOpaque, Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.reduce.prod import WIDER, accumulated, along
from fusegrad.eager.ops.reduce.recurrence import backward_recurrence, reversed_along, shifted
from fusegrad.eager.ops.reduce.reduction import _sum_dtype
from fusegrad.eager.ops.results import return_type
from fusegrad.eager.ops.shape.shape import normal_dim

_INT64 = np.dtype(np.int64)


_cumsum = Opaque(
    "cumsum",
    "x",
    lambda x, dim: accumulated(np.cumsum, x, dim) + 0,  # sums begin with 0, so that none is -0
    lambda types, dim: TensorType(types[0].shape, _sum_dtype(types[0].dtype)),
    {"x": lambda g, dim: reversed_along(ops.cumsum(reversed_along(g, dim), dim), dim)},
    refuses="",
)


@public(method=True, inplace=True)
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of the elements up to each along `dim`. Source: `torch.cumsum`.

    >>> import fusegrad as fg
    >>> fg.cumsum(fg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return along(_running_sum, input, dim, dtype=dtype)


def _running_sum(input: Tensor, dim: int, dtype: Any) -> Tensor:
    params = {"dim": dim}
    return (
        bind(_cumsum, (input,), params)
        if dtype is None
        else reduction.in_dtype(_cumsum, input, params, dtype)
    )


# The logarithm of sums of exponentials.


def _logcumsumexp_numpy(x: np.ndarray, dim: int) -> np.ndarray:
    if not x.size:
        return x.copy()
    wide = x.astype(WIDER.get(x.dtype.char, x.dtype), copy=False)
    if x.dtype.kind == "c":
        return _complex_logcumsumexp(x, dim)
    return np.logaddexp.accumulate(wide, axis=dim).astype(x.dtype, copy=False) + 0  # no -0, as in sums


def _complex_logcumsumexp(x: np.ndarray, dim: int) -> np.ndarray:
    """One row after the other, since NumPy adds no exponentials of complex numbers."""
    rows = np.moveaxis(x, dim, 0)
    found, before = np.empty_like(rows), np.full(rows.shape[1:], -np.inf, x.dtype)
    with np.errstate(all="ignore"):
        for place, row in enumerate(rows):
            before = found[place] = _complex_logaddexp(row, before)
    return np.ascontiguousarray(np.moveaxis(found, 0, dim))


def _complex_logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(exp(x) + exp(y)), of infinities as PyTorch's `_log_add_exp_helper` has it."""
    ordered = x.real < y.real
    small, large = np.where(ordered, x, y), np.where(ordered, y, x)
    ratio = np.exp(small - large)  # of size 1 at most
    bent = np.log1p(ratio.real * (2 + ratio.real) + ratio.imag**2) / 2 + 1j * np.angle(1 + ratio)
    infinite = ~np.isfinite(large.real) & (small.real == large.real)
    sum_of_infinite = np.where(small.real < 0, small, np.log(np.exp(small) + np.exp(large)))
    added = np.where(infinite, sum_of_infinite, bent + large)
    return np.where(np.isnan(x) | np.isnan(y), complex(np.nan, np.nan), added)


def _logcumsumexp_gradient(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """From the last element to the first, by quotients of neighbouring sums: these are at most 1."""
    before = shifted(out, dim, 0.0)
    kept = ops.where(ops.eq(before, out), 1.0, ops.exp(before - out))  # infinities have no difference
    return ops.exp(x - out) * backward_recurrence(g, kept, dim)


_logcumsumexp = AnalyticOpaque(
    "logcumsumexp",
    "x",
    _logcumsumexp_numpy,
    lambda types, dim: types[0],
    {"x": _logcumsumexp_gradient},
    refuses="",
)


@public(method=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(x))) along `dim` without overflow. Source: `torch.logcumsumexp`.

    Raises NotImplementedError for integers.
    """
    return along(_running_logsumexp, input, dim)


def _running_logsumexp(input: Tensor, dim: int) -> Tensor:
    if input.array.dtype.kind not in "fcV":
        raise failure(
            NotImplementedError, f"not implemented for {input.array.dtype.name}; convert it with .to(float32)"
        )
    return bind(_logcumsumexp, (input,), {"dim": dim})


# The largest and smallest so far.


def _running_extreme(name: str, extreme: np.ufunc) -> Callable[[Tensor, int], Any]:
    """Declare the op of that name, and give its runner."""
    kind = return_type(name, ("values", "indices"))

    def evaluate(x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        if not x.size:
            return x.copy(), np.zeros(x.shape, np.int64)
        values = extreme.accumulate(x, axis=dim)
        positions = np.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
        # Of equal ones the last counts, and of NaNs.
        hit = (x == values) | (x != x)
        return values, np.maximum.accumulate(np.where(hit, positions, 0), axis=dim)

    def gradient(g: list[Tensor], x_type: TensorType, out1: Tensor, dim: int) -> Tensor:
        return ops.scatter_add(ops.zeros(x_type.shape, dtype=x_type.dtype), dim, out1, g[0])

    op = Opaque(
        name,
        "x",
        evaluate,
        lambda types, dim: (types[0], TensorType(types[0].shape, _INT64)),
        {"x": gradient},
        refuses="",
    )

    def run(input: Tensor, dim: int) -> Any:
        dim = normal_dim(dim, input.array.ndim)
        if input.array.ndim:
            return kind(*bind(op, (input,), {"dim": dim}))
        parts = bind(op, (ops.reshape(input, (1,)),), {"dim": 0})
        return kind(*(ops.reshape(part, ()) for part in parts))

    return run


_cummax = _running_extreme("cummax", np.maximum)
_cummin = _running_extreme("cummin", np.minimum)


@public(method=True)
def cummax(input: Tensor, dim: int) -> Any:
    """(values, indices): the largest up to each element, the last of equal ones. Source: `torch.cummax`."""
    return _cummax(input, dim)


@public(method=True)
def cummin(input: Tensor, dim: int) -> Any:
    """(values, indices): the smallest up to each element, the last of equal ones. Source: `torch.cummin`."""
    return _cummin(input, dim)
