"""Views: the same elements under another shape or order of dimensions.

Copies are made only where no strides can say it. `order.py`, `slicing.py`, `diagonals.py` and `strided.py`
hold the other views, `joining.py` what puts tensors together.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Layout, Opaque, View
from fusegrad.eager.core.memory_order import Order, as_first
from fusegrad.eager.core.op import NO_PARAMS, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import OVERFLOW, Place, ints, whole_number
from fusegrad.eager.ops.declare import method, public


def normal_dim(dim: int, ndim: int) -> int:
    """`dim` counted from 0; raises IndexError as PyTorch does when it is out of range."""
    bound = ndim or 1
    if type(dim) is not int:
        dim = whole_number(dim, Place("", "dim"))
    if not -bound <= dim < bound:
        if dim.bit_length() > 63:
            raise failure(ValueError, OVERFLOW)
        raise failure(
            IndexError,
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})",
        )
    return dim % bound


def normal_dims(dims: Any, ndim: int) -> list[int]:
    """One dim or several, counted from 0; raises RuntimeError where one appears twice."""
    result = [normal_dim(d, ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
    if len(set(result)) < len(result):
        twice = next(d for d in result if result.count(d) > 1)
        raise failure(RuntimeError, f"dim {twice} appears multiple times in the list of dims {dims}")
    return result


def _sizes(sizes: tuple[Any, ...], keyword: Any = None) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)`, or what was given by keyword, as a tuple of ints."""
    if keyword is not None:
        sizes = (keyword,)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    made: tuple[int, ...] = ints(sizes, Place("", "size"))
    return made


# One op reshapes (and one permutes), whatever the user called; the type of its parameter says which
# function it was, for the name of the backward node. It equals, hashes and prints as the tuple it is.


class _Squeezed(tuple[int, ...]):
    grad_name = "SqueezeBackward0"


class _SqueezedDim(tuple[int, ...]):
    grad_name = "SqueezeBackward1"


class _SqueezedDims(tuple[int, ...]):
    grad_name = "SqueezeBackward2"


class _Unsqueezed(tuple[int, ...]):
    grad_name = "UnsqueezeBackward0"


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


_reshape: View = _Reshape(
    "reshape",
    _reshape_numpy,
    _reshape_layout,
    {"x": lambda g, x_type: ops.reshape(g, x_type.shape)},
    lambda params: getattr(type(params["shape"]), "grad_name", "ViewBackward0"),
    lambda x_type, shape: (_reshape, False, {"shape": x_type.shape}),
)


@public(method=True)
def reshape(input: Tensor, *sizes: Any, shape: Ints | None = None) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1.

    Raises RuntimeError when the number of elements differs. Source: `torch.reshape`.

    >>> import fusegrad as fg
    >>> fg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    wanted = _sizes(sizes, shape)
    return bind(_reshape, (input,), {"shape": _resolved(wanted, input.array)})


def _resolved(sizes: tuple[int, ...], array: np.ndarray) -> tuple[int, ...]:
    """A shape with a number in place of -1; raises RuntimeError where it does not fit the elements."""
    size, given = array.size, sizes
    if size and math.prod(sizes) == size and not [n for n in sizes if n < 1]:
        return sizes
    if -1 in sizes:
        known = -math.prod(sizes)
        if known > 0 and size % known == 0:
            sizes = tuple([size // known if s == -1 else s for s in sizes])
    if not size and sizes.count(-1) == 1 and 0 in sizes:
        raise failure(
            RuntimeError,
            f"cannot reshape tensor of 0 elements into shape {list(given)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous",
        )
    if math.prod(sizes) != size or [n for n in sizes if n < 0]:
        raise failure(
            RuntimeError,
            f"shape '{list(given)}' is invalid for input of size {size} (shape {list(array.shape)})",
        )
    return sizes


@method
def view(input: Tensor, *sizes: Any, size: Ints | None = None, dtype: Any = None) -> Tensor:
    """`reshape` that never copies; or the same memory read as another dtype.

    Raises RuntimeError where the elements do not lie so. Source: `torch.Tensor.view`.

    >>> import fusegrad as fg
    >>> fg.tensor([1.0]).view(fg.int32)
    tensor([1065353216], dtype=torch.int32)
    """
    if dtype is not None or (sizes and isinstance(sizes[0], (dtypes.DType, type))):
        return _view_as_dtype(input, dtypes.as_dtype(sizes[0] if dtype is None else dtype))
    array = input.array
    wanted = _resolved(_sizes(sizes, size), array)
    if not array.flags.c_contiguous:
        layout = Layout(array.shape, tuple(s // array.itemsize for s in array.strides))
        if _reshape_layout(layout, wanted) is None:
            raise failure(
                RuntimeError,
                f"view size {list(wanted)} is not compatible with input tensor's size "
                f"{list(array.shape)} and stride {list(layout.strides)} (at least one dimension spans "
                "across two contiguous subspaces). Use .reshape(...) instead.",
            )
    return bind(_reshape, (input,), {"shape": wanted})


def _dtype_view_type(types: Sequence[TensorType], dtype: dtypes.DType) -> TensorType:
    shape, old, new = types[0].shape, types[0].dtype.itemsize, dtype.numpy.itemsize
    if old == new:
        return TensorType(shape, dtype.numpy)
    if not shape:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {types[0].dtype.name} as {dtype.name} (different element sizes)"
        )
    if shape[-1] * old % new:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {new // old} to view {types[0].dtype.name} as {dtype.name} "
            f"(different element sizes), but got shape {list(shape)}"
        )
    return TensorType((*shape[:-1], shape[-1] * old // new), dtype.numpy)


class _DtypeView(Opaque):
    view = True


_dtype_view = _DtypeView(
    "view_dtype", "x", lambda x, dtype: x.view(dtype.numpy), _dtype_view_type, None, "ViewBackward1"
)


def _check_alignment(input: Tensor, dtype: dtypes.DType) -> None:
    """Refuse to read elements as those of another size where they do not lie side by side, or as larger
    ones where these would not lie at places of their size.
    """
    array, ratio = input.array, dtype.itemsize // input.array.dtype.itemsize
    if ratio != 1 and array.size and array.shape[-1] > 1 and array.strides[-1] != array.dtype.itemsize:
        raise failure(
            RuntimeError,
            f"self.stride(-1) must be 1 to view {array.dtype.name} as {dtype.name} (different element "
            f"sizes), but got {array.strides[-1] // array.dtype.itemsize}",
        )
    if ratio < 2:
        return
    wide = (
        f"must be divisible by {ratio} to view {array.dtype.name} as {dtype.name} (different element sizes)"
    )
    if ops.storage_offset(input) % ratio:
        raise failure(RuntimeError, f"self.storage_offset() {wide}, but got {ops.storage_offset(input)}")
    for dim, stride in enumerate(array.strides[:-1]):
        if stride // array.dtype.itemsize % ratio:
            raise failure(
                RuntimeError, f"self.stride({dim}) {wide}, but got {stride // array.dtype.itemsize}"
            )


def _view_as_dtype(input: Tensor, dtype: dtypes.DType) -> Tensor:
    _dtype_view_type([TensorType(input.array.shape, input.array.dtype)], dtype)
    _check_alignment(input, dtype)
    return bind(_dtype_view, (input,), {"dtype": dtype})


@public(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` as one. Source: `torch.flatten`."""
    shape = input.array.shape
    start, end = normal_dim(start_dim, len(shape)), normal_dim(end_dim, len(shape))
    if not shape:
        return reshape(input, (1,))
    if start > end:
        raise failure(RuntimeError, f"start_dim ({start_dim}) cannot come after end_dim ({end_dim})")
    if start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@public(method=True)
def ravel(input: Tensor) -> Tensor:
    """All elements as a vector. Source: `torch.ravel`."""
    return ops.contiguous(reshape(input, (input.array.size,)))


@public(method=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several, one of which may be -1. Source: `torch.unflatten`."""
    dim = normal_dim(dim, input.array.ndim)
    shape = input.array.shape
    inner = _sizes((tuple(sizes),))
    if not shape:
        raise failure(RuntimeError, "a tensor without dimensions has none to take apart")
    if not inner:
        raise failure(RuntimeError, "sizes must be non-empty")
    known = math.prod(n for n in inner if n != -1)
    if -1 in inner and known and shape[dim] % known == 0:
        inner = tuple(shape[dim] // known if n == -1 else n for n in inner)
    if math.prod(inner) != shape[dim] or builtins.any(n < 0 for n in inner):
        raise failure(
            RuntimeError,
            f"sizes {list(sizes)} don't multiply up to the size of dim {dim} ({shape[dim]}) of {list(shape)}",
        )
    return reshape(input, (*shape[:dim], *inner, *shape[dim + 1 :]))


@method
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`. Source: `torch.Tensor.reshape_as`."""
    return reshape(input, other.array.shape)


@method
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of `other`. Source: `torch.Tensor.view_as`."""
    return view(input, other.array.shape)


@public(method=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without dimensions of size 1 (all of them, or `dim`). Source: `torch.squeeze`."""
    shape = input.array.shape
    if dim is None:
        kept: tuple[int, ...] = _Squeezed([n for n in shape if n != 1])
    else:
        dims = normal_dims(dim, len(shape))
        kind = _SqueezedDims if isinstance(dim, (tuple, list)) else _SqueezedDim
        kept = kind([n for i, n in enumerate(shape) if n != 1 or i not in dims])
    return bind(_reshape, (input,), {"shape": kept})


@public(method=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 put in at `dim`. Source: `torch.unsqueeze`."""
    shape = list(input.array.shape)
    shape.insert(normal_dim(dim, len(shape) + 1), 1)
    return bind(_reshape, (input,), {"shape": _Unsqueezed(shape)})


# Expanding.


def _expand_layout(layout: Layout, shape: tuple[int, ...]) -> Layout:
    return Layout(shape, _expanded_strides(layout.shape, layout.strides, shape), layout.offset)


def _expanded_strides(
    old: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """The strides of the view: 0 along what is repeated, and as PyTorch has them of one element."""
    extra = len(shape) - len(old)
    found = [s if n == m else 0 for n, m, s in zip(old, shape[extra:], strides, strict=True)]
    for d in reversed(range(extra)):
        beyond = shape[d + 1] * found[0] if found else 0
        found.insert(0, beyond if shape[d] == 1 else 0)
    return tuple(found)


def _expand_numpy(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    strides = _expanded_strides(x.shape, x.strides, shape)
    if not x.flags.c_contiguous:
        view = np.broadcast_to(x, shape)
        if view.strides != strides:  # along dimensions of one element, where NumPy's are anything
            return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=view.size == x.size)
        if view.size == x.size and x.flags.writeable:
            view.flags.writeable = True  # nothing is repeated
        return view
    # What `broadcast_to` does, in a third of its time: every sum's gradient takes this way.
    result: np.ndarray = np.ndarray(shape, x.dtype, x, 0, strides)
    if result.size != x.size:
        result.flags.writeable = False
    return result


_expand = View("expand", _expand_numpy, _expand_layout, {"x": lambda g: g}, "ExpandBackward0")


def _not_expanded(shape: Sequence[int], wanted: Sequence[int]) -> str:
    """Why `shape` does not expand to `wanted`."""
    extra = len(wanted) - len(shape)
    if extra < 0:
        return (
            f"shape {list(shape)} to {list(wanted)}: the number of sizes provided ({len(wanted)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    leading = next((d for d in range(extra) if wanted[d] < 0), None)
    if leading is not None:
        return (
            f"The expanded size of the tensor ({wanted[leading]}) isn't allowed in a leading, non-existing "
            f"dimension {leading}"
        )
    pairs = [(d, shape[d - extra], wanted[d]) for d in range(extra, len(wanted))]
    dim, size, target = [pair for pair in pairs if pair[1] not in (1, pair[2]) or pair[2] < 0][-1]
    return (
        f"The expanded size of the tensor ({target}) must match the existing size ({size}) at non-singleton "
        f"dimension {dim}. Target sizes: {list(wanted)}. Tensor sizes: {list(shape)}"
    )


@public(name="broadcast_to")
@method(aliases=("broadcast_to",))
def expand(input: Tensor, *sizes: Any, size: Ints | None = None) -> Tensor:
    """Dimensions of size 1 repeated without copying; -1 keeps a size. Source: `torch.Tensor.expand`."""
    wanted, shape = _sizes(sizes, size), input.array.shape
    extra = len(wanted) - len(shape)
    full, fits = list(wanted), extra >= 0 and not [n for n in wanted[: max(extra, 0)] if n < 0]
    if fits:
        for place, given in enumerate(shape, extra):
            if full[place] == -1:
                full[place] = given
            elif given not in (1, full[place]) or full[place] < 0:
                fits = False
    if not fits:
        raise failure(RuntimeError, _not_expanded(shape, full))
    return bind(_expand, (input,), {"shape": tuple(full)})


def expanded(input: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Expanded to `shape`; itself where it has that shape."""
    return input if input.array.shape == shape else expand(input, shape)


@method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of `other`."""
    return expand(input, other.array.shape)


@method
def sum_to_size(input: Tensor, *sizes: Any, size: Ints | None = None) -> Tensor:
    """Summed over the dimensions that `expand` would have made. Source: `torch.Tensor.sum_to_size`."""
    wanted, shape = _sizes(sizes, size), input.array.shape
    extra = len(shape) - len(wanted)
    if extra < 0 or builtins.any(n not in (1, m) for n, m in zip(wanted, shape[extra:], strict=True)):
        raise failure(RuntimeError, f"size {list(wanted)} is not expandable to size {list(shape)}")
    if not wanted:
        return ops.sum(input)
    dims = [d for d, m in enumerate(shape) if d < extra or (wanted[d - extra] == 1 and m != 1)]
    return reshape(ops.sum(input, dims) if dims else input, wanted)


# The same memory, or a copy in row-major order.

_detach: View = View(
    "detach",
    lambda x: x.view(),
    lambda layout: layout,
    None,
    put=lambda x_type: (_detach, False, NO_PARAMS),
)

# What a graph, which has no memory, says of writes: x with the values written into all of it.


def _as_value(shape: tuple[int, ...], operands: Sequence[np.ndarray], params: Params) -> Order:
    return as_first(shape, operands[1:])


_rewritten: Opaque = Opaque(
    "rewritten",
    "x value",
    lambda x, value: np.array(value),
    lambda types: types[1],
    {"x": lambda g: g, "value": None},
    order=_as_value,
)  # unseen by autograd, through a detached alias: x is where it was on the graph

_overwritten: Opaque = Opaque(
    "overwritten",
    "x value",
    lambda x, value: np.array(value),
    lambda types: types[1],
    {"x": lambda g: ops.zeros_like(g), "value": lambda g: g},
    order=_as_value,
)  # seen: what was there before gets a gradient of zeros, and not none


@public
def detach(input: Tensor) -> Tensor:
    """The same memory off the graph. Source: `torch.Tensor.detach`."""
    return bind(_detach, (input,), NO_PARAMS)
