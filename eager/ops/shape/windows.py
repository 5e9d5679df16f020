"""Sliding windows over the last dimensions of an array: what convolutions, pools and `unfold` share.

A `Window` is a parameter of these ops: kernel size, stride, padding and dilation of each dimension.
The number of windows is said apart, since several numbers of windows can have one input size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.sizes import size_of

Sizes = tuple[int, ...]
Window = tuple[tuple[int, int, int, int], ...]


def elements_of(window: Window) -> int:
    """How many elements a window has."""
    return math.prod(k for k, _, _, _ in window)


def places_of(window: Window) -> Iterator[tuple[int, ...]]:
    """The places within a window, in row-major order."""
    return itertools.product(*(range(k) for k, _, _, _ in window))


# What users write.


def numbers(value: Any, rank: int, name: str, what: str) -> Sizes:
    """The argument `what` of `name`: one integer for each of `rank` dimensions, or one for all.

    Raises RuntimeError for another count, TypeError for what are no integers.
    """
    given = value if isinstance(value, (list, tuple)) else (value,)
    try:
        sizes = tuple([v if type(v) is int else size_of(v) for v in given])
    except TypeError:
        raise failure(TypeError, f"{name}: {what} must be integers, but got {value!r}") from None
    if len(sizes) == rank:
        return sizes
    if len(sizes) != 1:
        raise failure(RuntimeError, f"{name}: {what} must have {rank} numbers (or one), but got {value!r}")
    return sizes * rank


def window_of(
    name: str, rank: int, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Window:
    """The arguments as a `Window`; raises RuntimeError for numbers that are too small."""
    columns = []
    for what, value, least in (
        ("kernel_size", kernel, 1),
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("dilation", dilation, 1),
    ):
        sizes = numbers(value, rank, name, what)
        if what == "stride" and min(sizes) == 0:
            raise failure(RuntimeError, f"{name}: stride should not be zero, but got {value!r}")
        if min(sizes) < least:
            raise failure(RuntimeError, f"{name}: {what} must be at least {least}, but got {value!r}")
        columns.append(sizes)
    return tuple(zip(*columns, strict=True))


def check_batch(name: str, size: Sizes, rank: int) -> None:
    """Raise RuntimeError unless `size` is [N, C, *sizes] or [C, *sizes]; only N may be 0."""
    if len(size) not in (rank + 1, rank + 2) or not math.prod(size[-rank - 1 :]):
        raise failure(
            RuntimeError,
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size "
            f"for input, but got {list(size)}. Expected input to have non-zero size for non-batch dimensions",
        )


def of_each_rank(
    name: str, doc: str, make: Callable[[str, int], Callable[..., Any]], ranks: Sequence[int] = (1, 2, 3)
) -> list[Callable[..., Any]]:
    """The public functions that `make(name, rank)` gives for 1, 2 and 3 dimensions.

    name: with `{}` for the rank.
    """
    functions = []
    for rank in ranks:
        title = name.format(rank)
        function = renamed(make(title, rank), title)
        function.__doc__ = f"{doc} Source: `torch.nn.functional.{title}`."
        functions.append(function)
    return functions


# How many, and where.


def counts(size: Sequence[int], window: Window, ceil: bool = False) -> Sizes:
    """How many windows fit along each dimension; below 1 where none does.

    ceil: count a last window that hangs over the end, if it starts within the input or the padding
    before.
    """
    result = []
    for n, (k, s, p, d) in zip(size, window, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil else 0)) // s + 1
        if ceil and (count - 1) * s >= n + p:
            count -= 1
        result.append(count)
    return tuple(result)


def reach(count: Sizes, window: Window) -> Sizes:
    """The size that `count` windows cover."""
    return tuple((c - 1) * s + d * (k - 1) + 1 for c, (k, s, _, d) in zip(count, window, strict=True))


def whole_size(size: Sizes, count: Sizes, window: Window) -> Sizes:
    """The size of the padded input: at least what the windows cover."""
    covered = reach(count, window)
    return tuple(max(n + w[2], r) for n, w, r in zip(size, window, covered, strict=True))


def padded(x: np.ndarray, count: Sizes, window: Window, value: Any = 0) -> np.ndarray:
    """`x` with padding around its last dimensions (the array itself where there is none)."""
    size = x.shape[-len(window) :]
    whole = whole_size(size, count, window)
    if whole == size:
        return x
    shape = x.shape[: -len(window)] + whole
    result = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    inside(result, size, window)[...] = x
    return result


def inside(whole: np.ndarray, size: Sizes, window: Window) -> np.ndarray:
    """The view of a padded array that lies within the padding."""
    index: Any = (..., *(slice(w[2], w[2] + n) for n, w in zip(size, window, strict=True)))
    return whole[index]


def windows(x: np.ndarray, count: Sizes, window: Window) -> np.ndarray:
    """All windows of the padded array, as a view [..., *kernel, *count]."""
    rank = len(window)
    lead, steps = x.strides[:-rank], x.strides[-rank:]
    within = (step * d for step, (_, _, _, d) in zip(steps, window, strict=True))
    between = (step * s for step, (_, s, _, _) in zip(steps, window, strict=True))
    kernel = (w[0] for w in window)
    return as_strided(x, (*x.shape[:-rank], *kernel, *count), (*lead, *within, *between))


def offsets(count: Sizes, window: Window) -> Iterator[tuple[Sizes, Any]]:
    """Each place within a window, in row-major order, and the index of it in all windows at once."""
    for place in itertools.product(*(range(w[0]) for w in window)):
        slices = (
            slice(o * d, o * d + (c - 1) * s + 1, s)
            for o, c, (_, s, _, d) in zip(place, count, window, strict=True)
        )
        yield place, (..., *slices)


def blocks(count: int, elements: int, most: int = 1 << 18) -> Iterator[slice]:
    """0..count in runs, each of about `most` elements at `elements` a piece: memory that a cache holds."""
    step = min(max(most // max(elements, 1), 1), max(count, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
