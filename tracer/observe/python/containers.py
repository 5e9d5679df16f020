"""Subclasses of dict, list, tuple and set: an object goes in, as which builtin container it acts comes out.

What such a class takes over from the builtin one is done as by that one, once it is noted that the class has
nothing else under the name; what it has in Python is followed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import Site


def acting(observer: Observer, value: Any, name: str, site: Site) -> Any:
    """The builtin container whose `name` the class of an object takes over; else that class."""
    kind = type(value)
    base = purity.container_of(kind)
    if base is None or not purity.takes_over(kind, base, name):
        return kind
    observer.read_type(value, site)
    observer.read_class(kind, name, type_lookup(kind, name), site)
    return base


def is_looked_into(observer: Observer, value: Any, by_keys: bool, site: Site) -> bool:
    """Whether builtin functions that go over an object of such a class find what the builtin container has.

    by_keys: they may take it for a mapping, and ask for its keys.
    """
    kind = type(value)
    base = purity.container_of(kind)
    asked = purity.LOOKED_INTO if by_keys else ("__iter__", "__len__")
    if base is None or not all(purity.takes_over(kind, base, name) for name in asked):
        return False
    observer.read_type(value, site)
    for name in asked:
        observer.read_class(kind, name, type_lookup(kind, name), site)
    return True


def calls_no_other(observer: Observer, base: Any, value: Any, name: str, site: Site) -> bool:
    """Whether a method of the builtin container calls none that the class of an object has in Python, as an
    OrderedDict's `update` calls `__setitem__`.
    """
    kind = type(value)
    if base is not OrderedDict or not (name == "copy" or name in purity.MUTATORS[base]):
        return True
    for other in _CALLED:
        observer.read_class(kind, other, type_lookup(kind, other), site)
    return name != "copy" and all(purity.takes_over(kind, base, other) for other in _CALLED)


_CALLED = (*purity.LOOKED_INTO, "__setitem__", "__delitem__")
