"""PyTorch's old ways to make and to name tensors: `Tensor(2, 3)`, `FloatTensor([1.0])`, `x.type()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach, internal, publish, renamed
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import default_device, on_cpu, set_default
from fusegrad.eager.core.settings import warn_once
from fusegrad.eager.core.sizes import Symbol
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.create.python_numbers import is_sequence
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.overrides.asking import of_class


def _constructed(kind: DType, data: tuple[Any, ...], exact: bool = True, device: Any = None) -> Tensor:
    """A tensor of sizes, or with the values of a sequence or an array; a tensor as it is, if it may be."""
    if len(data) == 1 and isinstance(data[0], Tensor):
        if exact and data[0].dtype is not kind:
            raise failure(
                TypeError,
                f"expected a tensor of {kind!r}, got one of {data[0].dtype!r}; convert it with .to()",
            )
        if device is not None:
            raise failure(
                RuntimeError,
                "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported. "
                "Use torch.tensor(...) or torch.as_tensor(...) instead.",
            )
        return ops.detach(data[0])
    if len(data) == 1 and type(data[0]).__name__ == "Size":
        return creation.empty(data[0], dtype=kind)
    if len(data) == 1 and (is_sequence(data[0]) or (isinstance(data[0], np.ndarray) and data[0].ndim)):
        return creation.tensor(data[0], dtype=kind)
    for size in data:
        if isinstance(size, float) or not (hasattr(size, "__index__") or isinstance(size, Symbol)):
            raise failure(
                TypeError,
                "new() received an invalid combination of arguments: a tensor is made of sizes, or of a "
                f"sequence or an array, not {type(size).__name__}",
            )
    return creation.empty(*(data or (0,)), dtype=kind)


@internal
def constructed(cls: type, data: tuple[Any, ...], device: Any) -> Any:
    """What `Tensor(...)`, or a subclass of it, makes; see `Tensor.__new__`."""
    on_cpu(device)
    made = _constructed(dtypes.default_float(), data, exact=False, device=device)
    return made if cls is Tensor else of_class(made, cls)


class _Kind(type):
    """The class of `FloatTensor` and its kin: what is an instance of theirs says the dtype."""

    dtype: DType

    def __new__(kind, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        for base in bases:
            if base is not _Typed:
                wrong = f"type 'torch.{base.__name__}' is not an acceptable base type"
                raise failure(TypeError, wrong)
        return super().__new__(kind, name, bases, members)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype


class _Typed(metaclass=_Kind):
    dtype: DType

    def __new__(cls, *data: Any, device: Any = None) -> Any:
        on_cpu(device)
        return _constructed(cls.dtype, data, device=device)


_CLASSES = {
    "BoolTensor": dtypes.bool_,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
}
for _name, _dtype in _CLASSES.items():
    _doc = f"`{_name}(2, 3)`, `{_name}([1])`: a tensor of {_dtype.name}. Source: `torch.{_name}`."
    publish(_Kind(_name, (_Typed,), {"dtype": _dtype, "__doc__": _doc, "__module__": __name__}))

_NAMES = {dtype: f"{dtype.scalar}Tensor" for dtype in (*dtypes.ALL, dtypes.bfloat16)}


def kind_of(value: Any) -> DType:
    """The dtype that a dtype, a class such as `FloatTensor`, or its name stands for.

    Raises ValueError for a name that is none.
    """
    if isinstance(value, _Kind):
        return value.dtype
    if value is Tensor:
        return dtypes.default_float()
    if isinstance(value, str):
        for kind, name in _NAMES.items():
            if value in (f"torch.{name}", f"fusegrad.{name}"):
                return kind
        raise failure(ValueError, f"invalid type: {value!r}")
    return dtypes.as_dtype(value)


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """The name of the tensor's type, as `torch.FloatTensor`; or the tensor in another dtype.

    Source: `torch.Tensor.type`.

    >>> import fusegrad as fg
    >>> fg.ones(1).type(), fg.ones(1).type(fg.int64).type()
    ('torch.FloatTensor', 'torch.LongTensor')
    """
    return (
        f"torch.{_NAMES[self.dtype]}"
        if dtype is None
        else self.to(kind_of(dtype), memory_format=memory_format)
    )


attach(renamed(_type, "type"))


@attach
def new(self: Tensor, *data: Any, size: Any = None, device: Any = None) -> Tensor:
    """A tensor of the dtype of this one: of sizes, or with values. Source: `torch.Tensor.new`."""
    on_cpu(device)
    if size is not None:
        return creation.empty(size, dtype=self.dtype)
    return _constructed(self.dtype, data, device=device)


@attach
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: there is no device that would copy from it. Source: `torch.Tensor.pin_memory`."""
    return self


@attach
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: no memory is. Source: `torch.Tensor.is_pinned`."""
    return False


@public
def typename(obj: Any) -> str:
    """The name of the type of an object; of a tensor, what `Tensor.type()` says. Source: `torch.typename`."""
    if isinstance(obj, Tensor):
        return f"torch.{_NAMES[obj.dtype]}"
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in (None, "builtins") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


@public
def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of `DoubleTensor`, say, the default. Source: `torch.set_default_tensor_type`."""
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    dtypes.set_default_dtype(kind_of(t))


@public
def get_default_device() -> Any:
    """Where this thread makes new tensors. Source: `torch.get_default_device`."""
    return default_device()


@public
def set_default_device(device: Any) -> None:
    """Have this thread make new tensors on the CPU, or on `meta`. Source: `torch.set_default_device`.

    Raises RuntimeError for another device.
    """
    set_default(device)
