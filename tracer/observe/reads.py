"""What an observed run has read: small objects that can be asked later whether they still hold.

A read is a place (a global name, a closure cell, an attribute, an item of a container) and what was
found there. Plain values are compared by exact type and bits, everything else by identity, held weakly
where Python allows it. Asking never runs user code and never raises.

What must be true for a read to hold is said once, by its `conditions` (`conditions.py`): `holds` asks them
one by one, and `compiler/guards/guards.py` writes a function of those of many reads, which asks faster.

What a run does to the world beside is an effect. Rounds of a loop are left out only where all that they do is
known, and is brought about without them. So what is more than ops on tensors goes through `Effects.does` each
time that it is done, and what a replay could not repeat through `open`; nothing that was noted once is let be
for that.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType, NoneType
from typing import Any

from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.conditions import (
    Attribute,
    Called,
    ClassAttribute,
    Condition,
    Contents,
    Counts,
    Each,
    Exact,
    Held,
    Is,
    Item,
    Kind,
    Matches,
    Part,
    Place,
)
from fusegrad.tracer.observe.lookup import MISSING, Found, container_class, flat_contents, lookup
from fusegrad.tracer.observe.values import Expected, Strong, hold, plain_key, text_of
from fusegrad.tracer.twin.sites import NOWHERE, Site

# ---------------------------------------------------------------------------------- kinds of reads


_ABSENT = Expected(MISSING)


def _all_hold(conditions: Callable[[], Iterable[Condition]]) -> bool:
    try:
        return all(condition.holds() for condition in conditions())
    except Exception:
        if handler_raised():
            raise
        return False


class Read:
    """One read of Python state outside the run.

    kind: the sort of place, for programs ("global", "attribute", ...). expected: what was found. source:
    what the observer calls the place, if it is the only one.
    """

    __slots__ = ("expected", "site", "source")
    kind = ""
    site: Site
    expected: Expected
    source: Any

    def found_object(self) -> Any:
        """The object that was found; None for reads of more than one, and of none."""
        expected = getattr(self, "expected", None)
        return None if expected is None else expected.reference()

    def holds(self) -> bool:
        """Whether the same read would find the same now. Runs no user code, never raises (but what signal
        handlers do).
        """
        return _all_hold(self.conditions)

    def asked_often(self) -> Callable[[], bool]:
        """`holds`, its conditions made once."""
        known = tuple(self.conditions())
        return lambda: _all_hold(lambda: known)

    def conditions(self) -> Iterable[Condition]:
        """What must be true for the read to hold, in the order of asking; made anew for each."""
        return (Matches(self.place(), self.expected),)

    def place(self) -> Place:
        """Where it was found."""
        raise NotImplementedError

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

    def _now(self) -> str:
        return text_of(self.place().find())

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


class GlobalRead(Read):
    """A global name, or a builtin one that the globals do not shadow."""

    __slots__ = ("builtins", "from_builtins", "globals", "name")
    kind = "global"

    def __init__(self, namespace: dict, builtins: dict, name: str, value: Any, site: Site):
        self.site, self.name = site, name
        self.globals, self.builtins = namespace, builtins
        self.from_builtins = name not in namespace
        self.expected = Expected(value)

    def place(self) -> Place:
        return self._in(
            self.globals if not self.from_builtins or self.name in self.globals else self.builtins
        )

    def conditions(self) -> Iterable[Condition]:
        if not self.from_builtins:
            return (Matches(self._in(self.globals), self.expected),)
        return Matches(self._in(self.globals), _ABSENT), Matches(self._in(self.builtins), self.expected)

    def _in(self, namespace: dict) -> Place:
        # The look-up of a subclass may be code of its own.
        word = "globals" if namespace is self.globals else "builtins"
        return Item(Exact(Held(Strong(namespace), word), dict), self.name)

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

    def place(self) -> Place:
        cells = Exact(Part(Held(self.function), "__closure__"), tuple)
        return Part(Item(cells, self.index), "cell_contents")

    def subject(self) -> str:
        return f"closure variable `{self.name}`"


class FunctionRead(Read):
    """The code and the defaults of a called function that lives outside the run.

    defaults, keyword_defaults: None where the function has none at all.
    """

    __slots__ = ("code", "defaults", "function", "keyword_defaults", "name")
    kind = "function"

    def __init__(self, function: FunctionType, site: Site):
        self.site, self.name = site, function.__qualname__
        self.function, self.code = hold(function), function.__code__
        self.expected = _ABSENT
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        self.defaults = None if defaults is None else tuple(map(Expected, defaults))
        self.keyword_defaults = (
            None if keywords is None else tuple((name, Expected(value)) for name, value in keywords.items())
        )

    def conditions(self) -> Iterable[Condition]:
        return self._same_code(), self._same_defaults(), *self._same_keyword_defaults()

    def _same_code(self) -> Condition:
        return Is(Part(Held(self.function), "__code__"), self.code)

    def _same_defaults(self) -> Condition:
        place = Part(Held(self.function), "__defaults__")
        return Is(place, None) if self.defaults is None else Each(Exact(place, tuple), self.defaults)

    def _same_keyword_defaults(self) -> list[Condition]:
        place = Part(Held(self.function), "__kwdefaults__")
        if self.keyword_defaults is None:
            return [Is(place, None)]
        keywords = Exact(place, dict)
        same = [Matches(Item(keywords, name), expected) for name, expected in self.keyword_defaults]
        return [Counts(keywords, len(same)), *same]

    def subject(self) -> str:
        return f"function `{self.name}`"

    def was(self) -> str:
        defaults = [*(self.defaults or ()), *(expected for _, expected in self.keyword_defaults or ())]
        return f"the same code{' and defaults (' + ', '.join(map(str, defaults)) + ')' if defaults else ''}"

    def _now(self) -> str:
        if not self._same_code().holds():
            return "other code"
        function = Held(self.function).find()
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        if type(defaults) not in (tuple, NoneType) or type(keywords) not in (dict, NoneType):
            return "defaults of another kind"
        if not self._same_defaults().holds():
            return f"other defaults: ({', '.join(map(text_of, defaults or ()))})"
        if not all(condition.holds() for condition in self._same_keyword_defaults()):
            return "other keyword defaults"
        return self.was()


class AttributeRead(Read):
    """An attribute of an object, found (or not found) without running user code."""

    __slots__ = ("name", "owner", "type_name", "where")
    kind = "attribute"

    def __init__(self, owner: Any, name: str, found: Found, site: Site):
        self.site, self.name = site, name
        self.owner, self.type_name = hold(owner), _owner_text(owner)
        self.where, self.expected = found.where, Expected(found.raw)

    def place(self) -> Place:
        return Attribute(Held(self.owner), self.name, self.where)

    def _now(self) -> str:
        found = lookup(Held(self.owner).find(), self.name)
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

    def place(self) -> Place:
        return ClassAttribute(Held(self.owner), self.name, None if self.after is None else Held(self.after))

    def subject(self) -> str:
        owner = self.owner()
        return f"class attribute `{'?' if owner is None else text_of(owner)[6:]}.{self.name}`"


class TypeRead(Read):
    """The type of an object (``__class__`` can be assigned)."""

    __slots__ = ("owner",)
    kind = "type"

    def __init__(self, owner: Any, site: Site):
        self.site, self.owner, self.expected = site, hold(owner), Expected(type(owner))

    def place(self) -> Place:
        return Kind(Held(self.owner))

    def subject(self) -> str:
        return f"the class of `{self.site.text}`" if self.site.text else "the class of an object"


class ItemRead(Read):
    """One item of a list, deque or dict; of a dict possibly its absence."""

    __slots__ = ("item", "owner", "type_name")
    kind = "item"

    def __init__(self, owner: Any, key: Any, value: Any, site: Site):
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        # A tensor that is a key would otherwise live as long as the read.
        self.item = weakref.ref(key) if isinstance(key, Tensor) else key
        self.expected = Expected(value)

    def place(self) -> Place:
        return Item(Held(self.owner), Held(self.item) if type(self.item) is weakref.ref else self.item)

    def subject(self) -> str:
        key = self.item() if type(self.item) is weakref.ref else self.item
        return f"item [{text_of(key)}] of a {self.type_name}"


class LengthRead(Read):
    """The number of items of a container."""

    __slots__ = ("owner", "type_name")
    kind = "length"

    def __init__(self, owner: Any, site: Site):
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        self.expected = Expected(container_class(type(owner)).__len__(owner))

    def conditions(self) -> Iterable[Condition]:
        return (Counts(Held(self.owner), self.expected.reference()),)

    def _now(self) -> str:
        owner = Held(self.owner).find()
        return str(container_class(type(owner)).__len__(owner))

    def subject(self) -> str:
        return f"the length of a {self.type_name}"


class ContentsRead(Read):
    """All items of a list, deque, dict or set, in order."""

    __slots__ = ("owner", "type_name", "values")
    kind = "contents"

    def __init__(self, owner: Any, site: Site, items: Iterable[Any] | None = None):
        """items: what it held at first, if it holds something else by now."""
        self.site, self.owner, self.type_name = site, hold(owner), type(owner).__name__
        self.expected = _ABSENT
        self.values = tuple(Expected(value) for value in (flat_contents(owner) if items is None else items))

    def place(self) -> Place:
        return Contents(Held(self.owner))

    def conditions(self) -> Iterable[Condition]:
        return (Each(self.place(), self.values),)

    def subject(self) -> str:
        return f"the contents of a {self.type_name}"

    def was(self) -> str:
        return _items_text([str(expected) for expected in self.values])

    def _now(self) -> str:
        return _items_text([text_of(value) for value in self.place().find()])


class SubclassesRead(ContentsRead):
    """The classes that derive from a class, those that are gone left out."""

    __slots__ = ()

    def __init__(self, owner: type, site: Site):
        super().__init__(owner, site, type.__subclasses__(owner))

    def place(self) -> Place:
        return Called(type.__subclasses__, Held(self.owner))

    def subject(self) -> str:
        return f"the subclasses of {self.type_name}"


class IdentityRead(Read):
    """That a plain value is the very object that was found, and not only an equal one."""

    __slots__ = ("found", "value")
    kind = "identity"

    def __init__(self, found: Place, value: Any, site: Site):
        self.site, self.found, self.value = site, found, value
        self.expected = _ABSENT

    def place(self) -> Place:
        return self.found

    def conditions(self) -> Iterable[Condition]:
        return (Is(self.found, self.value),)

    def subject(self) -> str:
        return f"the identity of {text_of(self.value)}"

    def was(self) -> str:
        return "the same"


def _items_text(items: list[str]) -> str:
    return f"({', '.join(items[:6])}{f', ... {len(items)} in all' if len(items) > 6 else ''})"


class GetterRead(Read):
    """A read with its own way of looking again; for the few places that occur once (partials, enums)."""

    __slots__ = ("getter", "owner", "words")
    kind = "other"

    def __init__(self, owner: Any, getter: Callable[[Any], Any], value: Any, words: str, site: Site):
        self.site, self.owner, self.getter = site, hold(owner), getter
        self.expected, self.words = Expected(value), words

    def place(self) -> Place:
        return Called(self.getter, Held(self.owner))

    def subject(self) -> str:
        return self.words


# ---------------------------------------------------------------------------------- effects


class Effect:
    """Why a run is open: something that replay could neither guard nor repeat."""

    __slots__ = ("kind", "reason", "site")

    def __init__(self, reason: str, site: Site, kind: str = ""):
        self.reason, self.site, self.kind = reason, site, kind

    def __repr__(self) -> str:
        return f"<Effect {self.reason} at {self.site.file}:{self.site.line}  {self.site.text}>"


class Effects:
    """What a run has done.

    effects: why the run is open, if it is; opens: how often it said so. opened: called when something was
    done, or is about to be, that opens the run. deeds: how often something was done that is more than ops on
    tensors; deed: what, last.
    """

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.opened: Callable[[], Any] = lambda: None
        self.deeds, self.opens, self.deed = 0, 0, ("", NOWHERE)

    def does(self, what: str, site: Site) -> None:
        """Note that the run does what no round does that is left out, in words that go on from "it "."""
        self.deeds += 1
        self.deed = what, site

    @property
    def is_lost(self) -> bool:
        """Whether the run is open, and another one would be, too."""
        return any(effect.kind != "once" for effect in self.effects)

    @property
    def did(self) -> str:
        """What was done last, and where."""
        what, site = self.deed
        return f"{what} (line {site.line})" if site.line else what

    def open(self, reason: str, site: Site | None = None, kind: str = "") -> None:
        """Note that the run cannot be replayed, and why; kind: see `Reason`."""
        self.opened()
        self.opens += 1
        self.deed = reason, site or NOWHERE
        effect = Effect(reason, site or NOWHERE, kind)
        if not any(e.reason == effect.reason and e.site == effect.site for e in self.effects):
            self.effects.append(effect)
