"""Subscripts of an observed run: an owner and a key go in, the item comes out, or is set or deleted; what it
rests on is noted.
"""

from __future__ import annotations

import functools
import operator
import os
from collections import deque
from types import FunctionType
from typing import Any

import numpy as np

from fusegrad.eager.core.public import home
from fusegrad.tracer.observe import purity, stores
from fusegrad.tracer.observe.arrays import calls as arrays, positions
from fusegrad.tracer.observe.arrays.into_tensors import as_index
from fusegrad.tracer.observe.conditions import Item
from fusegrad.tracer.observe.lookup import HANDED_ON, ITERATORS, MISSING, kind_of_item, type_lookup
from fusegrad.tracer.observe.numbers import is_standing, standing_for
from fusegrad.tracer.observe.observer import LOCAL, OUTER, STRUCTURE, UNKNOWN, Observer
from fusegrad.tracer.observe.python import containers, metaclasses
from fusegrad.tracer.observe.python.keys import is_key
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.observe.world import environment
from fusegrad.tracer.twin.sites import Site


def outside(observer: Observer, owner: Any) -> str:
    """A container that is not the run's own, in words."""
    words = {OUTER: "that lives outside the function", STRUCTURE: "that is part of the arguments"}
    return f"a {type(owner).__name__} {words.get(observer.status(owner), 'of unknown origin')}"


def check_key(observer: Observer, key: Any, site: Site) -> bool:
    """Whether a dict can be asked for the key without running code of the key's."""
    observer.numbers.look(key)
    if is_key(observer, key):
        return True
    observer.open(f"uses a {type(key).__name__} object as a key", site)
    return False


def read_key(observer: Observer, owner: dict, key: Any, site: Site) -> Any:
    """A dict is asked for a key: guard what it finds, or that it finds nothing; gives what was found, or what
    stands for it. MISSING where that is for the dict to say.
    """
    if not check_key(observer, key, site):
        return MISSING
    if observer.status(owner) == UNKNOWN:
        observer.open(f"looks into a {type(owner).__name__} of unknown origin", site)
    if observer.status(owner) == OUTER:
        try:
            value = dict.get(owner, key, MISSING)
        except TypeError:  # unhashable: raises again where it is meant to
            return MISSING
        return observer.read_item(owner, key, value, site)
    return MISSING


def item(observer: Observer, owner: Any, key: Any, site: Site) -> Any:
    """``owner[key]``."""
    if observer.is_tensor(owner):
        owner, key = positions.item(observer, owner, as_index(observer, key, site))
    if isinstance(owner, np.ndarray):
        found = arrays.operate(observer, operator.getitem, (owner, key), site)
        if found is not MISSING:
            return found
    observer.numbers.look(key)
    kind = type(owner)
    if kind in purity.DICTS or kind is list or purity.is_group_class(type(owner)):
        found = _found(owner, key)
        late = stores.late(observer, owner, lambda place: Item(place, key), found, site)
        if late is not MISSING:
            return late
    if observer.is_tensor(owner):
        if not is_plain(key) and not observer.is_tensor(key):
            observer.consume(key, site, "indexes with")
        return owner[key]
    kind = containers.acting(observer, owner, "__getitem__", site)
    if kind in purity.CONTAINERS or purity.is_namedtuple(owner):
        return item_as(observer, kind, owner, key, site)
    if is_plain(owner) and (is_plain(key) or observer.is_tensor(key)):
        try:
            return observer.numbers.read(owner)[key]
        except Exception as error:
            if is_plain(key):
                observer.explain(error)
            raise
    if kind is type(os.environ):
        return environment.item(observer, owner, key, site)
    if purity.python_method(kind, "__getitem__") is not MISSING:
        method = observer.special_method(owner, "__getitem__", site)
        return owner[key] if method is None else method(key)
    observer.open(f"subscripts {described(owner)}", site)
    return owner[key]


def _found(owner: Any, key: Any) -> Any:
    """What a container has under a plain key; MISSING for others."""
    if isinstance(owner, dict):
        return dict.get(owner, key, MISSING) if type(key) is str else MISSING
    return owner[key] if type(key) is int and -len(owner) <= key < len(owner) else MISSING


def described(owner: Any) -> str:
    return "a NumPy array" if isinstance(owner, np.ndarray) else f"a {type(owner).__name__} object"


def item_as(observer: Observer, kind: Any, owner: Any, key: Any, site: Site) -> Any:
    """``owner[key]``, as the builtin container has it of which the owner is one."""
    observer.numbers.look(key)
    if isinstance(owner, dict):
        return _dict_item(observer, kind, owner, key, site)
    if isinstance(owner, (list, tuple, deque)):
        return _sequence_item(observer, kind, owner, key, site)
    observer.open(f"subscripts {described(owner)}", site)
    return owner[key]


def _dict_item(observer: Observer, kind: Any, owner: dict, key: Any, site: Site) -> Any:
    found = read_key(observer, owner, key, site)
    if type(owner) is not dict and not dict.__contains__(owner, key):
        missing = type_lookup(type(owner), "__missing__")
        observer.read_class(type(owner), "__missing__", missing, site)
        if type(missing) is FunctionType:
            method = observer.special_method(owner, "__missing__", site)
            return owner[key] if method is None else method(key)
        if missing is not MISSING and observer.status(owner) != LOCAL:
            once = "once" if is_plain(key) or observer.is_tensor(key) else ""
            observer.open(f"may add a key to {outside(observer, owner)}", site, once)
    if found is not MISSING:
        return found
    try:
        result = kind.__getitem__(owner, key)
    except KeyError as error:
        observer.explain(error)
        raise
    if observer.status(owner) == STRUCTURE:
        return result  # which the key of the call guards
    return observer.adopt(result) if observer.status(owner) == LOCAL else observer.reached(result)


def _sequence_item(observer: Observer, kind: Any, owner: Any, key: Any, site: Site) -> Any:
    status = observer.status(owner)
    if status == UNKNOWN and not isinstance(owner, tuple):
        observer.open(f"subscripts a {type(owner).__name__} of unknown origin", site)
    if observer.is_tensor(key):
        observer.read_contents(owner, site)  # which item is the recorder's question
        return kind.__getitem__(owner, key)
    if type(key) not in (int, bool, slice) or not is_plain(key):
        observer.consume(key, site, "subscripts a sequence with")
    try:
        result = kind.__getitem__(owner, key)
    except Exception as error:
        observer.read_length(owner, site)
        if is_plain(key):
            observer.explain(error)
        raise
    if isinstance(key, slice):
        observer.read_contents(owner, site)
        return observer.adopt(result)
    if status == OUTER:
        if isinstance(owner, tuple):
            observer.reached(result)
        else:
            return observer.read_item(owner, key, result, site)
    return result


def store_item(observer: Observer, value: Any, owner: Any, key: Any, site: Site) -> None:
    """``owner[key] = value``."""
    if observer.is_tensor(owner):
        key, value = as_index(observer, key, site), standing_for(value, observer.numbers)
        if positions.store(observer, owner, key, value):
            return
    observer.numbers.look(key)
    if observer.is_tensor(owner):
        for part in (key,) if is_standing(value) else (key, value):
            observer.consume(part, site, "writes to a tensor")
    elif observer.status(owner) == LOCAL and kind_of_item(owner, key) in HANDED_ON:
        observer.loops.sets(owner, key)
    elif _has_own(owner, "__setitem__"):
        method = observer.special_method(owner, "__setitem__", site)
        (functools.partial(operator.setitem, owner) if method is None else method)(key, value)
        return
    else:
        kind = containers.acting(observer, owner, "__setitem__", site)
        set_as(observer, kind, value, owner, key, site)
        return
    owner[key] = value


def _has_own(owner: Any, name: str) -> bool:
    """Whether the class of an object, which is none of ours, has a special method in Python."""
    return home(type(owner)) is None and purity.python_method(type(owner), name) is not MISSING


def set_as(observer: Observer, kind: Any, value: Any, owner: Any, key: Any, site: Site) -> None:
    """``owner[key] = value``, as the builtin container has it of which the owner is one."""
    observer.does(f"sets an item of a {type(owner).__name__} object", site)
    if _is_there(observer, owner, key, value, site) or stores.store_option(observer, value, owner, key):
        return
    if stores.store_item(observer, value, owner, key, site):
        return
    _check_write(observer, kind, owner, key, site)
    if isinstance(key, slice) and (type(value) in ITERATORS or purity.is_user_iterable(value)):
        observer.open("assigns an iterator to a slice", site)
    elif isinstance(key, slice):
        observer.consume(value, site, "assigns to a slice", deep=False)
    if kind in purity.CONTAINERS:
        kind.__setitem__(owner, key, value)
    else:
        owner[key] = value


def _is_there(observer: Observer, owner: Any, key: Any, value: Any, site: Site) -> bool:
    """Whether an item is this very tensor already, as after `table[key] += ...`: it stays what it is."""
    by_key = type(owner) is dict and type(key) is str and key in owner
    by_number = type(owner) is list and type(key) is int and -len(owner) <= key < len(owner)
    is_tensor_outside = observer.is_tensor(value) and observer.status(owner) == OUTER
    if not (is_tensor_outside and (by_key or by_number) and owner[key] is value):
        return False
    observer.read_item(owner, key, value, site)
    return True


def delete_item(observer: Observer, owner: Any, key: Any, site: Site) -> None:
    """``del owner[key]``."""
    if _has_own(owner, "__delitem__"):
        method = observer.special_method(owner, "__delitem__", site)
        (functools.partial(operator.delitem, owner) if method is None else method)(key)
    else:
        kind = containers.acting(observer, owner, "__delitem__", site)
        delete_as(observer, kind, owner, key, site)


def delete_as(observer: Observer, kind: Any, owner: Any, key: Any, site: Site) -> None:
    """``del owner[key]``, as the builtin container has it of which the owner is one."""
    observer.numbers.look(key)
    if key != slice(None) or not stores.grow(observer, owner, None):
        _check_write(observer, kind, owner, key, site)
    observer.does(f"deletes an item of a {type(owner).__name__} object", site)
    delete = kind.__delitem__ if kind in purity.CONTAINERS else operator.delitem
    try:
        delete(owner, key)
    except (KeyError, IndexError) as error:
        if observer.status(owner) == LOCAL:
            observer.explain(error)
        raise


def _check_write(observer: Observer, kind: Any, owner: Any, key: Any, site: Site) -> None:
    if kind not in purity.DICTS and kind not in (list, deque):
        observer.open(f"changes an item of a {type(owner).__name__} object", site)
    elif observer.status(owner) != LOCAL:
        # As tables are filled in, by what was looked for: from then on it is there.
        named = is_plain(key) or (isinstance(key, type) and metaclasses.has_plain_metaclass(key))
        fills = kind is dict and named and key not in owner
        observer.open(f"changes an item of {outside(observer, owner)}", site, "once" if fills else "")
    elif isinstance(owner, dict):
        check_key(observer, key, site)
