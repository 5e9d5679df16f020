"""Functions that keep their results: one of `functools.cache` goes in, what guards its results comes out.

What was kept for arguments is found again by looking into the cache, where Python's garbage collector looks;
a call that fills it cannot be replayed, but the next one can.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

CACHED = type(functools.cache(lambda: None))


def cached(observer: Observer, function: Any, site: Site) -> Callable[..., Any]:
    """What to call in place of a function that keeps its results."""
    return functools.partial(_call, observer, function, site)


def _call(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    name = getattr(function, "__name__", "a function")
    observer.numbers.look(*args)
    if kwargs or not all(map(is_plain, args)) or function.cache_parameters()["typed"]:
        observer.open(f"calls `{name}`, which keeps its results, with more than plain arguments", site)
        return function(*args, **kwargs)
    key = _key(args)
    if _kept(key, function) is MISSING:
        observer.open(f"fills the cache of `{name}`", site, "once")
        return function(*args)
    result = function(*args)
    words = f"what `{name}` keeps for {args}"
    observer.read(
        ("cached", id(function), key),
        lambda: GetterRead(function, functools.partial(_kept, key), result, words, site),
    )
    return observer.reached(result)


def _key(args: tuple[Any, ...]) -> Any:
    """Under what the result is kept."""
    return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args


def _kept(key: Any, function: Any) -> Any:
    """What a function keeps under a key; MISSING if it keeps nothing there."""
    held = gc.get_referents(function)
    tables = [table for table in held if type(table) is dict and table is not function.__dict__]
    for table in tables:
        found = dict.get(table, key, MISSING)
        if found is MISSING:
            continue
        if function.cache_parameters()["maxsize"] is None:
            return found
        # A table of links, whose keys and results come one after the other.
        keys = [k for k in table if k == key]
        places = [i for i, item in enumerate(held) if any(item is k for k in keys)]
        return held[places[0] + 1] if places and places[0] + 1 < len(held) else MISSING
    return MISSING
