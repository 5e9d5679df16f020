"""Symbols: Python numbers that are others at each call, as `step(x, lr)` gets them, and what is made of them.
NumPy's arrays, which anybody may write, stand for symbols as well (`arrays/known.py`).

A run computes with numbers of Python as ever; each that is followed (`numbers.py`) stands for a symbol, which
says how a replay comes by the number that it needs in its place: it finds it where the run found it, or calls
the same function of Python on other symbols.

    lr * 0.5 ** 2          Computed(operator.mul, (Given(argument 1), 0.25))

Where the run went on by a comparison, or had to know a number, a replay asks whether that comes out alike
(`Outcome`); where a number was computed with tensors, it is an input of the graph (`Scalar`).

A number that comes out of a tensor stands for a symbol, too, where Python makes of it what no tensor holds:
`f"{loss.item():.3f}"`. That is made again when all is computed, if it never fails (`twin/unfailing.py`).
"""

from __future__ import annotations

import marshal
import math
import operator
import struct
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.conditions import Place
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.values import plain_key, text_of

NUMBERS = (int, float)
# What is computed again: functions of numbers that give numbers, texts, or whether something is true.
_ON_NUMBERS: tuple[Any, ...] = (
    abs, ascii, bool, divmod, float, format, int, max, min, pow, repr, round, str,
    *(getattr(math, name) for name in """
        acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 fabs floor
        fmod hypot isfinite isinf isnan ldexp log log10 log1p log2 pow radians sin sinh sqrt tan tanh trunc
        """.split()),
)  # fmt: skip
ON_NUMBERS = frozenset(_ON_NUMBERS)
# What two floats, or a float and an int, always give a float of.
_FLOATS_OF_FLOATS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.mod})


class Symbol:
    """A Python number that a replay finds or computes; there is one object for one way to come by it.

    kind: the class that the number has. late: whether it is there only when the graph is computed.
    """

    __slots__ = ("__weakref__", "kind", "late")
    kind: type
    late: bool

    def find(self, leaves: Sequence[Any]) -> Any:
        """The number now, of a call whose arguments have these leaves. Raises what finding it raises."""
        raise NotImplementedError


class Given(Symbol):
    """A number that is found in a place: a leaf of the call's arguments, by its number, or a place outside.

    key: what the observer calls the place. words: what people call it.
    """

    __slots__ = ("key", "place", "words")

    def __init__(self, key: Any, place: int | Place, kind: type, words: str) -> None:
        self.key, self.place, self.kind, self.words, self.late = key, place, kind, words, False

    def find(self, leaves: Sequence[Any]) -> Any:
        return leaves[self.place] if isinstance(self.place, int) else self.place.find()

    def __str__(self) -> str:
        return self.words


class Asked(Given):
    """What somebody outside has answered (`world/ahead.py`): another number at each call, of which a replay
    may ask how a comparison comes out, but not that it is what it was.
    """

    __slots__ = ()

    def __init__(self, key: Any, asked: Any, kind: type, words: str) -> None:
        """asked: its `find` asks; it is no place, which could be looked at twice."""
        super().__init__(key, asked, kind, words)


class Holding(Symbol):
    """The number that a value of the graph holds."""

    __slots__ = ("value",)

    def __init__(self, value: Value, kind: type) -> None:
        self.value, self.kind, self.late = value, kind, True

    def __str__(self) -> str:
        return "the number of a tensor"


class Computed(Symbol):
    """What a function of Python gives for symbols and plain numbers."""

    __slots__ = ("function", "operands")

    def __init__(self, function: Callable[..., Any], operands: tuple[Any, ...], kind: type) -> None:
        self.function, self.operands, self.kind = function, operands, kind
        self.late = any(isinstance(x, Symbol) and x.late for x in operands)

    def find(self, leaves: Sequence[Any]) -> Any:
        return self.function(*[x.find(leaves) if isinstance(x, Symbol) else x for x in self.operands])

    @property
    def has_one_kind(self) -> bool:
        """Whether the number is of its class whatever the operands are, if those are of theirs."""
        if self.function in (bool, float) or self.kind is bool:
            return True
        kinds = [x.kind if isinstance(x, Symbol) else type(x) for x in self.operands]
        return self.function in _FLOATS_OF_FLOATS and float in kinds

    def __str__(self) -> str:
        given = ", ".join(str(x) if isinstance(x, Symbol) else repr(x) for x in self.operands)
        words = getattr(self.function, "words", None)  # of functions of ours, which people do not know
        return words.format(given) if words else f"{getattr(self.function, '__name__', 'call')}({given})"


def parts(symbols: Iterable[Symbol]) -> list[Symbol]:
    """The symbols, and those that they are made of, each once."""
    found: dict[Symbol, None] = {}
    pending = [*symbols]
    while pending:
        symbol = pending.pop()
        if symbol not in found:
            found[symbol] = None
            operands = symbol.operands if isinstance(symbol, Computed) else ()
            pending += [x for x in operands if isinstance(x, Symbol)]
    return [*found]


def never_comes_again(symbol: Symbol, found: Any) -> bool:
    """Whether what was found of a symbol follows from a float that somebody outside has answered."""
    asked = (x for x in parts((symbol,)) if isinstance(x, Asked))
    return type(found) is not bool and any(x.kind is float for x in asked)


def places(symbols: Iterable[Symbol]) -> list[Given]:
    """Where the numbers are found that symbols are made of, each once."""
    return [symbol for symbol in parts(symbols) if isinstance(symbol, Given)]


# By what they are made of, whose objects they keep: their addresses stay their own.
_known: weakref.WeakValueDictionary[Any, Symbol] = weakref.WeakValueDictionary()


def given(key: Any, place: int | Place, kind: type, words: str) -> Given:
    """The symbol of a place."""
    found = _known.get((key, kind))
    if not isinstance(found, Given) or not _is_there(found.place):
        found = Given(key, place, kind, words)
        _known[key, kind] = found
    return found


def _is_there(place: int | Place) -> bool:
    """Whether a place can be looked at, so that it is not about an object that is gone."""
    try:
        return isinstance(place, int) or place.find() is not None
    except Exception:
        return False


def computed(function: Callable[..., Any], operands: Sequence[Any], kind: type) -> Computed:
    """The symbol of what a function gives."""
    key = function, kind, *[id(x) if isinstance(x, Symbol) else plain_key(x) for x in operands]
    found = _known.get(key)
    if not isinstance(found, Computed):
        found = _known[key] = Computed(function, tuple(operands), kind)
    return found


def holding(value: Value, kind: type) -> Holding:
    """The symbol of what a value of the graph holds."""
    found = _known.get((id(value), kind))
    if not isinstance(found, Holding) or found.value is not value:
        found = _known[id(value), kind] = Holding(value, kind)
    return found


def fresh(number: Any) -> Any:
    """An object of its own of the same value: others may have the one that was found, and Python has one
    object for each small whole number. Of texts of less than two characters there is one for all.
    """
    if type(number) is str:
        return number[:1] + number[1:]
    if type(number) is float:
        return struct.unpack("<d", struct.pack("<d", number))[0]
    digits, rest = [], abs(number)
    while rest:
        digits.append(rest & 0x7FFF)
        rest >>= 15
    size = len(digits) if number >= 0 else -len(digits)
    return marshal.loads(b"l" + struct.pack(f"<i{len(digits)}H", size, *digits))


class Changing(NamedTuple):
    """Where numbers are known to be others from call to call: leaves of the arguments, which are arguments by
    themselves, and places outside, as the observer calls them.
    """

    leaves: frozenset[int] = frozenset()
    sources: frozenset[Any] = frozenset()


NOTHING_CHANGING = Changing()


# What a replay does with them, in the order of the run.


class Scalar(Host):
    """A number as an input of the graph, of the dtype that the op computes in."""

    def __init__(self, value: Value, symbol: Symbol) -> None:
        self.value, self.symbol = value, symbol

    def key(self) -> Any:
        return ("scalar", id(self.symbol))

    def found(self, leaves: Sequence[Any]) -> np.ndarray:
        """The number now, of a call whose arguments have these leaves."""
        return np.array(self.symbol.find(leaves), self.dtype)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the input."""
        dtype: np.dtype = self.value.dtype
        return dtype


ANYTHING = object()  # an outcome that is right whatever it is


class Outcome(Host):
    """That a number, or a comparison of numbers, comes out as it did; it gives nothing to the graph.

    expected: ANYTHING for what only must have no error, as `1 / x`, of which nothing else may have come.
    """

    value = None  # type: ignore[assignment]

    def __init__(self, symbol: Symbol, expected: Any, site: tuple[str, int]) -> None:
        self.symbol, self.expected, self.site = symbol, expected, site

    def key(self) -> Any:
        expected = self.expected
        return ("outcome", id(self.symbol), expected if expected is ANYTHING else plain_key(expected))

    def comes_again(self, leaves: Sequence[Any]) -> bool:
        return self.matches(self.symbol.find(leaves))

    def matches(self, found: Any) -> bool:
        """Whether what was found is what was expected, to the bit."""
        expected = self.expected
        return expected is ANYTHING or found is expected or plain_key(found) == plain_key(expected)

    def subject(self) -> str:
        """What is looked at, in words."""
        return str(self.symbol)

    def was(self) -> str:
        """What came out, in words."""
        if self.expected is ANYTHING or hasattr(getattr(self.symbol, "function", None), "words"):
            return "as captured"
        return text_of(self.expected)
