"""`functools.wraps` within a run: a function that the run has made takes over what another one is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.observer import LOCAL, OUTER, Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site

_DEFAULTS = functools.WRAPPER_ASSIGNMENTS, functools.WRAPPER_UPDATES
_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def updating(observer: Observer, site: Site) -> Callable[..., Any]:
    """What to call in place of `functools.update_wrapper`."""

    def update(wrapper: Any, wrapped: Any, assigned: Any = _DEFAULTS[0], updated: Any = _DEFAULTS[1]) -> Any:
        # Of a partial that the run has made all is known.
        is_own = type(wrapped) is functools.partial and observer.status(wrapped) == LOCAL
        functions = type(wrapper) is FunctionType and (type(wrapped) is FunctionType or is_own)
        functions = functions and observer.is_known(wrapped)
        if not functions or observer.status(wrapper) != LOCAL or (assigned, updated) != _DEFAULTS:
            observer.open("takes over the names of an object that is no function", site)
        elif observer.status(wrapped) == OUTER:
            for name in _NAMES:
                attributes.load(observer, wrapped, name, site)
            for get, words in ((_annotations, "annotations"), (vars, "attributes")):
                held = get(wrapped)
                what = f"the {words} of `{wrapped.__name__}`"
                key = (words, id(wrapped))
                observer.read(key, functools.partial(GetterRead, wrapped, get, held, what, site))
                observer.read_contents(observer.reached(held), site)
        return functools.update_wrapper(wrapper, wrapped, assigned, updated)

    return update


def _annotations(function: FunctionType) -> dict[str, Any]:
    return function.__annotations__
