"""Tensors under another dtype: `to`, and a method for each dtype's name in Python and C."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.memory_order import LAST, asked_for, has_channels_last, preserve_format
from fusegrad.eager.core.names import attach, renamed
from fusegrad.eager.core.places.device import CPU, place_of
from fusegrad.eager.core.places.meta_ops import moved
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method
from fusegrad.eager.ops.pointwise import elementwise


@attach
def to(
    self: Tensor,
    *args: Any,
    other: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """With another dtype, on another device, or with a tensor's. Source: `torch.Tensor.to`.

    Raises RuntimeError for devices that are not there, NotImplementedError for meta tensors to the CPU.
    """
    place = None if device is None else place_of(device)
    flags = []  # non_blocking, then copy
    for value in args if other is None else (other, *args):
        if isinstance(value, Tensor):
            dtype, place = value.dtype, value.device
        elif isinstance(value, (dtypes.DType, type)):
            dtype = value
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None:
            place = place_of(value)
    copy = flags[1] if len(flags) > 1 else copy
    kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
    if place is not None and place is not self.device:
        return moved(self, place, elementwise._cast, kind)
    if memory_format is None or memory_format is preserve_format:
        if kind.numpy == self.array.dtype:
            return elementwise.clone(self) if copy else self
        return elementwise.cast(self, kind)
    asked_for(memory_format, self.array.shape)
    made = elementwise.cast(self, kind)
    if made is not self:
        return elementwise.contiguous(made, memory_format)
    is_last = self.array.ndim in LAST.values() and has_channels_last(self.array)
    if not copy and is_last == (memory_format in LAST):
        return self  # its strides tell PyTorch no more
    return elementwise.clone(made, memory_format=memory_format)


_CASTS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}


def _casting(name: str, dtype: dtypes.DType) -> Any:
    def casting(self: Tensor, memory_format: Any = None) -> Tensor:
        return to(self, dtype=dtype, memory_format=memory_format)

    casting.__doc__ = f"Converted to {dtype.name}. Source: `torch.Tensor.{name}`."
    return renamed(casting, name)


for _name, _dtype in _CASTS.items():
    attach(_casting(_name, _dtype))


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """With the dtype of `other`. Source: `torch.Tensor.type_as`."""
    return to(self, other)


@attach
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself, if it is on the CPU. Source: `torch.Tensor.cpu`."""
    return to(self, CPU, memory_format=memory_format)
