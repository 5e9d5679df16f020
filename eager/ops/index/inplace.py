"""What is written in place besides the ops' in-place forms: `x[i] = y`, `copy_`, `fill_`, and `+=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.core import dtypes, large
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach, publish, renamed
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index import indexing
from fusegrad.eager.ops.index.repeated import filling, masked_fill_, put_repeated, warn_of_repeated
from fusegrad.eager.ops.inplace import (
    apart,
    before,
    begin_write,
    check_overlap,
    commit,
    inplace,
    recording,
    store,
)
from fusegrad.eager.ops.pointwise import comparison, elementwise, numbers, powers
from fusegrad.eager.ops.pointwise.declare_pointwise import convertible
from fusegrad.eager.ops.shape import shape, slicing


def operator(function: Callable[..., Tensor], name: str) -> Callable[..., Any]:
    """The in-place operator (`+=`) of `function`."""
    write = inplace(function, name)

    def method(self: Tensor, other: Any) -> Any:
        return NotImplemented if convertible(other) is None else write(self, other)

    return renamed(method, name)


def _copied(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """`src` with the shape and dtype of `self`."""
    source = src if isinstance(src, Tensor) else ops.as_tensor(src)
    if isinstance(src, (float, int)):
        source = _number_for(src, self)
    source = shape.expanded(source, self.array.shape)
    return ops.cast(source, self.dtype) if source.array.dtype != self.array.dtype else ops.clone(source)


def _filled(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise failure(RuntimeError, "fill_ only supports 0-dimension value tensor")
        return shape.expanded(ops.cast(value, self.dtype), self.array.shape)
    return ops.full(self.array.shape, value, dtype=self.dtype)


_OPERATORS = {
    "__iadd__": elementwise._add,
    "__isub__": elementwise._sub,
    "__imul__": elementwise.mul,
    "__itruediv__": elementwise._div,
    "__ifloordiv__": elementwise.floor_divide,
    "__imod__": elementwise.remainder,
    "__ipow__": powers.pow,
    "__iand__": comparison.bitwise_and,
    "__ior__": comparison.bitwise_or,
    "__ixor__": comparison.bitwise_xor,
    "__ilshift__": numbers.bitwise_left_shift,
    "__irshift__": numbers.bitwise_right_shift,
}
for _name, _function in _OPERATORS.items():
    attach(operator(_function, _name))
_copied_in = inplace(_copied, "copy_")


def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """`other`, in the tensor's dtype and shape, written into it. Source: `torch.Tensor.copy_`."""
    is_plain = isinstance(other, Tensor) and type(other.array) is type(self.array) is np.ndarray
    if (
        not is_plain
        or state.interpreter is not None
        or (other.array.shape, other.array.dtype) != (self.array.shape, self.array.dtype)
        or (state.grad_enabled and recording(self, (other,)))
    ):
        return _copied_in(self, other, non_blocking)
    begin_write(self, "copy_", (other,), may_record=False)
    check_overlap(self.array, self, (other,))
    large.overwrite(self.array, other.array)
    views.wrote(self)
    return self


attach(copy_, "copy_")


_fill = filling(inplace(_filled, "fill_"))
attach(_fill, "fill_")
publish(_fill, "fill_")
_FEW = 2048  # elements, which are filled in less time than it takes to see them as bytes
_zeroed = inplace(lambda x: _filled(x, 0), "zero_")


@filling
def zero_(self: Tensor) -> Tensor:
    """All elements 0, written into the tensor itself. Source: `torch.Tensor.zero_`."""
    if state.interpreter is not None or (state.grad_enabled and recording(self, ())) or self.is_meta:
        return _zeroed(self)
    begin_write(self, "zero_")
    array = self.array
    if array.size > _FEW and array.flags.c_contiguous and type(array) is np.ndarray:
        array.view(np.uint8).fill(0)  # of bytes NumPy makes one call, in half the time
    else:
        array[...] = 0
    views.wrote(self)
    return self


attach(zero_, "zero_")
publish(zero_, "zero_")


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`. Source: `torch.Tensor.__setitem__`."""
    if not self.array.flags.writeable and _assign_to_repeated(self, index, value):
        return
    begin_write(self, "__setitem__", (value,))
    if not isinstance(value, Tensor):
        value = _number_for(value, self)
    if index is True:  # a new dimension, as None is
        index = None
    basic = slicing.basic_index(index, self.array.shape)
    if basic is not None:
        _assign_part(self, basic, value)
        return
    mask = _whole_mask(self, index)
    if mask is not None and value.array.size == 1:
        # No positions are asked for, so the write has a fixed shape.
        value = _of_kind(value, self)
        commit(self, ops.where(mask, ops.reshape(value, ()), before(self, (value,))), "__setitem__")
        return
    basic, advanced = ((), []) if index is False else indexing.split_index(self, index)
    if advanced:
        _assign_advanced(self, index, basic, advanced, value)
    elif index is not False:  # what stood for numbers: tensors without dimensions
        _assign_part(self, basic, value)  # type: ignore[arg-type]


def _assign_to_repeated(self: Tensor, index: Any, value: Any) -> bool:
    """Write into a part of an expanded tensor, that may have each element once; whether there is a part."""
    value = value if isinstance(value, Tensor) else _number_for(value, self)
    mask = _whole_mask(self, index)
    if mask is not None and value.array.size == 1:
        masked_fill_(self, mask, ops.reshape(_of_kind(value, self), ()))
        return True
    if index is False:
        return False
    basic, advanced = indexing.split_index(self, index)
    if advanced:
        warn_of_repeated("index_put_", "tensor[indices] = tensor")
        put_repeated(self, index, _fitting(self, index, value), False)
        return True
    if basic is None:
        return False
    part = bind(slicing._getitem, (self,), {"index": basic})
    part.copy_(indexing._without_ones(value, part.array.ndim))
    return True


def _number_for(value: Any, target: Tensor) -> Tensor:
    """A number (or nested ones) as a tensor of the dtype of `target`, with all digits that this has."""
    dtype = target.array.dtype
    kind = dtype.kind
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise failure(ValueError, "Overflow when unpacking long long")
    if isinstance(value, (int, float)) and dtypes.opmath(dtype) is dtype:
        dtypes.held(value, dtype)
    if kind == "c" or isinstance(value, (float, int)):
        return ops.tensor(value, dtype=target.dtype)
    made = ops.tensor(value)
    if kind in "fV" and made.array.dtype.kind in "fV":
        made = ops.tensor(value, dtype=target.dtype)
    return _of_kind(made, target)


def _of_kind(value: Tensor, target: Tensor) -> Tensor:
    """A number in the dtype of `target`. Raises RuntimeError where an imaginary part would be lost."""
    if value.array.dtype == target.array.dtype:
        return value
    if value.array.dtype.kind == "c" and target.array.dtype.kind != "c":
        raise failure(
            RuntimeError, f"value cannot be converted to type {target.array.dtype.name} without overflow"
        )
    return ops.cast(value, target.dtype)


def _fitting(self: Tensor, index: Any, value: Tensor) -> Tensor:
    """A value that is put where index tensors say: in the dtype of the tensor, or refused."""
    if value.array.size == 1 and indexing.only_masks(index):
        value = _of_kind(value, self)
    if value.array.dtype != self.array.dtype:
        raise failure(
            RuntimeError,
            f"Index put requires the source and destination dtypes match, got {self.array.dtype.name} for "
            f"the destination and {value.array.dtype.name} for the source.",
        )
    return value


def _assign_advanced(self: Tensor, index: Any, basic: Any, advanced: list[Any], value: Tensor) -> None:
    """Write at the places that index tensors name."""
    value = _fitting(self, index, value)
    check_overlap(self.array, self, (value, *advanced), itself=False)
    old, value = before(self, (value,)), apart(value, self)
    commit(self, indexing.replaced_at(old, basic, advanced, value, False), "__setitem__")


def _assign_part(self: Tensor, basic: tuple[Any, ...], value: Tensor) -> None:
    """Write through a basic index without looking at the other elements."""
    if value.array.dtype != self.array.dtype:
        value = ops.cast(value, self.dtype)
    place = slicing.numpy_index(basic)
    part = plain(self.array)[place]
    value = shape.expanded(indexing._without_ones(value, part.ndim), part.shape)
    check_overlap(part, self, (value,))
    store(self, place, value)
    views.wrote(self)
    on_graph = state.grad_enabled and recording(self, (value,))
    if state.interpreter is not None:
        state.interpreter.wrote(self, value, basic, on_graph)
    if on_graph:
        base = views.base_of(self)
        steps = () if base is self else self.alias[1]
        views.moved(base, (*steps, (slicing._getitem, {"index": basic})), value, "__setitem__")


def _whole_mask(self: Tensor, index: Any) -> Tensor | None:
    """`index` where it is a mask of the tensor's own shape."""
    if isinstance(index, Tensor) and index.array.dtype.kind == "b" and index.array.shape == self.array.shape:
        return index
    return None


attach(renamed(setitem, "__setitem__"), "__setitem__")


def _detached(self: Tensor) -> Tensor:
    """Take the tensor off the graph, in place; RuntimeError for a view. Source: `torch.Tensor.detach_`.

    As in PyTorch it does nothing in `inference_mode`, where autograd sees nothing.
    """
    if state.inference:
        return self
    if state.interpreter is not None and self.needs_grad:
        state.interpreter.requires_grad_changes(self)
    if views.base_of(self) is not self and self.grad_fn is not None:
        raise failure(RuntimeError, "Can't detach views in-place. Use detach() instead.")
    self.needs_grad, self.grad_fn, self.output_index = False, None, 0
    return self


publish(attach(renamed(_detached, "detach_")))
