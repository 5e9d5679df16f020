"""In-place forms, all made from the out-of-place ops by one mechanism.

`x.add_(y)` computes `x + y`, so that autograd gets its node and the dtype rules are the op's;
writes the result into x's memory; counts the write; and moves x's place on the graph to the new
node. What backward kept of x before the write is kept as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.dtypes import CATEGORY
from fusegrad.eager.errors import failure
from fusegrad.eager.op import wrap
from fusegrad.eager.ops import creation, elementwise as ew, indexing, shape, special
from fusegrad.eager.ops.elementwise import renamed
from fusegrad.eager.state import no_grad, state
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}

VIEW_WRITE = (
    "an in-place write through a view of a tensor that is on the autograd graph is not supported yet: "
    "{name} on the result of {maker}. Write into the base tensor, use the out-of-place form, clone() the "
    "view first, or do it under no_grad()."
)


def begin_write(target: Tensor, name: str) -> None:
    """Refuse a write that autograd could not follow; tell a recorder of one that it can.

    Raises RuntimeError for a leaf that requires grad (outside no_grad) and for memory that may not
    be written, NotImplementedError for a view on the graph.
    """
    if state.interpreter is not None:
        state.interpreter.effect("writes into a tensor in place")
    if state.grad_enabled and target.needs_grad:
        if target.grad_fn is None:
            raise failure(
                RuntimeError,
                f"{name}: a leaf Variable that requires grad is being used in an in-place operation "
                f"({target.array.dtype.name}{list(target.array.shape)}); "
                "use no_grad(), or the out-of-place form",
            )
        if target.grad_fn.moves is not None:
            raise failure(NotImplementedError, VIEW_WRITE.format(name=name, maker=target.grad_fn.name()))
    if not target.array.flags.writeable:
        raise failure(
            RuntimeError,
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to "
            "a single memory location (or its memory is read-only). Please clone() the tensor first",
        )


def commit(target: Tensor, result: Tensor, name: str) -> Tensor:
    """Write `result` into the memory of `target` and give `target` its place on the graph.

    Raises RuntimeError when the shape differs, or the dtype is of a higher category (int += float).
    """
    array, new = target.array, result.array
    if new.shape != array.shape:
        raise failure(
            RuntimeError,
            f"{name}: output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(new.shape)}",
        )
    if new.dtype != array.dtype:
        if CATEGORY[new.dtype.kind] > CATEGORY[array.dtype.kind]:
            raise failure(
                RuntimeError,
                f"{name}: result type {new.dtype.name} can't be cast to the desired output type "
                f"{array.dtype.name}",
            )
        result = ew.cast(result, array.dtype)
    array[...] = result.array
    wrote(target)
    if result.needs_grad:
        target.needs_grad, target.grad_fn, target.output_index = True, result.grad_fn, result.output_index
        target.version[1] += 1
    return target


def wrote(target: Tensor) -> None:
    """Count a write into the memory of `target`."""
    target.version[0] += 1


def before(target: Tensor, others: Sequence[Any] = ()) -> Tensor:
    """`target` as it was before a write: its place on the graph, with values that the write leaves alone.

    Only where an op with `others` goes on the graph can anything keep it, so only then it is copied.
    """
    recording = state.grad_enabled and any(isinstance(t, Tensor) and t.needs_grad for t in (target, *others))
    old = wrap(np.array(target.array) if recording else target.array)
    old.needs_grad, old.grad_fn, old.output_index = target.needs_grad, target.grad_fn, target.output_index
    old.version[1] = target.version[1]
    return old


def inplace(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The in-place form of `function`, whose first argument is written."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        begin_write(self, name)
        return commit(self, function(before(self, args), *args, **kwargs), name)

    method.__doc__ = f"`{function.__name__}` written into the tensor itself. Source: `torch.Tensor.{name}`."
    return renamed(method, name)


def operator(function: Callable[..., Tensor], name: str) -> Callable[..., Any]:
    """The in-place operator (`+=`) of `function`."""
    write = inplace(function, name)

    def method(self: Tensor, other: Any) -> Any:
        return NotImplemented if ew.convertible(other) is None else write(self, other)

    return renamed(method, name)


def _copied(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """`src` with the shape and dtype of `self`."""
    source = src if isinstance(src, Tensor) else creation.as_tensor(src)
    source = shape.expand(source, self.array.shape)
    return ew.cast(source, self.dtype) if source.array.dtype != self.array.dtype else ew.clone(source)


def _filled(self: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise failure(RuntimeError, "fill_ only supports 0-dimension value tensor")
        return shape.expand(ew.cast(value, self.dtype), self.array.shape)
    return creation.full(self.array.shape, value, dtype=self.dtype)


_ELEMENTWISE = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "remainder",
    "fmod",
    "floor_divide",
    "neg",
    "abs",
    "sign",
    "reciprocal",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "trunc",
    "round",
    "frac",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]
_SPECIAL = [
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "addcmul",
    "addcdiv",
    "lerp",
    "nan_to_num",
    "masked_fill",
]
_INDEXING = ["scatter", "scatter_add", "index_add", "index_copy"]
_OPERATORS = {
    "__iadd__": ew._add,
    "__isub__": ew._sub,
    "__imul__": ew.mul,
    "__itruediv__": ew._div,
    "__ifloordiv__": ew.floor_divide,
    "__imod__": ew.remainder,
    "__ipow__": ew.pow,
    "__iand__": ew.bitwise_and,
    "__ior__": ew.bitwise_or,
    "__ixor__": ew.bitwise_xor,
}


def _declare(names: list[str], module: Any) -> None:
    for name in names:
        METHODS[f"{name}_"] = inplace(getattr(module, name), f"{name}_")


_declare(_ELEMENTWISE, ew)
_declare(_SPECIAL, special)
_declare(_INDEXING, indexing)
for _name, _function in _OPERATORS.items():
    METHODS[_name] = operator(_function, _name)
METHODS["relu_"] = inplace(lambda x: ew.METHODS["relu"](x), "relu_")
METHODS["fill_"] = inplace(_filled, "fill_")
METHODS["zero_"] = inplace(lambda x: _filled(x, 0), "zero_")
METHODS["copy_"] = inplace(_copied, "copy_")
METHODS["subtract_"], METHODS["multiply_"], METHODS["divide_"] = (
    METHODS[n] for n in ("sub_", "mul_", "div_")
)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`. Source: `torch.Tensor.__setitem__`."""
    begin_write(self, "__setitem__")
    if not isinstance(value, Tensor):
        value = creation.tensor(value)
    if value.array.dtype != self.array.dtype:
        value = ew.cast(value, self.dtype)
    if not (state.grad_enabled and (self.needs_grad or value.needs_grad)) and _assign_directly(
        self, index, value
    ):
        return
    mask = _whole_mask(self, index)
    if mask is not None and value.array.size == 1:
        # No positions are asked for, so the write has a fixed shape.
        written = ew.where(mask, shape.reshape(value, ()), before(self, (value,)))
    else:
        written = indexing.replaced(before(self, (value,)), index, value)
    commit(self, written, "__setitem__")


def _assign_directly(self: Tensor, index: Any, value: Tensor) -> bool:
    """Write through a basic index without looking at the other elements."""
    basic = shape.basic_index(index, self.array.shape)
    if basic is None:
        return False
    part = self.array[shape.numpy_index(basic)]
    new = shape.expand(indexing._without_ones(value, part.ndim), part.shape).array
    self.array[shape.numpy_index(basic)] = new
    wrote(self)
    return True


def _whole_mask(self: Tensor, index: Any) -> Tensor | None:
    """`index` where it is a mask of the tensor's own shape."""
    if isinstance(index, Tensor) and index.array.dtype.kind == "b" and index.array.shape == self.array.shape:
        return index
    return None


METHODS["__setitem__"] = setitem


def _detached(self: Tensor) -> Tensor:
    """Take the tensor off the graph, in place. Source: `torch.Tensor.detach_`."""
    self.needs_grad, self.grad_fn, self.output_index = False, None, 0
    return self


METHODS["detach_"] = renamed(_detached, "detach_")


def drawn(self: Tensor, values: Tensor, name: str) -> Tensor:
    """Write random `values` over the tensor (nothing of the old values is left)."""
    begin_write(self, name)
    with no_grad():
        return commit(self, ew.cast(values, self.dtype), name)
