"""Reading and writing elements by position: index tensors, masks, gather and scatter.

Basic indices (integers, slices, None, Ellipsis) give views (`shape.basic_index`). Everything
with index tensors, lists or masks comes down to two ops along one dimension, `take` and `put`:
several index tensors are first combined into one over the merged dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import Opaque
from fusegrad.eager.op import NO_PARAMS, TensorType, bind, evaluate
from fusegrad.eager.ops import creation, elementwise as ew, shape
from fusegrad.eager.ops.shape import normal_dim, numpy_index
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}
_INT64 = np.dtype(np.int64)


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a tensor method too."""
    METHODS[function.__name__] = function
    return function


def _checked(index: np.ndarray, size: int, dim: int) -> np.ndarray:
    """`index` if all of it lies in -size..size-1, else an IndexError."""
    if index.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices must be integers or bools, got {index.dtype.name}")
    outside = (index < -size) | (index >= size)
    if outside.any():
        raise IndexError(
            f"index {index[outside].flat[0]} is out of bounds for dimension {dim} with size {size}"
        )
    return index


# take and put: whole slices along one dimension.


def _take_type(types: Sequence[TensorType], dim: int, name: str) -> TensorType:
    size = types[0].shape
    return TensorType(size[:dim] + types[1].shape + size[dim + 1 :], types[0].dtype)


_take = Opaque(
    "take",
    "x index",
    lambda x, index, dim, name: np.take(x, _checked(index, x.shape[dim], dim), axis=dim),
    _take_type,
    {"x": lambda g, index, x_type, dim: _put_sum(x_type, index, g, dim), "index": None},
    lambda params: params["name"] + "Backward0",
)


def _put_numpy(x: np.ndarray, value: np.ndarray, index: np.ndarray, dim: int, accumulate: bool) -> np.ndarray:
    return _written(x, (slice(None),) * dim + (_checked(index, x.shape[dim], dim),), value, accumulate)


def _written(x: np.ndarray, where: Any, value: np.ndarray, accumulate: bool) -> np.ndarray:
    """A copy of `x` with `value` put (or added, repeated places each time) at the NumPy index `where`."""
    result = np.array(x)
    if accumulate:
        np.add.at(result, where, value)
    else:
        result[where] = value
    return result


_put = Opaque(
    "put",
    "x value index",
    _put_numpy,
    lambda types, dim, accumulate: types[0],
    {
        "x": lambda g, index, dim, accumulate: g if accumulate else _put_zero(g, index, dim),
        "value": lambda g, index, dim: bind(_take, (g, index), {"dim": dim, "name": "Index"}),
        "index": None,
    },
    "IndexPutBackward0",
)


def _put_sum(type_: TensorType, index: Tensor, value: Tensor, dim: int) -> Tensor:
    """Zeros of `type_` with `value` added at `index` along `dim`."""
    zeros = creation.zeros(type_.shape, dtype=type_.dtype)
    return bind(_put, (zeros, value, index), {"dim": dim, "accumulate": True})


def _put_zero(x: Tensor, index: Tensor, dim: int) -> Tensor:
    size = x.array.shape
    zeros = creation.zeros(size[:dim] + index.array.shape + size[dim + 1 :], dtype=x.dtype)
    return bind(_put, (x, zeros, index), {"dim": dim, "accumulate": False})


# Several index tensors as one.


def _flat_numpy(*indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    inside = [_checked(i, n, d) % max(n, 1) for d, (i, n) in enumerate(zip(indices, sizes, strict=True))]
    return np.asarray(np.ravel_multi_index(np.broadcast_arrays(*inside), sizes), dtype=np.int64)


_flat_index = Opaque(
    "flat_index",
    "*indices",
    _flat_numpy,
    lambda types, sizes: TensorType(np.broadcast_shapes(*(t.shape for t in types)), _INT64),
    None,
)


class _Merged:
    """`x[entries]` (one index tensor or None per dimension) as `x` rearranged, one index, one dimension."""

    def __init__(self, x: Tensor, entries: list[Tensor | None]) -> None:
        size = x.array.shape
        taken = [d for d, e in enumerate(entries) if e is not None]
        rest = [d for d in range(len(size)) if d not in taken]
        together = taken[-1] - taken[0] + 1 == len(taken)
        # Index dimensions that are apart move to the front, as in NumPy and PyTorch.
        self.order = list(range(len(size))) if together else taken + rest
        self.dim = taken[0] if together else 0
        sizes = tuple(size[d] for d in taken)
        self.ordered = x if together else shape.permute(x, self.order)
        self.ordered_shape = tuple(size[d] for d in self.order)
        if len(taken) == 1:
            self.merged = self.ordered
            self.index: Any = entries[taken[0]]
        else:
            after = self.ordered_shape[self.dim + len(taken) :]
            merged = (*self.ordered_shape[: self.dim], math.prod(sizes), *after)
            self.merged = shape.reshape(self.ordered, merged)
            self.index = bind(_flat_index, tuple(entries[d] for d in taken), {"sizes": sizes})

    def restore(self, merged: Tensor) -> Tensor:
        """Undo the rearrangement."""
        result = shape.reshape(merged, self.ordered_shape)
        inverse = [self.order.index(d) for d in range(len(self.order))]
        return result if self.order == inverse else shape.permute(result, inverse)


# The index that a user writes.


def getitem(self: Tensor, index: Any) -> Tensor:
    """`x[index]` for everything PyTorch takes. Source: `torch.Tensor.__getitem__`."""
    basic, advanced = split_index(self, index)
    if basic is not None:
        self = bind(shape._getitem, (self,), {"index": basic})
    if not advanced:
        return self
    merged = _Merged(self, advanced)
    return bind(_take, (merged.merged, merged.index), {"dim": merged.dim, "name": "Index"})


def split_index(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, list[Tensor | None]]:
    """An index as a basic one, and one index tensor (or None) for each dimension of what that gives.

    The basic part is None where it would change nothing, the list empty where no tensors index.
    Raises IndexError for what cannot be an index, or is out of range.
    """
    basic = shape.basic_index(index, x.array.shape)
    if basic is not None:
        return basic, []
    entries = [_entry(e) for e in (index if isinstance(index, tuple) else (index,))]
    simple: list[Any] = []
    tensors: list[Tensor | None] = []
    for entry in _with_ellipsis(entries, x.array.ndim):
        if isinstance(entry, Tensor):
            for part in _as_integers(entry, x, len(simple) - simple.count(None)):
                simple.append(slice(None))
                tensors.append(part)
        elif isinstance(entry, bool):
            # A Python bool adds a dimension that is kept (True) or emptied (False).
            simple.append(None)
            tensors.append(creation.arange(int(entry)))
        else:
            simple.append(entry)
            if not isinstance(entry, (int, np.integer)):
                tensors.append(None)
    frozen = shape.basic_index(tuple(simple), x.array.shape)
    assert frozen is not None
    trivial = all(isinstance(e, shape.Slice) for e in frozen) and frozen == shape.basic_index(
        (), x.array.shape
    )
    dims = sum(not isinstance(e, int) for e in frozen)
    tensors += [None] * (dims - len(tensors))
    if all(t is None for t in tensors):
        tensors = []
    return (None if trivial and tensors else frozen), tensors


def _entry(entry: Any) -> Any:
    """One entry of an index: lists and arrays as tensors, 0-d integer tensors as numbers."""
    if isinstance(entry, (list, range)):
        entry = creation.tensor(list(entry), dtype=None if len(entry) else dtypes.int64)
    elif isinstance(entry, np.ndarray):
        entry = creation.from_numpy(entry)
    elif isinstance(entry, np.bool_):
        entry = bool(entry)
    if isinstance(entry, Tensor):
        kind = entry.array.dtype.kind
        if kind not in "biu":
            raise failure(
                IndexError,
                f"tensors used as indices must be long, int, byte or bool tensors, "
                f"got {entry.array.dtype.name}",
            )
        if kind != "b" and not entry.array.ndim:
            return entry.__index__()
    elif not (entry is None or entry is Ellipsis or isinstance(entry, (int, slice, np.integer))):
        if hasattr(entry, "__index__"):
            return entry.__index__()
        raise failure(
            IndexError,
            "only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are valid indices "
            f"(got {type(entry).__name__})",
        )
    if isinstance(entry, slice):
        return slice(*(v if v is None else v.__index__() for v in (entry.start, entry.stop, entry.step)))
    return entry


def _with_ellipsis(entries: list[Any], ndim: int) -> list[Any]:
    """`entries` with an Ellipsis replaced by the whole dimensions that it stands for."""
    used = sum(
        (e.array.ndim if isinstance(e, Tensor) and e.array.dtype.kind == "b" else 1)
        for e in entries
        if e is not None and e is not Ellipsis and not isinstance(e, bool)
    )
    if used > ndim:
        raise failure(IndexError, f"too many indices for tensor of dimension {ndim}")
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            rest = [e for e in entries[place + 1 :] if e is not Ellipsis]
            return entries[:place] + [slice(None)] * (ndim - used) + rest
    return entries


def _as_integers(entry: Tensor, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """An index tensor as integer ones: a mask becomes the positions that it is true at."""
    if entry.array.dtype.kind != "b":
        return (entry,)
    covered = x.array.shape[dim : dim + entry.array.ndim]
    if entry.array.shape != covered:
        raise failure(
            IndexError,
            f"The shape of the mask {list(entry.array.shape)} at index {dim} does not match "
            f"the shape of the indexed tensor {list(x.array.shape)}",
        )
    return nonzero(entry, as_tuple=True)


# Positions of nonzero elements: how many there are depends on the values.


def _nonzero_type(types: Sequence[TensorType]) -> TensorType:
    raise RuntimeError("nonzero: the shape of the result depends on the values")


_nonzero = Opaque("nonzero", "x", lambda x: np.argwhere(x).astype(np.int64), _nonzero_type, None)


@method
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of nonzero elements, int64 [count, ndim]. Source: `torch.nonzero`.

    as_tuple: as one tensor [count] per dimension, fit for indexing.
    """
    if state.interpreter is not None:
        state.interpreter.effect("asks where a tensor is nonzero, a result whose shape depends on the values")
    found = evaluate(_nonzero, (input,), NO_PARAMS)
    if not as_tuple:
        return found
    columns = found.array.T if input.array.ndim else np.zeros((1, found.array.shape[0]), np.int64)
    return tuple(creation.from_numpy(np.ascontiguousarray(column)) for column in columns)


def argwhere(input: Tensor) -> Tensor:
    """The positions of nonzero elements, int64 [count, ndim]. Source: `torch.argwhere`."""
    return nonzero(input)


@method
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, as a vector. Source: `torch.masked_select`."""
    size = np.broadcast_shapes(input.array.shape, mask.array.shape)
    return getitem(shape.expand(input, size), shape.expand(mask, size))


# Along one dimension.


@method
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices at `index` (a vector) along `dim`. Source: `torch.index_select`."""
    if index.array.ndim > 1:
        raise failure(IndexError, f"index is supposed to be a vector, got shape {list(index.array.shape)}")
    params = {"dim": normal_dim(dim, input.array.ndim), "name": "IndexSelect"}
    return bind(_take, (input, shape.reshape(index, (-1,))), params)


@method
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with the slices of `source` added at `index`. Source: `torch.index_add`."""
    params = {"dim": normal_dim(dim, input.array.ndim), "accumulate": True}
    return bind(_put, (input, source if alpha == 1 else source * alpha, index), params)


@method
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices at `index` replaced by those of `source`. Source: `torch.index_copy`."""
    params = {"dim": normal_dim(dim, input.array.ndim), "accumulate": False}
    return bind(_put, (input, source, index), params)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` at `input`, any shape of integers. Source: `torch.nn.functional.embedding`."""
    if input.array.dtype.kind not in "iu":
        raise failure(RuntimeError, f"Expected integer indices, got {input.array.dtype.name}")
    if padding_idx is not None:
        # The padding row gets no gradient.
        row = creation.arange(weight.array.shape[0]) == padding_idx % weight.array.shape[0]
        weight = ew.where(shape.unsqueeze(row, 1), weight.detach(), weight)
    return bind(_take, (weight, input), {"dim": 0, "name": "Embedding"})


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at the given class. Source: `torch.nn.functional.one_hot`."""
    if tensor.array.dtype.kind not in "iu":
        raise failure(
            RuntimeError, f"one_hot is only applicable to index tensors, got {tensor.array.dtype.name}"
        )
    if num_classes < 0:
        num_classes = int(tensor.max()) + 1
    elif state.interpreter is not None:
        inside = ew.logical_and(tensor >= 0, tensor < num_classes).all()
        state.interpreter.check(inside, f"one_hot: class values must be from 0 to {num_classes - 1}")
    elif tensor.array.size and not (tensor.array.min() >= 0 and tensor.array.max() < num_classes):
        raise failure(RuntimeError, f"Class values must be from 0 to num_classes - 1 = {num_classes - 1}")
    return ew.cast(ew.eq(shape.unsqueeze(tensor, -1), creation.arange(num_classes)), dtypes.int64)


# gather and scatter: element by element along a dimension.


def _mesh(index: np.ndarray, size: int, dim: int) -> tuple[Any, ...]:
    """The positions that `index` names along `dim`, each in its own row of the other dimensions."""
    mesh: list[Any] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    mesh[dim] = _checked(index, size, dim)
    return tuple(mesh)


_gather = Opaque(
    "gather",
    "x index",
    lambda x, index, dim: x[_mesh(index, x.shape[dim], dim)],
    lambda types, dim: TensorType(types[1].shape, types[0].dtype),
    {
        "x": lambda g, index, x_type, dim: scatter_add(
            creation.zeros(x_type.shape, dtype=x_type.dtype), dim, index, g
        ),
        "index": None,
    },
)


def _scatter_numpy(
    x: np.ndarray, source: np.ndarray, index: np.ndarray, dim: int, accumulate: bool
) -> np.ndarray:
    return _written(x, _mesh(index, x.shape[dim], dim), source, accumulate)


_scatter = Opaque(
    "scatter",
    "x source index",
    _scatter_numpy,
    lambda types, dim, accumulate: types[0],
    {
        "x": lambda g, index, dim, accumulate: g if accumulate else scatter(g, dim, index, 0.0),
        "source": lambda g, index, dim: gather(g, dim, index),
        "index": None,
    },
    lambda params: "ScatterAddBackward0" if params["accumulate"] else "ScatterBackward0",
)


def _fitting(index: Tensor, other: Tensor, what: str, dim: int | None) -> None:
    """Check that `index` is nowhere larger than `other` (except along `dim`)."""
    sizes = zip(index.array.shape, other.array.shape, strict=False)
    fits = all(i <= n for d, (i, n) in enumerate(sizes) if d != dim)
    if index.array.ndim != other.array.ndim or not fits:
        raise failure(
            RuntimeError,
            f"Size does not match: index {list(index.array.shape)}, {what} {list(other.array.shape)}",
        )


@method
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """input[i][index[i][j]] (dim 1) for every element of `index`. Source: `torch.gather`."""
    dim = normal_dim(dim, input.array.ndim)
    if not input.array.ndim:
        return shape.reshape(
            gather(shape.reshape(input, (1,)), 0, shape.reshape(index, (-1,))), index.array.shape
        )
    _fitting(index, input, "input", dim)
    return bind(_gather, (input, index), {"dim": dim})


@method
def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """`input` with the elements at `index` along `dim` replaced. Source: `torch.scatter`."""
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = creation.full(index.array.shape, source, dtype=input.dtype)
    return _scattered(input, dim, index, source, False)


@method
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with `src` added at `index` along `dim`. Source: `torch.scatter_add`."""
    return _scattered(input, dim, index, src, True)


def _scattered(input: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    dim = normal_dim(dim, input.array.ndim)
    _fitting(index, source, "src", None)
    _fitting(index, input, "self", dim)
    if source.array.dtype != input.array.dtype:
        raise failure(
            RuntimeError,
            f"expected self.dtype to be equal to src.dtype, "
            f"got {input.array.dtype.name} and {source.array.dtype.name}",
        )
    if source.array.shape != index.array.shape:
        source = source[tuple(slice(n) for n in index.array.shape)]
    return bind(_scatter, (input, source, index), {"dim": dim, "accumulate": accumulate})


@method
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with the other dimensions broadcast. Source: `torch.take_along_dim`."""
    if dim is None:
        return gather(shape.reshape(input, (-1,)), 0, shape.reshape(indices, (-1,)))
    dim = normal_dim(dim, input.array.ndim)
    size, wanted = list(input.array.shape), list(indices.array.shape)
    along, count = size[dim], wanted[dim]
    size[dim] = wanted[dim] = 1
    common = list(np.broadcast_shapes(tuple(size), tuple(wanted)))
    input = shape.expand(input, (*common[:dim], along, *common[dim + 1 :]))
    return gather(input, dim, shape.expand(indices, (*common[:dim], count, *common[dim + 1 :])))


# Writing: out of place; `inplace.py` makes x[index] = value from it.


def _assign_numpy(x: np.ndarray, value: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    result = np.array(x)
    result[numpy_index(index)] = value
    return result


def _assign_gradient(g: Tensor, value_type: TensorType, index: tuple[Any, ...]) -> Tensor:
    return bind(_assign, (g, creation.zeros(value_type.shape, dtype=g.dtype)), {"index": index})


_assign = Opaque(
    "assign",
    "x value",
    _assign_numpy,
    lambda types, index: types[0],
    {"x": _assign_gradient, "value": lambda g, index: bind(shape._getitem, (g,), {"index": index})},
    "CopySlices",
)


def replaced(x: Tensor, index: Any, value: Tensor) -> Tensor:
    """`x` with `value` (of its dtype, broadcast) at `index`."""
    basic, advanced = split_index(x, index)
    part = x if basic is None else bind(shape._getitem, (x,), {"index": basic})
    if advanced:
        merged = _Merged(part, advanced)
        size = merged.merged.array.shape
        wanted = size[: merged.dim] + merged.index.array.shape + size[merged.dim + 1 :]
        value = shape.expand(_without_ones(value, len(wanted)), wanted)
        params = {"dim": merged.dim, "accumulate": False}
        value = merged.restore(bind(_put, (merged.merged, value, merged.index), params))
    if basic is None:
        return value
    value = shape.expand(_without_ones(value, part.array.ndim), part.array.shape)
    return bind(_assign, (x, value), {"index": basic})


def _without_ones(value: Tensor, ndim: int) -> Tensor:
    """`value` without the leading dimensions of size 1 that it has too many."""
    size = value.array.shape
    while len(size) > ndim and size[0] == 1:
        size = size[1:]
    return value if size == value.array.shape else shape.reshape(value, size)


def padded(input: Tensor, widths: Sequence[tuple[int, int]], value: float) -> Tensor:
    """`input` with `value` around it; widths: (before, after) per dimension, negative ones cut."""
    cut = tuple(
        slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(input.array.shape, widths, strict=True)
    )
    if any(a < 0 or b < 0 for a, b in widths):
        input = input[cut]
    if all(a <= 0 and b <= 0 for a, b in widths):
        return input
    grown = [(max(0, a), n, max(0, b)) for n, (a, b) in zip(input.array.shape, widths, strict=True)]
    around = creation.full(tuple(a + n + b for a, n, b in grown), value, dtype=input.dtype)
    index = tuple(shape.Slice(a, a + n, 1) for a, n, _ in grown)
    return bind(_assign, (around, input), {"index": index})
