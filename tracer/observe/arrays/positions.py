"""Whole numbers that are others at each call, in an index of a tensor.

    source[i : i + length]     rows[t]     cache[:, position] = key

Where a replay follows what a number is, the index is by what a tensor without dimensions holds then: a part
is selected, and a slice, whose length must stay what it is, is one of the windows of its length.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core.dtypes import int64
from fusegrad.eager.core.shared import owner
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import full, zeros
from fusegrad.eager.ops.create.spaced import arange
from fusegrad.tracer.observe.numbers import standing_for

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

_BASIC = (int, slice, type(None), type(Ellipsis))
_WHOLE = slice(None)
# A replay that may be derived writes a tensor anew, of this size in the time in which the body runs.
_MOST_COPIED = 1 << 22
_NUMBERS = (int,), (int, float)  # that tensors of whole numbers, and of floats, take as they are


class _Part(NamedTuple):
    """An entry of an index that is followed: where it stands, the dimension that it is about, from where on
    it takes elements, and how many; 0 for one element, without its dimension.
    """

    place: int
    dim: int
    start: int
    length: int


def item(observer: Observer, tensor: Tensor, key: Any) -> tuple[Tensor, Any]:
    """What to index, and by what, in place of `tensor[key]`: the same where a number has to be known."""
    entries, parts = key if type(key) is tuple else (key,), _parts(observer, tensor, key)
    interpreter = state.interpreter
    if not parts or interpreter is None or (tensor.needs_grad and any(part.length for part in parts)):
        return tensor, key
    found = [*entries]
    for place, dim, start, length in parts:
        at = _position(observer, start)
        found[place] = at
        if length:
            tensor, found[place] = interpreter.window(tensor, at, dim, length), _WHOLE
    return tensor, tuple(found)


def store(observer: Observer, tensor: Tensor, key: Any, value: Any) -> bool:
    """Do `tensor[key] = value` so that a replay can with another number; whether it could be done."""
    if tensor.array.nbytes > _MOST_COPIED and getattr(state.interpreter, "tracked", True):
        return False
    parts = _parts(observer, tensor, key)
    if type(value) in _NUMBERS[tensor.array.dtype.kind == "f"]:
        value = full((), value, dtype=tensor.dtype)
    if len(parts) != 1 or not isinstance(value, Tensor) or value.dtype != tensor.dtype:
        return False
    if not value.array.size:
        return False
    if owner(value.array) is owner(tensor.array):
        value = value.clone()  # which is read before anything is written
    ((place, along, start, length),) = parts
    if start < 0:
        start = observer.numbers.compute(operator.add, (start, tensor.array.shape[along]))
    entries = [*key] if type(key) is tuple else [key]
    entries[place] = _WHOLE
    rest = tensor if entries == [_WHOLE] else tensor[tuple(entries)]
    before = entries[:place]
    dim = sum(type(entry) is not int for entry in before)
    if Ellipsis in before:
        dim = rest.array.ndim - sum(type(entry) is not int for entry in entries[place:])
    shape = [*rest.array.shape]
    shape[dim : dim + 1] = [length] if length else []
    try:
        value = value.expand(shape)
    except RuntimeError:
        return False  # the error is for the write to raise
    position = _position(observer, start)
    index = position + arange(length) if length else position.reshape(1)
    rest.index_copy_(dim, index, value if length else value.unsqueeze(dim))
    return True


def _parts(observer: Observer, tensor: Tensor, key: Any) -> list[_Part]:
    """The entries of an index that can be followed; none where one has to be known."""
    numbers = observer.numbers
    entries = key if type(key) is tuple else (key,)
    avoids = "positions" in getattr(state.interpreter, "avoided", ("positions",))
    if not numbers.has(key) or avoids or not all(type(entry) in _BASIC for entry in entries):
        return []
    found = []
    for place, entry in enumerate(entries):
        if numbers.has(entry):
            dim = _dim_of(entries, place, tensor.array.ndim)
            size = tensor.array.shape[dim] if 0 <= dim < tensor.array.ndim else 0
            start, length = (entry, 0) if type(entry) is int else _stretch(observer, entry, size)
            if not -size <= start < size or not numbers.any_given((start,)):
                return []
            found.append(_Part(place, dim, start, length))
    return found


def _stretch(observer: Observer, part: slice, size: int) -> tuple[int, int]:
    """Where a slice begins, and how many elements it has, which is known from now on; otherwise where none
    are.
    """
    numbers, start, stop = observer.numbers, part.start, part.stop
    nowhere = size, 0
    if part.step not in (None, 1) or type(start) is not int or type(stop) is not int:
        return nowhere
    if not numbers.any_given((start,)) or not numbers.any_given((stop,)) or not 0 <= start < stop <= size:
        return nowhere
    length = numbers.compute(operator.sub, (stop, start))
    numbers.look(length)
    numbers.compute(operator.ge, (start, 0))
    return start, int(length)


def _dim_of(entries: tuple[Any, ...], place: int, ndim: int) -> int:
    """The dimension that an entry of an index is about."""
    before = entries[:place]
    if Ellipsis not in before:
        return sum(entry is not None for entry in before)
    return ndim - sum(entry is not None for entry in entries[place:])


def _position(observer: Observer, number: int) -> Tensor:
    """A tensor that holds a number, in a replay too."""
    made: Tensor = zeros((), dtype=int64) + standing_for(number, observer.numbers)
    reach(made)
    return made
