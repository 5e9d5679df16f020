"""Tensors of the device `meta`: a shape, a dtype and strides, in memory that is never touched.

`bind` has every op of such tensors answered by its shape and dtype rule (`meta_ops.py`); what goes on the
autograd graph, and what is a view of what, is as on the CPU.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.stand_in import ABOUT_MEMORY, Waits, putting_off

NO_DATA = "Cannot copy out of meta tensor; no data!"
_WORDS = {
    "numpy": "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
    "memory first.",
}
_WORDS["__array__"] = _WORDS["numpy"]
_WITHOUT_VALUES = frozenset({"deepcopy", "pickle", "untyped_storage", "storage"})
_NORESERVE = 0x4000  # Linux's; Python's `mmap` has no name for it before 3.13
LARGE = 1 << 20  # bytes, from which on addresses are asked of the system, and no memory


def _refuse(*_: Any, **__: Any) -> Any:
    raise failure(NotImplementedError, NO_DATA)


def _of_bare(name: str) -> Any:
    return property(lambda self: getattr(self.bare, name))


class MetaArray:
    """What a meta tensor has for an array. It is none, so that nothing of NumPy's can read it.

    bare: an array that lies as it does, for what asks where elements lie (`stand_in.plain`).
    """

    __slots__ = ("__weakref__", "bare")

    shape, dtype, strides, flags = map(_of_bare, ("shape", "dtype", "strides", "flags"))
    ndim, size, itemsize, nbytes = map(_of_bare, ("ndim", "size", "itemsize", "nbytes"))
    base = None

    def __init__(self, bare: np.ndarray) -> None:
        self.bare = bare

    def __len__(self) -> int:
        return len(self.bare)

    def copy(self) -> MetaArray:
        """One with memory of its own."""
        return meta_array(self.shape, self.dtype)

    def transpose(self, *axes: Any) -> MetaArray:
        """The same memory with its dimensions in another order."""
        return MetaArray(self.bare.transpose(*axes))

    def __reduce__(self) -> Any:
        return meta_array, (self.shape, self.dtype)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function in ABOUT_MEMORY:
            return function(*(a.bare if isinstance(a, MetaArray) else a for a in args), **kwargs)
        return _refuse()

    def __getattr__(self, name: str) -> Any:
        if hasattr(np.ndarray, name):
            _refuse()
        raise AttributeError(name)

    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = _refuse
    __array__ = __array_ufunc__ = __getitem__ = __setitem__ = __iter__ = _refuse
    __array_interface__ = property(_refuse)


def leave(door: str, read: Callable[[], Any]) -> Any:
    """What somebody gets who asks a meta tensor for its values, or for its memory."""
    if door in _WITHOUT_VALUES:
        return read()
    if door in _WORDS:
        raise failure(TypeError, _WORDS[door])
    if door == "tolist":
        _refuse()
    raise failure(RuntimeError, "Tensor.item() cannot be called on meta tensors")


class _Meta(Waits):
    """Stands among those that have tensors without values, once there are any, so that ops look at theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = None  # of all threads, and of a forked child's

    def has_waiting(self, tensor: Any) -> bool:
        return False  # there is nothing to be computed

    def reads(self, array: np.ndarray) -> bool:
        return False


_known: list[_Meta] = []


def begin() -> None:
    """Have ops ask from now on whether tensors are meta tensors."""
    if not _known:
        _known.append(_Meta())
        putting_off.add(_known[0])


def meta_array(shape: Sequence[int], dtype: np.dtype, strides: tuple[int, ...] | None = None) -> MetaArray:
    """The array of a new meta tensor; in row-major order unless strides are given."""
    begin()
    size = math.prod(shape) * dtype.itemsize
    memory = _unreserved(size) if size >= LARGE else np.empty(size, np.uint8)
    return MetaArray(np.ndarray(tuple(shape), dtype, memory, 0, strides))


class _Addresses:
    """So many bytes of addresses, of which none is ever used: they are said to be writable, and are not, so
    that a limit of a process's memory does not count them.
    """

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        read = np.frombuffer(mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ), np.uint8)
        self.read = read  # keeps them
        start: int = read.__array_interface__["data"][0]
        self.__array_interface__ = {"data": (start, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _unreserved(size: int) -> Any:
    """So many bytes of addresses, and no memory, where a system can be asked for that."""
    return np.asarray(_Addresses(size)) if sys.platform == "linux" else np.empty(size, np.uint8)
