"""Spread and correlation: variance, standard deviation, covariance, quantiles."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.precision import in_single
from fusegrad.eager.ops.reduce import summation
from fusegrad.eager.ops.reduce.reduction import _spread, normal_dims, squared_size
from fusegrad.eager.ops.shape.shape import normal_dim

# Variance: the squares of what is left when the mean is taken away.


def _freedom(size: tuple[int, ...], dim: Any, correction: float) -> float:
    return summation.count(size, dim) - correction


def _var_decomposed(x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    away = x - ops.mean(x, dim, keepdim=True)
    squares = ops.sum(squared_size(away), dim, keepdim=keepdim)
    # The mean was rounded: what that adds to the squares is taken off again.
    drift = squared_size(ops.sum(away, dim, keepdim=keepdim)) / summation.count(x.array.shape, dim)
    freedom: Any = _freedom(x.array.shape, dim, correction)
    freedom = freedom.clamp(min=0) if isinstance(freedom, Tensor) else builtins.max(0, freedom)
    return (squares - ops.where(drift < math.inf, drift, 0.0)) / freedom


def _var_numpy(x: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    # Not np.var: its warnings about few elements would come from NumPy's own module.
    away = x - summation.average(x, dim, True)
    squares = summation.total(_squares(away), dim, keepdim)
    # The mean was rounded: what that adds to the squares is taken off again.
    drift = _squares(summation.total(away, dim, keepdim)) / squares.dtype.type(summation.count(x.shape, dim))
    freedom = builtins.max(0, _freedom(x.shape, dim, correction))
    return (squares - np.where(np.isfinite(drift), drift, 0)) / squares.dtype.type(freedom)


# Deviations are about as large as what they are taken of, their squares are not: as in PyTorch, those of
# float32 are added up in float64, which holds them all.


def _std_decomposed(x: Tensor, **params: Any) -> Tensor:
    if x.array.dtype != np.float32:
        return ops.sqrt(_var_decomposed(x, **params))
    return ops.cast(ops.sqrt(_var_decomposed(ops.cast(x, dtypes.float64), **params)), dtypes.float32)


def _std_numpy(x: np.ndarray, **params: Any) -> Any:
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    return np.sqrt(_var_numpy(wide, **params)).astype(x.real.dtype)


def _squares(x: Any) -> Any:
    return (x * x.conj()).real if x.dtype.kind == "c" else x * x


def _var_gradient(g: Tensor, x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    size = x.array.shape
    away = x - ops.mean(x, dim, keepdim=True)
    freedom = _freedom(size, dim, correction)
    if isinstance(freedom, Tensor):  # one that is above 0
        return _spread(g, size, dim, keepdim) * (away * (2.0 / freedom))
    if dim is None and freedom <= 0:  # PyTorch's answer, which it gives for all elements only
        return _spread(g, size, dim, keepdim) * ops.where(ops.abs(away) > 0, math.inf, math.nan)
    return _spread(g, size, dim, keepdim) * (away * (2.0 / freedom if freedom else math.inf))


def _std_gradient(g: Tensor, x: Tensor, out: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    slope = ops.where(ops.eq(out, 0), 0.0, g / (out * 2))  # 0 where all elements are equal
    return _var_gradient(slope, x, dim, correction, keepdim)


_var = Composite("var", "x", _var_decomposed, _var_numpy, {"x": _var_gradient})
_std = Composite(
    "std",
    "x",
    _std_decomposed,
    _std_numpy,
    {"x": _std_gradient},
)

_var.numbers_vary = _std.numbers_vary = True


def _deviation(
    op: Composite, input: Tensor, dim: Any, unbiased: bool, keepdim: bool, correction: float | None
) -> Tensor:
    if input.array.dtype.kind not in "fcV":
        raise failure(
            RuntimeError,
            f"std and var only support floating point and complex dtypes, got {input.array.dtype.name}",
        )
    if isinstance(dim, bool):  # PyTorch's other overload
        dim, unbiased = None, dim
    less = (1 if unbiased else 0) if correction is None else correction
    dims = normal_dims(dim, input.array.ndim)
    if dtypes.stands_for_float(less) and _freedom(input.array.shape, dims, less) <= 0:
        less = float(less)
    return bind(op, (input,), {"dim": dims, "correction": less, "keepdim": keepdim})


def _with_mean(
    op: Composite, input: Tensor, dim: Any, unbiased: bool, keepdim: bool, correction: float | None
) -> tuple[Tensor, Tensor]:
    mean = ops.mean(input, None if isinstance(dim, bool) else dim, keepdim)
    return _deviation(op, input, dim, unbiased, keepdim, correction), mean


@public(method=True)
def var(
    input: Tensor,
    dim: Ints | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance over `dim`, with Bessel's correction unless `unbiased` is false. Source: `torch.var`.

    >>> import fusegrad as fg
    >>> fg.var(fg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _deviation(_var, input, dim, unbiased, keepdim, correction)


@public(method=True)
def std(
    input: Tensor,
    dim: Ints | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The standard deviation over `dim`. Source: `torch.std`."""
    return _deviation(_std, input, dim, unbiased, keepdim, correction)


@public
def var_mean(
    input: Tensor,
    dim: Ints | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`. Source: `torch.var_mean`."""
    return _with_mean(_var, input, dim, unbiased, keepdim, correction)


@public
def std_mean(
    input: Tensor,
    dim: Ints | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`. Source: `torch.std_mean`."""
    return _with_mean(_std, input, dim, unbiased, keepdim, correction)


# Covariance.


def require(holds: Tensor, message: str) -> None:
    """Raise RuntimeError unless the 0-d bool `holds` is true; a recorder checks it at each replay."""
    if testable(holds, lambda: holds) and not holds.array:
        raise failure(RuntimeError, message)


def _checked_weights(weights: Tensor, name: str, kinds: str, observations: int) -> Tensor:
    array = weights.array
    if array.ndim > 1 or array.size != observations:
        raise failure(
            RuntimeError,
            f"expected {name} to have one dimension and as many elements as there are observations "
            f"({observations}), but got shape {list(array.shape)}",
        )
    if array.dtype.kind not in kinds:
        wanted = "integral" if "i" in kinds else "floating point"
        raise failure(RuntimeError, f"expected {name} to have {wanted} dtype, but got {array.dtype.name}")
    require((weights >= 0).all(), f"{name} cannot be negative")
    return weights


@public(method=True)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of the rows of `input`, each a variable, each column an observation.

    fweights: how often each observation counts (integers); aweights: how much. Source: `torch.cov`.
    """
    if input.array.ndim > 2:
        raise failure(
            RuntimeError, f"expected input to have two or fewer dimensions, got {list(input.array.shape)}"
        )
    if input.array.dtype.kind == "b":
        raise failure(RuntimeError, "bool dtype is not supported")
    x = input if input.array.ndim == 2 else ops.reshape(input, (1, -1))
    observations = x.array.shape[1]
    weights: Tensor | None = None
    if fweights is not None:
        weights = _checked_weights(fweights, "fweights", "iu", observations)
    if aweights is not None:
        important = _checked_weights(aweights, "aweights", "f", observations)
        weights = important if weights is None else weights * important
    if weights is None:
        average = ops.sum(x, 1, True) / observations
        freedom: Any = builtins.max(0, observations - correction)
        weighted = x = x - average
    else:
        whole = ops.sum(weights)
        require(ops.ne(whole, 0), "weights sum to zero, can't be normalized")
        average = ops.sum(x * weights, 1, True) / whole
        less: Any = correction
        if aweights is not None and correction:
            less = ops.sum(weights * aweights) / whole * correction
        freedom = ops.clamp(whole - less, 0)
        x = x - average
        weighted = x * weights
    kind = ops.result_type(x, weighted)
    products = ops.matmul(ops.cast(x, kind), ops.adjoint(ops.cast(weighted, kind)))
    return ops.squeeze(products / freedom)


@public(method=True)
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlation coefficients of the rows of `input`. Source: `torch.corrcoef`."""
    covariance = cov(input)
    if not covariance.array.ndim:  # of one variable: 1, or NaN where it does not vary
        return covariance / covariance
    spread = ops.sqrt(ops.diagonal(covariance))
    found = covariance / ops.unsqueeze(spread, 1) / spread
    if found.array.dtype.kind != "c":
        return ops.clamp(found, -1, 1)
    return ops.complex(ops.clamp(ops.real(found), -1, 1), ops.clamp(ops.imag(found), -1, 1))


# Quantiles: places in the sorted elements, and between them.

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@public(method=True)
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The `q`-quantiles (a number from 0 to 1, or a vector of them, which comes first) over `dim`.

    NaN where there is a NaN. Source: `torch.quantile`.

    >>> import fusegrad as fg
    >>> fg.quantile(fg.tensor([1.0, 2.0, 4.0]), 0.25)
    tensor(1.5000)
    """
    input, q = in_single(input, q)
    return _quantile(input, q, dim, keepdim, interpolation, False)


@public(method=True)
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of what is not NaN. Source: `torch.nanquantile`."""
    input, q = in_single(input, q)
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    q = _checked_q(x, q)
    if interpolation not in _INTERPOLATIONS:
        known = ", ".join(_INTERPOLATIONS)
        raise failure(RuntimeError, f"interpolation must be one of {known}, but got {interpolation}")
    ndim = x.array.ndim
    if dim is None or not ndim:
        ordered, kept = ops.reshape(x, (-1,)), (1,) * ndim
        normal_dim(dim or 0, ndim)
    else:
        dim = normal_dim(dim, ndim)
        ordered = ops.movedim(x, dim, -1)
        kept = tuple(1 if d == dim else n for d, n in enumerate(x.array.shape))
    found = _interpolated(ops.sort(ordered, -1)[0], ops.reshape(q, (-1,)), interpolation, skip)
    result = ops.movedim(found, -1, 0)  # the quantiles first
    many = q.array.shape
    return owned(ops.reshape(result, many + (kept if keepdim else ordered.array.shape[:-1])))


def _checked_q(x: Tensor, q: Any) -> Tensor:
    if x.array.dtype not in (np.float32, np.float64):
        raise failure(
            RuntimeError, f"input tensor must be either float or double dtype, got {x.array.dtype.name}"
        )
    if not x.array.size:
        raise failure(RuntimeError, f"input tensor must be non-empty, got shape {list(x.array.shape)}")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise failure(RuntimeError, f"q must be in the range [0, 1] but got {q}")
        return ops.tensor(q, dtype=x.dtype)
    if q.array.ndim > 1:
        raise failure(RuntimeError, f"q must be a scalar or 1D tensor, got shape {list(q.array.shape)}")
    if q.array.dtype != x.array.dtype:
        raise failure(
            RuntimeError,
            f"q tensor must be same dtype as the input tensor, got {q.array.dtype.name} "
            f"and {x.array.dtype.name}",
        )
    require(ops.logical_and(q >= 0, q <= 1).all(), "q values must be in the range [0, 1]")
    return q


def _interpolated(ordered: Tensor, q: Tensor, interpolation: str, skip: bool) -> Tensor:
    """The elements [..., quantile] at the places `q` (a vector) of `ordered` [..., n]."""
    last = ordered.array.shape[-1] - 1
    missing = ops.isnan(ordered)
    if skip:
        numbers = ops.sum(ops.logical_not(missing), -1, True)
        places = q * ops.clamp(numbers - 1, 0)
    else:  # NaNs are sorted to the end, so there is one at the last place
        places = ops.where(ops.any(missing, -1, True), float(last), q * last)
    rounding = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}.get(interpolation)
    places = places if rounding is None else rounding(places)
    below = ops.cast(places, "int64")
    low = ops.gather(ordered, -1, below)
    if rounding is not None:
        return low
    high = ops.gather(ordered, -1, ops.cast(ops.ceil(places), "int64"))
    return ops.lerp(low, high, 0.5 if interpolation == "midpoint" else places - below)
