"""Arrays that become tensors: one that stands for a symbol goes into a function of ours; an input of the
graph comes out, whose values a replay finds anew.

    fg.from_numpy(x)           the memory of the array that lies there now
    fg.tensor(x / 255.0)       the function of ours called again, for what NumPy gives
    w * x                      as `w * fg.from_numpy(x)`
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.shared import is_same
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import from_numpy
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.arrays import of_tensors
from fusegrad.tracer.observe.arrays.known import applied, symbol_of, symbols_in
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.symbols import Symbol, computed
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer


# What makes an input of a value, and whether its tensor has the memory of an array from outside.
Made = tuple[Callable[[Value], Host], bool]


class ArrayInput(Host):
    """The values of a tensor that a function of ours makes of arrays."""

    def __init__(self, value: Value, symbol: Symbol, strides: tuple[int, ...], lent: bool) -> None:
        """symbol: stands for the tensor. strides: of its memory when it was recorded."""
        self.value, self.takes, self.strides, self.lent = value, (symbol,), strides, lent

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray | None:
        found = numbers[0].array
        is_like = (found.shape, found.dtype, found.strides) == (*self._type, self.strides)
        return np.ascontiguousarray(found).reshape(found.shape) if is_like else None

    def found(self, leaves: Sequence[Any]) -> np.ndarray:
        """A copy of the values now, of a call whose arguments have these leaves."""
        return np.array(self.takes[0].find(leaves).array, order="C")

    @property
    def _type(self) -> tuple[Any, ...]:
        return self.value.shape, self.value.dtype

    def key(self) -> Any:
        return ("array", id(self.takes[0]), self.strides, self.lent, self._type)


class Bringing:
    """The call of a function of ours that gets arrays which stand for symbols.

    made: the tensor that it has made of what it has copied out of them.
    """

    def __init__(
        self, observer: Observer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._observer, self._call = observer, (function, args, kwargs)
        self._given = [*symbols_in(observer, (*args, *kwargs.values()))]
        self.made: Tensor | None = None

    def made_of(self, tensor: Tensor) -> Made | None:
        """What makes the input of a tensor that was made of data; None if that is a constant."""
        make = functools.partial(ArrayInput, strides=tensor.array.strides)
        for array, symbol in self._given:
            if is_same(tensor.array, array):
                symbol = computed(from_numpy, (symbol,), Tensor)
                return functools.partial(make, symbol=symbol, lent=True), True
        function, args, kwargs = self._call
        self.made = tensor
        if not all(_is_fit(value) for value in (*args, *kwargs.values())):
            return None
        symbol = applied(self._observer, function, args, kwargs, Tensor)
        return functools.partial(make, symbol=symbol, lent=False), False


def _is_fit(value: Any) -> bool:
    """Whether a replay can give the same operand again."""
    if type(value) in (list, tuple):
        return all(map(_is_fit, value))
    return is_plain(value) or type(value) is np.ndarray or purity.is_static(value)


def brought(
    observer: Observer,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    site: Site,
    call: Callable[[], Any],
) -> Any:
    """What `call` gives, which calls a function of ours with arrays among its operands."""
    before, observer.arrays.bringing = observer.arrays.bringing, Bringing(observer, function, args, kwargs)
    try:
        result = call()
        made = observer.arrays.bringing.made
    finally:
        observer.arrays.bringing = before
    if made is None or not (isinstance(result, Tensor) and result.array is made.array):
        if made is not None:  # with which it has done something else
            observer.open(f"passes to `{getattr(function, '__name__', 'a function')}` a NumPy array", site)
        observer.numbers.look(*args, *kwargs.values())
    return result


def as_index(observer: Observer, key: Any, site: Site) -> Any:
    """An index of a tensor, with tensors in place of the arrays in it that stand for symbols."""
    if type(key) is tuple:
        return tuple([as_index(observer, part, site) for part in key])
    owner = of_tensors.owner_of(observer, key) if isinstance(key, (np.ndarray, np.integer)) else None
    if owner is not None:
        return owner
    if not (type(key) is np.ndarray and symbol_of(observer, key) is not None):
        return key
    return brought(observer, from_numpy, (key,), {}, site, functools.partial(from_numpy, key))


def made_of(observer: Observer, tensor: Tensor) -> Made | None:
    """As `Bringing.made_of`, of the call that is under way."""
    bringing = observer.arrays.bringing
    return None if bringing is None else bringing.made_of(tensor)
