"""Identities: two values that are compared by `is` go in; what guards the answer is noted.

That a text is the same object wherever the run has read it is guarded besides its letters.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.conditions import Held, Item, Part, Place
from fusegrad.tracer.observe.lookup import nn_module_class
from fusegrad.tracer.observe.observer import LOCAL, OUTER, STRUCTURE, UNKNOWN, Observer
from fusegrad.tracer.observe.reads import ContentsRead, FunctionRead, IdentityRead, Read
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site


def identity(observer: Observer, left: Any, right: Any, site: Site) -> bool:
    """``left is right``, where the answer follows from what is guarded."""
    result = left is right
    for value in (left, right):
        if value is None or value is True or value is False or value is Ellipsis or value is NotImplemented:
            return result
        if isinstance(value, (type, ModuleType, enum.Enum)) or purity.is_static(value):
            return result
    if not _is_guarded(observer, left, right, site):
        observer.open("compares identities that are not guarded", site)
    return result


def _is_guarded(observer: Observer, left: Any, right: Any, site: Site) -> bool:
    origins = set()
    for value in (left, right):
        if observer.is_tensor(value):
            observer.compared.add(id(value))
            captured = id(value) in observer.captured_tensors
            if captured and observer.is_input(value):
                return False
            origins.add(OUTER if captured else "input" if observer.is_input(value) else LOCAL)
        elif is_plain(value):
            origins.add("plain")
        elif observer.arrays.is_argument(value):
            return False
        else:
            origins.add(observer.status(value))
    if origins == {"plain"}:
        return _are_texts_guarded(observer, left, right, site)
    if UNKNOWN in origins:
        return False
    if type(left) is not type(right):
        return True
    if origins == {STRUCTURE}:
        return False
    return not origins & {OUTER} or not origins & {"input", STRUCTURE}


def _are_texts_guarded(observer: Observer, left: Any, right: Any, site: Site) -> bool:
    """Whether `left is right` follows from what is guarded, which it is from now on."""
    if type(left) is not type(right) or type(left) is not str:
        return type(left) is not type(right)  # of numbers and tuples, what Python keeps of them decides
    observer.numbers.look(left, right)
    if left != right:
        return True
    if left is not right or observer.is_input(left):
        return False
    places = [place for read in observer.reads for place in _places(read, left)]
    # One that is written in the code, and nowhere read, is the interpreter's own for these letters.
    if not places and sys.intern("".join(list(left))) is not left:
        return False
    for number, place in enumerate(places):
        observer.read(("text", id(left), number), functools.partial(IdentityRead, place, left, site))
    return True


def _places(read: Read, value: str) -> Iterator[Place]:
    """Where a read has found this very object."""
    if isinstance(read, FunctionRead):
        defaults, keywords = (Part(Held(read.function), f"__{name}__") for name in ("defaults", "kwdefaults"))
        for number, expected in enumerate(read.defaults or ()):
            yield from _within(expected.reference(), Item(defaults, number), value)
        for name, expected in read.keyword_defaults or ():
            yield from _within(expected.reference(), Item(keywords, name), value)
    elif isinstance(read, ContentsRead):
        items = Held(read.owner) if type(read.owner()) in (list, deque) else read.place()
        for number, expected in enumerate(read.values):
            yield from _within(expected.reference(), Item(items, number), value)
    elif type(read.found_object()) in (str, tuple):
        yield from _within(read.found_object(), read.place(), value)


def _within(found: Any, place: Place, value: str) -> Iterator[Place]:
    if found is value:
        yield place
    elif type(found) is tuple:
        for number, item in enumerate(found):
            yield from _within(item, Item(place, number), value)


def address(observer: Observer, site: Site, /, *args: Any) -> int:
    """`id` of a module that a replay finds as the same one; of others it is another one each time."""
    value: Any = args[0] if len(args) == 1 else None
    if not (isinstance(value, nn_module_class() or ()) and observer.is_outer(value)):
        observer.open("looks at an object's address", site)
    return id(*args)
