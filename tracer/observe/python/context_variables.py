"""Context variables of an observed run: a method of one goes in, what to call in its place comes out.

What a run sets it must set back, in the order of brackets; what it has not set is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from fusegrad.tracer.observe.leaves import opened
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site


def method(observer: Observer, function: Any, site: Site) -> Callable[..., Any]:
    """What to call in place of a variable's `get`, `set` or `reset`."""
    if not observer.is_known(function.__self__):
        return opened(observer, function, f"calls `{function.__name__}` of a ContextVar", site)
    known = {"get": _get, "set": _set, "reset": _reset}[function.__name__]
    return functools.partial(known, observer, function.__self__, site)


def _get(observer: Observer, variable: ContextVar[Any], site: Site, /, *default: Any) -> Any:
    if any(other is variable for other, _ in observer.entered):
        return variable.get()
    words = f"context variable `{variable.name}`"
    found = _value(variable)
    observer.read(("context", id(variable)), lambda: GetterRead(variable, _value, found, words, site))
    if found is not MISSING:
        return observer.reached(found)
    try:
        return variable.get(*default)
    except LookupError as error:
        observer.explain(error)
        raise


def _value(variable: ContextVar[Any]) -> Any:
    return variable.get(MISSING)


def _set(observer: Observer, variable: ContextVar[Any], site: Site, /, value: Any) -> Any:
    observer.does(f"sets the context variable `{variable.name}`", site)
    token = observer.local(variable.set(value))
    observer.entered.append((variable, token))
    return token


def _reset(observer: Observer, variable: ContextVar[Any], site: Site, /, token: Any) -> None:
    observer.does(f"sets the context variable `{variable.name}` back", site)
    if observer.entered and observer.entered[-1][1] is token:
        observer.entered.pop()
    else:
        observer.open(f"sets the context variable `{variable.name}` back out of turn", site)
    variable.reset(token)


def check_left(observer: Observer) -> None:
    """At the end of a run: what it has set and not set back is for others to see."""
    for variable, _ in observer.entered:
        observer.open(f"sets the context variable `{variable.name}`, and not back")
