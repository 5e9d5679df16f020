"""Reductions along dimensions, and what is composed of them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import Composite, Opaque, Reduction, reduced_shape
from fusegrad.eager.op import TensorType, bind
from fusegrad.eager.ops import elementwise, shape
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}
_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a tensor method too, taking NumPy's `axis` and `keepdims` like PyTorch."""

    def accepting(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if "axis" in kwargs:
                kwargs["dim"] = kwargs.pop("axis")
            if "keepdims" in kwargs:
                kwargs["keepdim"] = kwargs.pop("keepdims")
        return function(*args, **kwargs)

    accepting.__doc__ = function.__doc__
    accepting.__module__ = function.__module__
    METHODS[function.__name__] = accepting
    return elementwise.renamed(accepting, function.__name__)


def normal_dims(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """`dim` as a sorted tuple of dimensions from 0, or None for all.

    Raises IndexError for one out of range, RuntimeError for one given twice.
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return None
    dims = [shape.normal_dim(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(dims)) != len(dims):
        raise failure(RuntimeError, f"dim {dim} names a dimension twice")
    return tuple(sorted(dims)) if ndim else None


def _spread(g: Tensor, shape_: tuple[int, ...], dim: tuple[int, ...] | None, keepdim: bool) -> Tensor:
    """A reduced tensor with its dimensions back, expanded to `shape_`."""
    if g.array.ndim:  # a number expands as it is
        kept = reduced_shape(shape_, dim, True)
        if g.array.shape != kept:
            g = shape.reshape(g, kept)
    return shape.expand(g, shape_)


def _sum_dtype(dtype: np.dtype) -> np.dtype:
    return _INT64 if dtype.kind in "bui" else dtype


def _numbered(name: str) -> Callable[[dict[str, Any]], str]:
    """PyTorch numbers the overloads: 0 reduces everything, 1 some dimensions."""
    return lambda params: f"{name}Backward{0 if params['dim'] is None else 1}"


_reduce: Callable[..., Any] = np.add.reduce


def _add_reduce(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """Half precision adds up in single precision, as in PyTorch."""
    if x.dtype == np.float16:
        return _reduce(x, axis=axis, keepdims=keepdims, dtype=np.float32).astype(np.float16)
    return _reduce(x, axis=axis, keepdims=keepdims)


_sum = Reduction(
    "sum",
    _add_reduce,
    "add",
    _sum_dtype,
    {"x": lambda g, x_type, dim, keepdim: _spread(g, x_type.shape, dim, keepdim)},
    _numbered("Sum"),
)


def _extreme_gradient(g: Tensor, x: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Shared evenly among the elements that are the extreme."""
    size = x.array.shape
    hit = elementwise.eq(x, _spread(out, size, dim, keepdim))
    count = sum(hit, dim, keepdim=True)
    return elementwise.where(hit, _spread(g, size, dim, keepdim) / count, 0.0)


_amax = Reduction(
    "amax", np.maximum.reduce, "max", lambda d: d, {"x": _extreme_gradient}, "AmaxBackward0", empty=False
)
_amin = Reduction(
    "amin", np.minimum.reduce, "min", lambda d: d, {"x": _extreme_gradient}, "AminBackward0", empty=False
)
_prod = Reduction(
    "prod",
    np.multiply.reduce,
    "mul",
    _sum_dtype,
    {"x": lambda g, x, dim, keepdim: _product_gradient(g, x, dim, keepdim)},
    _numbered("Prod"),
)
_any = Reduction("any", np.logical_or.reduce, "or", lambda d: _BOOL, None)
_all = Reduction("all", np.logical_and.reduce, "and", lambda d: _BOOL, None)


def _product_gradient(g: Tensor, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Each element's gradient is the product of the others, right also where elements are zero."""
    size = x.array.shape
    zero = elementwise.eq(x, 0)
    filled = elementwise.where(zero, 1.0, x)
    others = bind(_prod, (filled,), {"dim": dim, "keepdim": True})
    zeros = sum(zero, dim, keepdim=True)
    without = elementwise.where(
        elementwise.eq(zeros, 0),
        others / filled,
        elementwise.where(elementwise.logical_and(zero, elementwise.eq(zeros, 1)), others, 0.0),
    )
    return _spread(g, size, dim, keepdim) * without


@method
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over `dim` (a dimension, several, or all). Integers sum to int64. Source: `torch.sum`.

    >>> import fusegrad as fg
    >>> fg.sum(fg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([3., 7.])
    """
    if dtype is not None:
        input = elementwise.cast(input, dtype)
    return bind(_sum, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


def _count(size: tuple[int, ...], dim: tuple[int, ...] | None) -> int:
    return math.prod(size if dim is None else (size[d] for d in dim))


def _mean_numpy(x: np.ndarray, dim: Any, keepdim: bool) -> Any:
    return _add_reduce(x, dim, keepdim) / x.dtype.type(_count(x.shape, dim))


_mean = Composite(
    "mean",
    "x",
    lambda x, dim, keepdim: bind(_sum, (x,), {"dim": dim, "keepdim": keepdim}) / _count(x.array.shape, dim),
    _mean_numpy,
    {"x": lambda g, x_type, dim, keepdim: _spread(g / _count(x_type.shape, dim), x_type.shape, dim, keepdim)},
    _numbered("Mean"),
)


@method
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over `dim`. Raises RuntimeError for integers without `dtype`. Source: `torch.mean`."""
    if dtype is not None:
        input = elementwise.cast(input, dtype)
    if input.array.dtype.kind not in "fc":
        raise failure(
            RuntimeError,
            "could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.array.dtype.name}{list(input.array.shape)}",
        )
    return bind(_mean, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@method
def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over `dim`. Source: `torch.prod`."""
    if dtype is not None:
        input = elementwise.cast(input, dtype)
    return bind(_prod, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@method
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest values over `dim`; equal ones share the gradient. Source: `torch.amax`."""
    return bind(_amax, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@method
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest values over `dim`; equal ones share the gradient. Source: `torch.amin`."""
    return bind(_amin, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})


@method
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element is nonzero. Source: `torch.any`."""
    return _test(_any, input, dim, keepdim)


@method
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero. Source: `torch.all`."""
    return _test(_all, input, dim, keepdim)


def _test(op: Reduction, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Bool, except that bytes stay bytes (PyTorch's bool of old)."""
    found = bind(op, (input,), {"dim": normal_dims(dim, input.array.ndim), "keepdim": keepdim})
    return elementwise.cast(found, input.dtype) if input.array.dtype == np.uint8 else found


def _arg(numpy: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(x: np.ndarray, dim: int | None, keepdim: bool) -> Any:
        if not (x.size if dim is None or not x.ndim else x.shape[dim]):
            raise IndexError(f"no elements to choose from (shape {list(x.shape)})")
        return numpy(x, axis=dim, keepdims=keepdim).astype(np.int64)

    return evaluate


def _arg_type(types: Sequence[TensorType], dim: int | None, keepdim: bool) -> TensorType:
    dims = None if dim is None else (dim,)
    return TensorType(reduced_shape(types[0].shape, dims, keepdim), _INT64)


_argmax = Opaque("argmax", "x", _arg(np.argmax), _arg_type, None)
_argmin = Opaque("argmin", "x", _arg(np.argmin), _arg_type, None)


@method
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the largest element along `dim` (of all for None). Source: `torch.argmax`."""
    return bind(_argmax, (input,), {"dim": _one_dim(dim, input), "keepdim": keepdim})


@method
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element along `dim`. Source: `torch.argmin`."""
    return bind(_argmin, (input,), {"dim": _one_dim(dim, input), "keepdim": keepdim})


def _one_dim(dim: int | None, input: Tensor) -> int | None:
    return None if dim is None else shape.normal_dim(dim, input.array.ndim)


@method
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """The variance over `dim`, with Bessel's correction unless `unbiased` is false. Source: `torch.var`."""
    if isinstance(dim, bool):  # the overload torch.var(input, unbiased)
        dim, unbiased = None, dim
    if input.array.dtype.kind != "f":
        raise failure(RuntimeError, f"only supports floating point dtypes, got {input.array.dtype.name}")
    dims = normal_dims(dim, input.array.ndim)
    less = (1 if unbiased else 0) if correction is None else correction
    return bind(_var, (input,), {"dim": dims, "correction": less, "keepdim": keepdim})


def _var_decomposed(x: Tensor, dim: Any, correction: int, keepdim: bool) -> Tensor:
    away = x - mean(x, dim, keepdim=True)
    return sum(away * away, dim, keepdim=keepdim) / builtins.max(0, _count(x.array.shape, dim) - correction)


def _var_gradient(g: Tensor, x: Tensor, dim: Any, correction: int, keepdim: bool) -> Tensor:
    size = x.array.shape
    scale = 2.0 / builtins.max(_count(size, dim) - correction, 1e-300)
    return _spread(g, size, dim, keepdim) * ((x - mean(x, dim, keepdim=True)) * scale)


def _var_numpy(x: np.ndarray, dim: Any, correction: int, keepdim: bool) -> Any:
    # Not np.var: its warnings about few elements would come from NumPy's own module.
    away = x - _reduce(x, axis=dim, keepdims=True) / x.dtype.type(_count(x.shape, dim))
    divisor = x.dtype.type(builtins.max(0, _count(x.shape, dim) - correction))
    return _reduce(away * away, axis=dim, keepdims=keepdim) / divisor


_var = Composite("var", "x", _var_decomposed, _var_numpy, {"x": _var_gradient}, "VarBackward0")


@method
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`. Source: `torch.var_mean`."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)


@method
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`. Source: `torch.std_mean`."""
    return std(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)


@method
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: int | None = None,
) -> Tensor:
    """The standard deviation over `dim`. Source: `torch.std`."""
    return elementwise.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


def _logsumexp_decomposed(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    largest = amax(x, dim if dim is not None else (), keepdim=True)
    safe = elementwise.where(elementwise.isfinite(largest), largest, 0.0)
    total = elementwise.log(sum(elementwise.exp(x - safe), dim, keepdim=True)) + safe
    return total if keepdim else shape.reshape(total, reduced_shape(x.array.shape, dim, False))


def _logsumexp_numpy(x: np.ndarray, dim: Any, keepdim: bool) -> Any:
    largest = np.maximum.reduce(x, axis=dim, keepdims=True)
    safe = np.where(np.isfinite(largest), largest, x.dtype.type(0))
    total = np.log(np.add.reduce(np.exp(x - safe), axis=dim, keepdims=True)) + safe
    return total if keepdim else total.reshape(reduced_shape(x.shape, dim, False))


_logsumexp = Composite(
    "logsumexp",
    "x",
    _logsumexp_decomposed,
    _logsumexp_numpy,
    {
        "x": lambda g, x, out, dim, keepdim: (
            _spread(g, x.array.shape, dim, keepdim)
            * elementwise.exp(x - _spread(out, x.array.shape, dim, keepdim))
        )
    },
)


@method
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow. Source: `torch.logsumexp`."""
    if input.array.dtype.kind != "f":
        input = elementwise.cast(input, dtypes.default_float())
    dims = normal_dims(dim, input.array.ndim)
    if not _count(input.array.shape, dims):  # no largest element: log(0) is the answer
        return elementwise.log(sum(input, dims, keepdim))
    return bind(_logsumexp, (input,), {"dim": dims, "keepdim": keepdim})


def _norm_decomposed(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return elementwise.sqrt(sum(x * x, dim, keepdim=keepdim))


def _norm_gradient(g: Tensor, x: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    size = x.array.shape
    length = _spread(out, size, dim, keepdim)
    unit = elementwise.where(elementwise.eq(length, 0), 0.0, x / length)
    return _spread(g, size, dim, keepdim) * unit


_norm = Composite(
    "norm",
    "x",
    _norm_decomposed,
    lambda x, dim, keepdim: np.sqrt(np.add.reduce(x * x, axis=dim, keepdims=keepdim)),
    {"x": _norm_gradient},
    "LinalgVectorNormBackward0",
)


def vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The vector norm over `dim`. Source: `torch.linalg.vector_norm`."""
    return norm(input, ord, dim, keepdim, dtype)


@method
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The vector norm over `dim`: p = 2 ("fro"), 1, 0, inf or any number. Source: `torch.norm`."""
    if dtype is not None:
        input = elementwise.cast(input, dtype)
    if input.array.dtype.kind != "f":
        raise failure(RuntimeError, f"expected a floating point tensor, got {input.array.dtype.name}")
    dims = normal_dims(dim, input.array.ndim)
    if p in ("fro", 2, 2.0, None):
        return bind(_norm, (input,), {"dim": dims, "keepdim": keepdim})
    size = elementwise.abs(input)
    if p == math.inf:
        return amax(size, dims or (), keepdim)
    if p == -math.inf:
        return amin(size, dims or (), keepdim)
    if p == 0:
        return sum(
            elementwise.cast(elementwise.ne(input, 0), dtypes.as_dtype(input.array.dtype)), dims, keepdim
        )
    return elementwise.pow(sum(elementwise.pow(size, p), dims, keepdim), 1 / p)
