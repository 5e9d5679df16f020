"""What the names stand for that files of PyTorch's may use, and how tensors come out of their memories.

What else a pickle may say, the program that loads it has to allow (`allowed.py`).
"""

from __future__ import annotations

import copyreg
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.memory_order import sparse_coo, strided
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.places.meta import meta_array
from fusegrad.eager.core.public import home
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.io import arrays
from fusegrad.eager.io.interop import OWN_ATTRIBUTES, OWN_SLOTS
from fusegrad.eager.io.pickle_machine import Damaged, Maker, key, made, plain_attributes
from fusegrad.eager.io.storage import TypedStorage
from fusegrad.eager.nn.parameter import Buffer, Parameter
from fusegrad.eager.ops.overrides.asking import of_class

OLDER_MAGIC, OLDER_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # how files before PyTorch 1.6 begin

# How PyTorch calls memories of each dtype. Others are memories of bytes, and their tensors say their dtype.
STORAGES = {
    dtypes.bool_: "BoolStorage",
    dtypes.uint8: "ByteStorage",
    dtypes.int8: "CharStorage",
    dtypes.int16: "ShortStorage",
    dtypes.int32: "IntStorage",
    dtypes.int64: "LongStorage",
    dtypes.float16: "HalfStorage",
    dtypes.bfloat16: "BFloat16Storage",
    dtypes.float32: "FloatStorage",
    dtypes.float64: "DoubleStorage",
    dtypes.complex64: "ComplexFloatStorage",
    dtypes.complex128: "ComplexDoubleStorage",
}


class StorageType:
    """The kind of a memory: of which dtype, or of bytes."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


class Storage(TypedStorage):
    """A memory of a file: its bytes, the dtype of its elements, and the tensor that views of it come from.

    kind: the dtype, or None for bytes of which tensors say what they are.
    """

    def __init__(self, memory: np.ndarray, kind: DType | None) -> None:
        super().__init__(memory, kind or dtypes.uint8)
        self.memory, self.kind = memory, kind
        self.whole = wrap(memory)

    def checked(self) -> Storage:
        """Itself, once its truth values are 0 or 1: all bytes but 0 are."""
        if self.kind is dtypes.bool_ and self.memory.size and self.memory.max() > 1:
            self.memory[...] = self.memory != 0
        return self


def _natural(*numbers: Any) -> None:
    for number in numbers:
        if type(number) is not int or number < 0:
            raise Damaged(f"{number!r} is no place in memory, size or step")


def _view(
    storage: Any, dtype: DType | None, offset: Any, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    """A tensor in a memory, which all of it must lie in."""
    if type(storage) is not Storage or dtype is None or type(size) not in (tuple, Size):
        raise Damaged("a tensor has no memory, no dtype or no shape")
    if type(stride) is not tuple or len(stride) != len(size):
        raise Damaged("a tensor has not as many steps as dimensions")
    _natural(offset, *size, *stride)
    step = dtype.itemsize
    room = storage.memory.nbytes // step
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if last >= room if math.prod(size) else offset > room:
        raise Damaged(f"a tensor of shape {tuple(size)} is said to lie in a memory of {room} elements")
    strides = [s * step for s in stride]
    tensor = wrap(np.ndarray(tuple(size), dtype.numpy, storage.memory, offset * step, strides))
    tensor.version = storage.whole.version  # writes into one that overlaps are writes into this
    return _requiring(tensor, requires_grad)


def _requiring(tensor: Tensor, requires_grad: Any) -> Tensor:
    if type(requires_grad) is not bool:
        raise Damaged(f"requires_grad is {requires_grad!r}")
    return tensor.requires_grad_(requires_grad)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    return _tensor_v2(storage, offset, size, stride, False)


def _tensor_v2(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    dtype = storage.kind if type(storage) is Storage else None
    return _view(storage, dtype, offset, size, stride, requires_grad)


def _tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    *metadata: Any,
) -> Tensor:
    if type(dtype) is not DType or dtype is dtypes.bool_:  # whose memory would have been looked at
        raise Damaged("a tensor has no dtype")
    return _view(storage, dtype, offset, size, stride, requires_grad)


def _parameter(data: Any = None, requires_grad: Any = True, *hooks: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise Damaged("a parameter is made of what is no tensor")
    parameter = Parameter(data.detach(), False)
    return _requiring(parameter, requires_grad)


def _with_attributes(maker: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor of a class of its own, or one on which its program has set attributes."""
    if type(arguments) is not tuple or not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise Damaged("a tensor is made by what makes none")
    tensor = made(maker, arguments)
    if not isinstance(tensor, Tensor):
        raise Damaged("attributes are set on what is no tensor")
    if kind is Tensor and type(state) is dict and state.pop("_is_buffer", False):
        kind = Buffer
    return give_state(tensor if type(tensor) is kind else of_class(tensor, kind), state)


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    return give_state(_parameter(data, requires_grad), state)


def give_state(tensor: Any, state: Any) -> Any:
    """A tensor with what `own_state` gave of another one: attributes hide nothing that all tensors have."""
    kind = type(tensor)
    if hasattr(kind, "__setstate__"):
        kind.__setstate__(tensor, state)
        return tensor
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, {})
    free = {} if home(kind) is not None else dict.fromkeys(copyreg._slotnames(kind))  # type: ignore[attr-defined]
    if not plain_attributes(attributes or {}, Tensor) or not free.keys() - OWN_SLOTS >= (slots or {}).keys():
        raise Damaged("attributes are set on what is no tensor, or hide what a tensor has")
    own = {name: value for name, value in (attributes or {}).items() if name not in OWN_ATTRIBUTES}
    vars(tensor).update(own)
    for name, value in (slots or {}).items():
        setattr(tensor, name, value)
    return tensor


def _without_values(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor of the device meta."""
    if type(dtype) is not DType or type(size) is not tuple or type(stride) is not tuple:
        raise Damaged("a tensor has no dtype, shape or strides")
    _natural(*size, *stride)
    try:
        array = meta_array(size, dtype.numpy, tuple(n * dtype.itemsize for n in stride))
    except (ValueError, OSError, MemoryError):
        wrong = f"a tensor without values of shape {size} cannot have the strides {stride}"
        raise Damaged(wrong) from None
    return _requiring(wrap(array), requires_grad)


def _encoded(text: Any, encoding: Any) -> bytes:
    """Bytes, which protocol 2 writes as text."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Damaged("bytes are no text")
    return text.encode("latin1")


def _bytearray(content: Any = b"", encoding: Any = None) -> bytearray:
    if type(content) is str:
        content = _encoded(content, encoding)
    if type(content) is not bytes:  # a number would be a size
        raise Damaged("a bytearray has no bytes")
    return bytearray(content)


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((key(name), value) for name, value in pairs)


def _counter(counts: Any = ()) -> Counter[Any]:
    if type(counts) is not dict and counts != ():
        raise Damaged("a Counter has no counts")
    return Counter(dict(counts))


def _set(items: Any = ()) -> set[Any]:
    return {key(item) for item in items}


def _size(sizes: Any = ()) -> Size:
    _natural(*sizes)
    return Size(sizes)


def _layout(name: Any) -> Any:
    return {"torch.strided": strided, "torch.sparse_coo": sparse_coo}[name]


def _complex(real: Any, imaginary: Any = 0.0) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise Damaged("a complex number has no parts")
    return complex(real, imaginary)


def _makers() -> dict[tuple[str, str], Callable[..., Any]]:
    rebuild: dict[str, Callable[..., Any]] = {
        "_rebuild_tensor": _tensor,
        "_rebuild_tensor_v2": _tensor_v2,
        "_rebuild_tensor_v3": _tensor_v3,
        "_rebuild_parameter": _parameter,
        "_rebuild_parameter_with_state": _parameter_with_state,
        "_rebuild_meta_tensor_no_storage": _without_values,
    }
    return {
        ("collections", "OrderedDict"): _ordered,
        ("collections", "Counter"): _counter,
        ("builtins", "set"): _set,
        ("builtins", "bytearray"): _bytearray,
        ("builtins", "complex"): _complex,
        ("_codecs", "encode"): _encoded,
        ("torch.serialization", "_get_layout"): _layout,
        ("torch", "Size"): _size,
        ("torch", "device"): device,
        ("torch.nn.parameter", "Parameter"): _parameter,
        ("torch._tensor", "_rebuild_from_type_v2"): _with_attributes,
        **{("torch._utils", name): make for name, make in rebuild.items()},
    }


NAMES: dict[tuple[str, str], Any] = {
    **{place: Maker(make) for place, make in _makers().items()},
    **{("torch", dtype.name): dtype for dtype in (*dtypes.ALL, dtypes.bfloat16)},
    **{(m, name): StorageType(dtype) for dtype, name in STORAGES.items() for m in ("torch", "torch.cuda")},
    ("torch.storage", "UntypedStorage"): StorageType(None),
    ("torch", "Tensor"): Tensor,
    **arrays.NAMES,
}
