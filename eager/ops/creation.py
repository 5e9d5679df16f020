"""Tensors from nothing or from Python data.

`full` and `arange` are ops without inputs, so a captured run makes them afresh; `tensor` and
`from_numpy` bring data in, and a recorder is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.dtypes import DType
from fusegrad.eager.errors import located
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
    return np.full(shape, value, dtype.numpy)


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
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    sizes = tuple(n.__index__() for n in size)
    for n in sizes:
        if n < 0:
            raise RuntimeError(located(f"a tensor cannot have the negative size {n} (shape {list(sizes)})"))
    return sizes


def full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor of `size` filled with a number. Source: `torch.full`."""
    kind = dtypes.as_dtype(dtype if dtype is not None else type(fill_value))
    return _requiring(bind(_full, (), {"shape": _size((size,) if isinstance(size, int) else tuple(size)), "value": fill_value, "dtype": kind}), requires_grad)


def _filled(name: str, value: int) -> Callable[..., Tensor]:
    def function(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        return _requiring(bind(_full, (), {"shape": _size(size), "value": value, "dtype": kind}), requires_grad)

    def like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
        kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
        return function(input.array.shape, dtype=kind, requires_grad=requires_grad)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = name + "_like"
    function.__doc__ = f"A tensor of {name}. Source: `torch.{name}`."
    like.__doc__ = f"A tensor of {name} with the shape and dtype of `input`. Source: `torch.{name}_like`."
    return function, like  # type: ignore[return-value]


zeros, zeros_like = _filled("zeros", 0)  # type: ignore[misc]
ones, ones_like = _filled("ones", 1)  # type: ignore[misc]
empty, empty_like = _filled("empty", 0)  # type: ignore[misc]


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """`full` with the shape and dtype of `input`. Source: `torch.full_like`."""
    return full(input.array.shape, fill_value, dtype=dtype or input.dtype, requires_grad=requires_grad)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Numbers from `start` (0) up to, not including, `end`. Source: `torch.arange`.

    >>> import fusegrad as fg
    >>> fg.arange(3)
    tensor([0, 1, 2])
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError(located("arange: step must be nonzero"))
    count = max(0, math.ceil((end - start) / step))
    if dtype is None:
        whole = all(isinstance(v, int) for v in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.default_float()
    params = {"shape": (count,), "start": start, "step": step, "dtype": dtypes.as_dtype(dtype)}
    return _requiring(bind(_arange, (), params), requires_grad)


def _brought(tensor: Tensor) -> Tensor:
    if state.interpreter is not None:
        state.interpreter.constant(tensor)
    return tensor


def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, an array. Source: `torch.tensor`.

    Python floats become the default float, ints int64, bools bool; arrays keep their dtype.

    >>> import fusegrad as fg
    >>> fg.tensor([1, 2.5])
    tensor([1.0000, 2.5000])
    """
    if isinstance(data, Tensor):
        array = np.array(data.array)
    else:
        try:
            array = np.array(_without_tensors(data))
        except ValueError as error:
            raise ValueError(located(f"tensor: expected nested sequences of equal lengths: {error}")) from None
        if array.dtype.kind not in "buifc":
            raise TypeError(located(f"tensor: cannot make a tensor of {type(data).__name__} ({array.dtype})"))
        if dtype is None and not isinstance(data, (np.ndarray, np.generic)):
            dtype = {"f": dtypes.default_float(), "c": dtypes.complex64}.get(array.dtype.kind)
            dtype = dtypes.default_float() if array.size == 0 else dtype
    if dtype is not None:
        array = array.astype(dtypes.as_dtype(dtype).numpy, copy=False)
    if array.dtype not in dtypes.FROM_NUMPY:
        dtypes.as_dtype(array.dtype)
    return _requiring(_brought(wrap(array)), requires_grad)


def _without_tensors(data: Any) -> Any:
    """`data` with one-element tensors in it as numbers (through their door)."""
    if isinstance(data, (list, tuple)):
        return [_without_tensors(d) for d in data]
    return data.tolist() if isinstance(data, Tensor) else data


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of `ndarray`. Source: `torch.from_numpy`."""
    dtypes.as_dtype(ndarray.dtype)
    return _brought(wrap(ndarray))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy where it can be. Source: `torch.as_tensor`."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.as_dtype(dtype).numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """`steps` numbers evenly spaced from `start` to `end`, both included. Source: `torch.linspace`."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    return _requiring(_brought(wrap(np.linspace(start, end, steps).astype(kind.numpy))), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """The identity matrix. Source: `torch.eye`."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    return _requiring(_brought(wrap(np.eye(n, m, dtype=kind.numpy))), requires_grad)
