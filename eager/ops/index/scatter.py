"""gather and scatter: element by element along a dimension."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.underived import underived
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticOpaque, Opaque
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index.lookup import _as_vector, with_a_dimension
from fusegrad.eager.ops.shape import joining
from fusegrad.eager.ops.shape.shape import normal_dim


def _mesh(index: np.ndarray, size: int, dim: int) -> tuple[Any, ...]:
    """The positions that `index` names along `dim`, each in its own row of the other dimensions."""
    # Read without a sign, numbers below 0 are large.
    if index.size and np.maximum.reduce(index.view(f"u{index.itemsize}"), axis=None) >= size:
        outside = (index < 0) | (index >= size)
        raise RuntimeError(
            f"index {index[outside].flat[0]} is out of bounds for dimension {dim} with size {size}"
        )
    rank = index.ndim
    counted = [_few_counted if n <= _FEW else _counted for n in index.shape]
    return tuple([index if d == dim else counted[d](n, rank - 1 - d) for d, n in enumerate(index.shape)])


def _counted(number: int, behind: int) -> np.ndarray:
    """0, 1, ... along a dimension behind which there are so many."""
    return np.arange(number).reshape((number,) + (1,) * behind)


# So many are kept, for those who gather again and again.
_FEW = 4096
_few_counted = functools.lru_cache(256)(_counted)


def _gather_gradient(g: Tensor, index: Tensor, x_type: TensorType, dim: int) -> Tensor:
    return scatter_add(ops.zeros(x_type.shape, dtype=x_type.dtype), dim, index, g)


_gather = Opaque(
    "gather",
    "x index",
    lambda x, index, dim: x[_mesh(index, x.shape[dim], dim)],
    lambda types, dim: TensorType(types[1].shape, types[0].dtype),
    {"x": _gather_gradient, "index": None},
)


def _mesh_positions(operands: Sequence[Any], params: Params) -> list[tuple[int, int, int]]:
    return [(len(operands) - 1, 0, operands[0].shape[params["dim"]])]


_gather.positions = _mesh_positions


def _scatter_numpy(
    x: np.ndarray, source: np.ndarray, index: np.ndarray, dim: int, accumulate: bool
) -> np.ndarray:
    result, where = np.array(x), _mesh(index, x.shape[dim], dim)
    if accumulate:
        np.add.at(result, where, source)
    else:
        result[where] = source
    return result


def _scatter_gradient(g: Tensor, index: Tensor, dim: int, accumulate: bool) -> Tensor:
    return g if accumulate else scatter(g, dim, index, 0.0)


def _scatter_source_gradient(g: Tensor, index: Tensor, dim: int) -> Tensor:
    return gather(g, dim, index)


_scatter = Opaque(
    "scatter",
    "x source index",
    _scatter_numpy,
    lambda types, dim, accumulate: types[0],
    {"x": _scatter_gradient, "source": _scatter_source_gradient, "index": None},
    lambda params: "ScatterAddBackward0" if params["accumulate"] else "ScatterBackward0",
)
_scatter.positions = _mesh_positions


# Reductions of what arrives at each place.

_UFUNCS = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _start_of(reduce: str, dtype: np.dtype) -> Any:
    """What a place holds that the old value does not count in."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "fV":
        return -np.inf if reduce == "amax" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _scatter_reduce_numpy(
    x: np.ndarray, source: np.ndarray, index: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    result, where = np.array(x), _mesh(index, x.shape[dim], dim)
    if not include_self:
        result[where] = _start_of(reduce, x.dtype)
    if reduce == "prod" and x.dtype.kind == "c":
        _multiply_at(result, where, source)
    else:
        _UFUNCS[reduce].at(result, where, source)
    if reduce == "mean":
        counts = np.full(x.shape, int(include_self), np.int64)
        np.add.at(counts, where, 1)
        counts = np.maximum(counts, 1)
        if x.dtype.kind == "c":
            return result / counts.astype(x.dtype)
        if x.dtype.kind == "f":
            return (result / counts).astype(x.dtype, copy=False)
        return (result // counts).astype(x.dtype)
    return result


def _multiply_at(result: np.ndarray, where: tuple[Any, ...], source: np.ndarray) -> None:
    """What `np.multiply.at` does, which rounds complex numbers in another way than their product `*`."""
    at, values = [w.ravel() for w in np.broadcast_arrays(*where)], source.ravel()
    places, count = np.ravel_multi_index(at, result.shape), np.arange(source.size)
    in_turn = np.argsort(places, kind="stable")
    first = np.diff(places[in_turn], prepend=-1) != 0
    turn = np.empty_like(count)  # how many come to the same place before
    turn[in_turn] = count - np.maximum.accumulate(np.where(first, count, 0))
    for now in np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1]):
        here = tuple([w[now] for w in at])
        result[here] = result[here] * values[now]


def _share_of_mean(g: Tensor, index: Tensor, dim: int, include_self: bool) -> Tensor:
    """The gradient divided by how many values each place's mean is of."""
    counts = ops.full(g.array.shape, int(include_self), dtype=g.dtype)
    counts = scatter_add(counts, dim, index, ops.ones(index.array.shape, dtype=g.dtype))
    return g / ops.maximum(counts, ops.ones((), dtype=g.dtype))


def _share_of_extreme(
    g: Tensor, x: Tensor, source: Tensor, index: Tensor, out: Tensor, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Which old and arriving values are the extreme, and the gradient that each of them gets."""
    old = ops.cast(ops.eq(x, out), g.dtype)
    arrived = ops.cast(ops.eq(source, gather(out, dim, index)), g.dtype)
    return old, arrived, g / scatter_add(old, dim, index, arrived)


def _reduce_gradient_self(
    g: Tensor,
    x: Tensor,
    source: Tensor,
    index: Tensor,
    out: Tensor,
    dim: int,
    reduce: str,
    include_self: bool,
) -> Tensor:
    if reduce == "sum":
        gradient = g
    elif reduce == "mean":
        gradient = _share_of_mean(g, index, dim, include_self)
    elif reduce == "prod":
        ones = ops.ones(x.array.shape, dtype=x.dtype)
        gradient = g * scatter_reduce(ones, dim, index, source, "prod")
    else:
        old, _, share = _share_of_extreme(g, x, source, index, out, dim)
        gradient = old * share
    return gradient if include_self else scatter(gradient, dim, index, 0.0)


def _reduce_gradient_source(
    g: Tensor,
    x: Tensor,
    source: Tensor,
    index: Tensor,
    out: Tensor,
    dim: int,
    reduce: str,
    include_self: bool,
) -> Tensor:
    if reduce == "sum":
        return gather(g, dim, index)
    if reduce == "mean":
        return gather(_share_of_mean(g, index, dim, include_self), dim, index)
    if reduce != "prod":
        _, arrived, share = _share_of_extreme(g, x, source, index, out, dim)
        return arrived * gather(share, dim, index)
    # The product of the others: out / source, but where source is 0 the product without that one.
    zero = ops.eq(source, 0)
    zeros = ops.zeros(x.array.shape, dtype=g.dtype)
    count = gather(scatter_add(zeros, dim, index, ops.cast(zero, g.dtype)), dim, index)
    alone = ops.logical_and(zero, ops.eq(count, 1))
    others = scatter_reduce(x, dim, index, ops.where(alone, 1.0, source), "prod", include_self=include_self)
    divided = gather(g * out, dim, index) / ops.where(zero, 1.0, source)
    gradient = ops.where(alone, gather(g * others, dim, index), divided)
    # Of several zeros at one place the gradient is 0, but not its own gradient, which nobody computes here.
    return _once_derived(gradient, ops.abs(count) > 1) if state.grad_enabled else gradient


def _once_derived(gradient: Tensor, several: Tensor) -> Tensor:
    """`gradient`, which cannot be derived again if there are several zeros at one place."""
    if testable(several, lambda: ops.logical_not(ops.any(several))) and several.array.any():
        error = "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered "
        underived(f"{error}to the same position in self", gradient, gradient)
    return gradient


_scatter_reduce = AnalyticOpaque(
    "scatter_reduce",
    "x source index",
    _scatter_reduce_numpy,
    lambda types, dim, reduce, include_self: types[0],
    {"x": _reduce_gradient_self, "source": _reduce_gradient_source, "index": None},
)
_scatter_reduce.positions = _mesh_positions


# The public functions.


def _check_index(index: Tensor, name: str) -> None:
    if index.array.dtype not in (np.int64, np.int32) and index.array.size:
        raise failure(
            RuntimeError, f"{name}: Expected dtype int32/int64 for index, got {index.array.dtype.name}"
        )


def _fitting(index: Tensor, other: Tensor, what: str, dim: int | None) -> None:
    """Check that `index` is nowhere larger than `other` (except along `dim`)."""
    sizes = zip(index.array.shape, other.array.shape, strict=False)
    small = [i <= n or d == dim for d, (i, n) in enumerate(sizes)]
    if index.array.ndim != other.array.ndim or False in small:
        raise failure(
            RuntimeError,
            f"Size does not match: index {list(index.array.shape)}, {what} {list(other.array.shape)}",
        )


@public(method=True)
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """input[i][index[i][j]] (dim 1) for every element of `index`. Source: `torch.gather`."""
    if out is not None:
        return joining.written_out(gather(input, dim, index), out, (input, index))
    dim = normal_dim(dim, input.array.ndim)
    _check_index(index, "gather")
    if not index.array.size:
        return ops.take(input, ops.cast(index, dtypes.int64))  # whose shape need not fit
    x, places = with_a_dimension(input), with_a_dimension(index)
    _fitting(places, x, "input", dim)
    found = bind(_gather, (x, places), {"dim": dim})
    return found if index.array.ndim else ops.reshape(found, ())


def _prepared(
    input: Tensor, dim: int, index: Tensor, source: Tensor, name: str
) -> tuple[int, Tensor, Tensor, Tensor] | None:
    """Checked operands with a dimension each, `source` cut to the size of `index`; None if it is empty."""
    dim = normal_dim(dim, input.array.ndim)
    _check_index(index, name)
    if source.array.dtype != input.array.dtype:
        raise failure(
            RuntimeError,
            "expected self.dtype to be equal to src.dtype, "
            f"got {input.array.dtype.name} and {source.array.dtype.name}",
        )
    if not index.array.size:
        return None
    x, source, index = (with_a_dimension(t) for t in (input, source, index))
    _fitting(index, source, "src", None)
    _fitting(index, x, "self", dim)
    if source.array.shape != index.array.shape:
        source = source[tuple(slice(n) for n in index.array.shape)]
    return dim, x, source, index


def with_nothing_of(input: Tensor, source: Tensor) -> Tensor:
    """`input` after a write of no elements: `source` is on the graph as well, with a gradient of zeros."""
    if not source.needs_grad:
        return ops.clone(input)
    nothing = ops.sum(ops.reshape(source, (-1,))[:0])
    return ops.where(ops.zeros((), dtype=dtypes.bool_), nothing, input)


def _scattered(input: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool, name: str) -> Tensor:
    prepared = _prepared(input, dim, index, source, name)
    if prepared is None:
        return with_nothing_of(input, source)
    dim, x, source, index = prepared
    written = bind(_scatter, (x, source, index), {"dim": dim, "accumulate": accumulate})
    return written if input.array.ndim else ops.reshape(written, ())


@public(method=True, inplace=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """`input` with the elements at `index` along `dim` replaced. Source: `torch.scatter`.

    reduce: "add" or "multiply" to combine with what is there instead.
    """
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = ops.full(index.array.shape, source, dtype=input.dtype)
    if reduce is None:
        return _scattered(input, dim, index, source, False, "scatter")
    if reduce not in ("add", "multiply"):
        raise failure(RuntimeError, f"reduce argument must be either add or multiply, got {reduce!r}")
    if reduce == "add":
        return _scattered(input, dim, index, source, True, "scatter")
    return scatter_reduce(input, dim, index, source, "prod")


@public(method=True, inplace=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with `src` added at `index` along `dim`. Source: `torch.scatter_add`."""
    return _scattered(input, dim, index, src, True, "scatter_add")


@public(method=True, inplace=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with the values of `src` that go to one place combined there. Source: `torch.scatter_reduce`.

    reduce: "sum", "prod", "mean", "amax" or "amin". include_self: whether the old values count in.

    >>> import fusegrad as fg
    >>> fg.zeros(2).scatter_reduce(0, fg.tensor([0, 0, 1]), fg.tensor([1.0, 3.0, 5.0]), "amax")
    tensor([3., 5.])
    """
    if reduce not in _UFUNCS:
        raise failure(
            RuntimeError, f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    prepared = _prepared(input, dim, index, src, "scatter_reduce")
    if prepared is None:
        return with_nothing_of(input, src)
    dim, x, source, places = prepared
    params = {"dim": dim, "reduce": reduce, "include_self": include_self}
    reduced = bind(_scatter_reduce, (x, source, places), params)
    return reduced if input.array.ndim else ops.reshape(reduced, ())


@public(method=True, inplace=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with the slices of `source` combined at `index` along `dim`. Source: `torch.index_reduce`.

    reduce: "prod", "mean", "amax" or "amin". include_self: whether the old values count in.
    """
    if reduce not in _UFUNCS or reduce == "sum":
        raise failure(RuntimeError, f"reduce argument must be either prod, mean, amax or amin, got {reduce}")
    dim = normal_dim(dim, input.array.ndim)
    places, x, slices = _as_vector(index, "index_reduce"), with_a_dimension(input), with_a_dimension(source)
    size = (*x.array.shape[:dim], places.array.size, *x.array.shape[dim + 1 :])
    if slices.array.shape != size:
        raise failure(
            RuntimeError,
            f"source of shape {list(source.array.shape)} does not fit {places.array.size} indices along "
            f"dimension {dim} of {list(input.array.shape)}; it would have shape {list(size)}",
        )
    column = ops.reshape(places, (1,) * dim + (places.array.size,) + (1,) * (len(size) - dim - 1))
    reduced = scatter_reduce(x, dim, ops.expand(column, size), slices, reduce, include_self=include_self)
    return reduced if input.array.ndim else ops.reshape(reduced, ())


@public(method=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with the other dimensions broadcast. Source: `torch.take_along_dim`."""
    if indices.array.dtype != np.int64:
        raise failure(RuntimeError, f"dtype of indices should be Long but got {indices.array.dtype.name}")
    if dim is None:
        return gather(ops.flatten(input), 0, ops.flatten(indices))
    if indices.array.ndim != input.array.ndim:
        raise failure(
            RuntimeError,
            "input and indices should have the same number of dimensions, "
            f"but got {input.array.ndim} dimensions for input, and {indices.array.ndim} for indices",
        )
    dim = normal_dim(dim, input.array.ndim)
    size, wanted = list(input.array.shape), list(indices.array.shape)
    along, count = size[dim], wanted[dim]
    size[dim] = wanted[dim] = 1
    common = ops.broadcast_shapes(tuple(size), tuple(wanted))
    if state.interpreter is not None or (indices.array < 0).any():
        indices = ops.where(indices < 0, indices + along, indices)
    input = ops.expand(input, (*common[:dim], along, *common[dim + 1 :]))
    return gather(input, dim, ops.expand(indices, (*common[:dim], count, *common[dim + 1 :])))
