"""Sorted sequences and counts: distinct values, membership, binary search, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite, Opaque
from fusegrad.eager.core.memory_order import Order
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import size_of
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import number, unknown
from fusegrad.eager.ops.results import return_type
from fusegrad.eager.ops.shape.shape import normal_dim
from fusegrad.eager.ops.sized import bind_sized
from fusegrad.eager.ops.stable_order import stable_order

_INT64 = np.dtype(np.int64)
_LARGEST = int(np.iinfo(np.int64).max)


# Distinct values.


def _runs(rows: np.ndarray) -> np.ndarray:
    """Where in `rows` a row differs from the one before; True at the first."""
    flat = _flat(rows)
    changes = np.ones(len(rows), bool)
    changes[1:] = (flat[1:] != flat[:-1]).any(1)
    return changes


def _flat(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _ordered(rows: np.ndarray) -> np.ndarray:
    """The stable lexicographic order of `rows` [count, ...]."""
    if rows.ndim == 1:
        return stable_order(rows)
    columns = _flat(rows).T
    return np.lexsort(columns[::-1]) if len(columns) else np.arange(len(rows))


def _distinct_numpy(
    x: np.ndarray, dim: int | None, consecutive: bool, inverse: bool, counts: bool, size: int | None = None
) -> Any:
    place = 0 if dim is None else dim
    rows = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    order = np.arange(len(rows)) if consecutive else _ordered(rows)
    changes = _runs(rows[order])
    first = np.flatnonzero(changes)
    parts = [np.ascontiguousarray(np.moveaxis(rows[order[first]], 0, place))]
    if inverse:
        where = np.empty(len(rows), np.int64)
        where[order] = np.cumsum(changes) - 1
        parts.append(where.reshape(x.shape if dim is None else len(rows)))
    if counts:
        parts.append(np.diff(np.append(first, len(rows))).astype(np.int64))
    return tuple(parts)


def _distinct_type(
    types: Sequence[TensorType], dim: int | None, consecutive: bool, inverse: bool, counts: bool, size: int
) -> tuple[TensorType, ...]:
    shape, dtype = types[0]
    found = [TensorType((size,) if dim is None else (*shape[:dim], size, *shape[dim + 1 :]), dtype)]
    if inverse:
        found.append(TensorType(shape if dim is None else (shape[dim],), _INT64))
    if counts:
        found.append(TensorType((size,), _INT64))
    return tuple(found)


def _distinct_order(shape: tuple[int, ...], operands: Sequence[np.ndarray], params: Params) -> Order:
    """Slice by slice."""
    dim = params["dim"]
    return (dim, *(d for d in range(len(shape)) if d != dim)) if dim and len(shape) > 1 else None


_DISTINCT = Opaque(
    "distinct", "x", _distinct_numpy, _distinct_type, {"x": unknown("unique")}, order=_distinct_order
)
# How many there are.
_COUNT_DISTINCT = Opaque(
    "count_distinct",
    "x",
    lambda x, dim, consecutive: np.array(
        _distinct_numpy(x, dim, consecutive, False, False)[0].shape[dim or 0], np.int64
    ),
    lambda types, dim, consecutive: TensorType((), _INT64),
    None,
)


def _distinct(
    input: Tensor, dim: int | None, consecutive: bool, return_inverse: bool, return_counts: bool
) -> Any:
    """The distinct elements (or slices along `dim`), and what else is asked for."""
    size = input.array.shape
    if dim is not None:
        if not size:
            raise failure(IndexError, f"Dimension specified as {dim} but tensor has no dimensions")
        dim = normal_dim(dim, len(size))
        if not input.array.size and 0 in (*size[:dim], *size[dim + 1 :]):
            raise failure(
                RuntimeError,
                f"There are 0 sized dimensions, and they aren't selected, so unique cannot be applied "
                f"(shape {list(size)}, dim {dim})",
            )
    way = {"dim": dim, "consecutive": consecutive}
    params = {**way, "inverse": bool(return_inverse), "counts": bool(return_counts)}
    found = bind_sized(
        _DISTINCT, (input,), params, "distinct values", lambda: bind(_COUNT_DISTINCT, (input,), way)
    )
    return found if len(found) > 1 else found[0]


@public(method=True)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`), sorted; then, as asked for, where each element of
    the input went and how often each was there. NaNs are distinct. Source: `torch.unique`.

    >>> import fusegrad as fg
    >>> fg.unique(fg.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    return _distinct(input, dim, False, return_inverse, return_counts)


@public(method=True)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """`unique` of neighbours only: the first of each run of equal elements (or slices along `dim`).

    Source: `torch.unique_consecutive`.
    """
    return _distinct(input, dim, True, return_inverse, return_counts)


def _isin_decomposed(elements: Tensor, test_elements: Tensor, invert: bool) -> Tensor:
    tests = ops.reshape(test_elements, (-1,))
    found = ops.any(ops.eq(ops.unsqueeze(elements, -1), tests), -1)
    return ops.logical_not(found) if invert else found


_isin = Composite(
    "isin",
    "elements test_elements",
    _isin_decomposed,
    lambda elements, test_elements, invert: np.isin(elements, test_elements, invert=invert),
    None,
)


@public
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which of `elements` are among `test_elements` (one of the two may be a number).

    assume_unique: that no value comes twice, which changes nothing here. Source: `torch.isin`.
    """
    if not (isinstance(elements, Tensor) or isinstance(test_elements, Tensor)):
        raise failure(TypeError, "at least one of elements and test_elements must be a Tensor")
    pair = (elements, test_elements)
    kind: Any = ops.result_type(*pair)
    tensors = tuple(x if isinstance(x, Tensor) else ops.tensor(x, dtype=kind) for x in pair)
    return bind(_isin, tensors, {"invert": bool(invert)})


# Binary search.


def _place_dtype(out_int32: bool) -> np.dtype:
    return np.dtype(np.int32) if out_int32 else _INT64


def _search_numpy(
    sequence: np.ndarray, values: np.ndarray, *sorter: np.ndarray, right: bool, out_int32: bool
) -> np.ndarray:
    if sorter:
        sequence = np.take_along_axis(sequence, sorter[0], -1)
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side), _place_dtype(out_int32))
    found = np.empty(values.shape, _place_dtype(out_int32))
    for row in np.ndindex(sequence.shape[:-1]):
        found[row] = np.searchsorted(sequence[row], values[row], side)
    return found


_searchsorted = Opaque(
    "searchsorted",
    "*tensors",
    _search_numpy,
    lambda types, right, out_int32: TensorType(types[1].shape, _place_dtype(out_int32)),
    None,
)


@public
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value of `input` (a tensor or number) would go into the sorted last dimension.

    right: behind equal elements (side="right"), else before them; sorter: the indices that sort
    `sorted_sequence`. Source: `torch.searchsorted`.

    >>> import fusegrad as fg
    >>> fg.searchsorted(fg.tensor([1, 3, 5]), fg.tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        raise failure(RuntimeError, f"side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise failure(RuntimeError, "side and right can't be set to opposites, got side of left and right")
    asked = input.array if isinstance(input, Tensor) else number(input)
    kind = dtypes.FROM_NUMPY[dtypes.result_type([sorted_sequence.array, asked])]
    sorted_sequence = ops.to(sorted_sequence, kind)
    values = ops.to(input, kind) if isinstance(input, Tensor) else ops.tensor(input, dtype=kind)
    sequence, given = sorted_sequence.array, values.array
    if not sequence.ndim or (sequence.ndim > 1 and sequence.shape[:-1] != given.shape[:-1]):
        raise failure(
            RuntimeError,
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but got {list(sequence.shape)} and {list(given.shape)}",
        )
    if sorter is not None and (sorter.array.shape != sequence.shape or sorter.array.dtype != _INT64):
        raise failure(
            RuntimeError,
            f"sorter must be int64{list(sequence.shape)} like the sequence, "
            f"but got {sorter.array.dtype.name}{list(sorter.array.shape)}",
        )
    tensors = (sorted_sequence, values) if sorter is None else (sorted_sequence, values, sorter)
    params = {"right": bool(right or side == "right"), "out_int32": bool(out_int32)}
    return bind(_searchsorted, tensors, params)


@public
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket between `boundaries` (sorted, a vector) that each value falls in.

    right: whether a bucket holds its left boundary (and not its right one). Source: `torch.bucketize`.
    """
    if boundaries.array.ndim != 1:
        raise failure(
            RuntimeError, f"boundaries tensor must be 1 dimension, but got {list(boundaries.array.shape)}"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# Counts.


def _bincount_numpy(*tensors: np.ndarray, minlength: int, dtype: Any, size: int | None = None) -> np.ndarray:
    numbers, *weights = tensors
    return np.bincount(numbers, weights[0] if weights else None, minlength).astype(dtype.numpy)


_BINCOUNT = Opaque(
    "bincount",
    "*tensors",
    _bincount_numpy,
    lambda types, minlength, dtype, size: TensorType((size,), dtype.numpy),
    {"tensors": unknown("bincount")},
)


@public(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest comes in a vector (or the sums of its `weights`).

    Raises RuntimeError for negative numbers. Source: `torch.bincount`.
    """
    x = input.array
    if x.dtype.kind == "b":
        raise failure(NotImplementedError, "not implemented for bool")
    if x.dtype.kind in "fcV":
        raise failure(RuntimeError, f"not implemented for {x.dtype.name}")
    if x.ndim != 1 or (
        x.size and testable(input, lambda: ops.ge(input, 0).all()) and bool(input.array.min() < 0)
    ):
        raise failure(
            RuntimeError, f"only supports 1-d non-negative integral inputs, got {x.dtype.name}{list(x.shape)}"
        )
    if x.size and testable(input, lambda: ops.lt(input, _LARGEST).all()) and input.array.max() == _LARGEST:
        # There is no count of so many numbers, and NumPy tries.
        raise failure(RuntimeError, f"maximum value of input overflowed, it should be < {_LARGEST}")
    minlength = size_of(minlength)
    if minlength < 0:
        raise failure(RuntimeError, f"minlength should be >= 0, got {minlength}")
    if weights is not None and weights.array.shape != x.shape:
        raise failure(
            RuntimeError,
            f"weights should be 1-d and have the same length as input, got {list(weights.array.shape)} "
            f"for {list(x.shape)}",
        )

    def count() -> Tensor:
        largest = ops.max(input) if x.size else ops.tensor(-1)
        return ops.clamp(ops.add(ops.to(largest, dtypes.int64), 1), min=minlength)

    given = (input,) if weights is None else (input, weights)
    sums = dtypes.float32 if weights is not None and weights.array.dtype == np.float32 else dtypes.float64
    params = {"minlength": minlength, "dtype": dtypes.int64 if weights is None else sums}
    found: Tensor = bind_sized(_BINCOUNT, given, params, "a count for each number", count)
    return found


_Range = tuple[float, float] | None


def _outer_edges(x: np.ndarray, range_: _Range, widen: float) -> tuple[Any, Any]:
    """The first and the last edge: `range_`, or that of the elements; `widen` apart where they meet."""
    low, high = range_ if range_ is not None else (x.min(), x.max()) if x.size else (0.0, 1.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"max must be larger than min, got a range of [{low}, {high}]")
    return (low - widen, high + widen) if low == high else (low, high)


def _places(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each element: bins hold their left edge, the last its right one too; -1 for outside."""
    place = np.searchsorted(edges, x, "right") - 1
    place[x == edges[-1]] = len(edges) - 2
    place[~((x >= edges[0]) & (x <= edges[-1]))] = -1
    return place


def _histc_numpy(x: np.ndarray, bins: int, range_: _Range) -> np.ndarray:
    low, high = _outer_edges(x, range_, 1.0)
    low, high = x.dtype.type(low), x.dtype.type(high)
    inside = x[(x >= low) & (x <= high)]
    place = ((inside - low) / (high - low) * bins).astype(np.int64)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins).astype(x.dtype)


_histc = Opaque(
    "histc", "x", _histc_numpy, lambda types, bins, range_: TensorType((bins,), types[0].dtype), None
)


@public(method=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts from `min` to `max`, in the dtype of `input`.

    Equal ends mean those of the elements. Source: `torch.histc`.
    """
    if max < min:
        raise failure(RuntimeError, f"max must be larger than min, got a range of [{min}, {max}]")
    if input.array.dtype.kind not in "fV":
        raise failure(NotImplementedError, f"not implemented for {input.array.dtype.name}")
    bins = size_of(bins)
    if bins <= 0:
        raise failure(RuntimeError, f"bins must be > 0, got {bins}")
    given = None if min == max and input.array.size else (min, max)
    return bind(_histc, (input,), {"bins": bins, "range_": given})


def _histogram_numpy(
    x: np.ndarray,
    *others: np.ndarray,
    counts: tuple[int, ...] | None,
    ranges: tuple[_Range, ...] | None,
    weighted: bool,
    density: bool,
) -> tuple[np.ndarray, ...]:
    """others: the weights, if `weighted`; the edges along each dimension, if there are no `counts`."""
    points = x.reshape(-1, x.shape[-1])
    edges = list(others[1:] if weighted else others)
    for d, count in enumerate(counts or ()):
        low, high = _outer_edges(points[:, d], ranges[d] if ranges else None, 0.5)
        edges.append(np.linspace(low, high, count + 1, dtype=x.dtype))
    places = np.stack([_places(points[:, d], e) for d, e in enumerate(edges)])
    inside = (places >= 0).all(0)
    sizes = tuple(len(e) - 1 for e in edges)
    flat = np.ravel_multi_index(tuple(places[:, inside]), sizes)
    weights = others[0].reshape(-1)[inside] if weighted else None
    found = np.bincount(flat, weights, math.prod(sizes)).reshape(sizes).astype(x.dtype)
    if density:
        found = found / found.sum()
        for d, e in enumerate(edges):
            found = found / np.diff(e).reshape([-1 if i == d else 1 for i in range(len(edges))])
    return (found, *edges)


def _histogram_type(
    types: Sequence[TensorType], counts: tuple[int, ...] | None, weighted: bool, **_: Any
) -> tuple[TensorType, ...]:
    given = [t.shape[0] for t in types[1 + weighted :]]
    sizes = [n + 1 for n in counts] if counts is not None else given
    dtype = types[0].dtype
    return (TensorType(tuple(n - 1 for n in sizes), dtype), *(TensorType((n,), dtype) for n in sizes))


_histogram = Opaque(
    "histogram", "*tensors", _histogram_numpy, _histogram_type, {"tensors": unknown("histogram")}
)
_Histogram = return_type("histogram", ("hist", "bin_edges"))
_Histogramdd = return_type("histogramdd", ("hist", "bin_edges"))


@public(method=True)
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(hist, bin_edges): how many elements (or the sum of their `weight`) lie in each bin.

    bins: how many, or their edges. density: scaled to integrate to 1. Source: `torch.histogram`.
    """
    counts = None if isinstance(bins, Tensor) else (bins,)
    edges = (bins,) if isinstance(bins, Tensor) else ()
    ranges = None if range is None else (tuple(range),)
    return _Histogram(*_histograms(ops.reshape(input, (-1, 1)), counts, edges, ranges, weight, density))


@public
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(hist, bin_edges): the histogram of points [..., N] in N dimensions, one tuple entry of edges each.

    bins: how many (in each dimension), or the edges; range: low and high of each dimension in a row.
    Source: `torch.histogramdd`.
    """
    dims = input.array.shape[-1]
    listed = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(listed) != dims:
        raise failure(
            RuntimeError, f"expected {dims} sequences of bins, one per dimension, got {len(listed)}"
        )
    edges = tuple(b for b in listed if isinstance(b, Tensor))
    counts = None if edges else tuple(listed)
    ranges = None if range is None else tuple(zip(range[::2], range[1::2], strict=True))
    hist, *found = _histograms(input, counts, edges, ranges, weight, density)
    return _Histogramdd(hist, tuple(found))


def _histograms(
    points: Tensor,
    counts: tuple[int, ...] | None,
    edges: tuple[Tensor, ...],
    ranges: Any,
    weight: Tensor | None,
    density: bool,
) -> tuple[Tensor, ...]:
    if points.array.dtype.kind not in "fV":
        raise failure(NotImplementedError, f"not implemented for {points.array.dtype.name}")
    if weight is not None and weight.array.size != points.array.size // max(points.array.shape[-1], 1):
        raise failure(
            RuntimeError,
            f"expected one weight for each point, got shape {list(weight.array.shape)} "
            f"for {list(points.array.shape)}",
        )
    tensors = (points, *(() if weight is None else (weight,)), *edges)
    params = {"counts": counts, "ranges": ranges, "weighted": weight is not None, "density": bool(density)}
    return bind(_histogram, tensors, params)
