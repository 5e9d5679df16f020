"""Nested containers (pytrees): lists, tuples, dicts, named tuples and dataclasses of leaves.

Objects of ours that hold tensors, and never others, are containers to us, and leaves to users, as in PyTorch.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any


class Structure:
    """The shape of a container with its leaves taken out; hashable, compared by `key`.

    key: nested tuples that tell containers apart by type, length and keys (with their types,
    in order); a leaf is None. build: makes a fresh container with leaves put in, in order, from an iterator.
    """

    __slots__ = ("build", "key", "leaves")

    def __init__(self, key: Hashable, leaves: int, build: Callable[[Iterator[Any]], Any]) -> None:
        self.key = key
        self.leaves = leaves
        self.build = build

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


_LEAF = Structure(None, 1, next)
# Of classes of ours whose objects hold tensors: the attributes that they are made of.
_PARTS: dict[type, tuple[str, ...]] = {}


def hold_tensors(kind: type, *names: str) -> None:
    """Note that objects of a class are what they have under these names, which is never set again."""
    _PARTS[kind] = names


def holds_tensors(value: Any) -> bool:
    """Whether `value` is an object of such a class."""
    return type(value) in _PARTS


def field_names(value: Any) -> tuple[str, ...] | None:
    """The attributes that a dataclass, or an object that holds tensors, is made of; None for others."""
    if _is_dataclass(value):
        return tuple([f.name for f in dataclasses.fields(value)])
    return _PARTS.get(type(value))


def is_container(value: Any) -> bool:
    """Whether `flatten` takes `value` apart."""
    kind = type(value)
    if kind in (list, tuple, dict, OrderedDict) or kind in _PARTS:
        return True
    return _is_named_tuple(kind) or _is_dataclass(value)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,)


def _is_dataclass(value: Any) -> bool:
    # One that is a dict or the like, too, is more than its fields.
    others = (type, dict, list, tuple, set, frozenset)
    return dataclasses.is_dataclass(value) and not isinstance(value, others)


def contents(value: Any) -> list[Any]:
    """The items of a container, in order."""
    if type(value) in (dict, OrderedDict):
        return list(value.values())
    names = field_names(value)
    return list(value) if names is None else [getattr(value, name) for name in names]


def is_its_attributes(value: Any) -> bool:
    """Whether an object is nothing but an instance of a class in Python with attributes in a dict, and, if it
    is a dict, with plain keys.
    """
    kind, likes = type(value), _LIKES[_base_of(value)]
    if is_container(value) or kind.__basicsize__ != likes.__basicsize__ or kind.__itemsize__:
        return False
    if not all(type(key) in (str, int) for key in within(value)[0]):
        return False
    if type(attributes_of(value)) is not dict or hasattr(kind, "__del__"):
        return False
    return not any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__)


def attributes_of(value: Any) -> Any:
    """What an object has in its dict, whatever its class says of that."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _base_of(value: Any) -> type:
    return next(base for base in _LIKES if isinstance(value, base))


def within(value: Any) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The items of such an object, as far as it is a dict, and its attributes; its class is not asked."""
    base: Any = _base_of(value)
    return {} if base is object else dict(base.items(value)), attributes_of(value)


class _Plain:
    pass


class _Items(dict):
    pass


class _OrderedItems(OrderedDict):
    pass


_LIKES: dict[type, type] = {OrderedDict: _OrderedItems, dict: _Items, object: _Plain}


def flatten(
    value: Any, leaves: list[Any], ours: bool = True, objects: Callable[[Any], bool] | None = None
) -> Structure:
    """Append the leaves of `value` to `leaves` and give its structure.

    ours: whether objects of ours that hold tensors are taken apart. objects: which of those that are nothing
    but their attributes are taken apart as well; then what is met again is the same object in what is built,
    too. Raises ValueError for a container that contains itself.
    """
    shared: dict[int, Structure | None] = {}
    if objects is not None:
        _find_shared(value, ours, objects, set(), shared)
    found = _flatten(value, leaves, ours, objects, (), shared)
    if not shared:
        return found
    return Structure(found.key, found.leaves, lambda source: found.build(_Remembering(source)))


class MetAgain:
    """In keys, what is met more than once: with its own key as a part where it is met first."""


class _Remembering:
    """Leaves to fill in, and what was built of them already that is met again."""

    def __init__(self, source: Iterator[Any]):
        self.source, self.built = source, dict[int, Any]()

    def __iter__(self) -> _Remembering:
        return self

    def __next__(self) -> Any:
        return next(self.source)


def _find_shared(
    value: Any, ours: bool, objects: Callable[[Any], bool], met: set[int], shared: dict[int, Any]
) -> None:
    """Give a place in `shared` to each container that is met more than once."""
    is_object = not is_container(value) and objects(value)
    if not (is_object or is_container(value)) or (type(value) in _PARTS and not ours):
        return
    if id(value) in met:
        shared[id(value)] = None
        return
    met.add(id(value))
    for held in _parts(value) if is_object else contents(value):
        _find_shared(held, ours, objects, met, shared)


def _parts(value: Any) -> list[Any]:
    items, attributes = within(value)
    return [*items.values(), *attributes.values()]


def _flatten(
    value: Any,
    leaves: list[Any],
    ours: bool,
    objects: Callable[[Any], bool] | None,
    outer: tuple[int, ...],
    shared: dict[int, Structure | None],
) -> Structure:
    kind = type(value)
    is_object = objects is not None and not is_container(value) and objects(value)
    if not (is_object or is_container(value)) or (kind in _PARTS and not ours):
        leaves.append(value)
        return _LEAF
    if id(value) in outer:
        raise ValueError("a container that contains itself")
    if (again := shared.get(id(value))) is not None:
        return again
    outer += (id(value),)
    held = _parts(value) if is_object else contents(value)
    parts = [_flatten(v, leaves, ours, objects, outer, shared) for v in held]
    if is_object:
        base: Any = _base_of(value)
        items, own = map(tuple, within(value))
        tag: Hashable = own, tuple((type(key), key) for key in items)

        def build(values: list[Any]) -> Any:
            made = base.__new__(kind)
            for key, item in zip(items, values, strict=False):
                base.__setitem__(made, key, item)
            attributes_of(made).update(zip(own, values[len(items) :], strict=True))
            return made

    elif kind in (dict, OrderedDict):
        keys = list(value)
        tag = tuple((type(k), repr(k) if isinstance(k, float) else k) for k in keys)

        def build(values: list[Any]) -> Any:
            return kind(zip(keys, values, strict=True))

    elif (names := field_names(value)) is not None:
        # An attribute that is no field could hide a method of the class.
        tag = (names, tuple(vars(value)) if hasattr(value, "__dict__") else ())

        def build(values: list[Any]) -> Any:
            made = object.__new__(kind)
            for name, item in zip(names, values, strict=True):
                object.__setattr__(made, name, item)
            return made

    else:
        tag, spread = None, _is_named_tuple(kind)

        def build(values: list[Any]) -> Any:
            return kind(*values) if spread else kind(values)

    if all(part is _LEAF for part in parts):
        number = len(parts)

        def filled(source: Iterator[Any]) -> Any:
            return build(list(itertools.islice(source, number)))

    else:
        makers = [part.build for part in parts]

        def filled(source: Iterator[Any]) -> Any:
            return build([make(source) for make in makers])

    key = (kind, tag, tuple(p.key for p in parts))
    made = Structure(key, sum(p.leaves for p in parts), filled)
    return _remembered(made, id(value), shared) if id(value) in shared else made


def _remembered(first: Structure, place: int, shared: dict[int, Structure | None]) -> Structure:
    """The structure of what is met again later; notes that of what is met then."""
    number = sum(structure is not None for structure in shared.values())

    def same(source: Any) -> Any:
        return source.built[number]

    shared[place] = Structure((MetAgain, number, ()), 0, same)

    def build(source: Any) -> Any:
        source.built[number] = made = first.build(source)
        return made

    return Structure((MetAgain, number, (first.key,)), first.leaves, build)
