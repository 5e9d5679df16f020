"""Ops that pick elements by their order: largest, smallest, sorted, median; and running sums."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.families import Opaque, Reduction
from fusegrad.eager.op import TensorType, bind
from fusegrad.eager.ops import creation, elementwise as ew, indexing, reduction, shape
from fusegrad.eager.ops.reduction import method
from fusegrad.eager.ops.shape import normal_dim
from fusegrad.eager.tensor import Tensor

_INT64 = np.dtype(np.int64)


def return_type(name: str, fields: tuple[str, ...]) -> type:
    """A named tuple that prints as PyTorch's results with several parts do."""

    def show(self: Any) -> str:
        parts = ",\n".join(f"{f}={getattr(self, f)!r}" for f in fields)
        return f"torch.return_types.{name}(\n{parts})"

    make: Any = namedtuple  # type checkers want the fields written out
    kind = make(name, fields)
    kind.__repr__ = show
    return kind


def _pick(
    name: str, order: Callable[..., np.ndarray], count: Callable[..., int] = lambda size, **_: 1
) -> Callable[..., Any]:
    """Declare an op that gives values and their indices along `dim`, and its runner.

    order: `order(x, dim=..., **params)` gives the indices, `count` of them along `dim`.
    """
    kind = return_type(name, ("values", "indices"))

    def evaluate(x: np.ndarray, dim: int, keepdim: bool, **params: Any) -> tuple[np.ndarray, np.ndarray]:
        if not x.shape[dim] and name not in ("sort", "topk"):
            raise IndexError(f"expected reduction dim {dim} to have non-zero size (shape {list(x.shape)})")
        indices = order(x, dim=dim, **params).astype(np.int64, copy=False)
        values = np.take_along_axis(x, indices, dim)
        return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))

    def infer(
        types: Sequence[TensorType], dim: int, keepdim: bool, **params: Any
    ) -> tuple[TensorType, TensorType]:
        size = list(types[0].shape)
        size[dim] = count(size[dim], **params)
        if not keepdim:
            del size[dim]
        return TensorType(tuple(size), types[0].dtype), TensorType(tuple(size), _INT64)

    def gradient(g: list[Tensor], x_type: TensorType, out1: Tensor, dim: int, keepdim: bool) -> Tensor:
        values, indices = g[0], out1
        if not keepdim:
            values, indices = shape.unsqueeze(values, dim), shape.unsqueeze(indices, dim)
        return indexing.scatter_add(creation.zeros(x_type.shape, dtype=x_type.dtype), dim, indices, values)

    grad_name = name.removesuffix("_dim").capitalize() + "Backward0"
    op = Opaque(
        name if name in ("sort", "topk") else f"{name}_dim", "x", evaluate, infer, {"x": gradient}, grad_name
    )

    def run(input: Tensor, dim: int, keepdim: bool = True, **params: Any) -> Any:
        dim = normal_dim(dim, input.array.ndim)
        if not input.array.ndim:
            found = bind(op, (shape.reshape(input, (1,)),), {"dim": 0, "keepdim": True, **params})
            return kind(*(shape.reshape(part, ()) for part in found))
        return kind(*bind(op, (input,), {"dim": dim, "keepdim": keepdim, **params}))

    return run


def _descending(x: np.ndarray, dim: int) -> np.ndarray:
    """Stable order from large to small, NaN first."""
    backwards = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - backwards, dim)


def _sorted(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    return _descending(x, dim) if descending else np.argsort(x, axis=dim, kind="stable")


def _topmost(x: np.ndarray, dim: int, k: int, largest: bool) -> np.ndarray:
    return np.take(_sorted(x, dim, largest), np.arange(k), axis=dim)


def _middle(x: np.ndarray, dim: int) -> np.ndarray:
    """The lower median; NaN where there is one."""
    order = np.argsort(x, axis=dim, kind="stable")
    n = x.shape[dim]
    middle = np.take(order, [(n - 1) // 2], axis=dim)
    last = np.take(order, [n - 1], axis=dim)
    return np.where(np.isnan(np.take_along_axis(x, last, dim)), last, middle)


_max_dim = _pick("max", lambda x, dim: np.argmax(x, axis=dim, keepdims=True))
_min_dim = _pick("min", lambda x, dim: np.argmin(x, axis=dim, keepdims=True))
_median_dim = _pick("median", _middle)
_sort = _pick("sort", _sorted, lambda size, descending: size)
_topk = _pick("topk", _topmost, lambda size, k, largest: k)

# Extremes of all elements: equal ones share the gradient, as in amax.
_max = Reduction(
    "max",
    np.maximum.reduce,
    "max",
    lambda d: d,
    {"x": reduction._extreme_gradient},
    "MaxBackward1",
    empty=False,
)
_min = Reduction(
    "min",
    np.minimum.reduce,
    "min",
    lambda d: d,
    {"x": reduction._extreme_gradient},
    "MinBackward1",
    empty=False,
)


def _extreme(
    input: Tensor,
    dim: Any,
    keepdim: bool,
    whole: Reduction,
    along: Callable[..., Any],
    pair: Callable[..., Tensor],
) -> Any:
    if isinstance(dim, Tensor):
        return pair(input, dim)
    if dim is None:
        return bind(whole, (input,), {"dim": None, "keepdim": False})
    return along(input, dim, keepdim)


@method
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; (values, indices) along `dim`; or the larger of two tensors.

    Raises IndexError where there are no elements. Source: `torch.max`.

    >>> import fusegrad as fg
    >>> fg.max(fg.tensor([[1.0, 3.0], [2.0, 0.0]]), 1).indices
    tensor([1, 0])
    """
    return _extreme(input, dim if other is None else other, keepdim, _max, _max_dim, ew.maximum)


@method
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; (values, indices) along `dim`; or the smaller of two. Source: `torch.min`."""
    return _extreme(input, dim if other is None else other, keepdim, _min, _min_dim, ew.minimum)


@method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median; (values, indices) along `dim`. Source: `torch.median`."""
    if dim is None:
        return _median_dim(shape.reshape(input, (-1,)), 0, False)[0]
    return _median_dim(input, dim, keepdim)


@method
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """(values, indices) in order along `dim`; always stable. Source: `torch.sort`."""
    return _sort(input, dim, descending=bool(descending))


@method
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort along `dim`. Source: `torch.argsort`."""
    return sort(input, dim, descending)[1]


@method
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest (or smallest) along `dim`, in order, and their indices. Source: `torch.topk`."""
    size = input.array.shape[normal_dim(dim, input.array.ndim)] if input.array.ndim else 1
    if not 0 <= k <= size:
        raise failure(
            RuntimeError, f"selected index k out of range: k={k}, the dimension has {size} elements"
        )
    return _topk(input, dim, k=k, largest=bool(largest))


# Running sums.


def _flipped_sum(g: Tensor, dim: int) -> Tensor:
    return shape.flip(cumsum(shape.flip(g, dim), dim), dim)


_cumsum = Opaque(
    "cumsum",
    "x",
    lambda x, dim: np.cumsum(x, axis=dim, dtype=reduction._sum_dtype(x.dtype)),
    lambda types, dim: TensorType(types[0].shape, reduction._sum_dtype(types[0].dtype)),
    {"x": lambda g, dim: _flipped_sum(g, dim)},
)


@method
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of the elements up to each along `dim`. Source: `torch.cumsum`."""
    if dtype is not None:
        input = ew.cast(input, dtype)
    if not input.array.ndim:
        normal_dim(dim, 0)
        return shape.reshape(cumsum(shape.reshape(input, (1,)), 0), ())
    return bind(_cumsum, (input,), {"dim": normal_dim(dim, input.array.ndim)})


@method
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are nonzero. Source: `torch.count_nonzero`."""
    return reduction.sum(ew.ne(input, 0), dim)
