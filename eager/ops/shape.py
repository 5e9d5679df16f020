"""Ops that move elements without computing: views, and copies where strides cannot say it."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

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
    if not isinstance(dim, int):
        dim = dim.__index__()
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)` as a tuple of ints."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return tuple(s.__index__() for s in sizes)


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
        from fusegrad.eager.errors import located

        raise RuntimeError(
            located(f"shape '{list(sizes)}' is invalid for input of size {size} (shape {list(input.array.shape)})")
        )
    return bind(_reshape, (input,), {"shape": sizes})


@method
def view(input: Tensor, *shape: Any) -> Tensor:
    """`reshape` that never copies: raises RuntimeError where the elements do not lie so."""
    result = reshape(input, *shape)
    if result.array.size and not np.may_share_memory(result.array, input.array):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride. Use .reshape(...) instead."
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


_permute = View(
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
        raise RuntimeError(f"permute: dims {order} are no order of {ndim} dimensions")
    return bind(_permute, (input,), {"dims": order})


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged. Source: `torch.transpose`."""
    order = list(range(input.array.ndim))
    a, b = normal_dim(dim0, len(order)), normal_dim(dim1, len(order))
    if order:
        order[a], order[b] = order[b], order[a]
    return bind(_permute, (input,), {"dims": tuple(order)})


METHODS["swapaxes"] = METHODS["swapdims"] = transpose


@method
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix (vectors and numbers as they are). Source: `torch.t`."""
    if input.array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.array.ndim}D")
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


_expand = View(
    "expand", lambda x, shape: np.broadcast_to(x, shape), _expand_layout, {"x": lambda g: g}, "ExpandBackward0"
)


@method
def expand(input: Tensor, *sizes: Any) -> Tensor:
    """Dimensions of size 1 repeated without copying; -1 keeps a size. Source: `torch.Tensor.expand`."""
    wanted, shape = _sizes(sizes), input.array.shape
    extra = len(wanted) - len(shape)
    sizes = tuple(shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(wanted))
    if extra < 0 or builtins.any(a not in (1, b) for a, b in zip(shape, sizes[extra:], strict=True)):
        from fusegrad.eager.errors import located

        raise RuntimeError(located(f"expand: shape {list(shape)} does not expand to {list(wanted)}"))
    return input if sizes == shape else bind(_expand, (input,), {"shape": sizes})


METHODS["broadcast_to"] = expand


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


_embed = Opaque(
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
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
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
                raise ValueError("step must be greater than zero")
        else:
            if not -n <= entry < n:
                raise IndexError(f"index {entry} is out of bounds for dimension {dim} with size {n}")
            result.append(int(entry) % n)
        dim += 1
    return tuple(result)


# Copies: joining, flipping.


def _cat_type(types: Sequence[TensorType], dim: int) -> TensorType:
    shape = list(types[0].shape)
    for other in types[1:]:
        rest = builtins.all(a == b for i, (a, b) in enumerate(zip(shape, other.shape, strict=True)) if i != dim)
        if not rest:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Got {list(types[0].shape)} and {list(other.shape)}"
            )
    shape[dim] = builtins.sum(t.shape[dim] for t in types)
    return TensorType(tuple(shape), np.result_type(*(t.dtype for t in types)))


def _cat_gradient(g: Tensor, index: int, types: Sequence[Any], dim: int) -> Tensor:
    start = builtins.sum(t[0][dim] for t in types[:index])
    return narrow(g, dim, start, types[index][0][dim])


def _cat_numpy(*arrays: np.ndarray, dim: int) -> np.ndarray:
    _cat_type([TensorType(a.shape, a.dtype) for a in arrays], dim)
    return np.concatenate(arrays, axis=dim)


_cat = Opaque("cat", "*tensors", _cat_numpy, _cat_type, {"tensors": _cat_gradient})


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`. Source: `torch.cat`."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("cat: expected a non-empty list of Tensors")
    kept = tuple(x for x in tensors if x.array.shape != (0,)) or tensors[:1]
    return bind(_cat, kept, {"dim": normal_dim(dim, kept[0].array.ndim)})


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension. Source: `torch.stack`."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack: expected a non-empty list of Tensors")
    for other in tensors[1:]:
        if other.array.shape != tensors[0].array.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].array.shape)} "
                f"and {list(other.array.shape)}"
            )
    place = normal_dim(dim, tensors[0].array.ndim + 1)
    return cat([unsqueeze(x, place) for x in tensors], place)


@method
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` elements along `dim` from `start`. Source: `torch.narrow`."""
    dim = normal_dim(dim, input.array.ndim)
    index = (slice(None),) * dim + (slice(start, start + length),)
    return input[index]


def _flip_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    strides, offset = list(layout.strides), layout.offset
    for d in dims:
        offset += strides[d] * (layout.shape[d] - 1) if layout.shape[d] else 0
        strides[d] = -strides[d]
    return Layout(layout.shape, tuple(strides), offset)


class _Flip(View):
    """Reversed dimensions; a copy in eager, as in PyTorch, where no negative strides exist."""

    view = False


_flip = _Flip(
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

