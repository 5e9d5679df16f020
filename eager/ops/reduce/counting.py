"""Sorted sequences and counts: distinct values, membership, binary search, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.underived import underived
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite, Opaque
from fusegrad.eager.core.op import TensorType, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import size_of
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import number, unknown
from fusegrad.eager.ops.results import return_type
from fusegrad.eager.ops.shape.shape import normal_dim

_INT64 = np.dtype(np.int64)


def _depends_on_values(what: str) -> None:
    """Tell a recorder that a result's shape depends on the values."""
    if state.interpreter is not None:
        state.interpreter.effect(f"asks for {what}, a result whose shape depends on the values")


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
        return np.argsort(rows, kind="stable")
    columns = _flat(rows).T
    return np.lexsort(columns[::-1]) if len(columns) else np.arange(len(rows))


def _distinct(
    input: Tensor, dim: int | None, consecutive: bool, return_inverse: bool, return_counts: bool
) -> Any:
    """The distinct elements (or slices along `dim`), and what else is asked for."""
    _depends_on_values("distinct values")
    x = input.array
    if dim is None:
        place, rows, inverse_shape = 0, x.reshape(-1), x.shape
    else:
        if not x.ndim:
            raise failure(IndexError, f"Dimension specified as {dim} but tensor has no dimensions")
        place = normal_dim(dim, x.ndim)
        rows = np.moveaxis(x, place, 0)
        inverse_shape = rows.shape[:1]
        if not rows.size and 0 in rows.shape[1:]:
            raise failure(
                RuntimeError,
                f"There are 0 sized dimensions, and they aren't selected, so unique cannot be applied "
                f"(shape {list(x.shape)}, dim {dim})",
            )
    order = np.arange(len(rows)) if consecutive else _ordered(rows)
    changes = _runs(rows[order])
    first = np.flatnonzero(changes)
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(changes) - 1
    counts = np.diff(np.append(first, len(rows))).astype(np.int64)
    values = np.ascontiguousarray(np.moveaxis(rows[order[first]], 0, place))
    parts = [values]
    if return_inverse:
        parts.append(inverse.reshape(inverse_shape))
    if return_counts:
        parts.append(counts)
    found = tuple(wrap(part) for part in parts)
    underived("the derivative for 'unique' is not implemented.", found[0], input)
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


@public(method=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest comes in a vector (or the sums of its `weights`).

    Raises RuntimeError for negative numbers. Source: `torch.bincount`.
    """
    _depends_on_values("a count for each number")
    x = input.array
    if x.dtype.kind == "b":
        raise failure(NotImplementedError, "not implemented for bool")
    if x.ndim != 1 or x.dtype.kind not in "iu" or (x.size and x.min() < 0):
        raise failure(
            RuntimeError, f"only supports 1-d non-negative integral inputs, got {x.dtype.name}{list(x.shape)}"
        )
    if x.size and x.max() == np.iinfo(np.int64).max:  # there is no count of so many numbers, and NumPy tries
        raise failure(RuntimeError, f"maximum value of input overflowed, it should be < {x.max()}")
    minlength = size_of(minlength)
    if minlength < 0:
        raise failure(RuntimeError, f"minlength should be >= 0, got {minlength}")
    if weights is None:
        return wrap(np.bincount(x, minlength=minlength).astype(np.int64))
    if weights.array.shape != x.shape:
        raise failure(
            RuntimeError,
            f"weights should be 1-d and have the same length as input, got {list(weights.array.shape)} "
            f"for {list(x.shape)}",
        )
    sums = np.bincount(x, weights.array, minlength)
    result = wrap(sums.astype(np.float32) if weights.array.dtype == np.float32 else sums)
    return underived("the derivative for 'bincount' is not implemented.", result, weights)


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
