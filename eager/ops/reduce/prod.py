"""Products along dimensions: `prod`, `cumprod`, and gradients that are right also among zeros."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Analytic, AnalyticComposite, AnalyticOpaque, Reduction
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.reduce.recurrence import backward_recurrence, reversed_along, shifted
from fusegrad.eager.ops.reduce.reduction import _numbered, _spread, _sum_dtype
from fusegrad.eager.ops.shape.shape import normal_dim

# What running sums and products of narrow floats accumulate in, as in PyTorch.
WIDER = {"e": np.float32, "f": np.float64, "F": np.complex128}


class _AnalyticReduction(Analytic, Reduction):
    """A reduction whose complex gradient is conjugated as `Analytic` says."""


_multiply: Callable[..., Any] = np.multiply.reduce


def accumulated(function: Callable[..., np.ndarray], x: np.ndarray, dim: int) -> np.ndarray:
    """`function` (`np.cumsum`, ...) along `dim`, in a wider float than that of `x`; integers in int64."""
    kind = _sum_dtype(x.dtype)
    return function(x, axis=dim, dtype=WIDER.get(kind.char, kind)).astype(kind, copy=False)


def along(function: Callable[..., Tensor], input: Tensor, dim: int, **options: Any) -> Tensor:
    """`function(input, dim)` with `dim` counted from 0, a number taken for a vector of one element."""
    dim = normal_dim(dim, input.array.ndim)
    if input.array.ndim:
        return function(input, dim, **options)
    return ops.reshape(function(ops.reshape(input, (1,)), 0, **options), ())


# Running products.


def _running_gradient(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """What comes before each element, times what each later product has after it.

    PyTorch divides the later products by the element, which loses digits: its quotient is taken where it is
    infinite or NaN. Behind the first zero there is nothing but zeros.
    """
    exact = shifted(out, dim, 1.0) * backward_recurrence(g, x, dim)
    zero = ops.eq(x, 0)
    zeros = ops.cumsum(zero, dim)
    later = reversed_along(ops.cumsum(reversed_along(ops.where(zeros > 0, 0.0, g * out), dim), dim), dim)
    quotient = (later / x).detach()
    before = ops.where(ops.isfinite(quotient), exact, quotient)
    first = ops.logical_and(zero, ops.eq(zeros, 1))
    behind = ops.where(ops.logical_or(first, ops.isfinite(exact)), exact, 0.0)  # zeros have derivatives, too
    return ops.where(zeros > 0, behind, before)


_cumprod = AnalyticOpaque(
    "cumprod",
    "x",
    lambda x, dim: accumulated(np.cumprod, x, dim),
    lambda types, dim: TensorType(types[0].shape, _sum_dtype(types[0].dtype)),
    {"x": _running_gradient},
    refuses="",
)


@public(method=True, inplace=True)
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products of the elements up to each along `dim`. Source: `torch.cumprod`.

    >>> import fusegrad as fg
    >>> fg.cumprod(fg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    return along(_running_product, input, dim, dtype=dtype)


def _running_product(input: Tensor, dim: int, dtype: Any) -> Tensor:
    params = {"dim": dim}
    if dtype is None:
        return bind(_cumprod, (input,), params)
    return reduction.in_dtype(_cumprod, input, params, dtype)


# Products of all elements, and of all but each. `dim` is one dimension, or None for all.


# A product of others is a quotient, if none of them is zero. Where one is, the signs of all are in that
# zero, and infinities and NaNs among the others make NaN of it; but of all dimensions at once two zeros leave
# plain zeros, as in PyTorch.


def _others_decomposed(x: Tensor, dim: int | None) -> Tensor:
    zero, beyond = ops.eq(x, 0), ops.logical_not(ops.isfinite(x))
    filled = ops.where(zero, 1.0 if x.is_complex() else ops.sign(1 / x), x)
    quotient = bind(_prod, (filled,), {"dim": None if dim is None else (dim,), "keepdim": True}) / filled
    zeros, lost = (ops.sum(t, dim, keepdim=True) for t in (zero, beyond))
    none = (quotient if x.is_complex() else ops.sign(quotient)) * 0.0
    none = ops.where(ops.eq(lost - ops.cast(beyond, lost.dtype), 0), none, math.nan)
    result = ops.where(ops.eq(zeros - ops.cast(zero, zeros.dtype), 0), quotient, none)
    return ops.where(zeros > 1, 0.0, result) if dim is None else result


def _others_numpy(x: np.ndarray, dim: int | None) -> np.ndarray:
    kind, is_complex = x.dtype.type, x.dtype.kind == "c"
    zero, beyond = x == 0, ~np.isfinite(x)
    filled = np.where(zero, kind(1) if is_complex else np.copysign(kind(1), x), x)
    quotient = _multiply(filled, axis=dim, keepdims=True) / filled
    zeros, lost = (np.add.reduce(t, axis=dim, keepdims=True) for t in (zero, beyond))
    none = (quotient if is_complex else np.where(np.isnan(quotient), kind(0), np.sign(quotient))) * kind(0)
    none = np.where(lost - beyond == 0, none, kind(np.nan))
    result = np.where(zeros - zero == 0, quotient, none)
    return np.where(zeros > 1, kind(0), result) if dim is None else result


def _others_gradient(g: Tensor, x: Tensor, dim: int | None) -> Tensor:
    """Through the products of what comes before and after each, which divide by nothing."""
    if dim is None:
        flat = _others_gradient(ops.reshape(g, (-1,)), ops.reshape(x, (-1,)), 0)
        return ops.reshape(flat, x.array.shape)
    return _half_gradient(g, x, dim) + reversed_along(
        _half_gradient(reversed_along(g, dim), reversed_along(x, dim), dim), dim
    )


def _half_gradient(g: Tensor, x: Tensor, dim: int) -> Tensor:
    """The gradient through what comes before each element; what comes after it weighs that."""
    before = shifted(cumprod(x, dim), dim, 1.0)
    after = reversed_along(shifted(cumprod(reversed_along(x, dim), dim), dim, 1.0), dim)
    weight = reversed_along(shifted(reversed_along(g * after, dim), dim, 0.0), dim)
    return before * backward_recurrence(weight, x, dim)


_others = AnalyticComposite(
    "product_of_others", "x", _others_decomposed, _others_numpy, {"x": _others_gradient}, "ProdBackward0"
)


def _product_gradient(g: Tensor, x: Tensor, dim: tuple[int, ...] | None, keepdim: bool) -> Tensor:
    others = bind(_others, (x,), {"dim": None if dim is None else dim[0]})
    return _spread(g, x.array.shape, dim, keepdim) * others


def _product_numpy(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    return _multiply(x, axis=axis, keepdims=keepdims)


_prod = _AnalyticReduction(
    "prod", _product_numpy, "mul", _sum_dtype, {"x": _product_gradient}, _numbered("Prod")
)


@public(method=True)
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over `dim` (one, or all). Integers give int64. Source: `torch.prod`."""
    if isinstance(dim, (tuple, list)):
        raise failure(TypeError, f"prod(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    params = {"dim": reduction.normal_dims(dim, input.array.ndim), "keepdim": keepdim}
    return bind(_prod, (input,), params) if dtype is None else reduction.in_dtype(_prod, input, params, dtype)
