"""Patterns of match statements: a subject goes in, its parts come out, or None if it is of another kind.

What is asked, in which order, is what CPython asks; each question is one of the program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusegrad.tracer.observe import attributes, calls, operations, subscripts
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import Site

_ABSENT = object()
_MATCHES_ITSELF = 1 << 22  # Py_TPFLAGS_MATCH_SELF: `int(x)` gives x the number itself

Parts = tuple[Any, ...] | None


def parts_of_sequence(
    observer: Observer | None, value: Any, before: int, after: int | None, unpacks: bool, site: Site
) -> Parts:
    """So many items, what is between, and so many; without a place between where after is None.

    unpacks: whether there are parts. If not, those that are looked at are asked for one by one.
    """
    _followed(observer, isinstance, site)(value, _known(observer, Sequence))
    if not _is_sequence(value):
        return None
    wanted = before + (after or 0)
    if wanted or after is None:
        length = _followed(observer, len, site)(value)
        if length < wanted or (after is None and length > wanted):
            return None
    if not unpacks:
        return ()
    iterated = iter(value if observer is None else operations.iterate(observer, value, site))
    items = [*iterated]  # of an iterator, as `[*value]` would ask for the length once more
    if after is None:
        if len(items) != wanted:
            raise ValueError(f"the {type(value).__name__} has {len(items)} items, and says {wanted}")
        return _local(observer, *items)
    end = len(items) - after
    between = [*items[before:end]]
    if observer is not None:
        observer.local(between)
    return _local(observer, *items[:before], between, *items[end:])


def item_of_sequence(observer: Observer | None, value: Any, place: int, site: Site) -> Any:
    """One item; counted from the end if the place is negative."""
    if place < 0:
        place += _followed(observer, len, site)(value)
    return value[place] if observer is None else subscripts.item(observer, value, place, site)


def parts_of_mapping(
    observer: Observer | None, value: Any, keys: tuple[Any, ...], rest: bool, site: Site
) -> Parts:
    """What it has for the keys; and, in the end, a dict of all others, or None if nobody asks for that."""
    _followed(observer, isinstance, site)(value, _known(observer, Mapping))
    if not _is_mapping(value):
        return None
    if keys and _followed(observer, len, site)(value) < len(keys):
        return None
    found: list[Any] = []
    if keys:
        get = value.get if observer is None else attributes.load(observer, value, "get", site)
        get = _followed(observer, get, site)
        for place, key in enumerate(keys):
            if key in keys[:place]:
                raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
            found.append(get(key, _known(observer, _ABSENT)))
            if found[-1] is _ABSENT:
                return None
    if not rest:
        return _local(observer, *found, None)
    others = _followed(observer, dict, site)(value)
    for key in keys:
        del others[key]
    return _local(observer, *found, others)


def parts_of_object(
    observer: Observer | None, value: Any, kind: Any, count: int, names: tuple[str, ...], site: Site
) -> Parts:
    """So many attributes that its class names in `__match_args__`, and those of these names."""
    if not isinstance(kind, type):
        match value:
            case kind():  # raises what Python does
                pass
    if not _followed(observer, isinstance, site)(value, kind):
        return None
    ask, found = _followed(observer, getattr, site), []
    if count:
        places = ask(kind, "__match_args__", _known(observer, _ABSENT))
        itself = places is _ABSENT and bool(kind.__flags__ & _MATCHES_ITSELF)
        places = () if places is _ABSENT else places
        if type(places) is not tuple:
            raise TypeError(f"{kind.__name__}.__match_args__ must be a tuple (got {type(places).__name__})")
        if count > (allowed := 1 if itself else len(places)):
            plural = "" if allowed == 1 else "s"
            words = f"accepts {allowed} positional sub-pattern{plural} ({count} given)"
            raise TypeError(f"{kind.__name__}() {words}")
        found = [value] if itself else []
        names = (*(() if itself else places[:count]), *names)
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in names[:place]:
            raise TypeError(f"{kind.__name__}() got multiple sub-patterns for attribute {name!r}")
        found.append(ask(value, name, _known(observer, _ABSENT)))
        if found[-1] is _ABSENT:
            return None
    return _local(observer, *found)


def _is_sequence(value: Any) -> bool:
    match value:
        case [*_]:
            return True
    return False


def _is_mapping(value: Any) -> bool:
    match value:
        case {}:
            return True
    return False


def _followed(observer: Observer | None, function: Callable, site: Site) -> Callable:
    return function if observer is None else calls.callee(observer, function, site)


def _known(observer: Observer | None, thing: Any) -> Any:
    """Something of ours that is the same in all runs."""
    return thing if observer is None else observer.reached(thing)


def _local(observer: Observer | None, *parts: Any) -> tuple[Any, ...]:
    """A tuple that the run has made."""
    if observer is not None:
        observer.local(parts)
    return parts
