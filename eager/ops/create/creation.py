"""Tensors from nothing or from Python data.

`full`, `arange`, `linspace` and `eye` are ops without data, so a captured run makes them afresh;
`tensor` and `from_numpy` bring data in, and a recorder is told.
"""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes, shared
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure, type_name, warn
from fusegrad.eager.core.memory_order import arranged, as_first
from fusegrad.eager.core.names import attach, internal
from fusegrad.eager.core.op import NO_PARAMS, Op, Params, TensorType, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Symbol, positions, size_of
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, mark_inference, on_cpu
from fusegrad.eager.ops.create.python_numbers import check_fits, from_python
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import number


class Creation(Op):
    """A tensor from parameters alone. `scalar(b, index, **params)` gives an element by its index.

    For a tensor that is made like another one, `order` is a param where that is not in row-major order.
    """

    family = "creation"

    def __init__(self, name: str, numpy: Callable[..., Any], scalar: Callable[..., Any]) -> None:
        super().__init__(name, "", None)
        self.numpy, self.scalar = numpy, scalar

    def evaluate(self, args: Any, params: Params) -> Any:
        if "order" not in params:
            return self.numpy(**params)
        made: np.ndarray = self.numpy(**{k: v for k, v in params.items() if k != "order"})
        return arranged(made, params["order"])

    def infer(self, types: Any, params: Params) -> TensorType:
        dtype = params["dtype"].numpy
        return TensorType(params["shape"], dtype)


def _full_numpy(shape: tuple[int, ...], value: Any, dtype: DType) -> np.ndarray:
    if type(value) is int and not value:
        return np.zeros(shape, dtype.numpy)
    # Through an array, so that an integer out of range wraps as it does in PyTorch.
    filled = np.empty(shape, dtype.numpy)
    filled[...] = np.asarray(value).astype(dtype.numpy)
    return filled


def _arange_numpy(shape: tuple[int, ...], start: Any, step: Any, dtype: DType) -> np.ndarray:
    return dtypes.converted(start + step * positions(shape[0]), dtype.numpy)


_full = Creation(
    "full", _full_numpy, lambda b, index, shape, value, dtype, order=None: b.constant(value, dtype)
)
_arange = Creation(
    "arange",
    _arange_numpy,
    lambda b, index, shape, start, step, dtype: b.progression(index[0], start, step, dtype),
)


def requiring(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)` as a checked shape."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    sizes = tuple([n if type(n) is int else size_of(n) for n in size])
    for n in sizes:
        if n < 0:
            raise failure(RuntimeError, f"a tensor cannot have the negative size {n} (shape {list(sizes)})")
    return sizes


@public
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `size` filled with a number. Source: `torch.full`."""
    on_cpu(device)
    shape = _size((size,) if isinstance(size, (int, Symbol)) else tuple(size))
    return requiring(_full_of(shape, fill_value, dtype), requires_grad)


def _full_of(shape: tuple[int, ...], fill_value: Any, dtype: Any, **order: Any) -> Tensor:
    if isinstance(fill_value, Tensor):
        dtype = dtype or fill_value.dtype
    fill_value = number(fill_value)
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.number_dtype(fill_value)
    dtypes.held(fill_value, kind.numpy)
    return bind(_full, (), {"shape": shape, "value": fill_value, "dtype": kind, **order})


def order_like(input: Tensor) -> Params:
    """The param with which a tensor lies in memory as `input` does; none where that is in row-major order."""
    order = as_first(input.array.shape, [input.array])
    return NO_PARAMS if order is None else {"order": order}


def _filled(name: str, value: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def function(
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        on_cpu(device)
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        params = {"shape": _size(sizes if size is None else (size,)), "value": value, "dtype": kind}
        return requiring(bind(_full, (), params), requires_grad)

    def like(
        input: Tensor,
        *,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        on_cpu(device)
        kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
        params = {"shape": input.array.shape, "value": value, "dtype": kind, **order_like(input)}
        return requiring(bind(_full, (), params), requires_grad)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = name + "_like"
    function.__doc__ = f"A tensor of {name}. Source: `torch.{name}`."
    like.__doc__ = f"A tensor of {name} with the shape and dtype of `input`. Source: `torch.{name}_like`."
    return function, like


# `empty` is filled too: what a program reads must not depend on chance.
zeros: Callable[..., Tensor]
zeros, zeros_like = _filled("zeros", 0)
ones, ones_like = _filled("ones", 1)
empty, empty_like = _filled("empty", 0)
for _function in (zeros, zeros_like, ones, ones_like, empty, empty_like):
    public(_function)


@public
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`full` with the shape and dtype of `input`. Source: `torch.full_like`."""
    on_cpu(device)
    made = _full_of(input.array.shape, fill_value, dtype or input.dtype, **order_like(input))
    return requiring(made, requires_grad)


def _new(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`x.new_zeros(size)` and its kin: the dtype is x's."""

    def method(self: Tensor, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return function(*args, dtype=self.dtype if dtype is None else dtype, **kwargs)

    method.__doc__ = f"`{function.__name__}` with the dtype of this tensor."
    return method


@public
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Numbers from `start` (0) up to, not including, `end`. Source: `torch.arange`.

    Raises RuntimeError for a step of 0 or in the wrong direction.

    >>> import fusegrad as fg
    >>> fg.arange(3)
    tensor([0, 1, 2])
    """
    on_cpu(device)
    if end is None:
        start, end = 0, start
    start, end, step = number(start), number(end), number(step)
    kind = _progression_dtype(dtype, start, end, step)
    _check_progression(start, end, step)
    is_half = dtypes.opmath(kind.numpy) is not kind.numpy
    computed = dtypes.int64 if kind.category == 1 else dtypes.float32 if is_half else dtypes.float64
    for value in (start, end, step):
        dtypes.held(value, computed.numpy)
    if kind is dtypes.int64:
        start, end, step = int(start), int(end), int(step)
    _check_progression(start, end, step)
    count = -(-(end - start) // step) if isinstance(start, int) else math.ceil((end - start) / step)
    return _progression(int(count), start, step, kind, requires_grad)


@public
def range(  # Python's `range` is `builtins.range` in this module
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Numbers from `start` up to `end`, which is included; `arange` is preferred. Source: `torch.range`."""
    on_cpu(device)
    if end is None:
        start, end = 0, start
    start, end, step = number(start), number(end), number(step)
    _check_progression(start, end, step)
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    return _progression(math.floor((end - start) / step) + 1, start, step, kind, requires_grad)


def _progression_dtype(dtype: Any, *numbers: Any) -> DType:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return dtypes.int64 if all(isinstance(v, int) for v in numbers) else dtypes.default_float()


def _check_progression(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise failure(RuntimeError, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise failure(RuntimeError, f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise failure(
            RuntimeError, f"upper bound and lower bound inconsistent with step sign ({start}, {end}, {step})"
        )


def _progression(count: int, start: Any, step: Any, kind: DType, requires_grad: bool) -> Tensor:
    params = {"shape": (count,), "start": start, "step": step, "dtype": kind}
    return requiring(bind(_arange, (), params), requires_grad)


def _brought(tensor: Tensor) -> Tensor:
    if state.interpreter is not None:
        state.interpreter.constant(tensor)
    if state.inference:
        mark_inference((tensor,))
    return tensor


@internal
def tensor_of_data(value: Any) -> Tensor:
    """Values that stand for a tensor: one, an array of NumPy's, or another library's, whose memory is shared.

    Raises TypeError for what is no array.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return from_numpy(value)
    if isinstance(value, np.generic):
        return tensor(value)
    if hasattr(value, "__dlpack__"):
        apart = value.detach() if getattr(value, "requires_grad", False) else value
        made: Tensor = ops.from_dlpack(apart)
        return made
    raise failure(TypeError, f"expected a Tensor or an array, got {type_name(value)}")


@public
def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, an array. Source: `torch.tensor`.

    Python floats become the default float, ints int64, bools bool; arrays keep their dtype.
    Raises ValueError for ragged lists, TypeError for what holds no numbers.

    >>> import fusegrad as fg
    >>> fg.tensor([1, 2.5])
    tensor([1.0000, 2.5000])
    """
    on_cpu(device)
    if isinstance(data, Tensor):
        # Through ops: a captured run must see where the values come from.
        copied = ops.clone(ops.detach(data))
        return requiring(copied if dtype is None else ops.cast(copied, dtype), requires_grad)
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):  # of another library
        return tensor(tensor_of_data(data), dtype=dtype, requires_grad=requires_grad)
    array, default = from_python(data, dtype)
    dtype = default if dtype is None else dtype
    if dtype is not None:
        kind = dtypes.as_dtype(dtype).numpy
        if array.dtype != kind:
            if not isinstance(data, (np.ndarray, np.generic)):
                check_fits(array, kind)
            array = dtypes.converted(array, kind)
    if array.dtype not in dtypes.FROM_NUMPY:
        raise failure(TypeError, f"cannot make a tensor of dtype {array.dtype}")
    return requiring(_brought(wrap(array)), requires_grad)


def constant(array: np.ndarray) -> Tensor:
    """A tensor of what the engine itself worked out (positions, say), not shared with NumPy code."""
    return _brought(wrap(array))


@public
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of `ndarray`. Source: `torch.from_numpy`."""
    if not isinstance(ndarray, np.ndarray):
        raise failure(TypeError, f"expected np.ndarray (got {type_name(ndarray)})")
    if ndarray.dtype not in dtypes.FROM_NUMPY:
        raise failure(TypeError, f"can't convert np.ndarray of type {ndarray.dtype}")
    tensor = wrap(shared.expose(ndarray))
    shared.part(tensor.version)  # another tensor may be made of the same array
    return _brought(tensor)


@public
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of a Python buffer, from byte `offset` on. Source: `torch.frombuffer`."""
    if not count or not memoryview(buffer).nbytes:
        raise failure(ValueError, "both buffer length and count must not be 0")
    array = np.frombuffer(buffer, dtypes.as_dtype(dtype).numpy, count, offset)
    return requiring(from_numpy(array), requires_grad)


@public
def scalar_tensor(
    s: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, layout: Any = None
) -> Tensor:
    """A number as a tensor without dimensions, of the default float. Source: `torch.scalar_tensor`."""
    on_cpu(device)
    return full((), s, dtype=dtypes.default_float() if dtype is None else dtype, requires_grad=requires_grad)


@public
def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor; copied if `copy`, never copied if it is False. Source: `torch.asarray`.

    The bytes of a buffer of Python's (`bytes`, `array.array`) are elements of `dtype`. What needs gradients
    goes on to need them, unless `requires_grad` is False. Raises ValueError where `copy=False` cannot be.
    """
    on_cpu(device)
    if not isinstance(obj, (Tensor, np.generic)) and hasattr(obj, "__array__"):
        obj = np.asarray(obj)  # what lends its memory, as storages do
    elif isinstance(obj, (bytes, bytearray, memoryview, array.array)):
        obj = np.frombuffer(obj, (dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)).numpy)
    made = as_tensor(obj, dtype=dtype)
    shares = made is obj or (isinstance(obj, np.ndarray) and np.shares_memory(made.array, obj))
    if copy is False and not shares and not (isinstance(obj, (Tensor, np.ndarray)) and not made.array.size):
        raise failure(ValueError, f"cannot make a tensor of {type(obj).__name__} without a copy")
    if isinstance(obj, Tensor) and obj.needs_grad:
        if requires_grad is None:
            warn(
                "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
                "False. Pass requires_grad=False explicitly to get the old behavior and silence this warning."
            )
        elif not requires_grad:
            made = made.detach()
    if copy and shares:
        made = ops.clone(made) if isinstance(obj, Tensor) else tensor(obj)
    return made.detach().requires_grad_() if requires_grad and not made.needs_grad else made


@public
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy where it can be. Source: `torch.as_tensor`."""
    on_cpu(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.as_dtype(dtype).numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


@public
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """The identity matrix, n by m. Source: `torch.eye`."""
    on_cpu(device)
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    n = size_of(n)
    m = n if m is None else size_of(m)
    if n < 0 or m < 0:
        raise failure(RuntimeError, f"n and m must be greater or equal to 0, got {n} and {m}")
    equal = arange(n).reshape(n, 1) == arange(m)
    return requiring(equal.to(kind), requires_grad)


for _function in (zeros, ones, empty, full, tensor):
    attach(_new(_function), f"new_{_function.__name__}")


@public
def numel(input: Tensor) -> int:
    """The number of elements. Source: `torch.numel`."""
    return input.array.size


@public
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor. Source: `torch.is_tensor`."""
    return isinstance(obj, Tensor)
