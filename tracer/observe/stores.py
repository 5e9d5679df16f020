"""Attributes that a run sets on objects from outside, items that it replaces in dicts and lists there, and
lists that it appends to: what a replay does once everything else is done.

`self.loss = ...` in a `forward` leaves something in the world. A replay can leave it again, as it makes
results again: the last value of each attribute counts, and what the run itself finds there afterwards is no
look at the world any more.

An item that is replaced, as in `totals["loss"] += loss.item()`, must be there before, so that the container
has the same keys in the same order, or as many items. Who looks at all of them looks at the keys, and at the
others.

A list that grows from call to call need not be what it was: a replay appends to whatever is there. Where the
run looks at what it holds afterwards, its first items are guarded.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CellType, ModuleType
from typing import TYPE_CHECKING, Any

from fusegrad.eager.core.pytree import attributes_of, contents, is_container
from fusegrad.eager.core.stand_in import has_values
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.conditions import Called, Held, Place
from fusegrad.tracer.observe.lookup import (
    MISSING,
    Found,
    Store,
    instance_dict,
    is_data_descriptor,
    is_remade,
    kind_of_attribute,
    lookup,
    nn_module_class,
    sets_as_objects_do,
    sets_flag,
    type_lookup,
)
from fusegrad.tracer.observe.numbers import Taken
from fusegrad.tracer.observe.reads import AttributeRead, ContentsRead, GetterRead, ItemRead, Read
from fusegrad.tracer.observe.symbols import NUMBERS, fresh
from fusegrad.tracer.observe.values import Expected, hold, is_plain, plain_key

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer
    from fusegrad.tracer.twin.sites import Site

CHANGE = "sets an attribute of an object"
REPLACE = "sets an item of a dict or a list"
APPEND = "appends to a list, or empties one"


@dataclass(slots=True, eq=False)
class Stored:
    """An attribute that a run has set, of an object that it found outside; or an item.

    first: what a number was, if it was only added to. before: where an attribute was found that it set first.
    """

    owner: Any
    name: str
    first: Any = MISSING
    before: Found | None = None

    def value(self) -> Any:
        """What it is now."""
        return own(self.owner, self.name)[self.name]


@dataclass(slots=True, eq=False)
class Grown:
    """A list or deque from outside that a run has appended to, or emptied; or `world/printing.py`.

    first: what it held before the run. emptied: whether that is gone. added: what was appended since.
    known: whether the first items are guarded.
    """

    owner: Any
    first: tuple[Any, ...]
    emptied: bool = False
    added: list[Any] = field(default_factory=list)
    known: bool = False


class Stores:
    """The attributes that a run has set, and those that are whole numbers to which it has added.

    What is only added to need not be known: `first` is what it was, until somebody looks at it. times: how
    often anything was set or appended. hits: calls of functions that had kept their results: what gives the
    function, args and kwargs.
    """

    def __init__(self) -> None:
        self._set: dict[tuple[int, Any], Stored] = {}
        self._counts: dict[tuple[int, str], Stored] = {}
        self._begun: dict[tuple[int, str], Stored] = {}
        self.grown: dict[int, Grown] = {}
        self.hits: list[tuple[Any, ...]] = []
        self._items: dict[int, dict | list] = {}  # the containers of which items were set, by their ids
        self.times = 0

    def __bool__(self) -> bool:
        return bool(self._set)

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._set.values())

    def __contains__(self, place: tuple[Any, Any]) -> bool:
        owner, name = place
        if type(owner) is ModuleType:  # its attributes are the globals of its functions
            owner = vars(owner)
        return is_plain(name) and (id(owner), name) in self._set

    def counts(self) -> Iterable[Stored]:
        return self._counts.values()

    def add(self, owner: Any, name: Any, before: Found | None = None) -> None:
        if (id(owner), name) not in self._set:
            self._set[id(owner), name] = Stored(owner, name, before=before)

    def before(self, owner: Any, name: str) -> Found | None:
        """Where an attribute that the run has set was found before; None if that is not known."""
        known = self._set.get((id(owner), name))
        return None if known is None else known.before

    def begins_items(self, owner: dict | list) -> None:
        """Note that the run sets items of a container."""
        self._items[id(owner)] = owner

    def has_items(self, owner: Any) -> bool:
        """Whether the run has set items of a container."""
        return id(owner) in self._items

    def begins_count(self, owner: Any, name: str) -> bool:
        """Whether `owner.name += ...`, which begins, may add to whatever is there."""
        place = id(owner), name
        if place in self._set or place in self._begun or kind_of_attribute(owner, name) is not Store.OWN:
            return False
        now = held(owner, name)
        if type(now) is not int:
            return False
        known = self._counts.get(place)
        self._begun[place] = Stored(owner, name, now if known is None else known.first)
        return True

    def count(self, owner: Any, name: str) -> bool:
        """Note that what has begun has come to its end."""
        begun = self._begun.pop((id(owner), name), None)
        if begun is not None:
            self._counts[id(owner), name] = begun
        return begun is not None

    def no_count(self, owner: Any, name: str) -> Any:
        """What an attribute was before the run, if it was only added to so far: somebody looks at it."""
        place = id(owner), name
        count, begun = self._counts.pop(place, None), self._begun.pop(place, None)
        if count is not None:
            self._set[place] = Stored(owner, name)
        known = count or begun
        return MISSING if known is None else known.first

    def forget(self, owner: Any, name: str) -> None:
        """The attribute is deleted."""
        for table in (self._set, self._counts, self._begun):
            table.pop((id(owner), name), None)

    def clear(self) -> None:
        for table in (self._set, self._counts, self._begun, self.grown, self._items):
            table.clear()


def grow(observer: Observer, owner: Any, items: Iterable[Any] | None) -> bool:
    """Note that items are about to be appended to a list from outside, or that all of its items are about to
    go (None); whether a replay can do it, too.
    """
    if type(owner) not in (list, deque) or not observer.is_outer(owner):
        return False
    if observer.is_late(owner) or _is_argument(observer, owner) or observer.stores.has_items(owner):
        return False
    items = None if items is None else tuple(items)
    if items is not None and not all(can_be_left(observer, item, owner) for item in items):
        return False
    known = observer.stores.grown.setdefault(id(owner), Grown(owner, tuple(owner)))
    if items is None:
        known.emptied = True
        known.added.clear()
    else:
        known.added += items
    observer.stores.times += 1
    observer.changed(APPEND)
    return True


def look_at(observer: Observer, owner: Any, site: Site) -> bool:
    """Somebody looks at a container: whether it is one that has grown, whose first items are guarded now."""
    grown = observer.stores.grown.get(id(owner))
    if grown is not None and not grown.known:
        grown.known = True
        key = ("contents", id(owner))
        observer.read(key, lambda: ContentsRead(owner, site, grown.first))
        for item in grown.first:
            observer.reached(item)
    return grown is not None


def is_added(observer: Observer, owner: Any, key: Any) -> bool:
    """Whether an item of a list, by its key, is one that the run has appended, however long the list was."""
    grown = observer.stores.grown.get(id(owner))
    return grown is not None and type(key) is int and -len(grown.added) <= key < 0


def _is_argument(observer: Observer, owner: Any) -> bool:
    """Whether a container is part of the arguments, too."""
    args, kwargs = observer.arguments
    pending = [*args, *kwargs.values()]
    while pending:
        value = pending.pop()
        if value is owner:
            return True
        if is_container(value):
            pending += contents(value)
    return False


def late(observer: Observer, owner: Any, part: Callable[[Any], Place], value: Any, site: Site) -> Any:
    """What to give for `value`, found in what code has changed that a replay runs in the end: a float is
    followed, the way to one in a list is noted. MISSING where it is to be found as ever.

    part: gives the place, of that of the owner.
    """
    if id(owner) not in observer.changed_late:
        return MISSING
    place = observer.late.get(id(owner)) or Held(hold(owner))
    if type(value) is list:
        observer.late[id(observer.keep(value))] = part(place)
        return observer.reached(value)
    if type(value) is not float:
        return MISSING
    looked = functools.partial(observer.look_at, owner, site)
    return observer.numbers.follow(Taken(fresh(value), looked, place=part(place)))


def own(owner: Any, name: Any = None) -> Any:
    """An object's or a class's own attributes, by their names; the items of a dict or a list; what a cell
    holds; the buffers of a module, where `name` is that of one.
    """
    if type(owner) is CellType:
        return {name: owner.cell_contents}
    if type(owner) in (dict, list) or purity.is_group_class(type(owner)):
        return owner
    if isinstance(owner, type):
        return vars(owner)
    namespace = instance_dict(owner) or {}
    is_buffer = type(name) is str and kind_of_attribute(owner, name) is Store.BUFFER
    return namespace["_buffers"] if is_buffer else namespace


def held(owner: Any, name: Any) -> Any:
    """An attribute of an object's own, or an item; MISSING if there is none."""
    try:
        return own(owner, name)[name]
    except (KeyError, IndexError):
        return MISSING


def place_of(observer: Observer, owner: Any, key: Any, site: Site) -> Any:
    """The key of an item, those of a list of which the run sets items counted from its begin."""
    counted = type(owner) is list and type(key) is int and -len(owner) <= key < 0
    if not counted or not observer.stores.has_items(owner):
        return key
    observer.read_length(owner, site)
    return len(owner) + key


def _has_item(key: Any, owner: Any) -> bool:
    if isinstance(owner, dict):
        return is_plain(key) and dict.__contains__(owner, key)
    return type(key) is int and -len(owner) <= key < len(owner)


def has_item(observer: Observer, owner: dict | list, place: Any, site: Site) -> None:
    """Guard that a container has an item, whatever that is."""
    words = f"whether a {type(owner).__name__} has an item [{place!r}]"
    has = functools.partial(_has_item, place)
    observer.read(("has", id(owner), place), lambda: GetterRead(owner, has, True, words, site))


def store_item(observer: Observer, value: Any, owner: Any, key: Any, site: Site) -> bool:
    """Replace an item of a dict or a list from outside so that a replay can, too; whether that can be."""
    of_group = purity.is_group_class(type(owner)) and key != "params" and key not in options_of_ours()
    if not (of_group or type(owner) in (dict, list)) or not observer.is_outer(owner):
        return False
    if observer.is_late(owner):
        return False
    shown = id(owner) in observer.stores.grown or _is_argument(observer, owner)
    if shown or not _has_item(key, owner) or not can_be_left(observer, value, owner):
        return False
    observer.stores.begins_items(owner)
    place = place_of(observer, owner, key, site)
    if (owner, place) not in observer.stores:
        has_item(observer, owner, place, site)
    owner[place] = value
    observer.stores.times += 1
    observer.stores.add(owner, place)
    observer.changed(REPLACE)
    return True


def look_at_others(observer: Observer, owner: Any, site: Site) -> bool:
    """Somebody looks at all that is in a container: whether the run has set items of it. Then the keys are
    guarded, and the items that it has not set.
    """
    if not observer.stores.has_items(owner):
        return False
    if isinstance(owner, dict):
        keys = tuple(dict.keys(owner))
        observer.read(("keys", id(owner)), lambda: GetterRead(owner, _keys, keys, "the keys of a dict", site))
    else:
        observer.read_length(owner, site)
    for place, value in [*dict.items(owner)] if isinstance(owner, dict) else [*enumerate(owner)]:
        if (owner, place) not in observer.stores:
            # Numbers that are others at each call as well: it gets those that are there.
            made = functools.partial(ItemRead, owner, place, value, site)
            observer.read(("content", id(owner), id(observer.keep(place))), made)
            observer.reached(value)
    return True


def _keys(owner: Any) -> tuple[Any, ...]:
    return tuple(dict.keys(owner))


@functools.cache
def options_of_ours() -> frozenset[str]:
    """The names of the options of all optimizers of ours, whose rules look at them."""
    kinds = [kind for kind in vars(sys.modules["fusegrad.eager.optim"]).values() if isinstance(kind, type)]
    return frozenset(name for kind in kinds for name in inspect.signature(kind).parameters)


# Options that have no say in what an optimizer keeps for its parameters.
_OPTIONS = ("lr", "weight_decay")


def store_option(observer: Observer, value: Any, owner: Any, key: Any) -> bool:
    """Set an option of an optimizer to a number, as a schedule written by hand does; whether a replay can."""
    if not purity.is_group_class(type(owner)) or observer.status(owner) != "outer" or type(key) is not str:
        return False
    numbers = type(value) in NUMBERS and type(dict.get(owner, key)) in NUMBERS
    if key not in _OPTIONS or not numbers or id(owner) in observer.changed_late:
        return False
    if observer.numbers.symbol_of(value) is None:
        observer.numbers.look(value)
    owner[key] = value
    observer.stores.times += 1
    observer.changed("sets an option of an optimizer")
    observer.stores.add(owner, key)
    observer.numbers.options.setdefault(id(owner), {})[key] = value
    return True


def fix(observer: Observer, owner: Any, name: str, site: Site) -> None:
    """Somebody looks at an attribute or sets it: if it was only added to so far, it must be what it was."""
    first = observer.stores.no_count(owner, name)
    if first is not MISSING:
        found = Found("instance", first)
        key = ("attribute", id(owner), name)
        observer.read(key, lambda: AttributeRead(owner, name, found, site))


def count(observer: Observer, value: Any, owner: Any, name: str, site: Site) -> bool:
    """Set an attribute to which something was added, which a replay adds, too; whether that can be."""
    if observer.numbers.has(value):
        fix(observer, owner, name, site)  # by how much it grows is not known
    if type(value) is not int or not observer.stores.count(owner, name):
        return False
    kind = type(owner)
    for about in (name, "__setattr__"):
        observer.read_class(kind, about, type_lookup(kind, about), site)
    observer.read(("count", id(owner), name), lambda: CountRead(owner, name, site))
    setattr(owner, name, value)
    _changed(observer, ("count", id(owner), name), value, site)
    return True


def _changed(observer: Observer, place: tuple[str, int, str], value: Any, site: Site) -> None:
    """Note that an attribute has been set. Rounds of a loop that may be left out hand it on."""
    observer.stores.times += 1
    if not observer.loops.rolling:
        observer.does(f"sets `{place[2]}`", site)
    there = is_plain(value) or (observer.is_tensor(value) and has_values(value.array))
    if not there and not observer.loops.rolling:
        observer.changed(CHANGE)
    elif place not in observer.loops.changed:
        observer.loops.changed.add(place)
        observer.changed_later(CHANGE)


class CountRead(Read):
    """That an attribute of an object itself is a whole number, whichever it is."""

    __slots__ = ("name", "owner")
    kind = "attribute"

    def __init__(self, owner: Any, name: str, site: Site) -> None:
        self.site, self.owner, self.name, self.expected = site, hold(owner), name, Expected(int)

    def place(self) -> Place:
        return Called(functools.partial(_kind_of, self.name), Held(self.owner))

    def subject(self) -> str:
        return f"the class of attribute `{self.name}`"


def _kind_of(name: str, owner: Any) -> Any:
    return type(own(owner).get(name, MISSING))


def store(observer: Observer, value: Any, owner: Any, name: str, site: Site) -> bool:
    """Set an attribute of an object from outside so that a replay can do it, too; whether that can be."""
    if _is_there(observer, value, owner, name, site):
        return True
    place, kind = kind_of_attribute(owner, name), type(owner)
    # Rounds of loops hand on what lies in an object's own dict.
    is_buffer = place is Store.BUFFER and type(value) is purity.tensor_class() and not observer.loops.rolling
    is_flag = place is Store.CLASS and not observer.loops.rolling and sets_flag(owner, name, value)
    if not (place is Store.OWN or is_buffer or is_flag) or not can_be_left(observer, value, owner):
        return False
    for about in (name, "__setattr__"):
        observer.read_class(kind, about, type_lookup(kind, about), site)
    before = lookup(owner, name)
    setattr(owner, name, value)
    _changed(observer, ("set", id(owner), name), value, site)
    observer.stores.add(owner, name, before)
    if observer.loops.rolling:
        observer.loops.sets(owner, name)
    return True


def unset(observer: Observer, owner: Any, name: str, site: Site) -> bool:
    """Delete an attribute that the run has set on an object that had none of its own: nothing is left of it,
    as long as that has none. Whether it was one.
    """
    before, kind = observer.stores.before(owner, name), type(owner)
    if (
        before is None
        or before.where not in ("absent", "class")
        or kind_of_attribute(owner, name) is not Store.OWN
    ):
        return False
    deletes, module = type_lookup(kind, "__delattr__"), nn_module_class()
    if deletes is not object.__delattr__ and (module is None or deletes is not vars(module)["__delattr__"]):
        return False
    observer.read_class(kind, "__delattr__", deletes, site)
    key = ("attribute", id(owner), name)
    observer.read(key, lambda: AttributeRead(owner, name, before, site))
    observer.does(f"deletes `{name}`", site)
    observer.stores.times += 1
    observer.stores.forget(owner, name)
    delattr(owner, name)
    return True


def _is_there(observer: Observer, value: Any, owner: Any, name: str, site: Site) -> bool:
    """Whether the attribute has the value already: it stays what it is, as long as it is that."""
    found = lookup(owner, name)
    if (owner, name) in observer.stores or found.where not in ("instance", "module"):
        return False
    if ("attribute", id(owner), name) in observer.numbers.sources:
        return False  # nobody guards that it is this number
    both_plain = is_plain(value) and is_plain(found.raw) and not observer.numbers.has(value)
    # As after `self.items += [...]`, which has told by itself that the list grows.
    same = found.raw is value and (observer.is_tensor(value) or type(value) in (list, deque))
    if not same and not (both_plain and plain_key(value) == plain_key(found.raw)):
        return False
    kind = type(owner)
    if not sets_as_objects_do(kind) or is_data_descriptor(type_lookup(kind, name)):
        return False
    observer.read_class(kind, "__setattr__", type_lookup(kind, "__setattr__"), site)
    observer.read_attribute(owner, name, found, site)
    return True


def can_be_left(observer: Observer, value: Any, owner: Any) -> bool:
    """Whether a replay may be able to make the value again, as far as can be told now."""
    if observer.is_tensor(value):
        # A parameter that is put on a module becomes one of its own; one that the run makes is new.
        found = id(value) in observer.captured_tensors and not isinstance(owner, nn_module_class() or ())
        return type(value) is purity.tensor_class() or found
    if is_plain(value) or observer.numbers.of(value) is not None:
        return True
    if observer.status(value) == "local" and is_remade(value):
        return all(can_be_left(observer, held, value) for held in attributes_of(value).values())
    items = value.values() if type(value) is dict else value
    return type(value) in (tuple, list, dict) and all(can_be_left(observer, v, owner) for v in items)
