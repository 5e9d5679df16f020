"""Ops that pick elements by their order: largest, smallest, sorted, median, mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite, Opaque, Reduction
from fusegrad.eager.core.memory_order import Rule, as_first, rows
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import Place, whole_number
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.reduce.reduction import check_extreme, largest, smallest
from fusegrad.eager.ops.results import return_type
from fusegrad.eager.ops.shape.shape import normal_dim
from fusegrad.eager.ops.stable_order import is_quick, stable_order

_INT64 = np.dtype(np.int64)


# Values with their indices along a dimension.


def _pick(
    name: str,
    places: Callable[..., np.ndarray],
    count: Callable[..., int] | None = None,
    grad_number: int = 0,
    order: Rule = rows,
) -> Callable[..., Any]:
    """Declare an op that gives values and their indices along `dim`, and its runner.

    places: `places(x, dim, **params)` gives the indices.
    count: how many of them along `dim`; None for one, which cannot be found among no elements.
    """
    kind = return_type(name, ("values", "indices"))

    def check(shape: tuple[int, ...], dim: int) -> None:
        if count is None and not shape[dim]:
            raise IndexError(f"expected reduction dim {dim} to have non-zero size (shape {list(shape)})")

    def evaluate(x: np.ndarray, dim: int, keepdim: bool, **params: Any) -> tuple[np.ndarray, np.ndarray]:
        check(x.shape, dim)
        indices = places(x, dim, **params).astype(np.int64, copy=False)
        values = np.take_along_axis(x, indices, dim)
        return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))

    def infer(
        types: Sequence[TensorType], dim: int, keepdim: bool, **params: Any
    ) -> tuple[TensorType, TensorType]:
        check(types[0].shape, dim)
        size = list(types[0].shape)
        size[dim] = 1 if count is None else count(size[dim], **params)
        if not keepdim:
            del size[dim]
        return TensorType(tuple(size), types[0].dtype), TensorType(tuple(size), _INT64)

    def gradient(g: list[Tensor], x_type: TensorType, out1: Tensor, dim: int, keepdim: bool) -> Tensor:
        values, indices = g[0], out1
        if not keepdim:
            values, indices = ops.unsqueeze(values, dim), ops.unsqueeze(indices, dim)
        return ops.scatter_add(ops.zeros(x_type.shape, dtype=x_type.dtype), dim, indices, values)

    op_name = f"{name}_dim" if name in ("max", "min", "median", "nanmedian") else name
    grad_name = f"{name.capitalize()}Backward{grad_number}"
    op = Opaque(op_name, "x", evaluate, infer, {"x": gradient}, grad_name, "", order)

    def run(input: Tensor, dim: int, keepdim: bool = True, **params: Any) -> Any:
        dim = normal_dim(dim, input.array.ndim)
        if not input.array.ndim:
            found = bind(op, (ops.reshape(input, (1,)),), {"dim": 0, "keepdim": True, **params})
            return kind(*(ops.reshape(part, ()) for part in found))
        return kind(*bind(op, (input,), {"dim": dim, "keepdim": keepdim, **params}))

    return run


def _topmost(x: np.ndarray, dim: int, k: int, largest: bool) -> np.ndarray:
    n = x.shape[dim]
    if is_quick(x.dtype) or k * 8 > n or n < 1024:
        return stable_order(x, dim, largest, 0, k)
    # Few of many: only these are put in order.
    parted = np.argpartition(x, n - k if largest else k, axis=dim)
    chosen = np.take(parted, np.arange(n - k, n) if largest else np.arange(k), axis=dim)
    chosen.sort(axis=dim)
    inner = stable_order(np.take_along_axis(x, chosen, dim), dim, largest)
    return np.take_along_axis(chosen, inner, dim)


def _kth(x: np.ndarray, dim: int, k: int) -> np.ndarray:
    return stable_order(x, dim, False, k - 1, k)


def _middle(x: np.ndarray, dim: int) -> np.ndarray:
    """The lower median; the first NaN where there is one."""
    middle = _kth(x, dim, (x.shape[dim] + 1) // 2)
    missing = np.isnan(x)
    first = np.argmax(missing, axis=dim, keepdims=True)
    return np.where(np.take_along_axis(missing, first, dim), first, middle)


def _middle_of_numbers(x: np.ndarray, dim: int) -> np.ndarray:
    """The lower median of what is not NaN."""
    numbers = np.sum(~np.isnan(x), axis=dim, keepdims=True)
    return np.take_along_axis(stable_order(x, dim), np.maximum(numbers - 1, 0) // 2, dim)


def _most_frequent(x: np.ndarray, dim: int) -> np.ndarray:
    """The last index of the most frequent value, of the smallest among equally frequent ones."""
    order = np.moveaxis(stable_order(x, dim), dim, -1)
    values = np.take_along_axis(np.moveaxis(x, dim, -1), order, -1)
    positions = np.arange(x.shape[dim])
    starts = np.concatenate([np.ones_like(values[..., :1], bool), values[..., 1:] != values[..., :-1]], -1)
    run = positions - np.maximum.accumulate(np.where(starts, positions, 0), axis=-1)
    best = np.argmax(run, axis=-1, keepdims=True)
    return np.moveaxis(np.take_along_axis(order, best, -1), -1, dim)


_max_dim = _pick("max", lambda x, dim: np.argmax(x, axis=dim, keepdims=True))
_min_dim = _pick("min", lambda x, dim: np.argmin(x, axis=dim, keepdims=True))
_median_dim = _pick("median", _middle, grad_number=1)
_nanmedian_dim = _pick("nanmedian", _middle_of_numbers, grad_number=1)
_kthvalue = _pick("kthvalue", _kth)
_mode = _pick("mode", _most_frequent)
_sort = _pick("sort", stable_order, lambda size, descending: size, order=as_first)
_topk = _pick("topk", _topmost, lambda size, k, largest: k)


# Of all elements.


def _even_gradient(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Shared evenly among the elements that are the result, NaNs where that is NaN."""
    hit = ops.logical_or(ops.eq(x, out), ops.logical_and(ops.isnan(x), ops.isnan(out)))
    return ops.where(hit, g / ops.sum(hit), 0.0)  # zeros where x was written behind autograd's back


def _whole(name: str, numpy: Callable[..., Any]) -> Reduction:
    return Reduction(
        name,
        numpy,
        name,
        lambda dtype: dtype,
        {"x": _even_gradient},
        f"{name.capitalize()}Backward1",
        empty=False,
    )


_max = _whole("max", largest)
_min = _whole("min", smallest)


def _median_of_all(name: str, order: Callable[..., np.ndarray], along: Callable[..., Any]) -> Composite:
    def evaluate(x: np.ndarray) -> Any:
        flat = x.reshape(-1)
        return flat[order(flat, 0)[0]] if flat.size else np.array(np.nan).astype(x.dtype)

    return Composite(
        name, "x", lambda x: along(ops.reshape(x, (-1,)), 0, False)[0], evaluate, {"x": _even_gradient}
    )


_median = _median_of_all("median", _middle, _median_dim)
_nanmedian = _median_of_all("nanmedian", _middle_of_numbers, _nanmedian_dim)


def _extreme(input: Tensor, dim: Any, keepdim: bool, whole: Reduction, along: Any, pair: Any) -> Any:
    if not isinstance(input, Tensor):
        raise failure(TypeError, f"input must be a Tensor, not {type(input).__name__}")
    if isinstance(dim, Tensor):
        return pair(input, dim)
    dim = None if dim is None else whole_number(dim, Place("", "dim"))
    check_extreme(input, dim)
    if dim is None:
        return bind(whole, (input,), {"dim": None, "keepdim": False})
    return along(input, dim, keepdim)


@public(method=True)
def max(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; (values, indices) along `dim`; or the larger of two tensors.

    Raises IndexError where there are no elements along `dim`. Source: `torch.max`.

    >>> import fusegrad as fg
    >>> fg.max(fg.tensor([[1.0, 3.0], [2.0, 0.0]]), 1).indices
    tensor([1, 0])
    """
    return _extreme(input, dim if other is None else other, keepdim, _max, _max_dim, ops.maximum)


@public(method=True)
def min(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; (values, indices) along `dim`; or the smaller of two. Source: `torch.min`."""
    return _extreme(input, dim if other is None else other, keepdim, _min, _min_dim, ops.minimum)


_Aminmax = return_type("aminmax", ("min", "max"))


@public(method=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """(min, max) over `dim` (one, or all). Source: `torch.aminmax`."""
    dims = () if dim is None else dim
    return _Aminmax(ops.amin(input, dims, keepdim), ops.amax(input, dims, keepdim))


def _check_ordered(input: Tensor, kind: type[Exception]) -> None:
    """Refuse complex numbers, which have no order."""
    if input.array.dtype.kind == "c":
        raise failure(kind, f"not implemented for {input.array.dtype.name}; sort the abs() or real parts")


@public(method=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median, NaN if there is one; (values, indices) along `dim`. Source: `torch.median`.

    >>> import fusegrad as fg
    >>> fg.median(fg.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    _check_ordered(input, NotImplementedError)
    return bind(_median, (input,)) if dim is None else _median_dim(input, dim, keepdim)


@public(method=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of what is not NaN; (values, indices) along `dim`. Source: `torch.nanmedian`."""
    _check_ordered(input, NotImplementedError)
    return bind(_nanmedian, (input,)) if dim is None else _nanmedian_dim(input, dim, keepdim)


@public(method=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the most frequent values along `dim`; of several, the smallest.

    Source: `torch.mode`.
    """
    return _mode(input, dim, keepdim)


@public(method=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the `k`-th smallest (from 1) along `dim`. Source: `torch.kthvalue`."""
    _check_ordered(input, NotImplementedError)
    size, k = _size_along(input, dim), size_of(k)
    if size and not 1 <= k <= size:
        raise failure(
            RuntimeError, f"selected number k out of range for dimension {dim}: k={k}, it has {size} elements"
        )
    return _kthvalue(input, dim, keepdim, k=k)


def _size_along(input: Tensor, dim: int) -> int:
    dim = normal_dim(dim, input.array.ndim)
    return input.array.shape[dim] if input.array.ndim else 1


# Sorted.


@public(method=True)
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """(values, indices) in order along `dim`, NaN as the largest; always stable. Source: `torch.sort`.

    >>> import fusegrad as fg
    >>> fg.sort(fg.tensor([3, 1, 2]), descending=True).indices
    tensor([0, 2, 1])
    """
    _check_ordered(input, RuntimeError)
    return _sort(input, dim, descending=bool(descending))


@public(method=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The indices that sort along `dim`. Source: `torch.argsort`."""
    return sort(input, dim, descending)[1]


@public(method=True)
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension. Source: `torch.msort`."""
    return sort(input, 0)[0]


@public(method=True)
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest (or smallest) along `dim`, in order, and their indices. Source: `torch.topk`."""
    size, k = _size_along(input, dim), size_of(k)
    if not 0 <= k <= size:
        raise failure(
            RuntimeError, f"selected index k out of range: k={k}, the dimension has {size} elements"
        )
    _check_ordered(input, RuntimeError)
    return _topk(input, dim, k=k, largest=bool(largest))
