"""Classes with a `__getattribute__` in Python: an object and a name go in, what its twin finds comes out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType, MethodType
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, instance_dict, lookup
from fusegrad.tracer.observe.observer import LOCAL, OUTER, STRUCTURE, Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site
from fusegrad.tracer.twin.source import Unsupported


def load(observer: Observer, owner: Any, name: str, site: Site) -> Any:
    """``owner.name``, as the class looks it up, and then as its `__getattr__` does."""
    kind, lookup_twin = type(owner), None
    if observer.status(owner) != STRUCTURE:
        lookup_twin = observer.special_method(owner, "__getattribute__", site)
    if lookup_twin is None:
        observer.open(f"`{name}` of a {kind.__name__} is computed by code of its own", site)
        return getattr(owner, name)
    try:
        return lookup_twin(name)
    except AttributeError as error:
        if purity.python_method(kind, "__getattr__") is MISSING or not observer.is_explained(error):
            raise
    fallback = observer.special_method(owner, "__getattr__", site)
    return getattr(owner, name) if fallback is None else fallback(name)


def ordinary(observer: Observer, site: Site, owner: Any, name: str, /) -> Any:
    """`object.__getattribute__(owner, name)`, which such a look-up comes to in the end."""
    if name == "__dict__" and type(instance_dict(owner)) is dict and observer.status(owner) in (OUTER, LOCAL):
        return _namespace(observer, owner, site)
    found = lookup(owner, name, ordinary=True)
    is_held = observer.status(owner) in (OUTER, LOCAL)
    if is_held and name == "__class__" and found.raw is vars(object)["__class__"]:
        observer.read_type(owner, site)
        return observer.reached(type(owner))
    if (
        found.where == "data"
        and is_held
        and type(found.raw) is property
        and type(found.raw.fget) is FunctionType
    ):
        observer.read_type(owner, site)
        observer.read_class(type(owner), name, found.raw, site)
        return by_property(observer, owner, name, found.raw.fget, site)
    known = found.where in ("instance", "slot") or type(found.raw) is FunctionType
    absent = found.where in ("absent", "fallback")
    if not (known or absent or found.where == "class") or not is_held:
        observer.open(f"`{name}` of a {type(owner).__name__} is computed by code of its own", site)
        return object.__getattribute__(owner, name)
    again = functools.partial(_found, name)
    words = f"attribute `{name}` of a {type(owner).__name__}"
    if observer.status(owner) == OUTER:
        key = ("ordinary", id(owner), name)
        observer.read(key, lambda: GetterRead(owner, again, again(owner), words, site))
    elif found.where != "instance":
        observer.read_class(type(owner), name, again(owner), site)
    if absent:
        try:
            return object.__getattribute__(owner, name)
        except AttributeError as error:
            observer.explain(error)
            raise
    if found.where == "class" and type(found.raw) is FunctionType:
        observer.reached(found.raw)
        return observer.local(MethodType(found.raw, owner))
    if found.where == "class" and type(found.raw) is MethodDescriptorType:
        return object.__getattribute__(owner, name)  # a method of `object`
    if found.where == "class" and hasattr(type(found.raw), "__get__"):
        observer.open(f"`{name}` of a {type(owner).__name__} is computed by a descriptor", site)
        return object.__getattribute__(owner, name)
    own = observer.status(owner) == LOCAL and found.where != "class"
    return found.raw if own else observer.reached(found.raw)


def by_property(observer: Observer, owner: Any, name: str, get: FunctionType, site: Site) -> Any:
    """What the function of a property gives."""
    getter: Callable[..., Any] | None
    try:
        observer.reached(get)
        observer.read_function(get, site)
        getter = observer.twin(get)
    except Unsupported as refusal:
        getter = None
        observer.open(f"property `{name}`: {refusal.reason}", site)
    # Not in the clause, where it would find our exception.
    return getattr(owner, name) if getter is None else getter(owner)


def _namespace(observer: Observer, owner: Any, site: Site) -> Any:
    """An object's dict, which is looked into like any other: no replay sets attributes of such an object."""
    held = instance_dict(owner)
    if observer.status(owner) == LOCAL:
        return observer.local(held)
    words = f"the attributes of a {type(owner).__name__}"
    observer.read(("namespace", id(owner)), lambda: GetterRead(owner, instance_dict, held, words, site))
    return observer.reached(held)


def _found(name: str, owner: Any) -> Any:
    found = lookup(owner, name, ordinary=True)
    return MISSING if found.where in ("absent", "fallback") else found.raw
