"""What an observed run has read: small objects that can be asked later whether they still hold.

A read is a place (a global name, a closure cell, an attribute, an item of a container) and what was
found there. Plain values are compared by exact type and bits, everything else by identity, held weakly
where Python allows it. Asking never runs user code and never raises.

`compiler/guards/guards.py` asks many at once, faster; what `Read.holds` says is what it has to say.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from fusegrad.eager.core.handlers import handler_raised
from fusegrad.tracer.observe.lookup import MISSING, Found, lookup, type_lookup
from fusegrad.tracer.observe.values import Expected, Strong, hold, plain_key, text_of
from fusegrad.tracer.twin.sites import Site

# ---------------------------------------------------------------------------------- kinds of reads


class Gone(Exception):
    """The object that was read is no longer there, or no longer of a kind that can be read so."""


class Read:
    """One read of Python state outside the run.

    kind: the sort of place, for programs ("global", "attribute", ...). expected: what was found.
    """

    __slots__ = ("expected", "site")
    kind = ""
    site: Site
    expected: Expected

    def holds(self) -> bool:
        """Whether the same read would find the same now. Runs no user code, never raises (but what signal
        handlers do).
        """
        try:
            return self._holds()
        except Exception:
            if handler_raised():
                raise
            return False

    def subject(self) -> str:
        """What was read, in words: ``global `scale```."""
        raise NotImplementedError

    def was(self) -> str:
        """What was found, in words."""
        return str(self.expected)

    def now(self) -> str:
        """What is found now, in words; told apart from `was` where it is another."""
        try:
            text = self._now()
        except Exception:
            if handler_raised():
                raise
            return "gone"
        if text != self.was() or self.holds():
            return text
        return re.sub(r"^an? ", "another ", text) if re.match("an? ", text) else f"another {text}"

    def describe(self) -> str:
        """The read in words, such as ``global `scale` is 2.0``."""
        return f"{self.subject()} is {self.was()}"

    def token(self) -> tuple[Any, ...]:
        """Equal for two reads (both alive) that hold or fail together."""
        return (type(self), *(_token(getattr(self, s)) for s in ("expected", *self.__slots__)))

    def _find(self) -> Any:
        """What lies there now. Raises where it cannot be found."""
        raise NotImplementedError

    def _holds(self) -> bool:
        return self.expected.matches(self._find())

    def _now(self) -> str:
        return text_of(self._find())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe()} at {self.site.file}:{self.site.line}>"


def _token(value: Any) -> Any:
    if isinstance(value, Expected):
        return value.key if value.key is not MISSING else _token(value.reference)
    if type(value) is tuple:
        return tuple(map(_token, value))
    if isinstance(value, Strong):
        value = value.value
    # A weak reference stands for its object: Python makes one for each.
    key = plain_key(value)
    return id(value) if key is MISSING else key


def _there(reference: Callable[[], Any]) -> Any:
    """The object behind a reference. Raises Gone."""
    value = reference()
    if value is None:
        raise Gone
    return value


class GlobalRead(Read):
    """A global name, or a builtin one that the globals do not shadow."""

    __slots__ = ("builtins", "from_builtins", "globals", "name")
    kind = "global"

    def __init__(self, namespace: dict, builtins: dict, name: str, value: Any, site: Site):
        self.site, self.name = site, name
        self.globals, self.builtins = namespace, builtins
        self.from_builtins = name not in namespace
        self.expected = Expected(value)

    def _find(self) -> Any:
        if type(self.globals) is not dict or type(self.builtins) is not dict:
            raise Gone  # a namespace whose look-up is code of its own
        value = self.globals.get(self.name, MISSING)
        return self.builtins.get(self.name, MISSING) if self.from_builtins and value is MISSING else value

    def _holds(self) -> bool:
        return not (self.from_builtins and self.name in self.globals) and super()._holds()

    def subject(self) -> str:
        return f"{'builtin' if self.from_builtins else 'global'} `{self.name}`"


class CellRead(Read):
    """A closure variable of a function that lives outside the run."""

    __slots__ = ("function", "index", "name")
    kind = "closure"

    def __init__(self, function: FunctionType, name: str, value: Any, site: Site):
        self.site, self.name = site, name
        # Through the function, not the cell: a cell would keep what it holds alive.
        self.function = hold(function)
        self.index = function.__code__.co_freevars.index(name)
        self.expected = Expected(value)

    def _find(self) -> Any:
        return _there(self.function).__closure__[self.index].cell_contents

    def subject(self) -> str:
        return f"closure variable `{self.name}`"


class FunctionRead(Read):
    """The code and the defaults of a called function that lives outside the run."""

    __slots__ = ("code", "defaults", "function", "keyword_defaults", "name")
    kind = "function"

    def __init__(self, function: FunctionType, site: Site):
        self.site, self.name = site, function.__qualname__
        self.function, self.code = hold(function), function.__code__
        self.expected = Expected(MISSING)
        self.defaults = tuple(Expected(value) for value in function.__defaults__ or ())
        keywords = function.__kwdefaults__ or {}
        self.keyword_defaults = tuple((name, Expected(value)) for name, value in keywords.items())

    def _differs(self) -> str:
        """What is other than it was; empty if nothing is."""
        function = _there(self.function)
        if function.__code__ is not self.code:
            return "other code"
        defaults = () if function.__defaults__ is None else function.__defaults__
        keywords = {} if function.__kwdefaults__ is None else function.__kwdefaults__
        if type(defaults) is not tuple or type(keywords) is not dict:
            return "defaults of another kind"
        if len(defaults) != len(self.defaults) or not all(map(Expected.matches, self.defaults, defaults)):
            return f"other defaults: ({', '.join(map(text_of, defaults))})"
        same = len(keywords) == len(self.keyword_defaults) and all(
            expected.matches(keywords.get(name, MISSING)) for name, expected in self.keyword_defaults
        )
        return "" if same else "other keyword defaults"

    def _holds(self) -> bool:
        return not self._differs()

    def subject(self) -> str:
        return f"function `{self.name}`"

    def was(self) -> str:
        defaults = [*self.defaults, *(expected for _, expected in self.keyword_defaults)]
        return f"the same code{' and defaults (' + ', '.join(map(str, defaults)) + ')' if defaults else ''}"

    def _now(self) -> str:
        return self._differs() or self.was()


class AttributeRead(Read):
    """An attribute of an object, found (or not found) without running user code."""

    __slots__ = ("name", "owner", "type_name", "where")
    kind = "attribute"

    def __init__(self, owner: Any, name: str, found: Found, site: Site):
        self.site, self.name = site, name
        self.owner, self.type_name = hold(owner), _owner_text(owner)
        self.where, self.expected = found.where, Expected(found.raw)

    def _holds(self) -> bool:
        found = lookup(_there(self.owner), self.name)
        return found.where == self.where and self.expected.matches(found.raw)

    def _now(self) -> str:
        found = lookup(_there(self.owner), self.name)
        return "computed by code of its own" if found.where == "dynamic" else text_of(found.raw)

    def subject(self) -> str:
        return f"attribute `{self.name}` of {self.type_name}"


def _owner_text(owner: Any) -> str:
    if issubclass(type(owner), ModuleType):
        return f"module {vars(ModuleType)['__dict__'].__get__(owner).get('__name__', '?')}"
    return text_of(owner).removesuffix(" object")


class ClassAttributeRead(Read):
    """What a class and its bases define under a name; ``after`` skips bases as ``super()`` does."""

    __slots__ = ("after", "name", "owner")
    kind = "class attribute"

    def __init__(self, owner: type, name: str, raw: Any, site: Site, after: type | None = None):
        self.site, self.name = site, name
        self.owner, self.after = hold(owner), None if after is None else hold(after)
        self.expected = Expected(raw)

    def _find(self) -> Any:
        after = None if self.after is None else _there(self.after)
        return type_lookup(_there(self.owner), self.name, after)

    def subject(self) -> str:
        owner = self.owner()
        return f"class attribute `{'?' if owner is None else text_of(owner)[6:]}.{self.name}`"


class TypeRead(Read):
    """The type of an object (``__class__`` can be assigned)."""

    __slots__ = ("owner",)
    kind = "type"

    def __init__(self, owner: Any, site: Site):
        self.site, self.owner, self.expected = site, hold(owner), Expected(type(owner))

    def _find(self) -> Any:
        return type(_there(self.owner))

    def subject(self) -> str:
        return f"the class of `{self.site.text}`" if self.site.text else "the class of an object"


class ItemRead(Read):
    """One item of a list, deque or dict; of a dict possibly its absence."""

    __slots__ = ("item", "owner", "type_name")
    kind = "item"

    def __init__(self, owner: Any, key: Any, value: Any, site: Site):
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        self.item, self.expected = key, Expected(value)

    def _find(self) -> Any:
        owner = _there(self.owner)
        if issubclass(type(owner), dict):
            return dict.get(owner, self.item, MISSING)
        return owner[self.item] if -len(owner) <= self.item < len(owner) else MISSING

    def subject(self) -> str:
        return f"item [{text_of(self.item)}] of a {self.type_name}"


class LengthRead(Read):
    """The number of items of a container."""

    __slots__ = ("owner", "type_name")
    kind = "length"

    def __init__(self, owner: Any, site: Site):
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        self.expected = Expected(len(owner))

    def _find(self) -> Any:
        return len(_there(self.owner))

    def subject(self) -> str:
        return f"the length of a {self.type_name}"


class ContentsRead(Read):
    """All items of a list, deque, dict or set, in order."""

    __slots__ = ("owner", "type_name", "values")
    kind = "contents"

    def __init__(self, owner: Any, site: Site):
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        self.expected = Expected(MISSING)
        self.values = tuple(Expected(value) for value in flat_contents(owner))

    def _holds(self) -> bool:
        values = flat_contents(_there(self.owner))
        return len(values) == len(self.values) and all(map(Expected.matches, self.values, values))

    def subject(self) -> str:
        return f"the contents of a {self.type_name}"

    def was(self) -> str:
        return _items_text([str(expected) for expected in self.values])

    def _now(self) -> str:
        return _items_text([text_of(value) for value in flat_contents(_there(self.owner))])


def _items_text(items: list[str]) -> str:
    return f"({', '.join(items[:6])}{f', ... {len(items)} in all' if len(items) > 6 else ''})"


def flat_contents(owner: Any) -> list:
    """The items of a builtin container as a list (of a dict: keys, then values), without user code."""
    if issubclass(type(owner), dict):
        return [*dict.keys(owner), *dict.values(owner)]
    kind: Any
    for kind in (list, tuple, deque, set, frozenset):
        if issubclass(type(owner), kind):
            return list(kind.__iter__(owner))
    raise TypeError(type(owner).__name__)


class GetterRead(Read):
    """A read with its own way of looking again; for the few places that occur once (partials, enums)."""

    __slots__ = ("getter", "owner", "words")
    kind = "other"

    def __init__(self, owner: Any, getter: Callable[[Any], Any], value: Any, words: str, site: Site):
        self.site, self.owner, self.getter = site, hold(owner), getter
        self.expected, self.words = Expected(value), words

    def _find(self) -> Any:
        return self.getter(_there(self.owner))

    def subject(self) -> str:
        return self.words


class Effect:
    """Why a run is open: something that replay could neither guard nor repeat."""

    __slots__ = ("reason", "site")

    def __init__(self, reason: str, site: Site):
        self.reason, self.site = reason, site

    def __repr__(self) -> str:
        return f"<Effect {self.reason} at {self.site.file}:{self.site.line}  {self.site.text}>"
