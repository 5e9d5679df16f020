"""Writing by position, out of place: slices along a dimension, elements by number or mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index.indexing import _INT64, replaced
from fusegrad.eager.ops.index.lookup import _as_vector, with_a_dimension
from fusegrad.eager.ops.index.scatter import with_nothing_of
from fusegrad.eager.ops.index.take_and_put import PUT
from fusegrad.eager.ops.shape.shape import normal_dim


def in_range(index: Tensor, size: int, dim: int, kind: type[Exception] = IndexError) -> None:
    """Refuse, with `kind`, what does not count from 0: not all functions take negative indices."""
    values = testable(index, lambda: ops.logical_and(index >= 0, index < size).all(), (0, size))
    if values and index.array.size and not (index.array.min() >= 0 and index.array.max() < size):
        wrong = index.array[(index.array < 0) | (index.array >= size)].flat[0]
        raise failure(kind, f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def _put_slices(
    input: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool, name: str, kind: type[Exception]
) -> Tensor:
    """`input` with the slices of `source` put or added at `index`; raises `kind` where shapes do not fit."""
    dim = normal_dim(dim, input.array.ndim)
    index = _as_vector(index, name)
    if input.array.dtype != source.array.dtype:
        raise failure(
            RuntimeError,
            "self and source expected to have the same dtype, but got "
            f"(self) {input.array.dtype.name} and (source) {source.array.dtype.name}",
        )
    x, slices = with_a_dimension(input), with_a_dimension(source)
    size = (*x.array.shape[:dim], index.array.size, *x.array.shape[dim + 1 :])
    if slices.array.shape != size:
        raise failure(
            kind,
            "source tensor shape must match self tensor shape, excluding the specified dimension: "
            f"{list(source.array.shape)} does not fit {index.array.size} indices along "
            f"dimension {dim} of {list(input.array.shape)}; it would have shape {list(size)}",
        )
    in_range(index, x.array.shape[dim], dim, kind)
    written = bind(PUT, (x, slices, index), {"dim": dim, "accumulate": accumulate})
    return written if input.array.ndim else ops.reshape(written, ())


@public(method=True, inplace=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with the slices of `source` (times `alpha`) added at `index`. Source: `torch.index_add`."""
    if alpha != 1:
        if not isinstance(alpha, Tensor):
            alpha = dtypes.as_kind(alpha, source.array.dtype)
        source = ops.cast(source * alpha, source.dtype)
    return _put_slices(input, dim, index, source, True, "index_add", RuntimeError)


@public(method=True, inplace=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices at `index` replaced by those of `source`. Source: `torch.index_copy`."""
    return _put_slices(input, dim, index, source, False, "index_copy", IndexError)


@public(method=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with the slices at `index` filled with a number. Source: `torch.index_fill`."""
    dim = normal_dim(dim, input.array.ndim)
    index = _as_vector(index, "index_fill")
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise failure(
                RuntimeError,
                f"only supports a 0-dimensional value tensor, but got {value.array.ndim} dimension(s)",
            )
        value = ops.cast(value, input.dtype)
    else:
        if isinstance(value, complex) and not input.is_complex():
            raise failure(
                RuntimeError, f"cannot fill a tensor of {input.array.dtype.name} with the Scalar {value}"
            )
        value = ops.full((), value, dtype=input.dtype)
    x = with_a_dimension(input)
    n = x.array.shape[dim]
    params = {"dim": 0, "accumulate": False}
    marks = (ops.zeros(n, dtype=bool), ops.ones(index.array.size, dtype=bool), index)
    chosen = ops.reshape(bind(PUT, marks, params), (n,) + (1,) * (x.array.ndim - dim - 1))
    return ops.reshape(ops.where(chosen, value, x), input.array.shape)


@public
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the shape and dtype of `input`, all `value`. Source: `torch.fill`."""
    if not isinstance(value, Tensor):
        value = ops.full((), value, dtype=input.dtype)
    if value.array.ndim:
        raise failure(
            RuntimeError,
            f"fill only supports 0-dimension value tensor but got {value.array.ndim} dimensions.",
        )
    # A choice that always falls on the value: `input` takes part, and gets a gradient of zeros.
    return ops.where(ops.zeros((), dtype=bool), input, ops.cast(value, input.dtype))


@public(method=True, inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `source` put (or added) at the places that `take` reads. Source: `torch.put`."""
    if index.array.dtype != _INT64:
        raise failure(RuntimeError, f"Expected a int64 tensor for index, but got {index.array.dtype.name}")
    if input.array.dtype != source.array.dtype:
        raise failure(
            RuntimeError,
            "self and source expected to have the same dtype, but got "
            f"{input.array.dtype.name} and {source.array.dtype.name}",
        )
    if index.array.size != source.array.size:
        raise failure(
            RuntimeError,
            "Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.array.size}, index.numel() = {index.array.size}",
        )
    operands = (ops.reshape(t, (t.array.size,)) for t in (input, source, index))
    line = bind(PUT, tuple(operands), {"dim": 0, "accumulate": accumulate})
    return owned(ops.reshape(line, input.array.shape))


# By an index, or by a mask.


@public(method=True)
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `values` put, or added, at `input[indices]`. Source: `torch.index_put`."""
    if input.array.dtype != values.array.dtype:
        raise failure(
            RuntimeError,
            "Index put requires the source and destination dtypes match, got "
            f"{input.array.dtype.name} for the destination and {values.array.dtype.name} for the source.",
        )
    if not indices:
        raise failure(RuntimeError, "at least one index has to be provided")
    return replaced(input, tuple(slice(None) if i is None else i for i in indices), values, accumulate)


@public(method=True, inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements where `mask` is true replaced by those of `source`, in order.

    Source: `torch.masked_scatter`.
    """
    if mask.array.dtype.kind != "b":
        raise failure(
            RuntimeError, f"only supports boolean masks, but got mask with dtype {mask.array.dtype.name}"
        )
    if input.array.dtype != source.array.dtype:
        raise failure(
            RuntimeError,
            "expected self and source to have same dtypes but got "
            f"{input.array.dtype.name} and {source.array.dtype.name}",
        )
    x, where = ops.broadcast_tensors(input, mask)
    flat = ops.flatten(where)
    place = ops.cumsum(flat, 0) - 1
    count = source.array.size
    message = "Number of elements of source < number of ones in mask"
    if testable(place, lambda: (place < count).all()) and place.array.size and place.array[-1] >= count:
        raise failure(RuntimeError, f"{message}: {count} < {int(place.array[-1]) + 1}")
    if not count:
        return with_nothing_of(x, source)
    # The places in front of the first true one are not read, only kept in range.
    found = ops.take(source, ops.maximum(place, ops.zeros((), dtype=dtypes.int64)))
    return ops.where(where.contiguous(), ops.reshape(found, x.array.shape), x.contiguous())
