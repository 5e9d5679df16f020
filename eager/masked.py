"""Reductions, running sums and softmax of the elements that a mask keeps. Laid out as `torch.masked`.

mask: bools that broadcast to the input, true where an element counts (None: everywhere). An element
that does not count is replaced by what changes nothing: 0 in a sum, -inf for a maximum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.reduce import reduction, softmax as soft

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _expanded(mask: Tensor, input: Tensor) -> Tensor:
    """The mask as bools of the input's shape."""
    if mask.array.ndim > input.array.ndim:
        raise failure(
            IndexError,
            f"expected a mask that broadcasts to the input, got shape {list(mask.array.shape)} "
            f"for {list(input.array.shape)}",
        )
    return ops.cast(ops.expand(mask, input.array.shape), bool)


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """`input` with `value` (what its dtype has nearest to it) where the mask is false."""
    if mask is None:
        return input
    dtype = input.array.dtype
    number: Any = value
    if dtype.kind == "b":
        number = bool(value)
    elif dtype.kind in "iu" and math.isinf(value):
        number = int(np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min)
    return ops.where(_expanded(mask, input), input, number)


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of what the mask keeps, over `dim`. Source: `torch.masked.sum`.

    >>> import fusegrad as fg
    >>> fg.masked.sum(fg.tensor([1.0, 2.0, 4.0]), mask=fg.tensor([True, False, True]))
    tensor(5.)
    """
    return ops.sum(_filled(input, mask, 0), dim, keepdim, dtype=dtype)


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The product of what the mask keeps, over `dim` (several may be given). Source: `torch.masked.prod`."""
    result = _filled(input, mask, 1)
    if dtype is not None:
        result = ops.cast(result, dtype)
    if isinstance(dim, (tuple, list)) and not dim:
        # Over no dimensions; elsewhere these are all. Whole numbers are multiplied as int64.
        whole = dtype is None and result.dtype.category < 2
        return ops.cast(result, dtypes.int64) if whole else result
    dims = reduction.normal_dims(dim, input.array.ndim)
    for d in reversed(dims if dims is not None else range(input.array.ndim)):
        result = ops.prod(result, d, keepdim)
    return result if input.array.ndim else ops.prod(result)


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The largest of what the mask keeps, over `dim`. Source: `torch.masked.amax`."""
    found = ops.amax(_filled(input, mask, -math.inf), () if dim is None else dim, keepdim)
    return ops.cast(found, dtype or input.dtype)


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest of what the mask keeps, over `dim`. Source: `torch.masked.amin`."""
    found = ops.amin(_filled(input, mask, math.inf), () if dim is None else dim, keepdim)
    return ops.cast(found, dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the largest that the mask keeps, in the dtype of the input (as in PyTorch).

    Source: `torch.masked.argmax`.
    """
    found = ops.argmax(_filled(input, mask, -math.inf), dim, keepdim)
    return ops.cast(found, dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the smallest that the mask keeps, in the dtype of the input (as in PyTorch).

    Source: `torch.masked.argmin`.
    """
    found = ops.argmin(_filled(input, mask, math.inf), dim, keepdim)
    return ops.cast(found, dtype or input.dtype)


def _count(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements the mask keeps over `dim`."""
    kept = ops.ones(input.array.shape, dtype=bool) if mask is None else _expanded(mask, input)
    return ops.sum(kept, dim, keepdim)


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of what the mask keeps, over `dim`; NaN of nothing. Source: `torch.masked.mean`."""
    kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise failure(ValueError, f"the dtype must be either a floating point or complex dtype. Got: {kind}")
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of what the mask keeps, over `dim`; NaN of nothing. Source: `torch.masked.median`.

    Raises ValueError for integers of which the mask keeps nothing somewhere.
    """
    floating = input.array.dtype.kind in "fV"
    wide = input if floating else ops.cast(input, dtypes.float32)
    found = ops.nanmedian(_filled(wide, mask, math.nan), dim, keepdim)[0]
    if floating:
        return found
    if ops.any(ops.isnan(found)):
        raise failure(ValueError, "expected no fully masked out rows if dtype is not floating point")
    return ops.cast(found, dtype or input.dtype)


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of what the mask keeps, over `dim`. Source: `torch.masked.var`."""
    less = (1.0 if unbiased is None else float(unbiased)) if correction is None else float(correction)
    kind = dtypes.as_dtype(dtype) if dtype is not None else input.dtype
    compute = kind if kind.is_floating_point or kind.is_complex else dtypes.float32
    average = sum(input, dim, keepdim=True, dtype=compute, mask=mask) / _count(input, dim, True, mask)
    away = input - average
    total = sum(away * ops.conj(away), dim, keepdim=keepdim, dtype=compute, mask=mask)
    count = ops.cast(_count(input, dim, keepdim, mask), ops.real(total).dtype)
    freedom = ops.clamp(count - less, min=0)
    return ops.cast(total / freedom, compute if dtype is None else kind)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of what the mask keeps, over `dim`. Source: `torch.masked.std`."""
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of what the mask keeps, over `dim`. Source: `torch.masked.norm`."""
    ord = 2.0 if ord is None else ord
    filled = _filled(input, mask, math.inf if ord == -math.inf else 0)
    return reduction.vector_norm(filled, ord, dim, keepdim, dtype=dtype)


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) of what the mask keeps, over `dim`. Source: `torch.masked.logsumexp`."""
    dims = tuple(range(input.array.ndim)) if dim is None or dim == () else dim
    return ops.cast(ops.logsumexp(_filled(input, mask, -math.inf), dims, keepdim), dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(x) + exp(y)), each as far as its mask keeps it. Source: `torch.masked.logaddexp`."""
    sides = [_filled(x, mask, -math.inf) for x, mask in ((input, input_mask), (other, other_mask))]
    return ops.cast(ops.logaddexp(*sides), dtype or input.dtype)


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The sums up to each element of what the mask keeps, along `dim`. Source: `torch.masked.cumsum`."""
    return ops.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The products up to each element of what the mask keeps, along `dim`. Source: `torch.masked.cumprod`."""
    return ops.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax along `dim` of what the mask keeps; NaN of nothing. Source: `torch.masked.softmax`."""
    return ops.softmax(_filled(input, mask, -math.inf), dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log(softmax(x)) along `dim` of what the mask keeps. Source: `torch.masked.log_softmax`."""
    return ops.log_softmax(_filled(input, mask, -math.inf), dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax(-x) along `dim` of what the mask keeps. Source: `torch.masked.softmin`."""
    return soft.softmin(_filled(input, mask, math.inf), dim, dtype=dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Length 1 along `dim`, of what the mask keeps. Source: `torch.masked.normalize`."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / ops.maximum(length, ops.full((), eps, dtype=length.dtype))


locate("fusegrad.masked", globals(), __all__)
