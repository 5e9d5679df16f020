"""`copy.deepcopy` of an observed run, of configurations and the like: an object goes in, a copy comes out
that the run has made. All that the object holds is read.
"""

from __future__ import annotations

import copy
import copyreg
import enum
import functools
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, flat_contents, instance_dict, type_lookup
from fusegrad.tracer.observe.observer import OUTER, Observer
from fusegrad.tracer.observe.python import own_lookups
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

# What a class may have that copies its objects in a way of its own: none of these, or that of `object`.
_WAYS = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__",
         "__getnewargs__", "__new__")  # fmt: skip
# What copying asks an object for, by a `__getattribute__` of its class.
_ASKED = (*_WAYS[:-1], "__class__", "__dict__")


def deep(observer: Observer, value: Any, site: Site) -> Any:
    """A deep copy of an object of a user's class; MISSING if it is none, or copies itself in another way."""
    parts: dict[int, Any] = {}
    if not _is_object(value) or not _is_known(observer, value, parts):
        return MISSING
    for part in parts.values():
        _read(observer, part, site)
        if _has_look_up(type(part)) and not _is_found_as_usual(observer, part, site):
            return MISSING
    made = copy.deepcopy(value)
    _own(observer, made, set())
    return made


def _is_object(value: Any) -> bool:
    """Whether a copy is an object of the same class that holds copies of its attributes."""
    kind, namespace = type(value), instance_dict(value)
    if type(kind) is not type or kind in copyreg.dispatch_table or type(namespace) is not dict:
        return False
    if purity.is_trusted_object(value) or "__slots__" in {n for base in kind.__mro__ for n in vars(base)}:
        return False
    return all(type_lookup(kind, name) is type_lookup(object, name) for name in _WAYS)


def _has_look_up(kind: type) -> bool:
    """Whether attributes of a class's objects are looked up by code of its own."""
    usual = type_lookup(object, "__getattribute__")
    return kind not in purity.CONTAINERS and type_lookup(kind, "__getattribute__") is not usual


def _is_found_as_usual(observer: Observer, value: Any, site: Site) -> bool:
    """Whether such code, which is followed, finds what copying asks for where `object` does."""
    return all(
        _is_same(
            _found(functools.partial(own_lookups.load, observer, value, name, site)),
            _found(functools.partial(object.__getattribute__, value, name)),
        )
        for name in _ASKED
    )


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) is BuiltinMethodType and bool(one == other))


def _found(look_up: Callable[[], Any]) -> Any:
    try:
        return look_up()
    except AttributeError:
        return MISSING


def _is_atom(value: Any) -> bool:
    """Whether a copy is the thing itself."""
    if isinstance(value, enum.Enum):
        return purity.is_simple_enum(type(value))
    return is_plain(value) or purity.is_static(value) or isinstance(value, (type, FunctionType))


def _is_known(observer: Observer, value: Any, parts: dict[int, Any]) -> bool:
    """Whether all that is to be copied is known, and may be; `parts` gets it."""
    if _is_atom(value):
        return is_plain(value) or observer.is_known(value) or parts != {}
    if id(value) in parts:
        return True
    is_container = type(value) in purity.CONTAINERS
    if observer.is_tensor(value) or not (is_container or _is_object(value)):
        return False
    if not parts and not observer.is_known(value):
        return False
    parts[id(value)] = value
    if is_container:
        return all(_is_known(observer, item, parts) for item in flat_contents(value))
    namespace = instance_dict(value) or {}
    set_here = any(stored.owner is value for stored in observer.stores)
    return not set_here and all(_is_known(observer, held, parts) for held in namespace.values())


def _read(observer: Observer, part: Any, site: Site) -> None:
    """What a part holds, and how its class copies it."""
    outer = observer.status(part) == OUTER
    contents = part
    if type(part) not in purity.CONTAINERS:
        observer.read_type(part, site)
        for name in _WAYS:
            observer.read_class(type(part), name, type_lookup(type(part), name), site)
        contents = instance_dict(part)
        if outer:
            observer.reached(contents)
    if outer:
        observer.look_at(part, site)
        observer.read_contents(contents, site)
    for item in flat_contents(contents):
        observer.numbers.look(item)


def _own(observer: Observer, made: Any, seen: set[int]) -> None:
    """A copy, and what it holds, are of this run."""
    if id(made) in seen or _is_atom(made) or isinstance(made, ModuleType):
        return
    seen.add(id(made))
    observer.local(made)
    is_container = type(made) in purity.CONTAINERS
    for item in flat_contents(made) if is_container else (instance_dict(made) or {}).values():
        _own(observer, item, seen)
