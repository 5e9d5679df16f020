"""The memory that tensors lie in, to be looked at: `untyped_storage()`. NumPy owns it: it stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core import shared
from fusegrad.eager.core.dtypes import FROM_NUMPY, DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.places.device import CPU, META, device
from fusegrad.eager.core.places.meta import MetaArray
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.tensor import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes of a memory that tensors share. As `torch.UntypedStorage`, to read.

    >>> import fusegrad as fg
    >>> x = fg.zeros(2, 3)
    >>> x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()
    (True, 24)
    """

    is_cuda = is_sparse = False

    def __init__(self, owner: np.ndarray) -> None:
        self._owner = owner

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self

    def data_ptr(self) -> int:
        """The address of the first byte."""
        if type(self._owner) is MetaArray or not self._owner.size:
            return 0
        return self._owner.__array_interface__["data"][0]

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._owner.nbytes

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    @property
    def device(self) -> device:
        return META if type(self._owner) is MetaArray else CPU

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return list(self._bytes())

    def __getitem__(self, index: Any) -> Any:
        """A byte, or the storage of a part."""
        if not isinstance(index, slice):
            return self._bytes()[index]
        return UntypedStorage(self._as_bytes()[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The bytes in this memory, for `np.asarray` and `fg.asarray`."""
        return np.array(self._as_bytes(), dtype, copy=copy)

    def _as_bytes(self) -> np.ndarray:
        return self._owner.reshape(-1, order="A").view(np.uint8)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file: read, or, if `shared`, the file's own, which writes change.

        Source: `torch.UntypedStorage.from_file`.
        """
        if shared:
            return cls(np.memmap(filename, np.uint8, "r+", shape=(nbytes,)))
        with open(filename, "rb") as file:
            read = np.frombuffer(bytearray(file.read(nbytes)), np.uint8)
        if read.nbytes < nbytes:
            raise failure(RuntimeError, f"{filename} has {read.nbytes} bytes, and {nbytes} are asked for")
        return cls(read)

    def _bytes(self) -> bytes:
        return self._owner.tobytes("A")

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes on the CPU>"


class TypedStorage(UntypedStorage):
    """The elements of a memory that tensors share, each as `dtype`. As `torch.TypedStorage`, to read.

    >>> import fusegrad as fg
    >>> fg.arange(4)[2:].storage().tolist()
    [0, 1, 2, 3]
    """

    def __init__(self, owner: np.ndarray, dtype: DType) -> None:
        super().__init__(owner)
        self.dtype = dtype

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._owner)

    _untyped_storage = property(untyped)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: Any) -> Any:
        return self._elements()[index].tolist()

    def _elements(self) -> np.ndarray:
        return np.frombuffer(self._bytes(), self.dtype.numpy)

    def __repr__(self) -> str:
        return f"<TypedStorage of {self.size()} {self.dtype} on the CPU>"


def _memory(tensor: Tensor) -> Any:
    """The whole memory that a tensor lies in."""
    if tensor.is_meta:
        return MetaArray(shared.owner(plain(tensor.array)))
    return shared.lend(shared.owner(tensor.array), tensor.version)


@attach
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor lies in, and its views with it. Source: `torch.Tensor.untyped_storage`."""
    return self._leave("untyped_storage", lambda: UntypedStorage(_memory(self)))


@attach
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor lies in, as elements of its dtype. Source: `torch.Tensor.storage`."""
    return self._leave("storage", lambda: TypedStorage(_memory(self), FROM_NUMPY[self.array.dtype]))
