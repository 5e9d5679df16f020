"""Sums in NumPy that keep their digits: what the reductions' NumPy functions call.

`np.add.reduce` adds pairwise (with an error that grows with the logarithm of the count) only along
the innermost run of memory. Along other dimensions it adds row after row: ten million ones in
float32, summed along the first dimension, stop at 2**24. `total` shortens such dimensions first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

add: Callable[..., Any] = np.add.reduce

_BLOCK = 16  # elements that are added one after the other
_LONG = _BLOCK * _BLOCK  # so many rows, or more, are shortened
_WIDE = 256  # bytes between neighbours from which a block of them is read row by row

Axis = int | tuple[int, ...] | None


def total(x: np.ndarray, axis: Axis = None, keepdims: bool = False) -> Any:
    """The sum over `axis` in the dtype of `x`."""
    if x.size > _LONG and x.dtype.kind in "fc":
        x = _shortened(x, axis)
    return add(x, axis=axis, keepdims=keepdims)


def count(shape: tuple[int, ...], axis: Axis) -> int:
    """How many elements a reduction over `axis` combines."""
    return math.prod(shape if axis is None else (shape[a] for a in _axes(axis)))


def average(x: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """The mean over `axis`; NaN of no elements."""
    return total(x, axis, keepdims) / x.dtype.type(count(x.shape, axis))


def _axes(axis: int | tuple[int, ...]) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else axis


def _shortened(x: np.ndarray, axis: Axis) -> np.ndarray:
    """`x` with sums of blocks in place of elements along the long axes that NumPy would go row by row."""
    if axis is None and x.flags.forc:
        return x
    reduced = tuple(range(x.ndim)) if axis is None else _axes(axis)
    pairwise = _innermost_run(x, reduced)
    rows = tuple(a for a in reduced if a not in pairwise)
    if count(x.shape, rows) < _LONG:
        return x
    for a in rows:
        while x.shape[a] >= 2 * _BLOCK:
            x = _blocks_added(x, a)
    return x


def _innermost_run(x: np.ndarray, reduced: tuple[int, ...]) -> list[int]:
    """The reduced axes that lie innermost in memory without gaps: NumPy walks them as one."""
    run: list[int] = []
    length = 0
    steps = [abs(s) for s in x.strides]
    for a in sorted((a for a in range(x.ndim) if x.shape[a] > 1), key=lambda a: steps[a]):
        if a not in reduced or (run and steps[a] != length):
            break
        run.append(a)
        length = steps[a] * x.shape[a]
    return run


def _blocks_added(x: np.ndarray, axis: int) -> np.ndarray:
    """`x` with a sixteenth of the elements along `axis`, each the sum of a block."""
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    blocks = n // _BLOCK
    head, tail = np.split(x, [blocks * _BLOCK], axis)
    if abs(x.strides[axis]) >= _WIDE:  # neighbours, so that the sums stay in the cache
        parts = add(head.reshape(*before, blocks, _BLOCK, *after), axis=axis + 1)
    else:  # elements far apart, so that the inner loop is long
        parts = add(head.reshape(*before, _BLOCK, blocks, *after), axis=axis)
    parts[(slice(None),) * axis + (slice(1),)] += add(tail, axis=axis, keepdims=True)
    return parts
