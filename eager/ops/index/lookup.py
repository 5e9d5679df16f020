"""Reading by position: slices along a dimension, elements by number or mask, rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.families import ANY, Elementwise, Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index.indexing import _INT64, getitem
from fusegrad.eager.ops.index.take_and_put import TAKE
from fusegrad.eager.ops.shape import joining
from fusegrad.eager.ops.shape.shape import _sizes, normal_dim


def with_a_dimension(x: Tensor) -> Tensor:
    """`x`, a number as a vector of one: functions along a dimension take both."""
    return x if x.array.ndim else ops.reshape(x, (1,))


def _as_vector(index: Tensor, name: str) -> Tensor:
    if index.array.ndim > 1:
        raise failure(IndexError, f"Index is supposed to be a vector, got shape {list(index.array.shape)}")
    if index.array.dtype not in (np.int64, np.int32):
        raise failure(
            RuntimeError, f"{name}: Expected dtype int32 or int64 for index, got {index.array.dtype.name}"
        )
    return with_a_dimension(index)


@public(method=True)
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices at `index` (a vector) along `dim`. Source: `torch.index_select`."""
    if out is not None:
        return joining.written_out(index_select(input, dim, index), out, (input, index))
    dim = normal_dim(dim, input.array.ndim)
    index = _as_vector(index, "index_select")
    if not input.array.ndim and index.array.size != 1:
        raise failure(RuntimeError, f"Index to scalar can have only 1 value, got {index.array.size} value(s)")
    x = with_a_dimension(input)
    if not x.array.shape[dim] and index.array.size:
        raise failure(RuntimeError, "index_select(): self indexing axis dim should be positive")
    found = bind(TAKE, (x, index), {"dim": dim, "name": "IndexSelect"})
    return found if input.array.ndim else ops.reshape(found, ())


# By the number of an element in row-major order.


@public(method=True)
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at `index`, counted as in a vector; of its shape. Source: `torch.take`."""
    if index.array.dtype != _INT64:
        raise failure(RuntimeError, f"Expected a int64 tensor for index, but got {index.array.dtype.name}")
    if out is not None:
        return joining.written_out(take(input, index), out, (input, index))
    flat = ops.reshape(input, (input.array.size,))
    return bind(TAKE, (flat, index), {"dim": 0, "name": "Take"})


@public
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Numbers of elements in row-major order as positions along each dimension of `shape`.

    Source: `torch.unravel_index`.

    >>> import fusegrad as fg
    >>> fg.unravel_index(fg.tensor(5), (2, 3))
    (tensor(1), tensor(2))
    """
    if indices.array.dtype.kind not in "iu":
        raise failure(
            TypeError, f"expected 'indices' to be integer dtype, but got {indices.array.dtype.name}"
        )
    if isinstance(shape, Tensor) or not isinstance(shape, (int, Sequence)):
        raise failure(
            TypeError, f"expected 'shape' to be int or sequence of ints, but got {type_name(shape)}"
        )
    if isinstance(shape, Sequence) and not all(isinstance(n, int) for n in shape):
        raise failure(TypeError, f"expected 'shape' sequence to only contain ints, but got {shape}")
    sizes = _sizes((shape,))
    if any(n < 0 for n in sizes):
        raise failure(ValueError, f"'shape' cannot have negative values, but got {sizes}")
    found: list[Tensor] = []
    for n in reversed(sizes):
        found.append(ops.remainder(indices, n))
        indices = ops.floor_divide(indices, n)
    return tuple(reversed(found))


# By a mask, or where elements are nonzero.


@public(method=True)
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where `mask` is true, as a vector. Source: `torch.masked_select`."""
    if mask.array.dtype.kind != "b":
        raise failure(RuntimeError, f"expected BoolTensor for mask, got {mask.array.dtype.name}")
    x, where = ops.broadcast_tensors(input, mask)
    found = getitem(x, where)
    return found if out is None else joining.written_out(found, out, (input, mask))


def _nonzero_static_numpy(x: np.ndarray, size: int, fill_value: int) -> np.ndarray:
    found = np.argwhere(x)[:size]
    result = np.full((size, x.ndim), fill_value, np.int64)
    result[: len(found)] = found
    return result


_nonzero_static = Opaque(
    "nonzero_static",
    "x",
    _nonzero_static_numpy,
    lambda types, size, fill_value: TensorType((size, types[0].ndim), _INT64),
    None,
)


@public(method=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` positions of nonzero elements, and `fill_value` where there are fewer.

    Source: `torch.nonzero_static`.
    """
    if size < 0:
        raise failure(RuntimeError, f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    return bind(_nonzero_static, (input,), {"size": size, "fill_value": fill_value})


# Tables.

# x as it is; where `factor` is 0 nothing flows back, not even a NaN.
_gradient_stopped = Elementwise(
    "gradient_stopped",
    "x factor",
    lambda x, factor: np.where(True, x, factor),
    ANY,
    lambda b, x, factor: x,
    {"x": lambda g, factor: ops.where(ops.ne(factor, 0), g, 0.0), "factor": None},
    "EmbeddingBackward0",
)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` at `input`, any shape of integers; the row `padding_idx` gets no gradient."""
    if input.array.dtype not in (np.int64, np.int32):
        raise failure(RuntimeError, f"Expected indices of type int64 or int32, got {input.array.dtype.name}")
    if weight.array.ndim != 2:
        raise failure(RuntimeError, f"'weight' must be 2-D, got shape {list(weight.array.shape)}")
    rows = bind(TAKE, (weight, input), {"dim": 0, "name": "Embedding"})
    if padding_idx is None:
        return rows
    factor = ops.cast(ops.ne(input, padding_idx % weight.array.shape[0]), weight.dtype)
    return bind(_gradient_stopped, (rows, ops.unsqueeze(factor, -1)))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at the given class. Source: `torch.nn.functional.one_hot`."""
    if tensor.array.dtype.kind not in "iu":
        raise failure(
            RuntimeError, f"one_hot is only applicable to index tensors, got {tensor.array.dtype.name}"
        )
    if num_classes < -1 or (num_classes < 1 and not tensor.array.size):
        raise failure(RuntimeError, f"num_classes must be given and positive, got {num_classes}")
    if num_classes == -1:
        if int(tensor.min()) < 0:
            raise failure(RuntimeError, "Class values must be non-negative.")
        num_classes = int(tensor.max()) + 1
    elif (
        testable(tensor, lambda: ops.logical_and(tensor >= 0, tensor < num_classes).all(), (0, num_classes))
        and tensor.array.size
        and not (tensor.array.min() >= 0 and tensor.array.max() < num_classes)
    ):
        raise failure(RuntimeError, f"Class values must be from 0 to num_classes - 1 = {num_classes - 1}")
    classes = ops.unsqueeze(tensor.contiguous(), -1)
    return ops.cast(ops.eq(classes, ops.arange(num_classes)), dtypes.int64)
