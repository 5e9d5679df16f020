"""Views said by strides, sizes changed in place, and the views that are copied at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Layout, Opaque, View, contiguous_layout, lies_apart
from fusegrad.eager.core.memory_order import (
    LAST,
    Order,
    asked_for,
    contiguous_format,
    has_channels_last,
    preserve_format,
)
from fusegrad.eager.core.names import attach, publish, renamed
from fusegrad.eager.core.op import Op, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.state import inference_mode, state
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.eager.ops.by_name import in_our_names
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.shape import diagonals, order, shape as shapes, slicing, storage
from fusegrad.eager.ops.shape.shape import _sizes, normal_dim

# Windows along a dimension.


def _unfold_layout(layout: Layout, dim: int, size: int, step: int) -> Layout:
    shape, strides = list(layout.shape), list(layout.strides)
    shape[dim] = (shape[dim] - size) // step + 1
    strides[dim] *= step
    return Layout((*shape, size), (*strides, layout.strides[dim]), layout.offset)


def _unfold_numpy(x: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    layout = _unfold_layout(Layout(x.shape, x.strides), dim, size, step)
    if x.flags.c_contiguous and x.size:  # so that what has each element once may be written later
        windows: np.ndarray = np.ndarray(layout.shape, x.dtype, x, 0, layout.strides)
    else:
        windows = np.lib.stride_tricks.as_strided(x, layout.shape, layout.strides)
    if step < size or not x.flags.writeable:
        windows.flags.writeable = False
    return windows


def _fold(g: Tensor, x_type: TensorType, dim: int, size: int, step: int) -> Tensor:
    """Zeros of `x_type` with each window of `g` added where `unfold` took it from."""
    count = g.array.shape[dim]
    first = ops.unsqueeze(ops.arange(0, count * step, step), 1)
    place = ops.reshape(first + ops.arange(size), (count * size,))
    merged = (*x_type.shape[:dim], count * size, *x_type.shape[dim + 1 :])
    windows = ops.reshape(ops.movedim(g, -1, dim + 1), merged)
    return ops.index_add(ops.zeros(x_type.shape, dtype=g.dtype), dim, place, windows)


_unfold = View("unfold", _unfold_numpy, _unfold_layout, {"x": _fold})


@method
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of `size` along a dimension, `step` apart, as a last dimension.

    Source: `torch.Tensor.unfold`.

    >>> import fusegrad as fg
    >>> fg.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    dim = normal_dim(dimension, input.array.ndim)
    n = input.array.shape[dim] if input.array.ndim else 1
    if size < 0:
        raise failure(RuntimeError, f"size is {size} but must be >= 0")
    if size > n:
        raise failure(RuntimeError, f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if step <= 0:
        raise failure(RuntimeError, f"step is {step} but must be > 0")
    if not input.array.ndim:
        return ops.narrow(ops.reshape(input, (1,)), 0, 0, size)
    return bind(_unfold, (input,), {"dim": dim, "size": size, "step": step})


# Any strides.


def _as_strided_numpy(
    x: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], offset: int, own: tuple[int, ...]
) -> np.ndarray:
    if not math.prod(size):
        return np.empty(size, x.dtype)
    if tuple(s // x.itemsize for s in x.strides) != own:
        # Compiled code may keep x in another order than the run that asked for these strides.
        place = storage.positions(Layout(x.shape, own))
        memory = np.zeros(place.max(initial=0) + 1, x.dtype)
        memory[place] = x
        x = memory
    memory = storage.memory_of(x)
    start = storage.place_in(x, memory) + offset
    last = start + sum(s * (n - 1) for n, s in zip(size, stride, strict=True))
    if start < 0 or last >= memory.size:
        raise RuntimeError(
            f"sizes {list(size)}, strides {list(stride)} and offset {start} are out of bounds for storage of "
            f"{memory.size} elements"
        )
    result: np.ndarray = np.ndarray(
        size, x.dtype, memory, start * x.itemsize, tuple(s * x.itemsize for s in stride)
    )
    if not (x.flags.writeable and lies_apart(size, stride)):  # a write of all would read what it wrote
        result.flags.writeable = False
    return result


def _as_strided_gradient(
    g: Tensor, x_type: TensorType, stride: tuple[int, ...], offset: int, own: tuple[int, ...]
) -> Tensor:
    """Added up in the memory that both lie in, and taken from there."""
    taken = storage.positions(Layout(g.array.shape, stride, offset))
    given = storage.positions(Layout(x_type.shape, own))
    low = min(taken.min(initial=0), given.min(initial=0))
    span = int(max(taken.max(initial=0), given.max(initial=0)) - low) + 1
    place = creation.constant((taken - low).reshape(-1))
    memory = ops.index_add(ops.zeros(span, dtype=g.dtype), 0, place, ops.reshape(g, (taken.size,)))
    gradient = ops.take(memory, creation.constant(given - low))
    shared = np.bincount((given - low).reshape(-1), minlength=1)
    if shared.max(initial=0) > 1:
        # Elements of x that share a place share its gradient.
        gradient = gradient / creation.constant(shared[given - low].astype(g.array.dtype))
    return gradient


def _as_strided_layout(
    layout: Layout, size: tuple[int, ...], stride: tuple[int, ...], offset: int, own: tuple[int, ...]
) -> Layout | None:
    return Layout(size, stride, layout.offset + offset) if layout.strides == own else None


class _FromGaps(Opaque):
    view = True


# Of tensors in row-major order, and of those that lie otherwise: a run that keeps these in rows copies them.
_as_strided = View("as_strided", _as_strided_numpy, _as_strided_layout, {"x": _as_strided_gradient})
_as_strided_from_gaps = _FromGaps(
    "as_strided_from_gaps",
    "x",
    _as_strided_numpy,
    lambda types, size, stride, offset, own: TensorType(size, types[0].dtype),
    {"x": _as_strided_gradient},
    "AsStridedBackward0",
)


def _layouts(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None, name: str
) -> tuple[Layout, Layout]:
    """Where the wanted elements and the given ones lie, counted from the first given element."""
    reach(input)  # what is going to be computed has no memory yet
    sizes, strides = _sizes((tuple(size),)), _sizes((tuple(stride),))
    if len(sizes) != len(strides):
        raise failure(RuntimeError, f"mismatch in length of strides and shape: {strides} and {sizes}")
    for what, values in (("sizes", sizes), ("strides", strides)):
        if any(n < 0 for n in values):
            raise failure(
                RuntimeError,
                f"Negative {what} are not supported at the moment, got {what}: {list(values)}",
            )
    start = 0
    if storage_offset is not None or not input.array.size:
        wanted = storage.storage_offset(input) if storage_offset is None else storage_offset
        # Where NumPy has an array without elements is not where it begins.
        start = wanted - storage.place_in(input.array, storage.memory_of(input.array))
    target = Layout(sizes, strides, start)
    given = storage.layout_of(input.array)
    if state.interpreter is not None and not _reaches(given, target):
        state.interpreter.effect(f"{name} reads memory that is not its input's")
    return target, given


@public(method=True)
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The memory of `input` seen with other sizes and strides, counted in elements.

    Raises RuntimeError for what lies outside of the memory. Source: `torch.as_strided`.

    >>> import fusegrad as fg
    >>> fg.arange(5).as_strided((2, 3), (2, 1))
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    target, given = _layouts(input, size, stride, storage_offset, "as_strided")
    op, params = _between(target, given)
    view = bind(op, (input,), params)
    base = views.base_of(input)
    if base is not input and type(view.alias) is tuple and not _reaches(given, target):
        # Writes into it are writes into the base where `input` has no elements: it is seen from there.
        target, given = _layouts(base, size, stride, view.storage_offset(), "as_strided")
        view.alias = (base, (_between(target, given),), view.alias[2])
    return view


def _between(target: Layout, given: Layout) -> tuple[Op, Params]:
    """The op that takes what lies as `given` as `target`, and its params."""
    params = {"size": target.shape, "stride": target.strides, "offset": target.offset, "own": given.strides}
    return _as_strided if given == contiguous_layout(given.shape) else _as_strided_from_gaps, params


def _reaches(given: Layout, target: Layout) -> bool:
    """Whether `target` has only places in memory that `given` has."""
    return bool(np.isin(storage.positions(target), storage.positions(given)).all())


@public(method=True)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """`input` with `src` where `as_strided` would read. Source: `torch.as_strided_scatter`."""
    target, given = _layouts(input, size, stride, storage_offset, "as_strided_scatter")
    if src.array.shape != target.shape:
        raise failure(
            RuntimeError,
            f"expected src to have a size equal to the slice of self. src size = {list(src.array.shape)}, "
            f"slice size = {list(target.shape)}",
        )
    written, own = storage.positions(target), storage.positions(given)
    if not np.isin(written, own).all():
        raise failure(
            RuntimeError,
            f"sizes {list(target.shape)}, strides {list(target.strides)} and offset {target.offset} are out "
            f"of bounds for the elements of shape {list(given.shape)}",
        )
    memory = ops.zeros(int(own.max(initial=0)) + 1, dtype=input.dtype)
    memory = ops.put(memory, creation.constant(own), input)
    memory = ops.put(memory, creation.constant(written), ops.cast(src, input.dtype))
    return ops.take(memory, creation.constant(own))


# Sizes changed in place.

_LIMIT = 2**63 - 1  # of what an address is counted in


@method
def resize_(self: Tensor, *sizes: Any, size: Ints | None = None, memory_format: Any = None) -> Tensor:
    """Give the tensor another shape; elements that fit are kept, new ones are 0.

    Raises RuntimeError for a tensor that requires grad. Source: `torch.Tensor.resize_`.
    """
    wanted = _sizes(sizes, size)
    if state.interpreter is not None:
        state.interpreter.effect("resizes a tensor in place")
    if self.needs_grad and not state.inference:
        raise failure(RuntimeError, "cannot resize variables that require grad")
    if any(n < 0 for n in wanted):
        raise failure(RuntimeError, f"a tensor cannot have a negative size, got {list(wanted)}")
    if wanted == self.array.shape:
        return self
    if math.prod([n or 1 for n in wanted]) > _LIMIT:
        raise failure(RuntimeError, f"Stride calculation overflowed with sizes={list(wanted)}")
    if math.prod(wanted) * self.array.itemsize > _LIMIT:
        raise failure(RuntimeError, f"Storage size calculation overflowed with sizes={list(wanted)}")
    if self.array.base is None and not self.array.size:
        self.array = np.zeros(wanted, self.array.dtype)
    else:
        self.array = _resized(self, wanted, asked_for(memory_format, wanted))
    shared.watching.moved()
    views.wrote(self)
    return self


def _resized(self: Tensor, wanted: tuple[int, ...], order: Order) -> np.ndarray:
    """What lies in memory from the tensor's first element on, in this shape and order."""
    memory, count = storage.memory_of(self.array), math.prod(wanted)
    rest = memory[storage.storage_offset(self) :]
    line = rest[:count]
    if count > rest.size:
        if shared.is_exposed(self.array):
            raise failure(RuntimeError, "Trying to resize storage that is not resizable: NumPy code has it")
        line = np.zeros(count, self.array.dtype)
        line[: rest.size] = rest
    if order is None:
        return line.reshape(wanted)
    return line.reshape([wanted[d] for d in order]).transpose(np.argsort(order))


@public(method=True)
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor. Source: `torch.Tensor.resize_as_`.

    memory_format: preserve_format for that of the other tensor.
    """
    array = the_template.array
    if memory_format is preserve_format:
        formats = [form for form, rank in LAST.items() if rank == array.ndim and has_channels_last(array)]
        memory_format = formats[0] if formats else contiguous_format
    return resize_(input, the_template.array.shape, memory_format=memory_format)


def _seen_otherwise(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The in-place form of a view: the tensor itself becomes what `function` gives for it."""

    def seen(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if state.interpreter is not None:
            state.interpreter.effect("changes a tensor's shape in place")
        if state.grad_enabled and (input.needs_grad or views.base_of(input).needs_grad):
            views.check_write(input, name)
        if input.needs_grad and input.grad_fn is None and views.seen_by_others(input):
            raise failure(NotImplementedError, f"{name} on a leaf that has views; use {name[:-1]}")
        if views.views_of(input):
            views.step_behind(input)
        # Also under no_grad the tensor stays on the graph, where what it was has another shape, and a view
        # the view that it was.
        recorded = state.grad_enabled
        with inference_mode(False):
            state.grad_enabled = recorded or input.grad_fn is not None or type(input.alias) is tuple
            result = function(input, *args, **in_our_names(function, (input, *args), kwargs))
        before, input.array = input.array, result.array
        views.wrote(input)  # what was kept for a backward was another shape
        alike = (before.shape, before.strides) == (input.array.shape, input.array.strides)
        if input.grad_fn is not None and (recorded or not alike):
            input.grad_fn, input.output_index = result.grad_fn, result.output_index
        input.alias = result.alias if type(input.alias) is tuple else None
        if input.alias is not None:
            views.note(input.alias[0], input)
        return input

    seen.__doc__ = f"`{function.__name__}` of the tensor itself. Source: `torch.Tensor.{name}`."
    return method(renamed(seen, name))


as_strided_ = publish(_seen_otherwise(as_strided, "as_strided_"))
squeeze_ = _seen_otherwise(shapes.squeeze, "squeeze_")
swapaxes_ = _seen_otherwise(order.swapaxes, "swapaxes_")
swapdims_ = _seen_otherwise(order.transpose, "swapdims_")
t_ = _seen_otherwise(order.t, "t_")
transpose_ = _seen_otherwise(order.transpose, "transpose_")
unsqueeze_ = _seen_otherwise(shapes.unsqueeze, "unsqueeze_")


# Tensors made with strides.


@public
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`empty` that lies in memory by the given strides. Source: `torch.empty_strided`."""
    on_cpu(device)
    sizes, strides = _sizes((tuple(size),)), _sizes((tuple(stride),))
    if len(sizes) != len(strides):
        raise failure(
            RuntimeError,
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})",
        )
    if any(n < 0 for n in (*sizes, *strides)):
        raise failure(RuntimeError, f"sizes and strides must not be negative: {list(sizes)}, {list(strides)}")
    if strides == contiguous_layout(sizes).strides or not math.prod(sizes):
        return ops.empty(sizes, dtype=dtype, requires_grad=requires_grad)
    span = 1 + sum(s * (n - 1) for n, s in zip(sizes, strides, strict=True))
    made = as_strided(ops.empty(span, dtype=dtype), sizes, strides)
    return require_grad(made) if requires_grad else made


@method
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, **options: Any
) -> Tensor:
    """`empty_strided` with the dtype of this tensor. Source: `torch.Tensor.new_empty_strided`."""
    return empty_strided(size, stride, dtype=self.dtype if dtype is None else dtype, **options)


@public
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`empty` that lies in memory in the order `physical_layout`. Source: `torch.empty_permuted`."""
    on_cpu(device)
    sizes, places = _sizes((size,)), [*physical_layout]
    if len(places) != len(sizes):
        raise failure(
            RuntimeError,
            "number of dimensions in the tensor input does not match the length of the physical layout; "
            f"i.e. len(size) = {len(sizes)} is not equal to len(physical_layout) = {len(places)}",
        )
    if sorted(places) != list(range(len(sizes))):
        raise failure(RuntimeError, f"the physical layout {places} is no order of {len(sizes)} dimensions")
    made = ops.permute(
        ops.empty([sizes[d] for d in places], dtype=dtype), [places.index(d) for d in range(len(places))]
    )
    return require_grad(made) if requires_grad else made


# Views copied at once.


def _copying(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def copying(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = function(input, *args, **in_our_names(function, (input, *args), kwargs))
        return ops.clone(result) if isinstance(result, Tensor) else tuple(ops.clone(r) for r in result)

    copying.__doc__ = f"`{function.__name__}`, copied. Source: `torch.{name}`."
    return public(renamed(copying, name))


def _narrowed(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    if dim >= input.array.ndim:
        raise failure(
            RuntimeError, f"Dimension {dim} out of range for a tensor of {input.array.ndim} dimensions"
        )
    return ops.narrow(input, dim, start, length)


def _expanded(input: Tensor, size: Any, *, implicit: bool = False) -> Tensor:
    return ops.expand(input, size)


alias_copy = _copying(lambda input: input, "alias_copy")
as_strided_copy = _copying(as_strided, "as_strided_copy")
detach_copy = _copying(shapes.detach, "detach_copy")
diagonal_copy = _copying(diagonals.diagonal, "diagonal_copy")
expand_copy = _copying(_expanded, "expand_copy")
narrow_copy = attach(_copying(_narrowed, "narrow_copy"))
permute_copy = _copying(order.permute, "permute_copy")
select_copy = _copying(slicing.select, "select_copy")
split_copy = _copying(slicing.split, "split_copy")
split_with_sizes_copy = _copying(slicing.split_with_sizes, "split_with_sizes_copy")
squeeze_copy = _copying(shapes.squeeze, "squeeze_copy")
t_copy = _copying(order.t, "t_copy")
transpose_copy = _copying(order.transpose, "transpose_copy")
unbind_copy = _copying(slicing.unbind, "unbind_copy")
unfold_copy = _copying(unfold, "unfold_copy")
unsqueeze_copy = _copying(shapes.unsqueeze, "unsqueeze_copy")
view_copy = _copying(shapes.view, "view_copy")
