"""In-place forms, all made from the out-of-place ops by one mechanism.

`x.add_(y)` computes `x + y`, so that autograd gets its node and the dtype rules are the op's;
writes the result into x's memory; counts the write; and moves x's place on the graph to the new
node, or the place of what x is a view of (see `eager/autograd/views.py`). What backward keeps of x before
the write is kept as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import place, reach, share
from fusegrad.eager.core.dtypes import CATEGORY
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import (
    creation,
)
from fusegrad.eager.ops.index import (
    indexing,
)
from fusegrad.eager.ops.linalg import (
    contraction,
    products,
)
from fusegrad.eager.ops.loss import (
    pairwise,
)
from fusegrad.eager.ops.pointwise import (
    complex_numbers,
    elementwise as ew,
    numbers,
    special,
    special_functions,
    transcendental,
)
from fusegrad.eager.ops.pointwise.elementwise import renamed
from fusegrad.eager.ops.reduce import (
    prod,
    scan,
)
from fusegrad.eager.ops.shape import (
    shape,
)

METHODS: dict[str, Callable[..., Any]] = {}


def begin_write(target: Tensor, name: str, others: Sequence[Any] = ()) -> None:
    """Refuse a write that autograd could not follow; tell a recorder of one that it can.

    others: what else the op takes. Raises RuntimeError for a leaf that requires grad or a view of
    one (outside no_grad), for views whose origin stands against it, and for memory that may not be
    written.
    """
    recorded = state.grad_enabled and recording(target, others)
    if state.interpreter is not None:
        state.interpreter.before_write(target, may_wait=not recorded)
    if recorded:
        views.check_write(target, name)
    if not target.array.flags.writeable:
        raise failure(
            RuntimeError,
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to "
            "a single memory location (or its memory is read-only). Please clone() the tensor first",
        )
    if target.is_inference():
        target.version.count_write()  # type: ignore[attr-defined]
    views.tell_readers(target.version)


def recording(target: Tensor, others: Sequence[Any]) -> bool:
    """Whether a write into `target` of something that comes from `others` goes on the graph in grad mode."""
    return (
        target.needs_grad
        or views.base_of(target).needs_grad
        or any(isinstance(t, Tensor) and t.needs_grad for t in others)
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
    _store(target, ..., result)
    views.wrote(target)
    on_graph = state.grad_enabled and recording(target, (result,))
    if on_graph:
        views.follow(target, result, name)
    if state.interpreter is not None:
        state.interpreter.wrote(target, result, None, on_graph)
    return target


def _store(target: Tensor, index: Any, value: Tensor) -> None:
    """Put the values of `value` into the memory of `target`, now or when an interpreter does."""
    interpreter = state.interpreter
    if interpreter is None or not interpreter.writes_later(target, index, value):
        reach(value)
        target.array[index] = value.array


def before(target: Tensor, others: Sequence[Any] = ()) -> Tensor:
    """`target` as it was before a write: its place on the graph, with values that the write leaves alone.

    Only where an op with `others` goes on the graph can anything keep it, so only then it is copied.
    """
    recorded = state.grad_enabled and any(isinstance(t, Tensor) and t.needs_grad for t in (target, *others))
    old = wrap(np.array(target.array) if recorded else target.array)
    if recorded and state.interpreter is not None:
        state.interpreter.copied(old, target)
    old.needs_grad, old.grad_fn, old.output_index = target.needs_grad, target.grad_fn, target.output_index
    return old


def check_overlap(written: np.ndarray, target: Tensor, others: Sequence[Any], itself: bool = True) -> None:
    """Refuse to read memory of `target` elsewhere than at the place that is written, as PyTorch does.

    itself: reading just what is written is allowed.
    """
    version = target.version
    for other in others:
        if not isinstance(other, Tensor) or other.version is not version:
            continue
        read = other.array
        if (itself and read is written) or not (_dense(read) and _dense(written)) or not read.size:
            continue
        starts = [plain(a).__array_interface__["data"][0] for a in (read, written)]
        same = starts[0] == starts[1] and read.nbytes == written.nbytes
        if itself and same and read.strides == written.strides:
            continue
        if same or (starts[0] < starts[1] + written.nbytes and starts[1] < starts[0] + read.nbytes):
            raise failure(
                RuntimeError,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location. Please clone() the tensor before performing the operation.",
            )


def _dense(array: np.ndarray) -> bool:
    """Whether its elements fill a stretch of memory, each place once."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return bool(array.transpose(order).flags.c_contiguous)


def apart(value: Any, target: Tensor) -> Any:
    """An argument that shares memory with `target`, as a tensor of its own.

    The node that a write makes may keep it, and `target` will hold that node: kept as it is, it
    would close a circle. Backward will find that it was written.
    """
    if isinstance(value, Tensor) and value.version is target.version and value.grad_fn is not None:
        return place(share(value), value.grad_fn, value.output_index)
    return value


def inplace(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The in-place form of `function`, whose first argument is written."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        others = (*args, *kwargs.values()) if kwargs else args
        begin_write(self, name, others)
        if name != "fill_":  # it reads a number
            check_overlap(self.array, self, others)
        old = before(self, others)
        if old.array is not self.array:  # the op goes on the graph
            args = tuple([apart(a, self) for a in args])
            kwargs = {k: apart(a, self) for k, a in kwargs.items()}
        return commit(self, function(old, *args, **kwargs), name)

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


# Pointwise ops, by the file where they stand.
_POINTWISE: dict[Any, str] = {
    ew: """add sub mul div pow ldexp remainder fmod floor_divide neg abs sign reciprocal square
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid
    erf floor ceil trunc round frac logical_and logical_or logical_not logical_xor bitwise_and bitwise_or
    bitwise_xor bitwise_not eq ne lt le gt ge""",
    transcendental: "asinh acosh atanh sinc erfc erfinv",
    special: "clamp clip clamp_min clamp_max addcmul addcdiv lerp hypot xlogy logit nan_to_num masked_fill",
    numbers: """copysign deg2rad rad2deg gcd lcm heaviside nextafter bitwise_left_shift
    bitwise_right_shift""",
    special_functions: "digamma lgamma mvlgamma polygamma igamma igammac i0",
    complex_numbers: "sgn conj_physical",
}
_PRODUCTS = ["addbmm", "addmv", "addr", "baddbmm"]
_INDEXING = [
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_scatter",
    "put",
]
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
    "__ilshift__": numbers.bitwise_left_shift,
    "__irshift__": numbers.bitwise_right_shift,
}


def _declare(names: list[str], module: Any) -> None:
    for name in names:
        METHODS[f"{name}_"] = inplace(getattr(module, name), f"{name}_")


for _names in _POINTWISE.values():
    for _name in _names.split():
        METHODS[f"{_name}_"] = inplace(ew.METHODS[_name], f"{_name}_")
_declare(_INDEXING, indexing)
_declare(["tril", "triu"], shape)
_declare(_PRODUCTS, products)
_declare(["addmm"], contraction)
_declare(["cumsum"], scan)
_declare(["cumprod"], prod)
_declare(["renorm"], pairwise)
for _name, _function in _OPERATORS.items():
    METHODS[_name] = operator(_function, _name)
METHODS["relu_"] = inplace(lambda x: ew.METHODS["relu"](x), "relu_")
METHODS["float_power_"] = inplace(ew.float_power_of_double, "float_power_")
METHODS["fill_"] = inplace(_filled, "fill_")
METHODS["zero_"] = inplace(lambda x: _filled(x, 0), "zero_")
METHODS["copy_"] = inplace(_copied, "copy_")
METHODS["subtract_"], METHODS["multiply_"], METHODS["divide_"] = (
    METHODS[n] for n in ("sub_", "mul_", "div_")
)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`. Source: `torch.Tensor.__setitem__`."""
    begin_write(self, "__setitem__", (value,))
    if not isinstance(value, Tensor):
        value = creation.tensor(value)
    if value.array.dtype != self.array.dtype:
        value = ew.cast(value, self.dtype)
    basic = shape.basic_index(index, self.array.shape)
    if basic is not None:
        _assign_part(self, basic, value)
        return
    mask = _whole_mask(self, index)
    if mask is not None and value.array.size == 1:
        # No positions are asked for, so the write has a fixed shape.
        written = ew.where(mask, shape.reshape(value, ()), before(self, (value,)))
    else:
        check_overlap(self.array, self, (value,), itself=False)
        written = indexing.replaced(before(self, (value,)), index, apart(value, self))
    commit(self, written, "__setitem__")


def _assign_part(self: Tensor, basic: tuple[Any, ...], value: Tensor) -> None:
    """Write through a basic index without looking at the other elements."""
    place = shape.numpy_index(basic)
    part = plain(self.array)[place]
    value = shape.expand(indexing._without_ones(value, part.ndim), part.shape)
    check_overlap(part, self, (value,))
    _store(self, place, value)
    views.wrote(self)
    on_graph = state.grad_enabled and recording(self, (value,))
    if state.interpreter is not None:
        state.interpreter.wrote(self, value, basic, on_graph)
    if on_graph:
        base = views.base_of(self)
        steps = () if base is self else self.alias[1]  # type: ignore[index]
        views.moved(base, (*steps, (shape._getitem, {"index": basic})), value, "__setitem__")


def _whole_mask(self: Tensor, index: Any) -> Tensor | None:
    """`index` where it is a mask of the tensor's own shape."""
    if isinstance(index, Tensor) and index.array.dtype.kind == "b" and index.array.shape == self.array.shape:
        return index
    return None


METHODS["__setitem__"] = setitem


def _detached(self: Tensor) -> Tensor:
    """Take the tensor off the graph, in place; RuntimeError for a view. Source: `torch.Tensor.detach_`."""
    if state.interpreter is not None and self.needs_grad:
        state.interpreter.effect("takes a tensor off the graph in place")
    if views.base_of(self) is not self and self.grad_fn is not None:
        raise failure(RuntimeError, "Can't detach views in-place. Use detach() instead.")
    self.needs_grad, self.grad_fn, self.output_index = False, None, 0
    return self


METHODS["detach_"] = renamed(_detached, "detach_")


def drawn(self: Tensor, values: Tensor, name: str) -> Tensor:
    """Write random `values` over the tensor (nothing of the old values is left)."""
    begin_write(self, name)
    return commit(self, ew.cast(values, self.dtype), name)
