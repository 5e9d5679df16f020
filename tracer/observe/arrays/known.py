"""What a run knows of NumPy's arrays: which are constants, and which stand for symbols.

An array from outside (an argument, a global, an attribute) may hold something else at each call, and nobody
hears of a write. So it stands for a symbol (`symbols.py`), as numbers do that are known to change: a replay
takes the array that lies where the run found it, and NumPy's functions are called again on that.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.eager.core.shared import owner
from fusegrad.tracer.observe.conditions import Held
from fusegrad.tracer.observe.numbers import Taken
from fusegrad.tracer.observe.symbols import NUMBERS, Asked, Given, Symbol, computed, given, places
from fusegrad.tracer.observe.values import MISSING, hold, is_plain, plain_key

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer


class Varies(NamedTuple):
    """Stands in operands for the next one that varies: an array, or what is made of it."""

    made: Callable[[np.ndarray], Any] | None

    def __repr__(self) -> str:
        return "_" if self.made is None else "_.item()" if self is _AS_PYTHONS else "_[()]"


_AS_ARRAY, _AS_PYTHONS = Varies(None), Varies(np.ndarray.item)
_AS_NUMPYS = Varies(operator.itemgetter(()))


def varies_as(kind: type) -> Varies:
    """For an operand of a class: an array, one of NumPy's numbers, or one of Python's."""
    if issubclass(kind, np.ndarray):
        return _AS_ARRAY
    return _AS_NUMPYS if issubclass(kind, np.generic) else _AS_PYTHONS


class Arrays:
    """The arrays of one run, by id; they are kept, so that ids stay their own.

    known: the arrays from outside whose contents replays compare. bringing: while a function of ours is
    called that gets arrays which stand for symbols (`into_tensors.py`).
    """

    def __init__(self) -> None:
        self._constant: dict[int, np.ndarray] = {}
        self._symbols: dict[int, tuple[np.ndarray, Symbol]] = {}
        self.known: set[Symbol] = set()
        self.bringing: Any = None

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._constant

    def add(self, array: np.ndarray) -> None:
        """Note a constant."""
        self._constant[id(array)] = array

    def give(self, array: np.ndarray) -> bool:
        """Someone else gets an array, and may write into its memory; whether it was a constant until now."""
        is_constant = array in self
        if is_constant:
            memory = owner(array)
            self._constant = {i: a for i, a in self._constant.items() if owner(a) is not memory}
        return is_constant

    def follow(self, array: np.ndarray, symbol: Symbol) -> np.ndarray:
        """Note what an array stands for, unless it stands for something; gives it."""
        self._symbols.setdefault(id(array), (array, symbol))
        return array

    def follow_argument(self, leaf: Any, place: int, name: str) -> None:
        """Note that an array is the leaf number `place` of the call's arguments."""
        if is_numbers(leaf):
            self.follow(leaf, given(("leaf", place), place, np.ndarray, f"argument `{name}`"))

    def symbol(self, array: Any) -> Symbol | None:
        """What an array stands for."""
        found = self._symbols.get(id(array))
        return None if found is None else found[1]

    def is_argument(self, value: Any) -> bool:
        """Whether an array is a leaf of the arguments: the next call may bring another one."""
        symbol = self.symbol(value)
        return isinstance(symbol, Given) and isinstance(symbol.place, int)

    def outside(self) -> Iterator[tuple[Given, np.ndarray]]:
        """The arrays that were there before the run, as far as it has used them."""
        for array, symbol in self._symbols.values():
            if isinstance(symbol, Given):
                yield symbol, array

    def clear(self) -> None:
        """Forget them."""
        self._constant.clear()
        self._symbols.clear()
        self.known.clear()


def is_numbers(value: Any) -> bool:
    """Whether a value is an array of numbers, and not of a subclass, which may have code of its own."""
    return type(value) is np.ndarray and value.dtype.kind in "biufc"


def array_key(array: np.ndarray) -> tuple[Any, ...]:
    """The key of an array: a replay asks by itself for what it holds."""
    return np.ndarray, array.shape, array.dtype, array.strides, array.flags.writeable


def symbol_of(observer: Observer, value: Any) -> Symbol | None:
    """What an array stands for that is no constant, or a number that was found in one; an array that lives
    outside is followed from now on.
    """
    if not is_numbers(value) or value in observer.arrays:
        return observer.numbers.symbol_of(value) if isinstance(value, (np.number, *NUMBERS)) else None
    found = observer.arrays.symbol(value)
    if found is None and observer.is_outer(value) and observer.numbers.of(value) is None:
        found = given(("array", id(value)), Held(hold(value)), np.ndarray, _words(observer, value))
        observer.arrays.follow(value, found)
    return found


def _words(observer: Observer, array: np.ndarray) -> str:
    """What people call an array: the place where the run has found it."""
    found = (read for read in observer.reads if read.found_object() is array)
    return next((read.subject() for read in found), "a NumPy array")


def any_symbol(observer: Observer, values: Sequence[Any]) -> bool:
    """Whether there is an array that stands for a symbol among values, or in lists and tuples of them."""
    return any(True for _ in symbols_in(observer, values))


def symbols_in(observer: Observer, values: Sequence[Any]) -> Iterator[tuple[np.ndarray, Symbol]]:
    """The arrays that stand for symbols among values, and in lists and tuples of them."""
    for value in values:
        symbol = symbol_of(observer, value)
        if symbol is not None:
            yield value, symbol
        elif type(value) in (list, tuple):
            yield from symbols_in(observer, value)


# ---------------------------------------------------------------------------------- what is asked


# So many bytes are compared about as fast as one element is asked for.
SMALL = 4096


def contents(array: np.ndarray) -> tuple[Any, ...]:
    """What an array holds."""
    return array.shape, array.dtype.str, array.tobytes()


contents.words = "what {} holds"  # type: ignore[attr-defined]


def number(observer: Observer, symbol: Symbol, found: Any) -> Any:
    """What the run gets in place of a plain value that it finds in arrays: one that stands for a symbol, so
    that it is asked for when somebody looks at it.

    What small arrays hold that are no arguments is likely to stay, so replays compare all of that at once,
    where the value is made of nothing else.
    """
    needed, outside = [*places([symbol])], dict(observer.arrays.outside())
    if all(p in outside and _is_likely_to_stay(p) and outside[p].nbytes <= SMALL for p in needed):
        for place in needed:
            ask_contents(observer, place, outside[place])
        return found
    if type(found) in NUMBERS:
        return observer.numbers.stand_for(symbol, found)
    if isinstance(found, np.number):
        asked = functools.partial(observer.numbers.asked, symbol, found)
        return observer.numbers.follow(Taken(found, asked, symbol=symbol))
    observer.numbers.asked(symbol, found)
    return found


def _is_likely_to_stay(place: Given) -> bool:
    """Whether an array is none of the arguments, and not drawn anew at each call."""
    return not isinstance(place.place, int) and not isinstance(place, Asked)


def ask_kind(observer: Observer, getter: Callable[[Any], Any], array: np.ndarray) -> Any:
    """What is asked of an array besides its elements; that of arguments is in the key of the call."""
    found, symbol = getter(array), symbol_of(observer, array)
    if symbol is not None and symbol not in observer.arrays.known and not observer.arrays.is_argument(array):
        observer.numbers.asked(computed(getter, (symbol,), type(found)), found)
    return found


def ask_contents(observer: Observer, symbol: Symbol, array: np.ndarray) -> None:
    """Replays ask whether an array holds what it held."""
    if symbol not in observer.arrays.known:
        observer.arrays.known.add(symbol)
        observer.numbers.asked(computed(contents, (symbol,), tuple), contents(array))


# ---------------------------------------------------------------------------------- what is computed again


class Applied:
    """A function with its constant operands: to be called with those that vary, in order.

    Two are equal if they are sure to give the same.
    """

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, key: Any) -> None:
        self.function, self.args, self.kwargs, self._key = function, args, kwargs, (function, *key)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *varying: Any) -> Any:
        rest = iter(varying)
        args = _filled(self.args, rest)
        return self.function(*args, **{name: _filled(value, rest) for name, value in self.kwargs.items()})

    def __repr__(self) -> str:
        """As it is called: `numpy.median(_, axis=1)`. Constant arrays are told apart by their addresses."""
        named = [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return f"{_path_of(self.function)}({', '.join([*map(_text, self.args), *named])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Applied) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _path_of(function: Any) -> str:
    """What nothing else is called that NumPy and SciPy have."""
    name = getattr(function, "__qualname__", None)
    if name is None:
        return repr(function)
    module = getattr(function, "__module__", None)
    if module is None and type(function) is np.ufunc:
        module = "numpy" if vars(np).get(name) is function else "scipy.special"
    return name if module is None else f"{module}.{name}"


def _text(template: Any) -> str:
    if type(template) in (list, tuple):
        return f"{type(template).__name__}({', '.join(map(_text, template))})"
    return f"array at {id(template):x}" if isinstance(template, np.ndarray) else repr(template)


def _filled(template: Any, rest: Iterator[Any]) -> Any:
    if type(template) is Varies:
        return next(rest) if template.made is None else template.made(next(rest))
    if type(template) in (list, tuple):
        return type(template)([_filled(item, rest) for item in template])
    return template


def applied(
    observer: Observer,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    kind: type,
) -> Symbol:
    """The symbol of what a function gives for operands of which some stand for symbols, the others being
    constants. kind: the class of that.
    """
    if not kwargs and all(is_plain(x) or symbol_of(observer, x) is not None for x in args):
        return computed(function, [symbol_of(observer, x) or x for x in args], kind)
    operands: list[Symbol] = []
    keys: list[Any] = []
    template = functools.partial(_template, observer, operands, keys)
    varying = template(tuple(args)), {name: template(value) for name, value in kwargs.items()}
    made = Applied(function, *varying, (*keys, *kwargs))
    return computed(made, operands, kind)


def _template(observer: Observer, operands: list[Symbol], keys: list[Any], value: Any) -> Any:
    """A value with the arrays in it that vary left out; notes these, and what tells it from others."""
    symbol = symbol_of(observer, value)
    if symbol is not None:
        operands.append(symbol)
        keys.append(_AS_ARRAY)
        return _AS_ARRAY
    if type(value) in (list, tuple):
        keys.append((type(value), len(value)))
        return type(value)([_template(observer, operands, keys, item) for item in value])
    if type(value) is np.ndarray:
        value = value.copy()  # what the run does with it later is nothing to replays
    key = plain_key(value)
    keys.append(id(value) if key is MISSING else key)
    return value
