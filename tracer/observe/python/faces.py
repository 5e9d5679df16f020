"""Modules in torch's place: what one has not put down is looked up: a module of it, or that there is none."""

from __future__ import annotations

import functools
import sys
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING, instance_dict, own_of
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site


def load(observer: Observer, owner: Any, name: str, site: Site) -> Any:
    """What a module in torch's place has not put down: a name that it lacks stays lacking till it is set."""
    try:
        value = getattr(owner, name)
    except AttributeError as error:
        words = f"attribute `{name}` of a module"
        made = functools.partial(GetterRead, owner, functools.partial(own_of, name), MISSING, words, site)
        observer.read(("absent", id(owner), name), made)
        observer.explain(error)
        raise
    below = _module_below(name, owner)
    if below is not value:
        observer.open(f"`{name}` of a module is computed by code of its own", site)
        return value
    words, again = f"module `{name}` of a package", functools.partial(_module_below, name)
    observer.read(("below", id(owner), name), lambda: GetterRead(owner, again, value, words, site))
    return observer.reached(value)


def _module_below(name: str, owner: Any) -> Any:
    """A module of a package, which is an attribute of it once it was asked for."""
    own = instance_dict(owner) or {}
    return own.get(name, sys.modules.get(f"{own.get('__name__')}.{name}", MISSING))
