"""Reductions along dimensions, and what is composed of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import plain_number
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticComposite, Composite, Opaque, Reduction, reduced_shape
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.reduce import summation
from fusegrad.eager.ops.shape import shape

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)


def normal_dims(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """`dim` as a sorted tuple of dimensions from 0, or None for all.

    Raises IndexError for one out of range, RuntimeError for one given twice.
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return None
    dims = shape.normal_dims(dim, ndim)
    return tuple(sorted(dims)) if ndim else None


def _spread(g: Tensor, shape_: tuple[int, ...], dim: tuple[int, ...] | None, keepdim: bool) -> Tensor:
    """A reduced tensor with its dimensions back, expanded to `shape_`."""
    if g.array.ndim:  # a number expands as it is
        kept = reduced_shape(shape_, dim, True)
        if g.array.shape != kept:
            g = ops.reshape(g, kept)
    # What `expand` asks for is certain here.
    return g if g.array.shape == shape_ else bind(shape._expand, (g,), {"shape": shape_})


def _sum_dtype(dtype: np.dtype) -> np.dtype:
    return _INT64 if dtype.kind in "bui" else dtype


def _numbered(name: str) -> Callable[[dict[str, Any]], str]:
    """PyTorch numbers the overloads: 0 reduces everything, 1 some dimensions."""
    return lambda params: f"{name}Backward{0 if params['dim'] is None else 1}"


_sum = Reduction(
    "sum",
    summation.total,
    "add",
    _sum_dtype,
    {"x": lambda g, x_type, dim, keepdim: _spread(g, x_type.shape, dim, keepdim)},
    _numbered("Sum"),
)


@public(method=True)
def sum(input: Tensor, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over `dim` (a dimension, several, or all). Integers sum to int64. Source: `torch.sum`.

    >>> import fusegrad as fg
    >>> fg.sum(fg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([3., 7.])
    """
    params = {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim}
    return bind(_sum, (input,), params) if dtype is None else in_dtype(_sum, input, params, dtype)


def in_dtype(op: Any, input: Tensor, params: dict[str, Any], dtype: Any) -> Tensor:
    """`op` on `input` converted to `dtype`, and the result in it (an op may widen integers)."""
    return ops.cast(bind(op, (ops.cast(input, dtype),), params), dtype)


@public(method=True)
def nansum(input: Tensor, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over `dim` of what is not NaN. Source: `torch.nansum`."""
    if input.array.dtype.kind == "c":
        raise failure(RuntimeError, "nansum on CPU does not support complex inputs")
    if input.array.dtype.kind in "fV":
        input = ops.where(ops.isnan(input), 0.0, input)
    return sum(input, dim, keepdim, dtype=dtype)


def _mean_decomposed(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return bind(_sum, (x,), {"dim": dim, "keepdim": keepdim}) / summation.count(x.array.shape, dim)


def _mean_gradient(g: Tensor, x_type: TensorType, dim: Any, keepdim: bool) -> Tensor:
    return _spread(g / summation.count(x_type.shape, dim), x_type.shape, dim, keepdim)


_mean = Composite(
    "mean",
    "x",
    _mean_decomposed,
    lambda x, dim, keepdim: summation.average(x, dim, keepdim),
    {"x": _mean_gradient},
    _numbered("Mean"),
)


@public(method=True)
def mean(input: Tensor, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over `dim`. Raises RuntimeError for integers without `dtype`. Source: `torch.mean`."""
    if dtype is not None:
        input = ops.cast(input, dtype)
    if input.array.dtype.kind not in "fcV":
        given = "Input" if dtype is None else "Optional"
        raise failure(
            RuntimeError,
            f"could not infer output dtype. {given} dtype must be either a floating point or complex dtype. "
            f"Got: {input.array.dtype.name}{list(input.array.shape)}; pass dtype=float32",
        )
    return bind(_mean, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@public(method=True)
def nanmean(input: Tensor, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over `dim` of what is not NaN; NaN of nothing. Source: `torch.nanmean`."""
    if input.array.dtype.kind not in "fcV":
        raise failure(
            RuntimeError,
            f"expected input to have floating point or complex dtype but got {input.array.dtype.name}",
        )
    given = ops.logical_not(ops.isnan(input.detach()))
    return nansum(input, dim, keepdim, dtype=dtype) / sum(given, dim, keepdim)


# The largest and smallest.


def _extreme_gradient(g: Tensor, x: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Shared evenly among the elements that are the extreme; NaN where that is NaN."""
    size = x.array.shape
    hit = ops.eq(x, _spread(out, size, dim, keepdim))
    return _spread(g, size, dim, keepdim) * hit / sum(hit, dim, keepdim=True)


def _ordered(extreme: Any, zero: float) -> Callable[..., Any]:
    """The extremes over an axis; among zeros the one with the sign of `zero`, in whatever order they come."""

    def evaluate(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
        found = extreme.reduce(x, axis=axis, keepdims=keepdims)
        if x.dtype.kind != "f" or found.all():
            return found
        wins = (x == 0) & (np.signbit(x) == np.signbit(zero))
        reduce: Callable[..., Any] = np.logical_or.reduce
        won = reduce(wins, axis=axis, keepdims=keepdims)
        kind = x.dtype.type
        return np.where(found == 0, np.where(won, kind(zero), kind(-zero)), found)

    return evaluate


largest, smallest = _ordered(np.maximum, 0.0), _ordered(np.minimum, -0.0)
_amax = Reduction("amax", largest, "max", lambda d: d, {"x": _extreme_gradient}, "AmaxBackward0", empty=False)
_amin = Reduction(
    "amin", smallest, "min", lambda d: d, {"x": _extreme_gradient}, "AminBackward0", empty=False
)


def check_extreme(input: Tensor, dim: Any) -> None:
    """Refuse complex numbers, which have no order, and to look for an extreme of no elements."""
    if input.array.dtype.kind == "c":
        raise failure(NotImplementedError, f"not implemented for {input.array.dtype.name}")
    if (dim is None or dim == ()) and not input.array.size:
        raise failure(
            RuntimeError,
            "Expected reduction dim to be specified for input.numel() == 0 "
            f"(shape {list(input.array.shape)}). Specify the reduction dim with the 'dim' argument.",
        )


@public(method=True)
def amax(input: Tensor, dim: Ints | None = (), keepdim: bool = False) -> Tensor:
    """The largest values over `dim`; equal ones share the gradient. Source: `torch.amax`."""
    check_extreme(input, dim)
    return bind(_amax, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@public(method=True)
def amin(input: Tensor, dim: Ints | None = (), keepdim: bool = False) -> Tensor:
    """The smallest values over `dim`; equal ones share the gradient. Source: `torch.amin`."""
    check_extreme(input, dim)
    return bind(_amin, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


def _arg(numpy: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(x: np.ndarray, dim: int | None, keepdim: bool) -> Any:
        _check_any(x.shape, dim)
        return numpy(x, axis=dim, keepdims=keepdim).astype(np.int64, copy=False)

    return evaluate


def _check_any(shape: tuple[int, ...], dim: int | None) -> None:
    if not (math.prod(shape) if dim is None or not shape else shape[dim]):
        raise IndexError(f"no elements to choose from (shape {list(shape)})")


def _arg_type(types: Sequence[TensorType], dim: int | None, keepdim: bool) -> TensorType:
    _check_any(types[0].shape, dim)
    dims = None if dim is None else (dim,)
    return TensorType(reduced_shape(types[0].shape, dims, keepdim), _INT64)


_argmax = Opaque("argmax", "x", _arg(np.ndarray.argmax), _arg_type, None, refuses="")
_argmin = Opaque("argmin", "x", _arg(np.ndarray.argmin), _arg_type, None, refuses="")


@public(method=True)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the (first) largest element along `dim`, of all for None. Source: `torch.argmax`."""
    return _place(_argmax, input, dim, keepdim)


@public(method=True)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the (first) smallest element along `dim`, of all for None. Source: `torch.argmin`."""
    return _place(_argmin, input, dim, keepdim)


def _place(op: Opaque, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if input.array.dtype.kind in "bc":
        raise failure(RuntimeError, f"does not support {input.array.dtype.name} input")
    if dim is not None:
        dim = shape.normal_dim(dim, input.array.ndim)
    return bind(op, (input,), {"dim": dim, "keepdim": keepdim})


# Truth.

_any = Reduction("any", np.logical_or.reduce, "or", lambda d: _BOOL, None)
_all = Reduction("all", np.logical_and.reduce, "and", lambda d: _BOOL, None)


@public(method=True)
def any(input: Tensor, dim: Ints | None = None, keepdim: bool = False) -> Tensor:
    """Whether any element is nonzero. Source: `torch.any`."""
    return _test(_any, input, dim, keepdim)


@public(method=True)
def all(input: Tensor, dim: Ints | None = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero. Source: `torch.all`."""
    return _test(_all, input, dim, keepdim)


def _test(op: Reduction, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Bool, except that bytes stay bytes (PyTorch's bool of old)."""
    if dim == () or dim == []:  # over no dimension, while other reductions take this for all of them
        found = ops.ne(input.contiguous(), 0)
    else:
        found = bind(op, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})
    return ops.cast(found, input.dtype) if input.array.dtype == np.uint8 else found


@public(method=True)
def count_nonzero(input: Tensor, dim: Ints | None = None) -> Tensor:
    """How many elements are nonzero. Source: `torch.count_nonzero`."""
    return sum(ops.ne(input, 0), dim)


def _logsumexp_decomposed(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    largest = amax(ops.real(x), dim if dim is not None else (), keepdim=True)
    safe = ops.where(ops.isfinite(largest), largest, 0.0)
    total = ops.log(sum(ops.exp(x - safe), dim, keepdim=True)) + safe
    return total if keepdim else ops.reshape(total, reduced_shape(x.array.shape, dim, False))


def _logsumexp_numpy(x: np.ndarray, dim: Any, keepdim: bool) -> Any:
    largest = np.maximum.reduce(x.real, axis=dim, keepdims=True)
    safe = np.where(np.isfinite(largest), largest, largest.dtype.type(0))
    total = np.log(summation.total(np.exp(x - safe), dim, True)) + safe
    return total if keepdim else total.reshape(reduced_shape(x.shape, dim, False))


_logsumexp = AnalyticComposite(
    "logsumexp",
    "x",
    _logsumexp_decomposed,
    _logsumexp_numpy,
    {
        "x": lambda g, x, out, dim, keepdim: (
            _spread(g, x.array.shape, dim, keepdim) * ops.exp(x - _spread(out, x.array.shape, dim, keepdim))
        )
    },
)


@public(method=True)
def logsumexp(input: Tensor, dim: Ints, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow. Source: `torch.logsumexp`."""
    if input.array.dtype.kind in "bui":
        input = ops.cast(input, dtypes.default_float())
    dims = normal_dims(dim, input.array.ndim)
    if not summation.count(input.array.shape, dims):  # no largest element: log(0) is the answer
        return ops.log(sum(input, dims, keepdim))
    return bind(_logsumexp, (input,), {"dim": dims, "keepdim": keepdim})


# Norms of vectors.


def squared_size(x: Tensor) -> Tensor:
    """|x| ** 2, which is real."""
    return ops.real(x) * ops.real(x) + ops.imag(x) * ops.imag(x) if x.is_complex() else x * x


def _norm_decomposed(x: Tensor, dim: Any, keepdim: bool, ord: float = 2.0) -> Tensor:
    if ord == 2:
        return ops.sqrt(sum(squared_size(x), dim, keepdim=keepdim))
    size = ops.abs(x)
    if ord == 0:
        return sum(ops.cast(ops.ne(x, 0), size.dtype), dim, keepdim)
    if math.isinf(ord):
        return (amax if ord > 0 else amin)(size, dim, keepdim)
    if ord == 1:
        return sum(size, dim, keepdim)
    return ops.pow(sum(ops.pow(size, ord), dim, keepdim), 1 / ord)


def _norm_numpy(x: np.ndarray, dim: Any, keepdim: bool, ord: float = 2.0) -> Any:
    if ord == 2:
        squares = x * x if x.dtype.kind == "f" else x.real * x.real + x.imag * x.imag
        return np.sqrt(summation.total(squares, dim, keepdim))
    size = np.abs(x)
    if ord == 0:
        return summation.total((x != 0).astype(size.dtype), dim, keepdim)
    if math.isinf(ord):
        extreme: Any = np.maximum if ord > 0 else np.minimum
        return extreme.reduce(size, axis=dim, keepdims=keepdim)
    if ord == 1:
        return summation.total(size, dim, keepdim)
    return np.power(summation.total(np.power(size, ord), dim, keepdim), 1 / ord)


def _sign(x: Tensor) -> Tensor:
    sign: Tensor = ops.sgn(x) if x.is_complex() else ops.sign(x)
    return sign


def _norm_gradient(g: Tensor, x: Tensor, out: Tensor, ord: float, dim: Any, keepdim: bool) -> Tensor:
    """PyTorch's choices at 0: the gradient of a norm that is 0 is 0."""
    size = x.array.shape
    g, length = _spread(g, size, dim, keepdim), _spread(out, size, dim, keepdim)
    if ord == 0:
        return ops.zeros(size, dtype=g.dtype)
    if ord == 1:
        return g * _sign(x)
    if ord == 2:
        return g * ops.where(ops.eq(length, 0), 0.0, x / length)
    away = ops.abs(x)
    if abs(ord) == math.inf:
        hit = ops.logical_or(ops.eq(away, length), ops.isnan(x))
        return _sign(x) * (g / sum(hit, dim, True)) * hit
    if ord < 1:
        slope = _sign(x) * ops.pow(away, ord - 1)
        slope = ops.where(ops.eq(x, 0), 0.0, slope)
        return slope * g * ops.pow(length, 1 - ord)
    slope = _sign(x) if ord < 2 else x
    scaled = ops.where(ops.eq(length, 0), 0.0, g / ops.pow(length, ord - 1))
    return slope * ops.pow(away, ord - (1 if ord < 2 else 2)) * scaled


_norm = Composite(
    "norm", "x", _norm_decomposed, _norm_numpy, {"x": _norm_gradient}, "LinalgVectorNormBackward0"
)


def _norm_of_gradient(g: Tensor, x: Tensor, out: Tensor, ord: Any, dim: Any, keepdim: bool) -> Tensor:
    size = x.array.shape
    g, length = _spread(g, size, dim, keepdim), _spread(out, size, dim, keepdim)
    slope = ops.where(ops.eq(x, 0), 0.0, _sign(x) * ops.pow(ops.abs(x), ord - 1))
    return slope * ops.where(ops.eq(length, 0), 0.0, g * ops.pow(length, 1 - ord))


# The same for an order that is none of those with a formula of their own.
_norm.special = (0, 1, 2, math.inf, -math.inf)
_norm.numbers_vary = Composite(
    "norm_of",
    "x ord",
    lambda x, ord, dim, keepdim: ops.pow(sum(ops.pow(ops.abs(x), ord), dim, keepdim), 1 / ord),
    lambda x, ord, dim, keepdim: _norm_numpy(x, dim, keepdim, float(ord)),
    {"x": _norm_of_gradient, "ord": None},
    "LinalgVectorNormBackward0",
)


def vector_norm(
    input: Tensor, ord: Any = 2, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The vector norm over `dim`: ord = 2, 1, 0 (how many are not 0), ±inf or any other number.

    Raises RuntimeError for integers, and where no elements have no norm (inf and below 0).
    Source: `torch.linalg.vector_norm`.
    """
    ord = ord.item() if isinstance(ord, Tensor) and not ord.array.ndim else plain_number(ord)
    if not isinstance(ord, (int, float)):
        kind = RuntimeError if isinstance(ord, complex) else TypeError
        raise failure(
            kind, f"linalg.vector_norm: Expected a non-complex scalar as the order of norm, got {ord!r}."
        )
    if input.array.dtype.kind not in "fcV":
        raise failure(
            RuntimeError,
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {input.array.dtype.name}; convert it with .to(float32)",
        )
    if dtype is not None:
        input = ops.cast(input, dtype)
    dims = normal_dims(dim, input.array.ndim)
    if (ord < 0 or ord == math.inf) and not summation.count(input.array.shape, dims):
        raise failure(
            RuntimeError,
            f"linalg.vector_norm cannot compute the {ord} norm of no elements "
            f"(shape {list(input.array.shape)}, dim {dim}): the operation does not have an identity",
        )
    return bind(_norm, (input,), {"dim": dims, "keepdim": keepdim, "ord": dtypes.as_float(ord)})


@public(method=True)
def norm(
    input: Tensor, p: Any = "fro", dim: Ints | None = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """The vector norm over `dim` for a number `p` or "fro" (2); "nuc" of matrices. Source: `torch.norm`."""
    if p == "nuc":
        matrices = tuple(range(input.array.ndim)) if dim is None else dim
        return ops.matrix_norm(input, "nuc", matrices, keepdim, dtype=dtype)
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
