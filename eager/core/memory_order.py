"""In which order the elements of results lie in memory: PyTorch's rules, each of them once.

Programs see it: `view` works or does not, and `as_strided` reads other elements. An op names its rule, which
says for the shape of a result, the operands (what has `shape` and `strides`) and the op's params how the
dimensions follow one another, from the outermost to the innermost; None where they do as they are listed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.sizes import OpenArray

Shape = tuple[int, ...]
Order = tuple[int, ...] | None
Rule = Callable[[Shape, Sequence[Any], dict[str, Any]], Order]
Orders = Rule | tuple[Rule, ...]  # one for all results, or one for each


def rows(shape: Shape, operands: Sequence[Any], params: Any = None) -> Order:
    """In row-major order, however the operands lie."""
    return None


def as_operands(shape: Shape, operands: Sequence[Any], params: Any = None) -> Order:
    """As the first operand that tells: of two dimensions the one with the smaller steps lies further in.

    An operand that is repeated along a dimension says nothing of it.
    """
    if len(shape) < 2 or any(isinstance(x, OpenArray) for x in operands):
        return None
    return _told(shape, tuple([(x.shape, x.strides) for x in operands]))


def as_first(shape: Shape, operands: Sequence[Any], params: Any = None) -> Order:
    """As the first operand lies, but without gaps."""
    first = operands[0]
    if isinstance(first, np.ndarray) and first.flags.c_contiguous:
        return None
    return as_operands(shape, operands[:1])


# Rules by which results lie in rows where all operands do.
AS_OPERANDS: set[Any] = {as_operands, as_first}


def columns(shape: Shape, operands: Sequence[Any], params: Any = None) -> Order:
    """Matrices column by column, as LAPACK has them."""
    n = len(shape)
    return (*range(n - 2), n - 1, n - 2) if n > 1 else None


def channels(*ranks: int, operands: int = 1) -> Rule:
    """The rule: channels (dimension 1) innermost if they are in one of the first operands.

    ranks: of what PyTorch looks at: 3 for batches of signals, 4 of images, 5 of volumes.
    """

    def rule(shape: Shape, given: Sequence[Any], params: Any = None) -> Order:
        kept = len(shape) in ranks and any(map(has_channels_last, given[:operands]))
        return (0, *range(2, len(shape)), 1) if kept else None

    return rule


def has_channels_last(x: Any) -> bool:
    """PyTorch's own test; where there is but one channel, or but one pixel, strides do not tell."""
    if not all(x.shape) or not x.strides[1]:
        return False
    least = 0
    for d in (1, *range(len(x.shape) - 1, 1, -1), 0):
        if x.strides[d] < least or (d == 0 and least == x.strides[1]):
            return False
        least = x.strides[d] * x.shape[d]
    return True


@functools.lru_cache(maxsize=4096)
def _told(shape: Shape, operands: tuple[tuple[Shape, Shape], ...]) -> Order:
    """See `as_operands`. A dimension goes inwards past those that take larger steps, if anybody tells."""
    n = len(shape)
    steps = [_spread(shape, *operand) for operand in operands]
    inner = list(reversed(range(n)))  # from the innermost
    for i in range(1, n):
        at = i
        for other in range(i - 1, -1, -1):
            told = _compared(steps, inner[other], inner[at])
            if told > 0:
                inner[other], inner[at] = inner[at], inner[other]
                at = other
            elif told < 0:
                break
    order = tuple(reversed(inner))
    return None if order == tuple(range(n)) else order


def _spread(shape: Shape, own: Shape, strides: Shape) -> Shape:
    """An operand's steps along the dimensions of `shape`; 0 where it has but one element, or repeats it."""
    moving = [0 if n == 1 else abs(s) for n, s in zip(own, strides, strict=True)]
    return (0,) * (len(shape) - len(own)) + tuple(moving)


def _compared(steps: Sequence[Shape], inner: int, outer: int) -> int:
    """1 where the two dimensions are the wrong way round, -1 where they are not, 0 where nobody tells."""
    for own in steps:
        if own[inner] and own[outer] and own[inner] != own[outer]:
            return 1 if own[inner] > own[outer] else -1
    return 0


def strides_of(shape: Shape, order: Order, step: int) -> Shape:
    """The strides of an array without gaps whose dimensions follow one another so. step: that of elements."""
    strides = [0] * len(shape)
    for d in reversed(range(len(shape)) if order is None else order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def arranged(array: np.ndarray, order: Order) -> np.ndarray:
    """`array` if its elements lie so, without gaps, else a copy in which they do."""
    turned = array if order is None else array.transpose(order)
    if turned.flags.c_contiguous:
        return array
    copied = np.array(turned, order="C")
    return copied if order is None else copied.transpose(np.argsort(order))


def in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that NumPy applies to arrays, with results that lie as its operands tell.

    In NumPy the operands have a vote each, and one for row-major order wins.
    """

    def run(*operands: Any, **params: Any) -> Any:
        for x in operands:
            if isinstance(x, np.ndarray) and not x.flags.c_contiguous:
                return laid_out(operands, params)
        return function(*operands, **params)

    def laid_out(operands: Sequence[Any], params: dict[str, Any]) -> Any:
        arrays = [x for x in operands if isinstance(x, np.ndarray)]
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        order = as_operands(shape, arrays)
        if order is None:
            return _each(function(*operands, **params), lambda made: arranged(made, None))
        turned = [_turned(x, order) if isinstance(x, np.ndarray) else x for x in operands]
        back = np.argsort(order)
        return _each(function(*turned, **params), lambda made: arranged(made, None).transpose(back))

    return run


def cast_as_it_lies(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array in another dtype, or itself; what it repeats is repeated, and says as little of an order."""
    if array.dtype == dtype or 0 not in array.strides:
        return array.astype(dtype, copy=False)
    once = tuple([slice(0, 1) if s == 0 else slice(None) for s in array.strides])
    return np.broadcast_to(array[once].astype(dtype), array.shape)


def _turned(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    return array.reshape((1,) * (len(order) - array.ndim) + array.shape).transpose(order)


def _each(made: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    return tuple([change(m) for m in made]) if type(made) is tuple else change(made)


# What programs call such orders.


class layout:
    """How elements are kept: those of tensors strided, those of sparse tensors by their coordinates."""

    __slots__ = ("name",)

    def __init__(self, name: str = "strided") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided, sparse_coo, jagged = layout("strided"), layout("sparse_coo"), layout("jagged")


class memory_format:
    """An order of elements in memory that programs ask for."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
LAST = {channels_last: 4, channels_last_3d: 5}  # with so many dimensions


def channels_innermost(shape: Shape, operands: Sequence[Any] = (), params: Any = None) -> tuple[int, ...]:
    """Channels (dimension 1) innermost, however the operands lie."""
    return (0, *range(2, len(shape)), 1)


def asked_for(form: memory_format | None, shape: Shape) -> Order:
    """The order that a format asks for. Raises RuntimeError where the shape has another rank."""
    if form not in LAST:
        return None
    if len(shape) != LAST[form]:
        raise failure(RuntimeError, f"required rank {LAST[form]} tensor to use {form.name} format")
    return channels_innermost(shape)


def interleave(strides: Iterable[int], between: int, size: int = 1) -> bool:
    """Whether two views never meet because one lies in the gaps of the other, as parts of complex numbers do.

    strides: of both, along dimensions of more than one element. between: how far one begins behind the other.
    size: of an element.
    """
    step = math.gcd(*strides)
    return size <= between % step <= step - size if step else abs(between) >= size
