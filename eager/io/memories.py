"""The memories that the tensors of a file lie in: where each begins and ends, and which tensors share one."""

from __future__ import annotations

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY, DType
from fusegrad.eager.core.errors import failure

TWO_KINDS = "Cannot save multiple tensors or storages that view the same data as different types"


class Memory:
    """A part of memory that tensors lie in, from byte `start` to byte `stop`."""

    def __init__(self, start: int, stop: int, array: np.ndarray, dtype: DType) -> None:
        self.start, self.stop, self.dtype = start, stop, dtype
        self.arrays = [array]
        self.key = -1

    def bytes(self) -> memoryview:
        """The bytes, gaps between its tensors included."""
        if len(self.arrays) == 1 and self.arrays[0].flags.c_contiguous:
            content = self.arrays[0].reshape(-1)
        else:
            content = np.zeros(self.stop - self.start, np.uint8)
            for array in self.arrays:
                place = address(array) - self.start
                view = np.ndarray(array.shape, array.dtype, content, place, array.strides)
                view[...] = array
        return memoryview(content.view(np.uint8))  # type: ignore[arg-type]


def address(array: np.ndarray) -> int:
    """Where the first element is."""
    return array.__array_interface__["data"][0]


def _bounds(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array) if array.size else (address(array), address(array))


class Memories:
    """The memories of all tensors of a file; those that overlap are one."""

    def __init__(self) -> None:
        self.kept: list[Memory] = []
        self._arrays: list[tuple[np.ndarray, DType]] = []

    def note(self, array: np.ndarray, dtype: DType | None = None) -> int:
        """There is such an array, in memory of this dtype. Gives the number by which it is asked for."""
        self._arrays.append((array, dtype or FROM_NUMPY[array.dtype]))
        return len(self._arrays) - 1

    def joined(self) -> list[Memory]:
        """The memory of each array that was noted: one of what overlaps and has elements that fall together.

        Raises RuntimeError where a memory is of two dtypes.
        """
        arrays, last = self._arrays, None
        of: list[Memory] = [None] * len(arrays)  # type: ignore[list-item]
        for start, stop, number in sorted((*_bounds(a), n) for n, (a, _) in enumerate(arrays)):
            array, dtype = arrays[number]
            overlaps = last is not None and start < last.stop
            if last is not None and overlaps and dtype is not last.dtype:
                raise failure(RuntimeError, TWO_KINDS)
            if last is not None and overlaps and (start - last.start) % dtype.itemsize == 0:
                last.stop = max(last.stop, stop)
                last.arrays.append(array)
            else:
                last = Memory(start, stop, array, dtype)
            of[number] = last
        for memory in of:  # numbered as they are met
            if memory.key < 0:
                memory.key = len(self.kept)
                self.kept.append(memory)
        return of


def fitting(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where its steps are backwards or between elements, which PyTorch has not."""
    step = array.dtype.itemsize
    fits = array.dtype.isnative and all(s >= 0 and s % step == 0 for s in array.strides)
    return array if fits else np.ascontiguousarray(array, array.dtype.newbyteorder("="))
