"""Numbers and arrays that are others at a replay: as long as nobody looks at one, a replay may give another.

A number that `item()` gives is an object of its own, and so it is followed by its identity, while it is
moved about, put into containers, set as an attribute or returned. What Python computes of it is computed in
the graph as well, and how comparisons come out is guarded (`record/scalars.py`). What no tensor holds, as a
text or a rounded number, is followed, too, and made anew in the end (`twin/unfailing.py`). Whoever hashes it,
prints it, or takes it for a size says so before (`look`): from then on it must be what it was. So are the
rates followed that a schedule's step has set.

An array that `numpy()` gives, in the memory of a tensor, is followed likewise. What it holds is known in the
end, when nothing writes that memory any more; whoever looks at it, or into it, opens the run.

Numbers that are known to be others from call to call (arguments, attributes, ...) are given to the run as
objects of their own, too. They stand for symbols (`symbols.py`), and what Python computes of them does: a
replay computes it again, so that only what must be known for good is looked at.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.sizes import Size, watching_sizes
from fusegrad.eager.core.state import state
from fusegrad.eager.ops.pointwise.declare_pointwise import OPERANDS
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.conditions import Place
from fusegrad.tracer.observe.lookup import MISSING, flat_contents
from fusegrad.tracer.observe.symbols import (
    ANYTHING,
    NUMBERS,
    Asked,
    Given,
    Symbol,
    computed,
    fresh,
    given,
    holding,
    never_comes_again,
)
from fusegrad.tracer.twin.unfailing import made_whole, never_fails, percent

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

_CONSTANTS = (*NUMBERS, bool, str)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A number that is followed, or an array.

    number: the object, kept so that its id stays its own. looked: called when somebody looks at it. value:
    what the tensor held that it was taken out of; place: where else a replay finds it, when all is done;
    symbol: how else it comes by it, before it computes; late: or when all is done; tensor: of an array, the
    one in whose memory it is.
    """

    number: Any
    looked: Callable[[], Any]
    value: Value | None = None
    place: Place | None = None
    symbol: Symbol | None = None
    late: Symbol | None = None
    tensor: Any = None


class Numbers:
    """The numbers of one run.

    taking: whether what now leaves a tensor goes to the user's code, and not to the engine's; taken: what it
    gets in place of that; takes: how often.
    sources: the places, by the observer's keys, in which numbers are others from call to call; found: the
    numbers that were found there; places: those outside; fixed: the places of those that somebody has looked
    at. asked: called with a symbol and what came out where the run went on by that. computed: how many
    numbers Python has made of others. options: by the id of a group of parameters, the numbers that the run
    has set there. in_graph:
    gives what a function gives for numbers that come from tensors' values, or MISSING. in_domain: whether
    replays make sure that a function has no error for those that they find. questions: how many the run has
    asked so far, by the id of whom it asked (`world/ahead.py`); items: the tensors that it got so, by id.
    """

    def __init__(self) -> None:
        self._taken: dict[int, Taken] = {}
        self.taking, self.taken = False, None
        self.takes = 0
        self.sources: Collection[Any] = ()
        self.found: dict[Any, Any] = {}
        self.places: list[Place] = []
        self.fixed: set[Any] = set()
        self.asked: Callable[[Symbol, Any], Any] = lambda symbol, value: None
        self.computed = 0
        self.options: dict[int, dict[str, Any]] = {}
        self.questions: dict[int, int] = {}
        self.items: dict[int, Any] = {}
        self.in_graph: Callable[[Any, Sequence[Any]], Any] = lambda function, operands: MISSING
        self.in_domain: Callable[[Any, Sequence[Any]], bool] = lambda function, operands: False

    def take(self, read: Callable[[], Any], is_deed: bool = True) -> Any:
        """What `read` gives, which asks one tensor for its number, or for its memory. is_deed: whether it was
        counted among what was done by code that is not the engine's.
        """
        self.taking, self.taken = True, None
        self.takes += is_deed
        try:
            found = read()
            return found if self.taken is None else self.taken
        finally:
            self.taking = False

    @property
    def follows_sizes(self) -> bool:
        """Whether somebody wants to know of whoever asks for sizes."""
        return bool(watching_sizes)

    def follow(self, taken: Taken) -> Any:
        """Follow a number or an array, which nobody else has; gives it."""
        self._taken[id(taken.number)] = taken
        return taken.number

    def of(self, number: Any) -> Taken | None:
        """What is known of a number, if it is one that is followed."""
        return self._taken.get(id(number))

    def look(self, *values: Any) -> None:
        """Somebody looks at values, which must be in a replay what they are now."""
        if self._taken:
            for value in values:
                for taken in [*self._within(value)]:
                    del self._taken[id(taken.number)]
                    taken.looked()

    def read(self, value: Any) -> Any:
        """The value, of which somebody takes the characters if it is a text."""
        if type(value) is str:
            self.look(value)
        return value

    def look_into(self, container: Any) -> None:
        """Somebody looks at what is in a builtin container, and in those within."""
        pending = [container] if self._taken else []
        while pending:
            for item in flat_contents(pending.pop()):
                self.look(item)
                if type(item) in (list, dict, tuple):
                    pending.append(item)

    def has(self, value: Any) -> bool:
        """Whether a plain value is or has a number that is followed."""
        return bool(self._taken) and any(True for _ in self._within(value))

    def _within(self, value: Any) -> Any:
        taken = self._taken.get(id(value))
        if taken is not None:
            yield taken
        elif type(value) is slice:
            yield from self._within((value.start, value.stop, value.step))
        elif type(value) in (tuple, frozenset, Size):
            # The same number may be there twice.
            seen = {id(t.number): t for item in value for t in self._within(item)}
            yield from seen.values()

    def release(self) -> None:
        """Forget the numbers of the run."""
        self._taken.clear()
        self.found.clear()
        self.items.clear()

    # Symbols.

    @property
    def any_followed(self) -> bool:
        """Whether any number is followed."""
        return bool(self._taken)

    def give(self, key: Any, place: int | Place, value: Any, words: str) -> Any:
        """What the run gets in place of a number that it finds there; it gets the same each time."""
        if key not in self.found:
            if not isinstance(place, int):
                self.places.append(place)
            self.found[key] = self.stand_for(given(key, place, type(value), words), value)
        return self.found[key]

    def stand_for(self, symbol: Symbol, value: Any) -> Any:
        """What the run gets in place of a number, which stands for a symbol."""
        again = self._of_its_own(value)
        if again is None:
            self._fix(symbol, value)
            return value
        return self.follow(Taken(again, lambda: self._fix(symbol, value), symbol=symbol))

    @staticmethod
    def _of_its_own(value: Any) -> Any:
        """Another object that is the same; None if there is but one, which others have."""
        again = fresh(value)
        shared = len(again) < 2 if type(again) is str else again is again + 0
        return None if shared else again

    def _fix(self, symbol: Symbol, value: Any) -> None:
        if never_comes_again(symbol, value) and state.interpreter is not None:
            state.interpreter.effect(f"has to know {symbol}, which is another number at each call")
            return
        if isinstance(symbol, Given) and not isinstance(symbol, Asked):
            self.fixed.add(symbol.key)
        self.asked(symbol, value)

    def symbol_of(self, number: Any) -> Symbol | None:
        """What a number stands for, if it is one that a replay comes by anew."""
        taken = self._taken.get(id(number)) if self._taken else None
        return None if taken is None else taken.symbol

    def any_symbol(self, values: Sequence[Any]) -> bool:
        """Whether any of these numbers stands for a symbol."""
        return bool(self._taken) and any(self.symbol_of(x) is not None for x in values)

    def any_given(self, values: Sequence[Any]) -> bool:
        """Whether a replay comes anew by any of these numbers, as a symbol or out of a tensor."""
        return bool(self._taken) and any(map(self._is_given, values))

    def _is_given(self, number: Any) -> bool:
        taken = self._taken.get(id(number))
        return taken is not None and (taken.symbol is not None or taken.value is not None)

    def compute(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """What a function of Python gives for operands of which some stand for symbols, which a replay calls
        again; MISSING, with nothing done, where they are not all numbers. Raises what the function raises.
        """
        if not self._taken or not all(type(x) in _CONSTANTS for x in operands):
            return MISSING
        found = self.in_graph(function, operands)
        if found is MISSING:
            found = self._in_the_end(function, operands)
        if found is not MISSING or not self.any_symbol(operands):
            return found
        try:
            value = function(*operands)
        except Exception:
            self.look(*operands)
            raise
        if function is divmod:
            return tuple(self.compute(part, operands) for part in _DIVMOD)
        if type(value) not in _CONSTANTS:
            self.look(*operands)
            return value
        self.look(*(x for x in operands if self.has(x) and self.symbol_of(x) is None))
        symbol = computed(function, [self.symbol_of(x) or x for x in operands], type(value))
        self.computed += 1
        if type(value) is bool:
            self.asked(symbol, value)
            return value
        if not never_fails(function, operands, [self.symbol_of(x) is not None for x in operands]):
            self.asked(symbol, ANYTHING)  # an error has to come also where nobody takes the number
        return self.stand_for(symbol, value)

    def _in_the_end(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """What a function gives for operands of which some come out of tensors, which a replay calls again
        when it has computed all; MISSING, with nothing done, where it might fail then.
        """
        symbols = [self._late(x) for x in operands]
        varies = [isinstance(s, Symbol) for s in symbols]
        if not any(isinstance(s, Symbol) and s.late for s in symbols) or any(s is MISSING for s in symbols):
            return MISSING
        if function is divmod:
            found = tuple(self._in_the_end(part, operands) for part in _DIVMOD)
            return MISSING if MISSING in found else found
        if not (never_fails(function, operands, varies) or self.in_domain(function, operands)):
            return MISSING
        value = function(*operands)
        again = self._of_its_own(value)
        if again is None:
            self.look(*operands)
            return value
        late = computed(function, symbols, type(value))
        return self.follow(Taken(again, lambda: self.look(*operands), late=late))

    def _late(self, operand: Any) -> Any:
        """What an operand stands for in the end; itself where it stays the same; MISSING if nobody knows."""
        taken = self._taken.get(id(operand))
        if taken is None:
            return operand
        if taken.value is not None:
            return holding(taken.value, type(operand))
        return taken.late or taken.symbol or MISSING


# Operators and functions of an observed run.

_DIVMOD = operator.floordiv, operator.mod


def on_symbols(
    observer: Observer, function: Callable[..., Any], symbol: str, operands: tuple[Any, ...]
) -> Any:
    """An operator on numbers that a replay comes by anew, and tensors; MISSING where it must know them."""
    if symbol == "%" and type(operands[0]) is str:
        values = [*operands[1]] if type(operands[1]) is tuple else [*operands[1:]]
        for place in made_whole(operands[0], values):
            whole = computed_of(observer, int, (values[place],))
            values[place] = values[place] if whole is MISSING else whole
        return computed_of(observer, percent, (operands[0], *values))
    if not observer.numbers.any_given(operands):
        return computed_of(observer, function, operands)
    fit = all(observer.is_tensor(x) or type(x) in NUMBERS for x in operands)
    if fit and any(map(observer.is_tensor, operands)):
        return observer.adopt(function(*[standing_for(x, observer.numbers) for x in operands]))
    return computed_of(observer, function, operands)


def text_of(observer: Observer | None, function: Callable[..., str], *operands: Any) -> str:
    """A text that Python makes of plain values."""
    if observer is not None:
        found = computed_of(observer, function, operands)
        if found is not MISSING:
            return str(found)
        observer.numbers.look(*operands)
    return function(*operands)


def computed_of(observer: Observer, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """As `Numbers.compute`: what it raises follows from numbers that are known then."""
    try:
        return observer.numbers.compute(function, operands)
    except Exception as error:
        observer.explain(error)
        raise


# What stands for a number while Python code of the engine has it. An op computes with its numbers before it
# binds: `alpha * other`, `1 / (1 - p)`, `if beta == 0`. Operators on what stands for one give another such
# object, a comparison is guarded by how it comes out, and `bind` takes it as an operand. Whatever else is
# asked of it, by C code above all, looks at the number, which must then be what it is: code that does not
# know of it is right all the same.

_PLAIN = (int, float, bool)


class Followed:
    """One number. Where it is asked for its class it is what it stands for; its type is its own.

    number: the object by whose identity it is followed. numbers: those of the run.
    """

    __slots__ = ("number", "numbers")

    def __init__(self, number: Any, numbers: Numbers) -> None:
        self.number, self.numbers = number, numbers

    def _known(self) -> Any:
        """The number, for somebody who must know it."""
        self.numbers.look(self.number)
        return self.number

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.number), name):
            raise AttributeError(f"{type(self.number).__name__!r} object has no attribute {name!r}")
        return getattr(self._known(), name)

    def __float__(self) -> float:
        return float(self._known())

    def __int__(self) -> int:
        return int(self._known())

    def __complex__(self) -> complex:
        return complex(self._known())

    def __hash__(self) -> int:
        return hash(self._known())

    def __repr__(self) -> str:
        return repr(self._known())

    def __format__(self, form: str) -> str:
        return format(self._known(), form)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self.number), (self._known(),)

    # NumPy would not take it for a number of Python, which has no dtype beside arrays.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._known(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_all_known(inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_all_known(args), **dict(zip(kwargs, _all_known([*kwargs.values()]), strict=True)))


class FollowedFloat(Followed):
    """A float."""

    __slots__ = ()
    __class__ = property(lambda self: float)


class FollowedInt(Followed):
    """A whole number."""

    __slots__ = ()
    __class__ = property(lambda self: int)

    def __index__(self) -> int:
        return operator.index(self._known())


def _all_known(values: Sequence[Any]) -> list[Any]:
    return [x._known() if type(x) in _KINDS else x for x in values]


_KINDS = (FollowedFloat, FollowedInt)


def standing_for(value: Any, numbers: Numbers) -> Any:
    """What stands for a number, or for those in a tuple or list, where they are followed and somebody binds
    what stands for them; else the value itself.
    """
    kind, interpreter = type(value), state.interpreter
    if interpreter is None or not (interpreter.follows_numbers and numbers.any_followed):
        return value
    if kind is tuple or (kind is list and all(type(x) in _PLAIN for x in value)):
        found = [standing_for(x, numbers) for x in value]
        return value if all(map(operator.is_, found, value)) else kind(found)
    if (kind is float or kind is int) and numbers.any_given((value,)):
        return (FollowedFloat if kind is float else FollowedInt)(value, numbers)
    return value


def is_standing(value: Any) -> bool:
    """Whether a value stands for a number, or is a tuple or list that holds such."""
    return type(value) in _KINDS or (type(value) in (tuple, list) and any(map(is_standing, value)))


def stood_for(value: Any) -> Any:
    """The number that something stands for, or those in a tuple or list; else the value itself."""
    kind = type(value)
    if kind in _KINDS:
        return value.number
    if kind is tuple or kind is list:
        found = [*map(stood_for, value)]
        return value if all(map(operator.is_, found, value)) else kind(found)
    return value


def _computed(numbers: Numbers, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What a function of Python gives for numbers, some of which are followed."""
    plain = [*map(stood_for, operands)]
    found = numbers.compute(function, plain)
    if found is MISSING:
        numbers.look(*plain)
        found = function(*plain)
    standing = standing_for(found, numbers)
    if standing is found:  # what is there only in the end is no operand
        numbers.look(found)
    return standing


def _define(name: str, function: Callable[..., Any], reflected: bool = False) -> None:
    def method(self: Followed, *others: Any) -> Any:
        if not all(type(x) in _PLAIN or type(x) in _KINDS for x in others):
            return NotImplemented
        return _computed(self.numbers, function, (*others, self) if reflected else (self, *others))

    method.__name__ = method.__qualname__ = name
    setattr(Followed, name, method)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _define(f"__{_name}__", getattr(operator, _name))
    _define(f"__r{_name}__", getattr(operator, _name), reflected=True)
for _name in ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos"):
    _define(f"__{_name}__", getattr(operator, _name))
_named: dict[str, Callable[..., Any]] = {"divmod": divmod, "abs": abs, "bool": bool, "round": round}
for _name, _function in _named.items():
    _define(f"__{_name}__", _function)
for _name in ("trunc", "floor", "ceil"):
    _define(f"__{_name}__", getattr(math, _name))

OPERANDS |= {*_KINDS}
dtypes.PYTHON_TYPES.update({FollowedFloat: dtypes.float32, FollowedInt: dtypes.int64})
dtypes.FLOATS[FollowedFloat] = lambda number: number
dtypes.FLOATS[FollowedInt] = lambda number: _computed(number.numbers, float, (number,))
