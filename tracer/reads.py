"""What an observed run has read: small objects that can be asked later whether they still hold.

A read is a place (a global name, a closure cell, an attribute, an item of a container) and what was
found there. Plain values are compared by exact type and bits, everything else by identity, held weakly
where Python allows it. Asking never runs user code and never raises.
"""

from __future__ import annotations

import struct
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType, FunctionType, NoneType, NotImplementedType
from typing import Any

import numpy as np

from fusegrad.tracer.lookup import MISSING, Found, lookup, type_lookup


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's source: file, line and the text of the expression."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}"


NOWHERE = Site("<unknown>", 0, "")

# ---------------------------------------------------------------------------------- plain values

_BY_EQUALITY = frozenset({NoneType, bool, int, str, bytes, EllipsisType, NotImplementedType, range})
_NESTED = frozenset({tuple, frozenset, slice})
PLAIN_TYPES = _BY_EQUALITY | {float, complex}


def plain_key(value: Any) -> Any:
    """A hashable key that is equal for two plain values exactly if type and bits are equal.

    Returns ``MISSING`` for a value that is not plain (its state could change or run user code).
    """
    kind = type(value)
    if kind in _BY_EQUALITY:
        return (kind, value) if kind is not range else (kind, value.start, value.stop, value.step)
    if kind is float:
        return kind, struct.pack("<d", value)
    if kind is complex:
        return kind, struct.pack("<dd", value.real, value.imag)
    if kind is tuple or kind is frozenset or is_size(kind):
        keys = [plain_key(item) for item in value]
        if any(key is MISSING for key in keys):
            return MISSING
        return kind, (frozenset(keys) if kind is frozenset else tuple(keys))
    if kind is slice:
        bounds = (plain_key(value.start), plain_key(value.stop), plain_key(value.step))
        return MISSING if MISSING in bounds else (kind, *bounds)
    if isinstance(value, np.generic) and kind.__module__ == "numpy" and not value.dtype.hasobject:
        return kind, value.dtype.str, value.tobytes()
    if isinstance(value, np.dtype):
        return np.dtype, repr(value)
    return MISSING


def is_size(kind: type) -> bool:
    """Whether the type is that of a tensor's shape, a tuple of integers."""
    return kind.__base__ is tuple and kind.__name__ == "Size" and kind.__module__ == "fusegrad.eager.tensor"


def is_plain(value: Any) -> bool:
    """Whether the value is immutable all the way down and made of Python's (or NumPy's) own scalars."""
    kind = type(value)
    if kind in PLAIN_TYPES:
        return True
    if kind in _NESTED or is_size(kind) or isinstance(value, (np.generic, np.dtype)):
        return plain_key(value) is not MISSING
    return False


class _Strong:
    """Stands in for a weak reference to what cannot be weakly referenced (lists, dicts, tuples)."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


def hold(value: Any) -> Callable[[], Any]:
    """A weak reference where possible, else a strong one; call it for the object."""
    try:
        return weakref.ref(value)
    except TypeError:
        return _Strong(value)


class Expected:
    """What a place held: a plain value, an object's identity, or nothing at all (``MISSING``)."""

    __slots__ = ("_key", "_reference")

    def __init__(self, value: Any):
        self._key = MISSING if value is MISSING else plain_key(value)
        self._reference = _Strong(value) if value is MISSING or self._key is not MISSING else hold(value)

    def matches(self, value: Any) -> bool:
        """Whether the value is the one that was seen, to the bit or by identity."""
        seen = self._reference()
        if seen is value:
            return value is not None or self._key is not MISSING  # a dead reference yields None
        if self._key is MISSING or value is MISSING:
            return False
        return plain_key(value) == self._key

    def __str__(self) -> str:
        value = self._reference()
        if value is MISSING:
            return "absent"
        if self._key is not MISSING:
            text = repr(value)
            return text if len(text) <= 60 else text[:57] + "..."
        name = getattr(value, "__qualname__", None) if isinstance(value, (type, FunctionType)) else None
        return f"{type(value).__name__} {name}" if name else f"one {type(value).__name__} object"


# ---------------------------------------------------------------------------------- kinds of reads


class Read:
    """One read of Python state outside the run. ``key`` tells two reads of one place apart."""

    __slots__ = ("site",)
    site: Site

    def holds(self) -> bool:
        """Whether the same read would find the same now. Runs no user code, never raises."""
        try:
            return self._holds()
        except Exception:
            return False

    def describe(self) -> str:
        """The read in words, such as ``global `scale` is 2.0``."""
        raise NotImplementedError

    def _holds(self) -> bool:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe()} at {self.site.file}:{self.site.line}>"


class GlobalRead(Read):
    """A global name, or a builtin one that the globals do not shadow."""

    __slots__ = ("_builtins", "_expected", "_from_builtins", "_globals", "name")

    def __init__(self, namespace: dict, builtins: dict, name: str, value: Any, site: Site):
        self.site, self.name = site, name
        self._globals, self._builtins = namespace, builtins
        self._from_builtins = name not in namespace
        self._expected = Expected(value)

    def _holds(self) -> bool:
        value = self._globals.get(self.name, MISSING)
        if self._from_builtins:
            if value is not MISSING:
                return False
            value = self._builtins.get(self.name, MISSING)
        return self._expected.matches(value)

    def describe(self) -> str:
        return f"{'builtin' if self._from_builtins else 'global'} `{self.name}` is {self._expected}"


class CellRead(Read):
    """A closure variable of a function that lives outside the run."""

    __slots__ = ("_expected", "_function", "_index", "name")

    def __init__(self, function: FunctionType, name: str, value: Any, site: Site):
        self.site, self.name = site, name
        # Through the function, not the cell: a cell would keep what it holds alive.
        self._function = hold(function)
        self._index = function.__code__.co_freevars.index(name)
        self._expected = Expected(value)

    def _holds(self) -> bool:
        function = self._function()
        return function is not None and self._expected.matches(
            function.__closure__[self._index].cell_contents
        )

    def describe(self) -> str:
        return f"closure variable `{self.name}` is {self._expected}"


class FunctionRead(Read):
    """The code and the defaults of a called function that lives outside the run."""

    __slots__ = ("_code", "_defaults", "_function", "_keyword_defaults", "name")

    def __init__(self, function: FunctionType, site: Site):
        self.site, self.name = site, function.__qualname__
        self._function, self._code = hold(function), function.__code__
        self._defaults = tuple(Expected(value) for value in function.__defaults__ or ())
        self._keyword_defaults = {name: Expected(v) for name, v in (function.__kwdefaults__ or {}).items()}

    def _holds(self) -> bool:
        function = self._function()
        if function is None or function.__code__ is not self._code:
            return False
        defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
        return (
            len(defaults) == len(self._defaults)
            and all(map(Expected.matches, self._defaults, defaults))
            and keyword_defaults.keys() == self._keyword_defaults.keys()
            and all(e.matches(keyword_defaults[name]) for name, e in self._keyword_defaults.items())
        )

    def describe(self) -> str:
        return f"function `{self.name}` has the code and the defaults that it had"


class AttributeRead(Read):
    """An attribute of an object, found (or not found) without running user code."""

    __slots__ = ("_expected", "_owner", "_type", "_where", "name")

    def __init__(self, owner: Any, name: str, found: Found, site: Site):
        self.site, self.name = site, name
        self._owner, self._type = hold(owner), type(owner).__qualname__
        self._where, self._expected = found.where, Expected(found.raw)

    def _holds(self) -> bool:
        owner = self._owner()
        if owner is None:
            return False
        found = lookup(owner, self.name)
        return found.where == self._where and self._expected.matches(found.raw)

    def describe(self) -> str:
        return f"attribute `{self.name}` of a {self._type} is {self._expected}"


class ClassAttributeRead(Read):
    """What a class and its bases define under a name; ``after`` skips bases as ``super()`` does."""

    __slots__ = ("_after", "_class", "_expected", "name")

    def __init__(self, owner: type, name: str, raw: Any, site: Site, after: type | None = None):
        self.site, self.name = site, name
        self._class, self._after = hold(owner), None if after is None else hold(after)
        self._expected = Expected(raw)

    def _holds(self) -> bool:
        owner, after = self._class(), None if self._after is None else self._after()
        if owner is None or (self._after is not None and after is None):
            return False
        return self._expected.matches(type_lookup(owner, self.name, after))

    def describe(self) -> str:
        owner = self._class()
        return f"class attribute `{getattr(owner, '__name__', '?')}.{self.name}` is {self._expected}"


class TypeRead(Read):
    """The type of an object (``__class__`` can be assigned)."""

    __slots__ = ("_owner", "_type")

    def __init__(self, owner: Any, site: Site):
        self.site, self._owner, self._type = site, hold(owner), type(owner)

    def _holds(self) -> bool:
        owner = self._owner()
        return owner is not None and type(owner) is self._type

    def describe(self) -> str:
        return f"an object is a {self._type.__qualname__}"


class ItemRead(Read):
    """One item of a list, deque or dict; of a dict possibly its absence."""

    __slots__ = ("_expected", "_key", "_owner", "_type")

    def __init__(self, owner: Any, key: Any, value: Any, site: Site):
        self.site, self._owner, self._type = site, hold(owner), type(owner)
        self._key, self._expected = key, Expected(value)

    def _holds(self) -> bool:
        owner = self._owner()
        if isinstance(owner, dict):
            return self._expected.matches(dict.get(owner, self._key, MISSING))
        return -len(owner) <= self._key < len(owner) and self._expected.matches(owner[self._key])

    def describe(self) -> str:
        return f"item [{self._key!r}] of a {self._type.__name__} is {self._expected}"


class LengthRead(Read):
    """The number of items of a container."""

    __slots__ = ("_length", "_owner", "_type")

    def __init__(self, owner: Any, site: Site):
        self.site, self._owner, self._type = site, hold(owner), type(owner).__name__
        self._length = len(owner)

    def _holds(self) -> bool:
        return len(self._owner()) == self._length

    def describe(self) -> str:
        return f"a {self._type} has {self._length} items"


class ContentsRead(Read):
    """All items of a list, deque, dict or set, in order."""

    __slots__ = ("_owner", "_type", "_values")

    def __init__(self, owner: Any, site: Site):
        self.site, self._owner, self._type = site, hold(owner), type(owner).__name__
        self._values = [Expected(value) for value in flat_contents(owner)]

    def _holds(self) -> bool:
        values = flat_contents(self._owner())
        return len(values) == len(self._values) and all(map(Expected.matches, self._values, values))

    def describe(self) -> str:
        return f"the contents of a {self._type} are the same, in the same order"


def flat_contents(owner: Any) -> list:
    """The items of a builtin container as a list (of a dict: keys, then values), without user code."""
    if isinstance(owner, dict):
        return [*dict.keys(owner), *dict.values(owner)]
    kind: Any
    for kind in (list, tuple, deque, set, frozenset):
        if isinstance(owner, kind):
            return list(kind.__iter__(owner))
    raise TypeError(type(owner).__name__)


class GetterRead(Read):
    """A read with its own way of looking again; for the few places that occur once (partials, enums)."""

    __slots__ = ("_expected", "_getter", "_owner", "_words")

    def __init__(self, owner: Any, getter: Callable[[Any], Any], value: Any, words: str, site: Site):
        self.site, self._owner, self._getter = site, hold(owner), getter
        self._expected, self._words = Expected(value), words

    def _holds(self) -> bool:
        owner = self._owner()
        return owner is not None and self._expected.matches(self._getter(owner))

    def describe(self) -> str:
        return f"{self._words} is {self._expected}"


class Effect:
    """Why a run is open: something that replay could neither guard nor repeat."""

    __slots__ = ("reason", "site")

    def __init__(self, reason: str, site: Site):
        self.reason, self.site = reason, site

    def __repr__(self) -> str:
        return f"<Effect {self.reason} at {self.site.file}:{self.site.line}  {self.site.text}>"
