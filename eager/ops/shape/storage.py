"""Where tensors lie in the memory that they share with others, counted in elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core import shared
from fusegrad.eager.core.families import Layout, View
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method


def memory_of(array: np.ndarray) -> np.ndarray:
    """The memory that `array` is a view of, as a vector of elements of its dtype."""
    owner = shared.owner(array)
    in_memory = owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d]))
    if not in_memory.flags.c_contiguous:
        return array if array.flags.c_contiguous else np.array(array)
    storage = in_memory.reshape(-1)
    if storage.dtype != array.dtype:
        before = (array.ctypes.data - storage.ctypes.data) % array.itemsize
        count = (storage.nbytes - before) // array.itemsize
        storage = np.ndarray((count,), array.dtype, storage.view(np.uint8), before)
    return storage


def place_in(array: np.ndarray, storage: np.ndarray) -> int:
    """How many elements lie before those of `array` in its memory."""
    return (array.ctypes.data - storage.ctypes.data) // array.itemsize


@method
def storage_offset(input: Tensor) -> int:
    """Where the first element lies in the memory, in elements. Source: `torch.Tensor.storage_offset`."""
    reach(input)
    array, offset = input.array, 0
    if not array.size and type(input.alias) is tuple:
        # NumPy does not know where an array without elements begins: the steps that lead there say it.
        base, steps, _ = input.alias
        array = base.array
        layout: Layout | None = layout_of(array)
        for op, params in steps:
            layout = op.layout(layout, **params) if layout is not None and isinstance(op, View) else None
        offset = 0 if layout is None else layout.offset
    return offset + (place_in(array, memory_of(array)) if array.size else 0)


def layout_of(array: np.ndarray) -> Layout:
    """How the elements of an array lie, counted from its first one."""
    return Layout(array.shape, tuple(s // array.itemsize for s in array.strides), 0)


def positions(layout: Layout) -> np.ndarray:
    """Where in memory each element of a layout lies."""
    place: Any = np.asarray(layout.offset, dtype=np.int64)
    for n, stride in zip(layout.shape, layout.strides, strict=True):
        place = place[..., None] + stride * np.arange(n)
    return place
