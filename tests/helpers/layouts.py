"""Ways in which the elements of an operand may lie in memory, for fusegrad and torch alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import fusegrad as fg


def _moved(array: np.ndarray, dim: int) -> np.ndarray:
    """With the elements along a dimension side by side."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, dim, -1)), -1, dim)


def _repeated(array: np.ndarray, dim: int) -> np.ndarray:
    """The first element along a dimension in the place of all."""
    return np.broadcast_to(array.take([0], dim), array.shape) if array.size else array


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "turned": lambda x: np.ascontiguousarray(x.T).T if x.ndim else x,
    "first inside": lambda x: _moved(x, 0) if x.ndim > 1 else x,
    "channels last": lambda x: _moved(x, 1) if x.ndim > 2 else x,
    "gaps": lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
    "turned, gaps": lambda x: np.repeat(x.T, 2, -1)[..., ::2].T if x.ndim else x,
    "last expanded": lambda x: _repeated(x, -1) if x.ndim else x,
    "first expanded": lambda x: _repeated(x, 0) if x.ndim else x,
}


def arrangements(inputs: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The inputs in each way that tells them apart: all, the first, the second, or all but the first."""
    yield "rows", list(inputs)
    for name, way in WAYS.items():
        seen = {tuple(x.strides for x in inputs)}
        for which in (slice(None), slice(1), slice(1, 2), slice(1, None)):
            chosen = range(len(inputs))[which]
            laid = [way(x) if i in chosen else x for i, x in enumerate(inputs)]
            strides = tuple(x.strides for x in laid)
            if strides not in seen:
                seen.add(strides)
                yield f"{name} {list(chosen)}", laid


def placed(namespace: Any, array: np.ndarray) -> Any:
    """A tensor of fusegrad or torch that lies as the array does."""
    own = np.array(array)  # which is dense, in the same order
    if array.size == 0 or array.strides == own.strides:
        return namespace.from_numpy(own)
    if 0 in array.strides:
        once = tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)
        return placed(namespace, np.array(array[once])).expand(array.shape)
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize
    memory = np.zeros(last + 1, array.dtype)
    np.ndarray(array.shape, array.dtype, memory, 0, array.strides)[...] = array
    steps = tuple(s // array.itemsize for s in array.strides)
    return namespace.from_numpy(memory).as_strided(array.shape, steps)


def flat(value: Any) -> list[Any]:
    """The tensors of a result."""
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in flat(v)]
    return [value] if hasattr(value, "stride") else []


def seen(value: Any) -> list[Any]:
    """How the tensors of a result lie; along dimensions of one element strides say nothing."""
    return [
        (tuple(s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1), t.is_contiguous())
        for t in flat(value)
        if t.numel()
    ]


def ours(array: np.ndarray) -> fg.Tensor:
    """A tensor of fusegrad that lies as the array does."""
    tensor: fg.Tensor = placed(fg, array)
    return tensor
