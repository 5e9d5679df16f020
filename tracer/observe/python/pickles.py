"""`pickle.dumps` of plain values, as caches make keys of arguments: the values go in, the bytes come out."""

from __future__ import annotations

import functools
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

from fusegrad.tracer.observe.lookup import flat_contents
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import Site

_PLAIN = (int, float, bool, type(None), str, bytes)


def dumps(observer: Observer, site: Site) -> Callable[..., bytes]:
    """What to call in place of `pickle.dumps`."""
    return functools.partial(_dumps, observer, site)


def _dumps(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> bytes:
    if kwargs or len(args) != 1 or not _are_bytes_of_contents(args[0]):
        observer.open("calls `dumps` of `_pickle`", site)
    else:
        observer.consume(args[0], site, "passes to `dumps`", tensors=False)
    return pickle.dumps(*args, **kwargs)


def _are_bytes_of_contents(value: Any) -> bool:
    """Whether the pickle follows from what the value holds: texts that are equal may be one object or two,
    which pickles tell apart.
    """
    if type(value) in (dict, list, tuple):
        items = flat_contents(value)
        texts = Counter(x for x in items if type(x) in (str, bytes))
        return all(type(x) in _PLAIN for x in items) and all(count == 1 for count in texts.values())
    return type(value) in _PLAIN
