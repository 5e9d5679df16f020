"""Functions that keep their results: one of `functools.cache` goes in, what guards its results comes out.

What was kept for arguments is found again by looking into the cache, where Python's garbage collector looks;
a call that fills it cannot be replayed, but the next one can. Replays call the function as well: it counts
its calls, and in a bounded cache they decide what goes first.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.python.keys import is_key
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.values import hold, is_plain
from fusegrad.tracer.twin.sites import Site

CACHED = type(functools.cache(lambda: None))


def cached(observer: Observer, function: Any, site: Site) -> Callable[..., Any]:
    """What to call in place of a function that keeps its results."""
    return functools.partial(_call, observer, function, site)


def _call(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    name = getattr(function, "__name__", "a function")
    given = (*args, *kwargs.values())
    observer.numbers.look(*given)
    if not all(is_key(observer, value) for value in given):
        observer.open(f"calls `{name}`, which keeps its results, with more than is known as a key", site)
        return function(*args, **kwargs)
    key = _key(args, kwargs, function.cache_parameters()["typed"])
    if _kept(key, function) is MISSING:
        observer.open(f"fills the cache of `{name}`", site, "once")
        return observer.reached(function(*args, **kwargs))
    result = function(*args, **kwargs)
    words = f"what `{name}` keeps for {(*args, *kwargs.items())}"
    observer.read(
        ("cached", id(function), observer.keep(key) if is_plain(key) else id(observer.keep(key))),
        lambda: GetterRead(function, functools.partial(_kept, key), result, words, site),
    )
    observer.stores.hits.append((hold(function), args, kwargs))
    return observer.reached(result)


@functools.cache
def _mark() -> object:
    """What stands between positional arguments and keywords in the keys of caches."""
    probe = functools.cache(lambda *, name: name)
    probe(name=None)
    ((mark, _, _),) = next(table for table in gc.get_referents(probe) if _is_table(table, probe))
    return mark


def _key(args: tuple[Any, ...], kwargs: dict[str, Any], typed: bool) -> Any:
    """Under what the result is kept (`functools._make_key`)."""
    key = (*args, _mark(), *(part for item in kwargs.items() for part in item)) if kwargs else args
    if typed:
        return (*key, *map(type, args), *map(type, kwargs.values()))
    return key[0] if len(key) == 1 and type(key[0]) in (int, str) else key


def _is_table(held: Any, function: Any) -> bool:
    return type(held) is dict and held is not function.__dict__


def _kept(key: Any, function: Any) -> Any:
    """What a function keeps under a key; MISSING if it keeps nothing there."""
    held = gc.get_referents(function)
    for table in (table for table in held if _is_table(table, function)):
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
