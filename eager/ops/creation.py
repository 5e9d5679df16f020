"""Tensors from nothing or from Python data.

`full`, `arange`, `linspace` and `eye` are ops without data, so a captured run makes them afresh;
`tensor` and `from_numpy` bring data in, and a recorder is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.dtypes import DType
from fusegrad.eager.errors import failure
from fusegrad.eager.op import Op, Params, TensorType, bind, wrap
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}


class Creation(Op):
    """A tensor from parameters alone. `scalar(b, index, **params)` gives an element by its index."""

    family = "creation"

    def __init__(self, name: str, numpy: Callable[..., Any], scalar: Callable[..., Any]) -> None:
        super().__init__(name, "", None)
        self.numpy, self.scalar = numpy, scalar

    def evaluate(self, args: Any, params: Params) -> Any:
        return self.numpy(**params)

    def infer(self, types: Any, params: Params) -> TensorType:
        dtype = params["dtype"].numpy
        return TensorType(params["shape"], dtype)


def _full_numpy(shape: tuple[int, ...], value: Any, dtype: DType) -> np.ndarray:
    # Through an array, so that an integer out of range wraps as it does in PyTorch.
    filler = np.asarray(value).astype(dtype.numpy)
    return np.full(shape, filler, dtype.numpy)


def _arange_numpy(shape: tuple[int, ...], start: Any, step: Any, dtype: DType) -> np.ndarray:
    return (start + step * np.arange(shape[0])).astype(dtype.numpy)


_full = Creation("full", _full_numpy, lambda b, index, shape, value, dtype: b.constant(value, dtype))
_arange = Creation(
    "arange",
    _arange_numpy,
    lambda b, index, shape, start, step, dtype: b.progression(index[0], start, step, dtype),
)


def _requiring(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    """`(2, 3)` or `((2, 3),)` as a checked shape."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    sizes = tuple([n if type(n) is int else n.__index__() for n in size])
    for n in sizes:
        if n < 0:
            raise failure(RuntimeError, f"a tensor cannot have the negative size {n} (shape {list(sizes)})")
    return sizes


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """A tensor of `size` filled with a number. Source: `torch.full`."""
    if isinstance(fill_value, Tensor):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    kind = dtypes.as_dtype(dtype if dtype is not None else type(fill_value))
    if kind.numpy.kind in "iu" and isinstance(fill_value, int):
        limits = np.iinfo(kind.numpy)
        if not limits.min <= fill_value <= limits.max:
            raise failure(
                RuntimeError, f"value {fill_value} cannot be converted to {kind.name} without overflow"
            )
    shape = _size((size,) if isinstance(size, int) else tuple(size))
    return _requiring(bind(_full, (), {"shape": shape, "value": fill_value, "dtype": kind}), requires_grad)


def _filled(name: str, value: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def function(
        *size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None, **ignored: Any
    ) -> Tensor:
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        if not size:
            size = (ignored.pop("size", ()),)
        return _requiring(
            bind(_full, (), {"shape": _size(size), "value": value, "dtype": kind}), requires_grad
        )

    def like(
        input: Tensor, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, **ignored: Any
    ) -> Tensor:
        kind = input.dtype if dtype is None else dtype
        return function(input.array.shape, dtype=kind, requires_grad=requires_grad)

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


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None
) -> Tensor:
    """`full` with the shape and dtype of `input`. Source: `torch.full_like`."""
    return full(input.array.shape, fill_value, dtype=dtype or input.dtype, requires_grad=requires_grad)


def _new(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`x.new_zeros(size)` and its kin: the dtype is x's."""

    def method(self: Tensor, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return function(*args, dtype=self.dtype if dtype is None else dtype, **kwargs)

    method.__doc__ = f"`{function.__name__}` with the dtype of this tensor."
    return method


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
) -> Tensor:
    """Numbers from `start` (0) up to, not including, `end`. Source: `torch.arange`.

    Raises RuntimeError for a step of 0 or in the wrong direction.

    >>> import fusegrad as fg
    >>> fg.arange(3)
    tensor([0, 1, 2])
    """
    if end is None:
        start, end = 0, start
    start, end, step = _number(start), _number(end), _number(step)
    if step == 0:
        raise failure(RuntimeError, "step must be nonzero")
    if (end - start) * step < 0:
        raise failure(
            RuntimeError, f"upper bound and lower bound inconsistent with step sign ({start}, {end}, {step})"
        )
    if dtype is None:
        whole = all(isinstance(v, int) for v in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.default_float()
    params = {
        "shape": (math.ceil((end - start) / step),),
        "start": start,
        "step": step,
        "dtype": dtypes.as_dtype(dtype),
    }
    return _requiring(bind(_arange, (), params), requires_grad)


def _brought(tensor: Tensor) -> Tensor:
    if state.interpreter is not None:
        state.interpreter.constant(tensor)
    return tensor


def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, an array. Source: `torch.tensor`.

    Python floats become the default float, ints int64, bools bool; arrays keep their dtype.
    Raises ValueError for ragged lists, TypeError for what holds no numbers.

    >>> import fusegrad as fg
    >>> fg.tensor([1, 2.5])
    tensor([1.0000, 2.5000])
    """
    if isinstance(data, Tensor):
        array = np.array(data.array)
    else:
        array, default = _from_python(data)
        dtype = default if dtype is None else dtype
    if dtype is not None:
        array = array.astype(dtypes.as_dtype(dtype).numpy, copy=False)
    if array.dtype not in dtypes.FROM_NUMPY:
        raise failure(TypeError, f"cannot make a tensor of dtype {array.dtype}")
    return _requiring(_brought(wrap(array)), requires_grad)


def _from_python(data: Any) -> tuple[np.ndarray, DType | None]:
    """The values of `data`, and the dtype that they get unless one is asked for."""
    plain = isinstance(data, (list, tuple))
    if plain:
        inner = _first_array(data)
        data = _without_tensors(data)
        plain = inner is None
    try:
        array = np.array(data)
    except ValueError as error:
        raise failure(ValueError, f"expected nested sequences of equal lengths: {error}") from None
    if array.dtype.kind not in "buifc":
        raise failure(TypeError, f"cannot make a tensor of {type(data).__name__} ({array.dtype})")
    if array.size == 0 and plain:
        return array, dtypes.default_float()
    if not plain and isinstance(data, (np.ndarray, np.generic)):
        return array, None
    if not plain and not isinstance(data, (bool, int, float, complex)):
        return array, dtypes.FROM_NUMPY.get(inner.dtype) if isinstance(data, list) else None
    default = dtypes.default_float()
    wide = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    return array, {"f": default, "c": wide}.get(array.dtype.kind)


def _first_array(data: Any) -> Any:
    """The first array (or the array of the first tensor) in nested lists, None if there is none."""
    while isinstance(data, (list, tuple)) and len(data):
        data = data[0]
    if isinstance(data, Tensor):
        return data.array
    return data if isinstance(data, (np.ndarray, np.generic)) else None


def _without_tensors(data: Any) -> Any:
    """`data` with tensors in it as numbers (through their door)."""
    if isinstance(data, (list, tuple)):
        return [_without_tensors(d) for d in data]
    return data.tolist() if isinstance(data, Tensor) else data


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of `ndarray`. Source: `torch.from_numpy`."""
    if not isinstance(ndarray, np.ndarray):
        raise failure(TypeError, f"expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.dtype not in dtypes.FROM_NUMPY:
        raise failure(TypeError, f"can't convert np.ndarray of type {ndarray.dtype}")
    return _brought(wrap(ndarray))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy where it can be. Source: `torch.as_tensor`."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.as_dtype(dtype).numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def _linspace_numpy(shape: tuple[int, ...], start: float, end: float, dtype: DType) -> np.ndarray:
    return np.linspace(start, end, shape[0]).astype(dtype.numpy)


def _linspace_scalar(
    b: Any, index: Any, shape: tuple[int, ...], start: float, end: float, dtype: DType
) -> Any:
    """From both ends, so that the last element is `end` itself."""
    step = (end - start) / max(1, shape[0] - 1)
    wide = dtypes.float64
    first = b.progression(index[0], float(start), float(step), wide)
    last = b.progression(index[0], float(end) - step * (shape[0] - 1), float(step), wide)
    near = b.lt(b.progression(index[0], 0.0, 1.0, wide), shape[0] / 2)
    return b.cast(b.select(near, first, last), dtype)


_linspace = Creation("linspace", _linspace_numpy, _linspace_scalar)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
) -> Tensor:
    """`steps` numbers evenly spaced from `start` to `end`, both included. Source: `torch.linspace`."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    if steps < 0:
        raise failure(RuntimeError, f"number of steps must be non-negative, got {steps}")
    params = {"shape": (steps,), "start": _number(start), "end": _number(end), "dtype": kind}
    return _requiring(bind(_linspace, (), params), requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`base` to the powers evenly spaced from `start` to `end`. Source: `torch.logspace`."""
    exponents = linspace(start, end, steps, dtype=dtypes.float64)
    return _requiring((base**exponents).to(dtypes.as_dtype(dtype or dtypes.default_float())), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False, device: Any = None
) -> Tensor:
    """The identity matrix, n by m. Source: `torch.eye`."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    equal = arange(n).reshape(n, 1) == arange(n if m is None else m)
    return _requiring(equal.to(kind), requires_grad)


METHODS |= {f"new_{f.__name__}": _new(f) for f in (zeros, ones, empty, full)}
METHODS["new_tensor"] = _new(tensor)


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor. Source: `torch.is_tensor`."""
    return isinstance(obj, Tensor)
