"""Ops that move elements without computing: views, and copies where strides cannot say it."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import Layout, Opaque, View
from fusegrad.eager.op import NO_PARAMS, TensorType, bind
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a tensor method too."""
    METHODS[function.__name__] = function
    return function


def normal_dim(dim: int, ndim: int) -> int:
    """`dim` counted from 0; raises IndexError as PyTorch does when it is out of range."""
    bound = ndim or 1
    if type(dim) is not int:
        dim = dim.__index__()
    if not -bound <= dim < bound:
        raise failure(
            IndexError,
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})",
        )
    return dim % bound


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)` as a tuple of ints."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return tuple([s if type(s) is int else s.__index__() for s in sizes])


# Reshaping.


def _reshape_layout(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """Strides for a reshape, where the old dimensions that merge lie one inside the other."""
    old = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    if 0 in shape:
        return Layout(shape, (1,) * len(shape), layout.offset)
    strides: list[int] = []
    groups = iter(old)
    # Walk both shapes from the front: each group of new dimensions must use up whole old ones.
    pending = 1
    block: list[tuple[int, int]] = []
    for n in shape:
        if n == 1:
            strides.append(1)
            continue
        while pending % n or pending < n:
            following = next(groups, None)
            if following is None:
                return None
            if block and block[-1][1] != following[0] * following[1] and pending > 1:
                return None
            block.append(following)
            pending *= following[0]
        pending //= n
        strides.append(pending * block[-1][1])
        if pending == 1:
            block = []
    return Layout(shape, tuple(strides), layout.offset)


def _reshape_numpy(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(shape)


class _Reshape(View):
    def evaluate(self, args: Any, params: Any) -> Any:
        return args[0].array.reshape(params["shape"])


_reshape = _Reshape(
    "reshape",
    _reshape_numpy,
    _reshape_layout,
    {"x": lambda g, x_type: reshape(g, x_type.shape)},
    "ViewBackward0",
)


@method
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1.

    Raises RuntimeError when the number of elements differs. Source: `torch.reshape`.

    >>> import fusegrad as fg
    >>> fg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    sizes = _sizes(shape)
    size = input.array.size
    if -1 in sizes:
        known = -math.prod(sizes)
        if known > 0 and size % known == 0:
            sizes = tuple(size // known if s == -1 else s for s in sizes)
    if math.prod(sizes) != size or builtins.any(s < 0 for s in sizes):
        raise failure(
            RuntimeError,
            f"shape '{list(_sizes(shape))}' is invalid for input of size {size} "
            f"(shape {list(input.array.shape)})",
        )
    return bind(_reshape, (input,), {"shape": sizes})


@method
def view(input: Tensor, *shape: Any) -> Tensor:
    """`reshape` that never copies: raises RuntimeError where the elements do not lie so."""
    result = reshape(input, *shape)
    if result.array.size and not np.may_share_memory(result.array, input.array):
        raise failure(
            RuntimeError,
            f"view size {list(result.array.shape)} is not compatible with input tensor's size "
            f"{list(input.array.shape)} and stride {list(input.stride())}. Use .reshape(...) instead.",
        )
    return result


@method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` as one. Source: `torch.flatten`."""
    shape = input.array.shape
    if not shape:
        return reshape(input, (1,))
    start, end = normal_dim(start_dim, len(shape)), normal_dim(end_dim, len(shape))
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@method
def squeeze(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Without dimensions of size 1 (all of them, or `dim`). Source: `torch.squeeze`."""
    shape = input.array.shape
    given = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = {normal_dim(d, len(shape)) for d in given}
    return reshape(input, tuple(n for i, n in enumerate(shape) if not (i in dims and n == 1)))


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 put in at `dim`. Source: `torch.unsqueeze`."""
    shape = list(input.array.shape)
    shape.insert(normal_dim(dim, len(shape) + 1), 1)
    return reshape(input, tuple(shape))


# Order of dimensions.


def _permute_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    return Layout(tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims), layout.offset)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dims.index(i) for i in range(len(dims)))


_permute: View = View(
    "permute",
    lambda x, dims: x.transpose(dims),
    _permute_layout,
    {"x": lambda g, dims: bind(_permute, (g,), {"dims": _inverse(dims)})},
    lambda params: "TBackward0" if params["dims"] == (1, 0) else "PermuteBackward0",
)


@method
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dimensions in the order `dims`. Source: `torch.permute`."""
    ndim = input.array.ndim
    order = tuple(normal_dim(d, ndim) for d in _sizes(dims))
    if sorted(order) != list(range(ndim)):
        raise failure(RuntimeError, f"dims {order} are no order of {ndim} dimensions")
    return bind(_permute, (input,), {"dims": order})


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged. Source: `torch.transpose`."""
    order = list(range(input.array.ndim))
    a, b = normal_dim(dim0, len(order)), normal_dim(dim1, len(order))
    if order:
        order[a], order[b] = order[b], order[a]
    return bind(_permute, (input,), {"dims": tuple(order)})


swapaxes = METHODS["swapaxes"] = METHODS["swapdims"] = transpose


@method
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix (vectors and numbers as they are). Source: `torch.t`."""
    if input.array.ndim > 2:
        raise failure(RuntimeError, f"expects a tensor with <= 2 dimensions, but self is {input.array.ndim}D")
    return permute(input, *reversed(range(input.array.ndim)))


@method
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places. Source: `torch.movedim`."""
    ndim = input.array.ndim
    sources = [normal_dim(d, ndim) for d in ([source] if isinstance(source, int) else source)]
    targets = [normal_dim(d, ndim) for d in ([destination] if isinstance(destination, int) else destination)]
    order = [d for d in range(ndim) if d not in sources]
    for target, moved in sorted(zip(targets, sources, strict=True)):
        order.insert(target, moved)
    return permute(input, *order)


# Expanding.


def _expand_layout(layout: Layout, shape: tuple[int, ...]) -> Layout:
    extra = len(shape) - len(layout.shape)
    strides = [0] * extra
    for n, old, stride in zip(shape[extra:], layout.shape, layout.strides, strict=True):
        strides.append(stride if old == n else 0)
    return Layout(shape, tuple(strides), layout.offset)


def _expand_numpy(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if x.ndim:
        return np.broadcast_to(x, shape)
    # What `broadcast_to` does for a number, in a third of its time: every sum's gradient takes this way.
    result: np.ndarray = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    result.flags.writeable = False
    return result


_expand = View("expand", _expand_numpy, _expand_layout, {"x": lambda g: g}, "ExpandBackward0")


@method
def expand(input: Tensor, *sizes: Any) -> Tensor:
    """Dimensions of size 1 repeated without copying; -1 keeps a size. Source: `torch.Tensor.expand`."""
    wanted, shape = _sizes(sizes), input.array.shape
    extra = len(wanted) - len(shape)
    sizes = tuple(shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(wanted))
    if extra < 0 or builtins.any(a not in (1, b) for a, b in zip(shape, sizes[extra:], strict=True)):
        raise failure(RuntimeError, f"shape {list(shape)} does not expand to {list(wanted)}")
    return input if sizes == shape else bind(_expand, (input,), {"shape": sizes})


broadcast_to = METHODS["broadcast_to"] = expand


@method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of `other`."""
    return expand(input, other.array.shape)


# Basic indexing.


class Slice(NamedTuple):
    """A `slice` that can be hashed; prints as Python's."""

    start: int
    stop: int
    step: int

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
            count = len(range(entry.start, entry.stop, entry.step))
            shape.append(count)
            strides.append(stride * entry.step)
            offset += stride * entry.start if count else 0
        else:
            offset += stride * entry
    return Layout(tuple(shape), tuple(strides), offset)


def numpy_index(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """A frozen index as NumPy takes it."""
    return tuple(
        slice(e.start, None if e.stop < 0 else e.stop, e.step) if isinstance(e, Slice) else e for e in index
    )


def _getitem_name(params: dict[str, Any]) -> str:
    index = params["index"]
    if builtins.any(isinstance(e, int) for e in index):
        return "SelectBackward0"
    return "UnsqueezeBackward0" if None in index else "SliceBackward0"


_getitem = View(
    "getitem",
    lambda x, index: x[numpy_index(index)],
    _getitem_layout,
    {"x": lambda g, x_type, index: bind(_embed, (g,), {"shape": x_type.shape, "index": index})},
    _getitem_name,
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
)


def basic_index(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """A basic index (ints, slices, None, Ellipsis) in frozen form, one entry per dimension used.

    None when the index is an advanced one (tensors, lists). Raises IndexError out of range.
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    if not builtins.all(
        e is None or e is Ellipsis or isinstance(e, slice) or type(e) is int or isinstance(e, np.integer)
        for e in entries
    ):
        return None
    used = builtins.sum(e is not None and e is not Ellipsis for e in entries)
    if used > len(shape):
        raise failure(IndexError, f"too many indices for tensor of dimension {len(shape)}")
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    place = entries.index(Ellipsis)
    entries[place : place + 1] = [slice(None)] * (len(shape) - used)
    result: list[Any] = []
    dim = 0
    for entry in entries:
        if entry is None:
            result.append(None)
            continue
        n = shape[dim]
        if isinstance(entry, slice):
            result.append(Slice(*entry.indices(n)))
            if result[-1].step < 0:
                raise failure(ValueError, "step must be greater than zero")
        else:
            if not -n <= entry < n:
                raise failure(IndexError, f"index {entry} is out of bounds for dimension {dim} with size {n}")
            result.append(int(entry) % n)
        dim += 1
    return tuple(result)


# Copies: joining, flipping.


def _cat_type(types: Sequence[TensorType], dim: int) -> TensorType:
    shape = list(types[0].shape)
    for other in types[1:]:
        pairs = enumerate(zip(shape, other.shape, strict=False))
        same = builtins.all(a == b for i, (a, b) in pairs if i != dim)
        if not same or len(shape) != len(other.shape):
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. "
                f"Got {list(types[0].shape)} and {list(other.shape)}"
            )
    shape[dim] = builtins.sum(t.shape[dim] for t in types)
    return TensorType(tuple(shape), functools.reduce(dtypes.promote, (t.dtype for t in types)))


def _cat_gradient(g: Tensor, index: int, types: Sequence[Any], dim: int) -> Tensor:
    start = builtins.sum(t[0][dim] for t in types[:index])
    return narrow(g, dim, start, types[index][0][dim])


def _cat_numpy(*arrays: np.ndarray, dim: int) -> np.ndarray:
    kind = _cat_type([TensorType(a.shape, a.dtype) for a in arrays], dim).dtype
    return np.concatenate([a.astype(kind, copy=False) for a in arrays], axis=dim)


_cat = Opaque("cat", "*tensors", _cat_numpy, _cat_type, {"tensors": _cat_gradient})


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`. Source: `torch.cat`."""
    tensors = tuple(tensors)
    if not tensors:
        raise failure(RuntimeError, "expected a non-empty list of Tensors")
    kept = tuple(x for x in tensors if x.array.shape != (0,)) or tensors[:1]
    return bind(_cat, kept, {"dim": normal_dim(dim, kept[0].array.ndim)})


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension. Source: `torch.stack`."""
    tensors = tuple(tensors)
    if not tensors:
        raise failure(RuntimeError, "expected a non-empty list of Tensors")
    for other in tensors[1:]:
        if other.array.shape != tensors[0].array.shape:
            raise failure(
                RuntimeError,
                f"stack expects each tensor to be equal size, but got {list(tensors[0].array.shape)} "
                f"and {list(other.array.shape)}",
            )
    place = normal_dim(dim, tensors[0].array.ndim + 1)
    return cat([unsqueeze(x, place) for x in tensors], place)


@method
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` elements along `dim` from `start`. Source: `torch.narrow`."""
    dim = normal_dim(dim, input.array.ndim)
    n = input.array.shape[dim] if input.array.ndim else 0
    start = start + n if start < 0 else start
    if not 0 <= start <= n or length < 0 or start + length > n:
        raise failure(RuntimeError, f"start ({start}) + length ({length}) exceeds dimension size ({n})")
    index = [Slice(0, m, 1) for m in input.array.shape]
    index[dim] = Slice(start, start + length, 1)
    return bind(_getitem, (input,), {"index": tuple(index)})


def _flip_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    strides, offset = list(layout.strides), layout.offset
    for d in dims:
        offset += strides[d] * (layout.shape[d] - 1) if layout.shape[d] else 0
        strides[d] = -strides[d]
    return Layout(layout.shape, tuple(strides), offset)


class _Flip(View):
    """Reversed dimensions; a copy in eager, as in PyTorch, where no negative strides exist."""

    view = False


_flip: View = _Flip(
    "flip",
    lambda x, dims: np.flip(x, dims).copy(),
    _flip_layout,
    {"x": lambda g, dims: bind(_flip, (g,), {"dims": dims})},
)


@method
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reversed along `dims`. Source: `torch.flip`."""
    return bind(_flip, (input,), {"dims": tuple(normal_dim(d, input.array.ndim) for d in _sizes(dims))})


_detach = View("detach", lambda x: x.view(), lambda layout: layout, None)


def detach(input: Tensor) -> Tensor:
    """The same memory off the graph. Source: `torch.Tensor.detach`."""
    return bind(_detach, (input,), NO_PARAMS)


# What is composed of the ops above.


@method
def split(input: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of a given size (the last may be smaller) or given sizes. Source: `torch.split`."""
    dim = normal_dim(dim, input.array.ndim)
    n = input.array.shape[dim]
    sizes = split_size_or_sections
    if isinstance(sizes, int):
        if sizes <= 0 and n:
            raise failure(RuntimeError, f"split_size must be positive, got {sizes}")
        sizes = [builtins.min(sizes, n - at) for at in range(0, n, builtins.max(sizes, 1))] or [0]
    if builtins.sum(sizes) != n:
        raise failure(RuntimeError, f"split sizes {list(sizes)} must sum to {n}, the size of dimension {dim}")
    starts = [builtins.sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(input, dim, start, size) for start, size in zip(starts, sizes, strict=True))


@method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of equal size. Source: `torch.chunk`."""
    if chunks <= 0:
        raise failure(RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.array.shape[normal_dim(dim, input.array.ndim)]
    return split(input, builtins.max(1, -(-n // chunks)), dim)


@method
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension. Source: `torch.select`."""
    dim = normal_dim(dim, input.array.ndim)
    return input[(slice(None),) * dim + (index,)]


@method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`. Source: `torch.unbind`."""
    dim = normal_dim(dim, input.array.ndim)
    return tuple(select(input, dim, i) for i in range(input.array.shape[dim]))


@method
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """The tensor laid side by side `repeats` times along each dimension. Source: `torch.Tensor.repeat`."""
    counts, size = _sizes(repeats), input.array.shape
    if len(counts) < len(size):
        raise failure(
            RuntimeError, f"{len(counts)} repeats for a tensor of {len(size)} dimensions {list(size)}"
        )
    size = (1,) * (len(counts) - len(size)) + size
    apart = reshape(input, tuple(n for pair in zip((1,) * len(size), size, strict=True) for n in pair))
    spread = expand(apart, tuple(n for pair in zip(counts, size, strict=True) for n in pair))
    return reshape(spread, tuple(c * n for c, n in zip(counts, size, strict=True)))


@method
def tile(input: Tensor, *dims: Any) -> Tensor:
    """`repeat` with 1 for the dimensions that `dims` leaves out. Source: `torch.tile`."""
    counts = _sizes(dims)
    return repeat(input, (1,) * (input.array.ndim - len(counts)) + counts)


@method
def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each element (or slice along `dim`) `repeats` times in a row. Source: `torch.repeat_interleave`."""
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    dim = normal_dim(dim, input.array.ndim)
    size = input.array.shape
    spread = expand(unsqueeze(input, dim + 1), (*size[: dim + 1], repeats, *size[dim + 1 :]))
    return reshape(spread, (*size[:dim], size[dim] * repeats, *size[dim + 1 :]))


@method
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Moved along dimensions, what leaves at the end comes back in front. Source: `torch.roll`."""
    if dims is None:
        return reshape(roll(reshape(input, (-1,)), shifts, 0), input.array.shape)
    pairs = [(shifts, dims)] if isinstance(dims, int) else zip(shifts, dims, strict=True)
    for shift, dim in pairs:
        dim = normal_dim(dim, input.array.ndim)
        n = input.array.shape[dim]
        if n and shift % n:
            first = narrow(input, dim, n - shift % n, shift % n)
            input = cat([first, narrow(input, dim, 0, n - shift % n)], dim)
    return input


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to a grid. Source: `torch.meshgrid`."""
    vectors = (
        list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    )
    if indexing not in ("ij", "xy"):
        raise failure(RuntimeError, f"indexing must be one of 'xy' or 'ij', got {indexing!r}")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    size = tuple(v.array.size for v in vectors)
    grids = [
        expand(reshape(v, (1,) * i + (-1,) + (1,) * (len(size) - i - 1)), size) for i, v in enumerate(vectors)
    ]
    if swap:
        grids = [transpose(g, 0, 1) for g in (grids[1], grids[0], *grids[2:])]
    return tuple(grids)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to their common shape. Source: `torch.broadcast_tensors`."""
    try:
        size = np.broadcast_shapes(*(x.array.shape for x in tensors))
    except ValueError as error:
        raise failure(RuntimeError, str(error)) from None
    return tuple(expand(x, size) for x in tensors)


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    """Zero beyond a diagonal; as a comparison of positions, so that it fuses."""
    if input.array.ndim < 2:
        raise failure(RuntimeError, f"input tensor must have at least 2 dimensions, got {input.array.ndim}")
    rows = unsqueeze(creation.arange(input.array.shape[-2]), 1)
    columns = creation.arange(input.array.shape[-1])
    kept = columns - rows <= diagonal if lower else columns - rows >= diagonal
    return elementwise.where(kept, input, 0)


@method
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle, the rest 0. Source: `torch.tril`."""
    return _triangle(input, diagonal, True)


@method
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle, the rest 0. Source: `torch.triu`."""
    return _triangle(input, diagonal, False)


@method
def contiguous(input: Tensor) -> Tensor:
    """Itself where it lies in row-major order, else a copy that does. Source: `torch.Tensor.contiguous`."""
    return input if input.array.flags.c_contiguous else bind(_contiguous, (input,))


_contiguous = Opaque(
    "contiguous",
    "x",
    lambda x: np.array(x, order="C"),
    lambda types: types[0],
    {"x": lambda g: g},
    "CloneBackward0",
)


@method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several. Source: `torch.unflatten`."""
    dim = normal_dim(dim, input.array.ndim)
    shape = input.array.shape
    return reshape(input, (*shape[:dim], *_sizes((tuple(sizes),)), *shape[dim + 1 :]))


@method
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`. Source: `torch.Tensor.reshape_as`."""
    return reshape(input, other.array.shape)


@method
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of `other`. Source: `torch.Tensor.view_as`."""
    return view(input, other.array.shape)


@method
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose two indices differ by `offset`, as the last dimension. Source: `torch.diagonal`."""
    ndim = input.array.ndim
    dims = normal_dim(dim1, ndim), normal_dim(dim2, ndim)
    if dims[0] == dims[1]:
        raise failure(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = input.array.shape[dims[0]], input.array.shape[dims[1]]
    count = builtins.max(
        0, builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns)
    )
    first = creation.arange(count)
    moved = movedim(input, dims, (0, 1))
    picked = moved[first + builtins.max(0, -offset), first + builtins.max(0, offset)]
    return movedim(picked, 0, -1)


@method
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix's diagonal, or the matrix with a given diagonal. Source: `torch.diag`."""
    if input.array.ndim == 2:
        return _diagonal(input, diagonal)
    n = input.array.size + builtins.abs(diagonal)
    rows, columns = unsqueeze(creation.arange(n), 1), creation.arange(n)
    start = builtins.max(0, diagonal)
    filled = indexing_ops.padded(input, [(start, n - start - input.array.size)], 0)
    return elementwise.where(elementwise.eq(columns - rows, diagonal), filled, 0)


_diagonal = diagonal

from fusegrad.eager.ops import (  # noqa: E402  (families use reshape; these use families)
    creation,
    elementwise,
    indexing as indexing_ops,
)
