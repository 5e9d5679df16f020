"""Tensors from nothing or from Python data.

`full`, `arange`, `linspace` and `eye` are ops without data, so a captured run makes them afresh;
`tensor` and `from_numpy` bring data in, and a recorder is told.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes, settings, shared
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure, type_name, warn
from fusegrad.eager.core.memory_order import arranged, asked_for
from fusegrad.eager.core.names import attach, internal
from fusegrad.eager.core.op import Op, Params, TensorType, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import CPU, META, made_on, on_cpu, place_of
from fusegrad.eager.core.places.meta_ops import like as like_of, meta_like
from fusegrad.eager.core.settings import warn_once
from fusegrad.eager.core.sizes import Ints, Symbol, size_of
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, mark_inference, require_grad
from fusegrad.eager.ops.arguments import Place, ints
from fusegrad.eager.ops.create.one_for_each import one_for_each
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


_full = Creation(
    "full", _full_numpy, lambda b, index, shape, value, dtype, order=None: b.constant(value, dtype)
)


def requiring(tensor: Tensor, requires_grad: bool) -> Tensor:
    return require_grad(tensor) if requires_grad else tensor


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)` as a checked shape."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    sizes: tuple[int, ...] = ints(size, Place("", "size"))
    for n in sizes:
        if n < 0:
            raise failure(RuntimeError, f"a tensor cannot have the negative size {n} (shape {list(sizes)})")
    return sizes


@public
def full(
    size: Ints,
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
    if type(fill_value) is complex and not fill_value.imag and kind.numpy.kind != "c":
        fill_value = fill_value.real
    dtypes.held(fill_value, kind.numpy)
    return bind(_full, (), {"shape": shape, "value": fill_value, "dtype": kind, **order})


def _filled(name: str, value: Callable[[DType], Any]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def function(
        *sizes: Any,
        size: Ints | None = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        on_cpu(device)
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        shape = _size(sizes if size is None else (size,))
        order = asked_for(memory_format, shape)
        params = {"shape": shape, "value": value(kind), "dtype": kind}
        made = bind(_full, (), params if order is None else {**params, "order": order})
        return requiring(made, requires_grad)

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
        kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
        order = like_of(input, device, memory_format)
        params = {"shape": input.array.shape, "value": value(kind), "dtype": kind, **order}
        return requiring(one_for_each(bind(_full, (), params), input), requires_grad)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = name + "_like"
    function.__doc__ = f"A tensor of {name}. Source: `torch.{name}`."
    like.__doc__ = f"A tensor of {name} with the shape and dtype of `input`. Source: `torch.{name}_like`."
    return function, like


def _of_nobody(dtype: DType) -> Any:
    """What memory holds that nobody has written: zeros, as what is read must not depend on chance; where
    deterministic algorithms are asked for, what shows that, as with PyTorch.
    """
    if not settings.setting.wanted:
        return 0
    if dtype.numpy.kind in "fcV":
        return float("nan")
    return True if dtype.numpy.kind == "b" else int(np.iinfo(dtype.numpy).max)


zeros: Callable[..., Tensor]
zeros, zeros_like = _filled("zeros", lambda dtype: 0)
ones, ones_like = _filled("ones", lambda dtype: 1)
empty, empty_like = _filled("empty", _of_nobody)
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
    order = like_of(input, device, memory_format)
    made = _full_of(input.array.shape, fill_value, dtype or input.dtype, **order)
    return requiring(one_for_each(made, input), requires_grad)


def _new(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`x.new_zeros(size)` and its kin: the dtype is x's."""

    def method(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        place = self.device if device is None else place_of(device)
        if place is (state.making or CPU):
            return one_for_each(function(*args, dtype=dtype, **kwargs), self)
        with made_on(place):
            return function(*args, dtype=dtype, **kwargs)

    method.__doc__ = f"`{function.__name__}` with the dtype of this tensor."
    return method


def _brought(tensor: Tensor) -> Tensor:
    if state.making is META:
        tensor.array = meta_like(tensor)  # type: ignore[assignment]
        return tensor
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


def _there(data: Tensor, device: Any) -> Tensor:
    """A tensor on the device that is asked for, if one is."""
    place = state.making if device is None else device
    return data if place is None else data.to(place)


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
        data = _there(data, device)
        # Through ops: a captured run must see where the values come from.
        copied = ops.clone(ops.detach(data))
        return requiring(copied if dtype is None else ops.cast(copied, dtype), requires_grad)
    if state.interpreter is not None and state.interpreter.follows_numbers:
        if dtypes.stands_for_float(data):
            return full((), data, dtype=dtype, requires_grad=requires_grad)
        if type(data) in (list, tuple) and any(map(dtypes.stands_for_float, data)):
            kind = dtypes.default_float() if dtype is None else dtype
            return requiring(ops.stack([full((), x, dtype=kind) for x in data]), requires_grad)
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
    if any(stride % ndarray.itemsize for stride in ndarray.strides):  # one field of records, say
        wrong = "given numpy array strides not a multiple of the element byte size"
        raise failure(ValueError, f"{wrong}. Copy the numpy array to reallocate the memory.")
    if not ndarray.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and a non-writable tensor is made of it: clone() that, "
            "or copy the array, to write into a copy."
        )
    tensor = wrap(shared.expose(ndarray))
    shared.part(tensor.version)  # another tensor may be made of the same array
    return _brought(tensor)


@public
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of a Python buffer, from byte `offset` on. Source: `torch.frombuffer`."""
    kind = dtypes.as_dtype(dtype).numpy
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        wrong = f"object does not implement Python buffer protocol: {type_name(buffer)}"
        raise failure(ValueError, wrong) from None
    wrong, size, after = "", kind.itemsize, f"after offset ({offset} bytes) must"
    if not count or not length:
        wrong = f"both buffer length ({length}) and count ({count}) must not be 0"
    elif not 0 <= offset < length:
        most = f"buffer length ({length} bytes) minus 1"
        wrong = f"offset ({offset} bytes) must be non-negative and no greater than {most}"
    elif count < 0 and (length - offset) % size:
        wrong = f"buffer length ({length - offset} bytes) {after} be a multiple of element size ({size})"
    elif count * size > length - offset:
        actual = f"actual buffer length ({length} bytes)"
        wrong = f"requested buffer length ({count} * {size} bytes) {after} not be greater than {actual}"
    if wrong:
        raise failure(ValueError, wrong)
    array = np.frombuffer(buffer, kind, count, offset)
    if not array.flags.writeable:
        warn("The given buffer is not writable. Nor is the tensor: clone() it to write into a copy.")
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
    elif type(obj).__name__ == "PyCapsule":
        obj = ops.from_dlpack(obj)
    made = as_tensor(obj, dtype=dtype)
    shares = made is obj or (isinstance(obj, np.ndarray) and np.shares_memory(made.array, obj))
    if copy is False and not shares and not (isinstance(obj, (Tensor, np.ndarray)) and not made.array.size):
        if isinstance(obj, np.generic):
            raise failure(
                RuntimeError,
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.",
            )
        if isinstance(obj, (Tensor, np.ndarray)):
            raise failure(
                ValueError,
                f"can't alias tensor with dtype '{dtypes.as_dtype(obj.dtype).scalar}' into dtype "
                f"'{made.dtype.scalar}'.",
            )
        raise failure(ValueError, f"can't alias arbitrary sequence: {type(obj).__name__}")
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
    return require_grad(made.detach()) if requires_grad and not made.needs_grad else made


@public
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy where it can be. Source: `torch.as_tensor`."""
    on_cpu(device)
    if isinstance(data, Tensor):
        data = _there(data, device)
        return data if dtype is None else data.to(dtype)
    if type(data).__name__ == "PyCapsule":
        made: Tensor = ops.from_dlpack(data)
        return made if dtype is None else made.to(dtype)
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
    equal = ops.arange(n).reshape(n, 1) == ops.arange(m)
    return requiring(equal.to(kind), requires_grad)


for _function in (zeros, ones, empty, full, tensor):
    attach(_new(_function), f"new_{_function.__name__}")


@public
def numel(input: Tensor) -> int:
    """The number of elements. Source: `torch.numel`."""
    return input.numel()


@public
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor. Source: `torch.is_tensor`."""
    return isinstance(obj, Tensor)
