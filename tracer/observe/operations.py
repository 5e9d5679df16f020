"""Operators of an observed run: operands go in, Python's own result comes out; what it rests on is noted."""

from __future__ import annotations

import enum
import functools
import itertools
import operator
from collections import deque
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fusegrad.tracer.observe import arrays, numbers, purity, stores
from fusegrad.tracer.observe.conditions import Item
from fusegrad.tracer.observe.lookup import HANDED_ON, ITERATORS, MISSING, VIEWS, flat_contents, kind_of_item
from fusegrad.tracer.observe.observer import LOCAL, OUTER, STRUCTURE, UNKNOWN, Observer
from fusegrad.tracer.observe.values import PLAIN_TYPES, is_plain
from fusegrad.tracer.twin.sites import Site

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
INPLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "@": operator.imatmul,
    "<<": operator.ilshift, ">>": operator.irshift, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_MUTABLE = (list, dict, set, deque)


def outside(observer: Observer, owner: Any) -> str:
    """A container that is not the run's own, in words."""
    words = {OUTER: "that lives outside the function", STRUCTURE: "that is part of the arguments"}
    return f"a {type(owner).__name__} {words.get(observer.status(owner), 'of unknown origin')}"


# ---------------------------------------------------------------------------------- operators


def apply(observer: Observer, function: Callable, symbol: str, operands: tuple, site: Site) -> Any:
    """An operator on operands that are guarded first. Raises what the operator raises."""
    found = numbers.on_symbols(observer, function, symbol, operands)
    if found is MISSING:
        found = arrays.on_constants(observer, function, operands, site)
    if found is not MISSING:
        return found
    plain = True
    for value in operands:
        deep = not (symbol in ("+", "*") and type(value) in (list, tuple, deque))
        if type(value) in PLAIN_TYPES or is_plain(value):
            if deep:
                observer.numbers.look(value)
            continue
        plain = False
        if observer.is_tensor(value):
            continue
        text = symbol == "%" and type(operands[0]) in (str, bytes)
        observer.consume(value, site, f"uses `{symbol}` on", deep=deep, tensors=not text)
    if symbol == "%" and type(operands[0]) in (str, bytes) and any(map(observer.is_tensor, operands)):
        observer.open("formats a tensor", site)
    try:
        result = function(*operands)
    except Exception as error:
        if plain:
            observer.explain(error)
        raise
    return result if plain else observer.adopt(result)


def inplace(observer: Observer, symbol: str, owner: Any, value: Any, site: Site) -> Any:
    """``owner += value`` without the store."""
    if not (observer.is_tensor(owner) or is_plain(owner)):
        observer.does(f"changes a {type(owner).__name__} object in place", site)
    mutable = type(owner) in _MUTABLE or type(owner) in purity.DICTS
    if mutable and observer.status(owner) != LOCAL:
        if _grows(observer, symbol, owner, value, site):
            return INPLACE[symbol](owner, value)
        observer.open(f"changes {outside(observer, owner)} in place", site)
    if type(owner) in (list, deque) and purity.is_user_iterable(value):
        value = iterate(observer, value, site)
    elif type(owner) in (list, deque) and type(value) in ITERATORS:
        iterate(observer, value, site)
        return INPLACE[symbol](owner, value)
    return apply(observer, INPLACE[symbol], symbol, (owner, value), site)


def _grows(observer: Observer, symbol: str, owner: Any, value: Any, site: Site) -> bool:
    """Whether `owner += value` appends items to a list from outside, which a replay does, too."""
    if symbol != "+" or type(value) not in (list, tuple):
        return False
    observer.consume(value, site, "appends", deep=False)
    return stores.grow(observer, owner, value)


def compare(observer: Observer, symbol: str, left: Any, right: Any, site: Site) -> Any:
    """A comparison other than ``is`` and ``in``."""
    found = numbers.on_symbols(observer, COMPARE[symbol], symbol, (left, right))
    if found is not MISSING:
        return found
    observer.numbers.look(left, right)
    for value in (left, right):
        if type(value) in purity.CONTAINERS or purity.is_namedtuple(value):
            _check_comparable(observer, value, site)
    if symbol in ("==", "!="):
        # Classes, functions and enumerations compare by identity, which is guarded.
        both = [v for v in (left, right) if not _compares_by_identity(observer, v)]
        if len(both) < 2 and all(is_plain(v) or type(v) in purity.CONTAINERS for v in both):
            return COMPARE[symbol](left, right)
    return apply(observer, COMPARE[symbol], symbol, (left, right), site)


def _compares_by_identity(observer: Observer, value: Any) -> bool:
    if isinstance(value, (type, FunctionType, ModuleType)):
        return observer.is_known(value) and (not isinstance(value, type) or purity.has_plain_metaclass(value))
    return isinstance(value, enum.Enum) and purity.python_method(type(value), "__eq__") is MISSING


def _check_comparable(observer: Observer, container: Any, site: Site) -> None:
    """Containers compare their items by identity first: tensors and NaN in them are not guarded for that."""
    observer.consume(container, site, "compares")
    for item in flat_contents(container):
        if observer.is_tensor(item) or (type(item) is float and item != item):
            observer.open("compares tensors or NaN by identity in a container", site)
        elif type(item) in purity.CONTAINERS:
            _check_comparable(observer, item, site)


def identity(observer: Observer, left: Any, right: Any, site: Site) -> bool:
    """``left is right``, where the answer follows from what is guarded."""
    result = left is right
    for value in (left, right):
        if value is None or value is True or value is False or value is Ellipsis or value is NotImplemented:
            return result
        if isinstance(value, (type, ModuleType, enum.Enum)) or purity.is_static(value):
            return result
    if not _identity_is_guarded(observer, left, right):
        observer.open("compares identities that are not guarded", site)
    return result


def _identity_is_guarded(observer: Observer, left: Any, right: Any) -> bool:
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
        else:
            origins.add(observer.status(value))
    if origins == {"plain"}:
        return type(left) is not type(right)  # interning decides, not the value
    if UNKNOWN in origins:
        return False
    if type(left) is not type(right):
        return True
    if origins == {STRUCTURE}:
        return False
    return not origins & {OUTER} or not origins & {"input", STRUCTURE}


def contains(observer: Observer, item: Any, container: Any, site: Site) -> bool:
    """``item in container``."""
    observer.numbers.look(item, container)
    kind = type(container)
    if observer.is_tensor(container):
        observer.consume(item, site, "looks for")
    elif kind in purity.DICTS:
        read_key(observer, container, item, site)
    elif kind in purity.CONTAINERS or purity.is_namedtuple(container):
        _check_comparable(observer, container, site)
        if type(item) in purity.CONTAINERS:
            _check_comparable(observer, item, site)
        elif observer.is_tensor(item):
            observer.open("looks for a tensor by identity", site)
        elif not (is_plain(item) or _compares_by_identity(observer, item)):
            observer.open(f"looks for a {type(item).__name__} object in a container", site)
        elif type(item) is float and item != item:
            observer.open("looks for NaN by identity", site)
    elif is_plain(container) or kind in VIEWS:
        observer.consume(item, site, "looks for", tensors=False)
        if kind in VIEWS:
            if observer.status(container) != LOCAL:
                observer.open("looks into a view of unknown origin", site)
            for element in container:
                observer.consume(element, site, "compares", tensors=False)
    elif purity.python_method(kind, "__contains__") is not MISSING:
        method = observer.special_method(container, "__contains__", site)
        if method is not None:
            return truth(observer, method(item), site)
    else:
        observer.open(f"looks into a {kind.__name__} object", site)
    try:
        return item in container
    except Exception as error:
        if is_plain(container) and is_plain(item):
            observer.explain(error)
        raise


def truth(observer: Observer, value: Any, site: Site) -> bool:
    """``bool(value)``."""
    found = numbers.computed_of(observer, bool, (value,))
    if found is not MISSING:
        return bool(found)
    observer.numbers.look(value)
    if type(value) in PLAIN_TYPES or observer.is_tensor(value) or is_plain(value):
        return bool(value)
    kind = type(value)
    if kind in purity.CONTAINERS or purity.is_namedtuple(value):
        if observer.status(value) == UNKNOWN and not isinstance(value, tuple):
            observer.open(f"asks for the truth of a {kind.__name__} of unknown origin", site)
        observer.read_length(value, site)
        return bool(value)
    if purity.is_static(value) or isinstance(value, (FunctionType, ModuleType)) or kind in ITERATORS:
        return bool(value)
    for name in ("__bool__", "__len__"):
        if purity.python_method(kind, name) is not MISSING:
            method = observer.special_method(value, name, site)
            return bool(value) if method is None else bool(method())
        if purity.has_attribute(kind, name):
            observer.open(f"asks for the truth of a {kind.__name__} object", site)
            return bool(value)
        observer.read_class(kind, name, MISSING, site)
    observer.read_type(value, site)
    return bool(value)


def length(observer: Observer, value: Any, site: Site) -> int:
    """``len(value)``."""
    kind = type(value)
    if not (observer.is_tensor(value) or is_plain(value)):
        if kind in purity.CONTAINERS or purity.is_namedtuple(value):
            if observer.status(value) == UNKNOWN and not isinstance(value, tuple):
                observer.open(f"asks for the length of a {kind.__name__} of unknown origin", site)
            observer.read_length(value, site)
        elif purity.python_method(kind, "__len__") is not MISSING:
            method = observer.special_method(value, "__len__", site)
            return len(value) if method is None else method()
        elif not (kind in VIEWS and observer.status(value) == LOCAL):
            observer.open(f"asks for the length of a {kind.__name__} object", site)
    try:
        return len(observer.numbers.read(value))
    except TypeError as error:
        observer.explain(error)
        raise


# ---------------------------------------------------------------------------------- subscripts


def check_key(observer: Observer, key: Any, site: Site) -> bool:
    """Whether a dict can be asked for the key without running code of the key's."""
    observer.numbers.look(key)
    if is_plain(key) or purity.is_static(key) or isinstance(key, (type, FunctionType)):
        return True
    if isinstance(key, enum.Enum) and purity.python_method(type(key), "__hash__") is MISSING:
        return True
    # The enum module's own __hash__ is written in Python: it hashes the name.
    if isinstance(key, enum.Enum) and purity.python_method(type(key), "__hash__") is enum.Enum.__hash__:
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
    observer.numbers.look(key)
    kind = type(owner)
    if kind in purity.DICTS or kind is list or purity.is_parameter_group(owner):
        found = _found(owner, key)
        late = stores.late(observer, owner, lambda place: Item(place, key), found, site)
        if late is not MISSING:
            return late
    if observer.is_tensor(owner):
        if not is_plain(key) and not observer.is_tensor(key):
            observer.consume(key, site, "indexes with")
        return owner[key]
    if kind in purity.DICTS or purity.is_parameter_group(owner):
        return _dict_item(observer, owner, key, site)
    if kind in purity.SEQUENCES or purity.is_namedtuple(owner):
        return _sequence_item(observer, owner, key, site)
    if is_plain(owner) and (is_plain(key) or observer.is_tensor(key)):
        try:
            return observer.numbers.read(owner)[key]
        except Exception as error:
            if is_plain(key):
                observer.explain(error)
            raise
    if purity.python_method(kind, "__getitem__") is not MISSING:
        method = observer.special_method(owner, "__getitem__", site)
        return owner[key] if method is None else method(key)
    found = arrays.on_constants(observer, operator.getitem, (owner, key), site)
    if found is not MISSING:
        return found
    observer.open(f"subscripts {_described(owner)}", site)
    return owner[key]


def _found(owner: Any, key: Any) -> Any:
    """What a container has under a plain key; MISSING for others."""
    if isinstance(owner, dict):
        return dict.get(owner, key, MISSING) if type(key) is str else MISSING
    return owner[key] if type(key) is int and -len(owner) <= key < len(owner) else MISSING


def _described(owner: Any) -> str:
    return "a NumPy array" if isinstance(owner, np.ndarray) else f"a {type(owner).__name__} object"


def _dict_item(observer: Observer, owner: dict, key: Any, site: Site) -> Any:
    found = read_key(observer, owner, key, site)
    is_absent = type(owner) is not dict and observer.status(owner) != LOCAL and key not in owner
    if is_absent and hasattr(type(owner), "__missing__"):
        observer.open(f"may add a key to {outside(observer, owner)}", site)
    if found is not MISSING:
        return found
    try:
        result = owner[key]
    except KeyError as error:
        observer.explain(error)
        raise
    return observer.adopt(result) if observer.status(owner) == LOCAL else result


def _sequence_item(observer: Observer, owner: Any, key: Any, site: Site) -> Any:
    status = observer.status(owner)
    if status == UNKNOWN and not isinstance(owner, tuple):
        observer.open(f"subscripts a {type(owner).__name__} of unknown origin", site)
    if observer.is_tensor(key):
        observer.read_contents(owner, site)  # which item is the recorder's question
        return owner[key]
    if type(key) not in (int, bool, slice) or not is_plain(key):
        observer.consume(key, site, "subscripts a sequence with")
    try:
        result = owner[key]
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
    observer.numbers.look(key)
    if observer.is_tensor(owner):
        for part in (key, value):
            observer.consume(part, site, "writes to a tensor")
    elif observer.status(owner) == LOCAL and kind_of_item(owner, key) in HANDED_ON:
        observer.loops.sets(owner, key)
    else:
        observer.does(f"sets an item of a {type(owner).__name__} object", site)
        if _is_there(observer, owner, key, value, site) or stores.store_option(observer, value, owner, key):
            return
        _check_write(observer, owner, key, "__setitem__", site)
        if isinstance(key, slice) and (type(value) in ITERATORS or purity.is_user_iterable(value)):
            observer.open("assigns an iterator to a slice", site)
        elif isinstance(key, slice):
            observer.consume(value, site, "assigns to a slice", deep=False)
    owner[key] = value


def _is_there(observer: Observer, owner: Any, key: Any, value: Any, site: Site) -> bool:
    """Whether an item is this very tensor already, as after `table[key] += ...`: it stays what it is."""
    by_key = type(owner) is dict and type(key) is str
    by_number = type(owner) is list and type(key) is int and -len(owner) <= key < len(owner)
    if not observer.is_tensor(value) or observer.status(owner) != OUTER or not (by_key or by_number):
        return False
    if (owner.get(key) if by_key else owner[key]) is not value:
        return False
    observer.read_item(owner, key, value, site)
    return True


def delete_item(observer: Observer, owner: Any, key: Any, site: Site) -> None:
    """``del owner[key]``."""
    observer.numbers.look(key)
    if key != slice(None) or not stores.grow(observer, owner, None):
        _check_write(observer, owner, key, "__delitem__", site)
    observer.does(f"deletes an item of a {type(owner).__name__} object", site)
    try:
        del owner[key]
    except (KeyError, IndexError) as error:
        if observer.status(owner) == LOCAL:
            observer.explain(error)
        raise


def _check_write(observer: Observer, owner: Any, key: Any, method: str, site: Site) -> None:
    if type(owner) not in purity.DICTS and type(owner) not in (list, deque):
        observer.open(f"changes an item of a {type(owner).__name__} object", site)
    elif observer.status(owner) != LOCAL:
        observer.open(f"changes an item of {outside(observer, owner)}", site)
    elif isinstance(owner, dict):
        check_key(observer, key, site)


# ---------------------------------------------------------------------------------- iteration


def iterate(observer: Observer, value: Any, site: Site) -> Any:
    """What to iterate over in place of ``value``: itself, once its contents are guarded."""
    kind = type(value)
    if observer.is_tensor(value) or is_plain(value):
        return observer.numbers.read(value)
    if kind in purity.CONTAINERS or purity.is_namedtuple(value):
        if observer.status(value) == UNKNOWN and not isinstance(value, tuple):
            observer.open(f"iterates over a {kind.__name__} of unknown origin", site)
        observer.read_contents(value, site)
        return value
    if kind in ITERATORS:
        observer.does("goes over an iterator", site)
        if not observer.is_local_iterator(value):
            observer.open("advances an iterator that lives outside the function", site)
        return value
    if purity.python_method(kind, "__iter__") is not MISSING:
        method = observer.special_method(value, "__iter__", site)
        return value if method is None else observer.adopt(method())
    if purity.has_attribute(kind, "__iter__") or purity.has_attribute(kind, "__getitem__"):
        observer.open(f"iterates over {_described(value)}", site)
    elif isinstance(value, type):
        observer.open("iterates over a class", site)
    return value


def backwards(observer: Observer, value: Any, site: Site) -> Any:
    """``reversed(value)`` of an object whose class is written in Python."""
    if purity.python_method(type(value), "__reversed__") is not MISSING:
        method = observer.special_method(value, "__reversed__", site)
        return reversed(value) if method is None else observer.adopt(method())
    observer.read_class(type(value), "__reversed__", MISSING, site)
    places = range(length(observer, value, site) - 1, -1, -1)
    return observer.local(item(observer, value, place, site) for place in places)


def iterate_unpacked(observer: Observer, value: Any, pattern: tuple[Any, ...], site: Site) -> Any:
    """As ``iterate``; each item is unpacked by ``pattern``, lazily, as the loop asks for it."""
    found = iterate(observer, value, site)
    if not hasattr(type(found), "__iter__"):
        return found
    return map(functools.partial(unpacked, observer, pattern, site), found)


def unpacked(observer: Observer, pattern: tuple[Any, ...], site: Site, value: Any) -> Any:
    """What a target takes apart in place of ``value``; see ``names_pattern`` for ``pattern``."""
    found = iterate(observer, value, site)
    if not any(pattern) or not hasattr(type(found), "__iter__"):
        return found
    # More items than targets are for Python to refuse.
    patterns = itertools.chain(pattern, itertools.repeat(()))
    return map(lambda item, inner: unpacked(observer, inner, site, item) if inner else item, found, patterns)


def mapping(observer: Observer, value: Any, site: Site) -> Any:
    """What ``**value`` looks into."""
    if type(value) in purity.DICTS:
        iterate(observer, value, site)
    elif not is_plain(value):
        observer.open(f"unpacks {_described(value)} into keywords", site)
    return value
