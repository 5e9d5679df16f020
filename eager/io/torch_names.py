"""What the names stand for that files of PyTorch's may use, and how tensors come out of their memories.

These names are all: what a pickle says besides is refused. As `torch.load(weights_only=True)` has it.
"""

from __future__ import annotations

import math
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.places.meta import meta_array
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.io import arrays
from fusegrad.eager.io.pickle_machine import Damaged, Maker, key, made, plain_attributes
from fusegrad.eager.nn.parameter import Parameter

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


class Storage:
    """A memory of a file: its bytes, the dtype of its elements, and the tensor that views of it come from."""

    def __init__(self, memory: np.ndarray, dtype: DType | None) -> None:
        self.memory, self.dtype = memory, dtype
        self.whole = wrap(memory)
        self.filled(memory)

    def filled(self, content: Any) -> None:
        """Put `content` into the memory; as truth values, all bytes but 0 are 1."""
        read = np.frombuffer(content, np.uint8)
        self.memory[...] = read != 0 if self.dtype is dtypes.bool_ else read


def find(module: str, name: str) -> Any:
    """What a name in a pickle stands for. Raises UnpicklingError for all that is not listed."""
    module = {"__builtin__": "builtins"}.get(module, module)
    try:
        return _NAMES[module, name]
    except KeyError:
        pass
    if module in ("torch._utils", "torch") and ("sparse" in name or "quantize" in name or "qtensor" in name):
        raise pickle.UnpicklingError(f"it holds a tensor of a kind that cannot be loaded: {module}.{name}")
    raise pickle.UnpicklingError(
        f"Unsupported global: GLOBAL {module}.{name} is not one of the names that may stand in a file. To "
        "load it would mean to run code that the file names; only tensors and plain values are loaded. Have "
        "the program that wrote it save a state_dict()"
    )


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
    dtype = storage.dtype if type(storage) is Storage else None
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


def _with_attributes(maker: Any, kind: Any, arguments: Any, attributes: Any) -> Tensor:
    """A tensor on which its program has set attributes; what begins with a line was PyTorch's own."""
    if type(maker) is not Maker or type(arguments) is not tuple:
        raise Damaged("a tensor is made by what makes none")
    tensor = made(maker, arguments)
    if not isinstance(tensor, Tensor) or not plain_attributes(attributes, type(tensor)):
        raise Damaged("attributes are set on what is no tensor, or hide what a tensor has")
    vars(tensor).update({name: value for name, value in attributes.items() if not name.startswith("_")})
    return tensor


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, attributes: Any) -> Tensor:
    parameter = _parameter(data, requires_grad)
    if not plain_attributes(attributes, Parameter):
        raise Damaged("attributes of a parameter hide what it has")
    vars(parameter).update({n: value for n, value in attributes.items() if not n.startswith("_")})
    return parameter


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
        ("torch", "Size"): _size,
        ("torch", "device"): device,
        ("torch.nn.parameter", "Parameter"): _parameter,
        ("torch._tensor", "_rebuild_from_type_v2"): _with_attributes,
        **{("torch._utils", name): make for name, make in rebuild.items()},
    }


_NAMES: dict[tuple[str, str], Any] = {
    **{place: Maker(make) for place, make in _makers().items()},
    **{("torch", dtype.name): dtype for dtype in (*dtypes.ALL, dtypes.bfloat16)},
    **{("torch", name): StorageType(dtype) for dtype, name in STORAGES.items()},
    ("torch.storage", "UntypedStorage"): StorageType(None),
    ("torch", "Tensor"): Tensor,
    **arrays.NAMES,
}
