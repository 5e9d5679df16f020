"""Operators of an observed run: operands go in, Python's own result comes out; what it rests on is noted."""

from __future__ import annotations

import enum
import functools
import gc
import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

from fusegrad.tracer.observe import numbers, purity, stores, subscripts
from fusegrad.tracer.observe.arrays import calls as arrays
from fusegrad.tracer.observe.arrays.into_tensors import brought
from fusegrad.tracer.observe.arrays.known import any_symbol
from fusegrad.tracer.observe.lookup import ITERATORS, MISSING, VIEWS, flat_contents, type_lookup
from fusegrad.tracer.observe.observer import LOCAL, OUTER, UNKNOWN, Observer
from fusegrad.tracer.observe.python import containers, identities, metaclasses, own_operators
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.values import PLAIN_TYPES, is_plain, plain_key
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


# ---------------------------------------------------------------------------------- operators


def apply(observer: Observer, function: Callable, symbol: str, operands: tuple, site: Site) -> Any:
    """An operator on operands that are guarded first. Raises what the operator raises."""
    own = own_operators.apply(observer, function, symbol, operands, site, truth)
    if own is not MISSING:
        return own
    if any(map(observer.is_tensor, operands)):
        operands = arrays.plain(observer, operands, site)
        if observer.is_tensor(operands[0]):
            operands = arrays.as_tensors(observer, operands)
    found = numbers.on_symbols(observer, function, symbol, operands)
    if found is MISSING:
        found = arrays.operate(observer, function, operands, site)
    if found is not MISSING:
        return found
    if any(map(observer.is_tensor, operands)) and any_symbol(observer, operands):
        call = functools.partial(_applied, observer, function, symbol, operands, site)
        return brought(observer, function, operands, {}, site, call)
    return _applied(observer, function, symbol, operands, site)


def _applied(observer: Observer, function: Callable, symbol: str, operands: tuple, site: Site) -> Any:
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
        observer.open(f"changes {subscripts.outside(observer, owner)} in place", site)
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
    if found is MISSING and arrays.any_of_tensors(observer, (left, right)):
        found = arrays.operate(observer, COMPARE[symbol], (left, right), site)
    if found is not MISSING:
        return found
    observer.numbers.look(left, right)
    for value in (left, right):
        if type(value) in purity.CONTAINERS or purity.is_namedtuple(value):
            _check_comparable(observer, value, site)
    if symbol in ("==", "!="):
        # Classes, functions and enumerations compare by identity, which is guarded.
        both = [v for v in (left, right) if not _compares_by_identity(observer, v)]
        fit = (is_plain(v) or purity.is_static(v) or type(v) in purity.CONTAINERS for v in both)
        if len(both) < 2 and all(fit):
            return COMPARE[symbol](left, right)
        if len(both) == 2 and all(_has_no_equality(observer, v, site) for v in both):
            return identities.identity(observer, left, right, site) is (symbol == "==")
    return apply(observer, COMPARE[symbol], symbol, (left, right), site)


def _compares_by_identity(observer: Observer, value: Any) -> bool:
    is_absent = type(value).__module__ == "fusegrad.torch.absent"  # a name that fusegrad lacks
    if isinstance(value, (type, FunctionType, ModuleType)) or is_absent:
        return observer.is_known(value) and (
            not isinstance(value, type) or metaclasses.is_plain(observer, value)
        )
    return isinstance(value, enum.Enum) and purity.python_method(type(value), "__eq__") is MISSING


def _has_no_equality(observer: Observer, value: Any, site: Site) -> bool:
    """Whether an object equals itself alone, as its class has no `__eq__` of its own; which is guarded."""
    kind = type(value)
    own = [type_lookup(kind, name) is not vars(object)[name] for name in ("__eq__", "__ne__")]
    if any(own) or not observer.is_known(value):
        return False
    observer.read_type(value, site)
    for name in ("__eq__", "__ne__"):
        observer.read_class(kind, name, type_lookup(kind, name), site)
    return True


def _check_comparable(observer: Observer, container: Any, site: Site) -> None:
    """Containers compare their items by identity first: tensors and NaN in them are not guarded for that."""
    if purity.container_of(type(container)) is not None:
        goes_over(observer, container, site)
    else:
        observer.consume(container, site, "compares", deep=False)
    for item in flat_contents(container):
        if observer.is_tensor(item) or (type(item) is float and item != item):
            observer.open("compares tensors or NaN by identity in a container", site)
        elif type(item) in purity.CONTAINERS:
            _check_comparable(observer, item, site)
        elif not _compares_by_identity(observer, item):
            observer.consume(item, site, "compares")


def contains(observer: Observer, item: Any, container: Any, site: Site) -> bool:
    """``item in container``."""
    observer.numbers.look(item, container)
    kind = containers.acting(observer, container, "__contains__", site)
    if observer.is_tensor(container):
        observer.consume(item, site, "looks for")
    elif kind in purity.CONTAINERS or purity.is_namedtuple(container):
        return contains_as(observer, kind, container, item, site)
    elif is_plain(container) or kind in VIEWS:
        observer.consume(item, site, "looks for", tensors=False)
        if kind in VIEWS:
            if observer.status(container) == OUTER and _is_of_dict(container) and is_plain(item):
                words, has = f"whether {item!r} is in a {kind.__name__}", functools.partial(_is_in, item)
                found = has(container)
                observer.read(
                    ("in", id(container), plain_key(item)),
                    lambda: GetterRead(container, has, found, words, site),
                )
            elif observer.status(container) != LOCAL:
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


def _is_of_dict(view: Any) -> bool:
    """Whether a view shows a dict whose look-ups are Python's own."""
    return type(view) in VIEWS and type(gc.get_referents(view)[0]) in (dict, OrderedDict)


def _is_in(item: Any, view: Any) -> bool:
    return item in view


def contains_as(observer: Observer, kind: Any, container: Any, item: Any, site: Site) -> bool:
    """``item in container``, as the builtin container has it of which it is one."""
    observer.numbers.look(item)
    if isinstance(container, dict):
        subscripts.read_key(observer, container, item, site)
    elif kind in (list, tuple, deque) and _equals_itself_alone(observer, item, container, site):
        return any(identities.identity(observer, item, other, site) for other in container)
    else:
        _check_comparable(observer, container, site)
        if type(item) in purity.CONTAINERS:
            _check_comparable(observer, item, site)
        elif observer.is_tensor(item):
            observer.open("looks for a tensor by identity", site)
        elif not (is_plain(item) or purity.is_static(item) or _compares_by_identity(observer, item)):
            observer.open(f"looks for a {type(item).__name__} object in a container", site)
        elif type(item) is float and item != item:
            observer.open("looks for NaN by identity", site)
    return bool(kind.__contains__(container, item))


def _equals_itself_alone(observer: Observer, item: Any, container: Any, site: Site) -> bool:
    """Whether neither an object nor what a container has knows an equality but identity; which is guarded."""
    if observer.is_tensor(item) or is_plain(item) or type(item) in purity.CONTAINERS:
        return False
    if not _has_no_equality(observer, item, site):
        return False
    if purity.container_of(type(container)) is not None:
        goes_over(observer, container, site)
    else:
        observer.consume(container, site, "looks into", deep=False)
    others = [other for other in container if not is_plain(other) or observer.is_tensor(other)]
    return all(not observer.is_tensor(v) and _has_no_equality(observer, v, site) for v in others)


def truth(observer: Observer, value: Any, site: Site) -> bool:
    """``bool(value)``."""
    found = numbers.computed_of(observer, bool, (value,))
    if found is not MISSING:
        return bool(found)
    observer.numbers.look(value)
    if type(value) in PLAIN_TYPES or observer.is_tensor(value) or is_plain(value):
        return bool(value)
    found = arrays.asked(observer, bool, value, site)
    if found is not MISSING:
        return bool(found)
    kind = type(value)
    if purity.container_of(kind) is not None and purity.python_method(kind, "__bool__") is MISSING:
        observer.read_class(kind, "__bool__", MISSING, site)
        return bool(length(observer, value, site))
    if kind in purity.CONTAINERS or purity.is_namedtuple(value):
        return bool(length_as(observer, kind, value, site))
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
    found = arrays.asked(observer, len, value, site)
    if found is not MISSING:
        return int(found)
    kind = containers.acting(observer, value, "__len__", site)
    if not (observer.is_tensor(value) or is_plain(value)):
        if kind in purity.CONTAINERS or purity.is_namedtuple(value):
            return length_as(observer, kind, value, site)
        elif purity.python_method(kind, "__len__") is not MISSING:
            method = observer.special_method(value, "__len__", site)
            return len(value) if method is None else method()
        elif not ((kind in VIEWS or kind is MappingProxyType) and observer.status(value) == LOCAL):
            observer.open(f"asks for the length of a {kind.__name__} object", site, "read")
    if observer.is_tensor(value) and observer.numbers.follows_sizes:
        length: int = observer.numbers.take(value.__len__, is_deed=False)
        return length
    try:
        return len(observer.numbers.read(value))
    except TypeError as error:
        observer.explain(error)
        raise


def length_as(observer: Observer, kind: Any, value: Any, site: Site) -> int:
    """``len(value)``, as the builtin container has it of which it is one."""
    if observer.status(value) == UNKNOWN and not isinstance(value, tuple):
        observer.open(f"asks for the length of a {type(value).__name__} of unknown origin", site, "read")
    observer.read_length(value, site)
    return int(kind.__len__(value))


# ---------------------------------------------------------------------------------- iteration


def iterate(observer: Observer, value: Any, site: Site) -> Any:
    """What to iterate over in place of ``value``: itself, once its contents are guarded."""
    if observer.is_tensor(value) or is_plain(value):
        return observer.numbers.read(value)
    kind = containers.acting(observer, value, "__iter__", site)
    if kind in purity.CONTAINERS or purity.is_namedtuple(value):
        goes_over(observer, value, site)
        return value
    if kind in ITERATORS:
        observer.does("goes over an iterator", site)
        if not observer.is_local_iterator(value):
            observer.open("advances an iterator that lives outside the function", site)
        return value
    if purity.python_method(kind, "__iter__") is vars(Sequence)["__iter__"]:
        observer.read_type(value, site)
        observer.read_class(kind, "__iter__", vars(Sequence)["__iter__"], site)
        return observer.local(_by_places(observer, value, site))
    if purity.python_method(kind, "__iter__") is not MISSING:
        return _advanced(observer, iterator_of(observer, value, site), site)
    rows = arrays.rows(observer, value, site)
    if rows is not MISSING:
        return rows
    if purity.has_attribute(kind, "__iter__") or purity.has_attribute(kind, "__getitem__"):
        observer.open(f"iterates over {subscripts.described(value)}", site)
    elif isinstance(value, type):
        observer.open("iterates over a class", site)
    return value


def iterator_of(observer: Observer, value: Any, site: Site) -> Any:
    """What an `__iter__` in Python gives."""
    method = observer.special_method(value, "__iter__", site)
    return iter(value) if method is None else observer.adopt(method())


def _advanced(observer: Observer, iterator: Any, site: Site) -> Any:
    """An iterator that an `__iter__` in Python gave; a `__next__` in Python is followed, too."""
    kind = type(iterator)
    if purity.python_method(kind, "__next__") is not MISSING:
        return observer.local(_one_by_one(observer, iterator, site))
    if kind not in ITERATORS or observer.is_outer(iterator):
        observer.open("advances an iterator that lives outside the function", site)
    return iterator


def _one_by_one(observer: Observer, iterator: Any, site: Site) -> Iterator[Any]:
    """What the `__next__` of an iterator gives, until it ends."""
    while True:
        method = observer.special_method(iterator, "__next__", site)
        try:
            found = next(iterator) if method is None else method()
        except StopIteration as error:
            if not observer.is_explained(error):
                observer.open("ends a loop by an exception whose cause is not guarded", site)
            return
        yield found


def _by_places(observer: Observer, value: Any, site: Site) -> Iterator[Any]:
    """What `collections.abc.Sequence` has for `__iter__`."""
    for place in itertools.count():
        try:
            found = subscripts.item(observer, value, place, site)
        except IndexError as error:
            if not observer.is_explained(error):
                observer.open("ends a loop by an exception whose cause is not guarded", site)
            return
        yield found


def goes_over(observer: Observer, value: Any, site: Site) -> None:
    """All items of a container are looked at."""
    if observer.status(value) == UNKNOWN and not isinstance(value, tuple):
        observer.open(f"iterates over a {type(value).__name__} of unknown origin", site)
    observer.read_contents(value, site)


def iterator_as(observer: Observer, kind: Any, value: Any, site: Site) -> Any:
    """``iter(value)``, as the builtin container has it of which it is one."""
    goes_over(observer, value, site)
    return observer.local(kind.__iter__(value))


def backwards(observer: Observer, value: Any, site: Site) -> Any:
    """``reversed(value)`` of an object whose class is written in Python."""
    if purity.python_method(type(value), "__reversed__") is not MISSING:
        method = observer.special_method(value, "__reversed__", site)
        return reversed(value) if method is None else observer.adopt(method())
    observer.read_class(type(value), "__reversed__", MISSING, site)
    places = range(length(observer, value, site) - 1, -1, -1)
    return observer.local(subscripts.item(observer, value, place, site) for place in places)


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
    is_dict = isinstance(value, dict) and containers.is_looked_into(observer, value, True, site)
    if is_dict or type(value) in purity.DICTS:
        iterate(observer, value, site)
    elif not is_plain(value):
        observer.open(f"unpacks {subscripts.described(value)} into keywords", site)
    return value
