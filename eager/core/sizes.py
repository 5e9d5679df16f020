"""Sizes that are not numbers yet: how shape rules treat what stands for any size.

A compiler may run the rules once for many shapes, on objects that stand for a size, do integer
arithmetic and compare (`tracer/ir/symbolic_sizes.py`). Whatever needs a number, as NumPy does, fixes
them.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# What is told of tensors that this thread asks for their sizes, by the thread, where somebody wants to know.
watching_sizes: dict[int, list[Callable[[Any, bool], tuple[int, ...]]]] = {}


def asks_sizes(tensor: Any, flat: bool = False) -> tuple[int, ...]:
    """The shape of a tensor, for which Python asks, or what it would be in one dimension; who wants to know
    is told, and may give numbers that he follows.
    """
    shape: tuple[int, ...] = (tensor.array.size,) if flat else tensor.array.shape
    for told in watching_sizes.get(threading.get_ident(), ())[:]:
        shape = told(tensor, flat)
    return shape


Ints = int | Sequence[int]  # one dimension, size or stride, or several


def unequal(shapes: Sequence[Sequence[Any]]) -> str:
    """In which sizes shapes do not broadcast, in PyTorch's words; "" for those that do."""
    for one, other in itertools.pairwise(shapes):
        rank = max(len(one), len(other))
        for back in range(1, min(len(one), len(other)) + 1):
            n, m = one[-back], other[-back]
            if n != m and 1 not in (n, m):
                return (
                    f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton "
                    f"dimension {rank - back}"
                )
    return ""


class Symbol:
    """What stands for a size."""

    __slots__ = ()

    def number(self) -> Any:
        """The number itself, for those who cannot do without."""
        raise NotImplementedError


def size_of(value: Any) -> Any:
    """`value` as a size: an int, or a symbol as it is. Raises TypeError for a bool and what is no integer."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"expected an int, not the bool {value}")
    return value if isinstance(value, Symbol) else operator.index(value)


def one_of(dim: int | None, axis: int) -> int:
    """A dimension, by its name or by NumPy's. Raises TypeError for both."""
    if dim is not None:
        raise TypeError("got a dimension twice, as 'dim' and as 'axis'")
    return axis


def has_symbols(value: Any) -> bool:
    """Whether there are symbols in a size, a shape, or tuples of these."""
    if isinstance(value, tuple):
        others = [n for n in value if type(n) is not int]
        return bool(others) and any(map(has_symbols, others))
    return isinstance(value, Symbol)


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that operands of these shapes broadcast to. Raises ValueError where they do not fit."""
    rank = max(map(len, shapes), default=0)
    result: list[Any] = [1] * rank
    for shape in shapes:
        for place, n in enumerate(shape, rank - len(shape)):
            known = result[place]
            if known == 1:
                result[place] = n
            elif n != 1 and n != known:
                return np.broadcast_shapes(*shapes)  # which says what does not fit
    return tuple(result)


_MOST_PLACES = np.iinfo(np.int64).max // 8


def checked_count(count: int) -> int:
    """`count` itself. Raises MemoryError for more numbers than memory has places."""
    if count > _MOST_PLACES:
        raise MemoryError(f"cannot allocate {count} numbers")
    return count


def positions(count: int) -> np.ndarray:
    """The numbers below `count`. Raises MemoryError where there is no memory for so many.

    NumPy's own `arange` forgets to ask: of the largest integers it makes no elements at all.
    """
    return np.arange(checked_count(operator.index(count)))


class OpenShape(tuple[Any, ...]):
    """A shape with symbols. Shapes of other ranks differ without a look at their sizes."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


_ROW_MAJOR = np.empty(()).flags


class OpenArray:
    """The array of an abstract tensor of which the sizes are open: it has a type, and no memory."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[Any, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = OpenShape(shape), dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        count: Any = 1
        for n in self.shape:
            count = count * n
        return count

    @property
    def flags(self) -> Any:
        """Those of an array in row-major order, as results of unknown sizes are planned."""
        return _ROW_MAJOR

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


def _whole(size: Any, place: int) -> Any:
    """One of the numbers of a `Size`."""
    if isinstance(size, Symbol):
        return size
    try:
        return operator.index(size)
    except TypeError:
        kind = type(size).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{kind}')") from None


class Size(tuple[int, ...]):
    """A shape; a tuple that prints as PyTorch prints it.

    Raises TypeError for what is no iterable of whole numbers.
    """

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        found = tuple.__new__(cls, sizes)
        for i, size in enumerate(found):
            if type(size) is not int and not isinstance(size, Symbol):
                return tuple.__new__(cls, [_whole(n, i) for i, n in enumerate(found)])
        return found

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return int(np.prod(self, dtype=np.int64))

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return new_size(Size, found) if type(key) is slice else found

    def __mul__(self, count: Any) -> Size:
        return new_size(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Size:
        return new_size(Size, tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return new_size(Size, other + tuple(self))


new_size = tuple.__new__  # of numbers that are known to be whole
