"""Basic indexing and what is made of it: slices and pieces."""

from __future__ import annotations

import builtins
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Layout, Opaque, View
from fusegrad.eager.core.memory_order import as_first
from fusegrad.eager.core.names import attach, renamed
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints, positions, size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import Place, ints, whole_number
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.shape import _sizes, normal_dim

# Basic indexing.


class Slice(NamedTuple):
    """A `slice` that can be hashed; prints as Python's."""

    start: int
    stop: int
    step: int

    @property
    def length(self) -> int:
        """How many elements it takes; `range` would want numbers, and these may be symbols."""
        return max(0, -((self.start - self.stop) // self.step))

    def __repr__(self) -> str:
        return f"slice({self.start}, {self.stop}, {self.step})"


def _getitem_layout(layout: Layout, index: tuple[Any, ...]) -> Layout:
    shape, strides, offset = [], [], layout.offset
    source = iter(zip(layout.shape, layout.strides, strict=True))
    for entry in index:
        if entry is None:
            shape.append(1)
            strides.append(0)
            continue
        _, stride = next(source)
        if isinstance(entry, Slice):
            count = entry.length
            shape.append(count)
            strides.append(stride * entry.step)
            offset += stride * entry.start
        else:
            offset += stride * entry
    return Layout(tuple(shape), tuple(strides), offset)


@functools.lru_cache(maxsize=4096)
def numpy_index(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """A frozen index as NumPy takes it; the result is a view whatever the index."""
    return (*[slice(*e) if type(e) is Slice else e for e in index], ...)


def _getitem_name(params: Params) -> str:
    index = params["index"]
    if builtins.any(isinstance(e, int) for e in index):
        return "SelectBackward0"
    return "UnsqueezeBackward0" if None in index else "SliceBackward0"


class _GetItem(View):
    """Rows of a table are picked one at a time, so this goes without Python's way for any parameters."""

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return args[0].array[numpy_index(params["index"])]


_getitem = _GetItem(
    "getitem",
    lambda x, index: x[numpy_index(index)],
    _getitem_layout,
    {"x": lambda g, x_type, index: bind(_embed, (g,), {"shape": x_type.shape, "index": index})},
    _getitem_name,
    lambda x_type, index: (_assign, True, {"index": index}),
    part=True,
)


def _assign_numpy(x: np.ndarray, value: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    result = np.array(x)
    result[numpy_index(index)] = value
    return result


def _assign_gradient(g: Tensor, value_type: TensorType, index: tuple[Any, ...]) -> Tensor:
    return bind(_assign, (g, ops.zeros(value_type.shape, dtype=g.dtype)), {"index": index})


_assign: Opaque = Opaque(
    "assign",
    "x value",
    _assign_numpy,
    lambda types, index: types[0],
    {"x": _assign_gradient, "value": lambda g, index: bind(_getitem, (g,), {"index": index})},
    "CopySlices",
    refuses="",
    order=as_first,
)


def _embed_numpy(x: np.ndarray, shape: tuple[int, ...], index: tuple[Any, ...]) -> np.ndarray:
    result = np.zeros(shape, x.dtype)
    result[numpy_index(index)] = x
    return result


_embed: Opaque = Opaque(
    "embed",
    "x",
    _embed_numpy,
    lambda types, shape, index: TensorType(shape, types[0].dtype),
    {"x": lambda g, index: bind(_getitem, (g,), {"index": index})},
    refuses="",
)


# NumPy's integers too, and enumerations: what Python counts with.
_INTEGERS = (int, np.integer)


def basic_index(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """A basic index (ints, slices, None, Ellipsis) in frozen form, one entry per dimension used.

    None when the index is an advanced one (tensors, lists). Raises IndexError out of range.
    """
    if type(index) is int and shape and -shape[0] <= index < shape[0]:
        return _one(index, shape)
    entries = index if isinstance(index, tuple) else (index,)
    used, place = 0, -1  # how many dimensions have an entry, and where the Ellipsis is
    for position, entry in enumerate(entries):
        kind = type(entry)
        if kind is int or kind is slice or (isinstance(entry, _INTEGERS) and kind is not bool):
            used += 1
        elif entry is Ellipsis:
            place = position if place < 0 else place
        elif entry is not None:
            return None
    if used > len(shape):
        if not shape:
            raise failure(IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` for its number")
        raise failure(IndexError, f"too many indices for tensor of dimension {len(shape)}")
    result: list[Any] = []
    dim = 0
    for position, entry in enumerate(entries):
        if entry is None:
            result.append(None)
        elif entry is Ellipsis:
            if position == place:  # a second one stands for no dimensions
                rest = dim + len(shape) - used
                result += _wholes(shape[dim:rest])
                dim = rest
        else:
            n = shape[dim]
            if type(entry) is slice:
                result.append(_frozen(entry, n))
            elif -n <= entry < n:
                result.append(int(entry) % n)
            else:
                raise failure(IndexError, f"index {entry} is out of bounds for dimension {dim} with size {n}")
            dim += 1
    result += _wholes(shape[dim:])
    return tuple(result)


@functools.lru_cache(maxsize=4096)
def _one(index: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One entry of the first dimension, and all of the others."""
    return (index % shape[0], *_wholes(shape[1:]))


@functools.lru_cache(maxsize=4096)
def _whole(n: int) -> Slice:
    """All of a dimension of size `n`."""
    return Slice(0, n, 1)


@functools.lru_cache(maxsize=4096)
def _wholes(sizes: tuple[int, ...]) -> tuple[Slice, ...]:
    """All of each of the dimensions of these sizes."""
    return tuple(map(_whole, sizes))


def _frozen(entry: slice, n: int) -> Slice:
    """A slice of a dimension of size `n`; raises ValueError unless its step is positive."""
    start, stop, step = entry.start, entry.stop, entry.step
    if step is None:
        if start is None and stop is None:
            return _whole(n)
    elif size_of(step) <= 0:
        raise failure(ValueError, f"step must be greater than zero, got {step}; use flip() to reverse")
    return Slice(*entry.indices(n))


def _along(shape: tuple[int, ...], dim: int, entry: Any) -> tuple[Any, ...]:
    """The frozen index with `entry` for `dim` and all of the other dimensions."""
    index: list[Any] = [*_wholes(shape)]
    index[dim] = entry
    return tuple(index)


# One slice, along one dimension.


def _dim_of(input: Tensor, dim: int, name: str) -> int:
    """`dim` counted from 0 of a tensor that has dimensions."""
    if not input.array.ndim:
        if name in ("split", "chunk", "tensor_split"):
            raise failure(
                RuntimeError, f"{name} expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
            )
        raise failure(
            IndexError if name == "select" else RuntimeError, f"{name}() cannot be applied to a 0-dim tensor"
        )
    return normal_dim(dim, input.array.ndim)


@public(method=True)
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """`length` elements along `dim` from `start`. Source: `torch.narrow`."""
    dim = _dim_of(input, dim, "narrow")
    if isinstance(start, Tensor) and (start.array.ndim or start.array.dtype.kind not in "iu"):
        raise failure(
            RuntimeError,
            f"start must be an 0-dim integral Tensor, got {start.array.dtype.name}{list(start.array.shape)}",
        )
    first, length = size_of(start), size_of(length)
    n = input.array.shape[dim]
    if not -n <= first <= n:
        raise failure(
            IndexError, f"start out of range (expected to be in range of [{-n}, {n}], but got {first})"
        )
    first = first + n if first < 0 else first
    if length < 0:
        raise failure(RuntimeError, f"length must be non-negative, got {length}")
    if first + length > n:
        raise failure(RuntimeError, f"start ({first}) + length ({length}) exceeds dimension size ({n})")
    return bind(
        _getitem, (input,), {"index": _along(input.array.shape, dim, Slice(first, first + length, 1))}
    )


@public(method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension. Source: `torch.select`."""
    dim = _dim_of(input, dim, "select")
    return bind(_getitem, (input,), {"index": _along(input.array.shape, dim, _place(input, dim, index))})


def _place(input: Tensor, dim: int, index: int) -> int:
    n, place = input.array.shape[dim], size_of(index)
    if not -n <= place < n:
        raise failure(
            IndexError,
            f"index {place} out of range for tensor of size {list(input.array.shape)} at dimension {dim}",
        )
    return place % n


@public(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`. Source: `torch.unbind`."""
    dim = _dim_of(input, dim, "select")
    slices = [select(input, dim, i) for i in range(input.array.shape[dim])]
    return views.several(slices, "UnbindBackward0")


# Written back: out of place.


@public(method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """`input` with the slice at `index` along `dim` replaced by `src`. Source: `torch.select_scatter`."""
    dim = _dim_of(input, dim, "select")
    return assigned(input, src, _along(input.array.shape, dim, _place(input, dim, index)))


@public(method=True)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """`input` with `start:end:step` along `dim` replaced by `src`. Source: `torch.slice_scatter`."""
    dim = _dim_of(input, dim, "slice")
    entry = _frozen(slice(start, end, step), input.array.shape[dim])
    return assigned(input, src, _along(input.array.shape, dim, entry))


def assigned(input: Tensor, src: Tensor, index: tuple[Any, ...]) -> Tensor:
    """`input` with `src` at a frozen index; raises RuntimeError unless it has just that shape."""
    part = np.broadcast_to(np.int8(0), input.array.shape)[numpy_index(index)].shape
    if src.array.shape != part:
        raise failure(
            RuntimeError,
            f"expected src to have a size equal to the slice of self. src size = {list(src.array.shape)}, "
            f"slice size = {list(part)}",
        )
    return bind(_assign, (input, src), {"index": index})


# Pieces.


@public
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of a given size (the last may be smaller) or given sizes. Source: `torch.split`."""
    dim = _dim_of(tensor, dim, "split")
    n = tensor.array.shape[dim]
    sizes = ints(split_size_or_sections, Place("", "split_size_or_sections", 2))
    if not isinstance(sizes, (tuple, list)):
        if sizes < 0 or (sizes == 0 and n):
            raise failure(RuntimeError, f"split_size must be positive, got {sizes}")
        sizes = [builtins.min(sizes, n - at) for at in range(0, n, builtins.max(sizes, 1))] or [0]
    sizes = _sizes((tuple(sizes),))
    if builtins.sum(sizes) != n or (sizes and builtins.min(sizes) < 0):
        raise failure(RuntimeError, f"split sizes {list(sizes)} must sum to {n}, the size of dimension {dim}")
    shape, pieces, start = tensor.array.shape, [], 0
    for size in sizes:  # of which is known that they fit
        index = _along(shape, dim, Slice(start, start + size, 1))
        pieces.append(bind(_getitem, (tensor,), {"index": index}))
        start += size
    return views.several(pieces, "SplitBackward0")


@public(method=True)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of given sizes along `dim`. Source: `torch.split_with_sizes`."""
    return split(input, tuple(split_sizes), dim)


def _split(self: Tensor, split_size: Ints, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of a given size (the last may be smaller) or given sizes. Source: `torch.Tensor.split`."""
    return split(self, split_size, dim)


attach(renamed(_split, "split"))


@public(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of equal size. Source: `torch.chunk`."""
    dim, chunks = _dim_of(input, dim, "chunk"), size_of(chunks)
    if chunks <= 0:
        raise failure(RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.array.shape[dim]
    return split(input, -(-n // chunks) if n else (0,) * chunks, dim)


@public(method=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose pieces may be written in place. Source: `torch.unsafe_split`."""
    return views.unrelated(split(input, split_size, dim))


@public(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose pieces may be written in place. Source: `torch.unsafe_split_with_sizes`."""
    return views.unrelated(split(input, tuple(split_sizes), dim))


@public(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose pieces may be written in place. Source: `torch.unsafe_chunk`."""
    return views.unrelated(chunk(input, chunks, dim))


@public(method=True)
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Ints | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Pieces of nearly equal size, or cut before given indices. Source: `torch.tensor_split`."""
    given: Any = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
    dim = _dim_of(input, dim, "tensor_split")
    n = input.array.shape[dim]
    if isinstance(given, Tensor):
        if given.array.dtype != np.int64:
            raise failure(
                RuntimeError,
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{given.type().removeprefix('torch.').removesuffix('Tensor')}",
            )
        if given.array.ndim > 1:
            raise failure(
                RuntimeError,
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor, but got a tensor with {given.array.ndim} dims",
            )
        given = given.tolist()
    if not isinstance(given, (tuple, list)):
        given = whole_number(given, Place("", "sections"))
        if given <= 0:
            raise failure(RuntimeError, f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(n, given)
        edges = [i * small + builtins.min(i, larger) for i in positions(given + 1).tolist()]
    else:
        edges = [0, *_sizes((tuple(given),)), n]
    # Each a view of its own, which may be written in place, unlike those of `split`.
    cuts = [Slice(*slice(a, b).indices(n)) for a, b in itertools.pairwise(edges)]
    return tuple([bind(_getitem, (input,), {"index": _along(input.array.shape, dim, cut)}) for cut in cuts])


def _split_along(name: str, least: int, dim: Callable[[int], int]) -> Callable[..., tuple[Tensor, ...]]:
    """`hsplit` and its kin: `tensor_split` along the dimension that `dim` gives for a rank."""

    def function(
        input: Tensor,
        indices_or_sections: Any = None,
        *,
        indices: Ints | None = None,
        sections: int | None = None,
    ) -> tuple[Tensor, ...]:
        given: Any = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
        ndim = input.array.ndim
        if ndim < least:
            raise failure(
                RuntimeError,
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
                f"{ndim} dimensions!",
            )
        along = dim(ndim)
        n = input.array.shape[along]
        if not isinstance(given, (tuple, list)):
            given = whole_number(given, Place("", "sections"))
        if isinstance(given, int) and (given <= 0 or n % given):
            raise failure(
                RuntimeError,
                f"torch.{name} attempted to split along dimension {along}, but the size of the dimension {n} "
                f"is not divisible by the split_size {given}!",
            )
        return tensor_split(input, given, along)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Equal pieces, or pieces cut before given indices. Source: `torch.{name}`."
    return public(method=True)(function)


hsplit = _split_along("hsplit", 1, lambda ndim: 1 if ndim > 1 else 0)
vsplit = _split_along("vsplit", 2, lambda ndim: 0)
dsplit = _split_along("dsplit", 3, lambda ndim: 2)


# Of tensors that show memory several times.


def once(expanded: Tensor) -> Tensor:
    """The part of an expanded tensor that shows each of its elements once."""
    array = expanded.array
    index = tuple([slice(None) if stride else slice(0, 1) for stride in array.strides])
    return bind(_getitem, (expanded,), {"index": basic_index(index, array.shape)})


def repeating(array: np.ndarray) -> list[int]:
    """The dimensions along which an array shows the same elements again."""
    return [
        d for d, (n, step) in enumerate(zip(array.shape, array.strides, strict=True)) if n > 1 and not step
    ]
