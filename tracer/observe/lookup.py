"""Lookup without running code: an object and a name go in, what lies there and where comes out, or what a
store there would be.

It looks where Python would look, and calls no descriptor, no ``__getattr__``, nothing of the user's.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import itertools
import operator
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Reversible
from contextvars import ContextVar
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    EllipsisType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from fusegrad.eager.core.public import home
from fusegrad.eager.core.pytree import is_its_attributes


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Found:
    """Where an attribute lies and what lies there, before any descriptor has been called.

    ``where`` is one of: ``instance`` (the instance's own dict), ``slot`` (a value in ``__slots__``),
    ``class`` (a class attribute that the descriptor protocol applies to), ``data`` (a data descriptor of
    the class), ``meta`` (found on the metaclass), ``module`` (an nn.Module's parameters, buffers and
    submodules), ``absent``, ``fallback`` (absent where a `__getattr__` in Python is asked; raw is that), and
    ``dynamic`` (only user code could tell).
    """

    where: str
    raw: Any


# Where an nn.Module keeps what is assigned to it, in the order in which it looks there.
MODULE_TABLES = ("_parameters", "_buffers", "_modules")
_ABSENT = Found("absent", MISSING)
_DYNAMIC = Found("dynamic", MISSING)


def type_lookup(owner: type, name: str, after: type | None = None) -> Any:
    """What the class or its bases define under ``name``; with ``after``, only bases beyond that one."""
    skipped = after is not None
    for base in type.__dict__["__mro__"].__get__(owner):
        namespace = type.__dict__["__dict__"].__get__(base)
        if not skipped and name in namespace:
            return namespace[name]
        skipped = skipped and base is not after
    return MISSING


def instance_dict(owner: Any) -> dict | None:
    """The instance's ``__dict__`` without running user code, or None if it has none."""
    descriptor = type_lookup(type(owner), "__dict__")
    if type(descriptor) not in (GetSetDescriptorType, MemberDescriptorType):  # the latter in builtin classes
        return None
    namespace = descriptor.__get__(owner)
    return namespace if issubclass(type(namespace), dict) else None


def own_of(name: str, owner: Any) -> Any:
    """What an object has itself under a name."""
    return (instance_dict(owner) or {}).get(name, MISSING)


_CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, tuple, deque, set, frozenset)


def container_class(kind: type) -> Any:
    """The builtin class as which its objects hold items. Raises TypeError if the class derives from none."""
    for container in _CONTAINERS:
        if issubclass(kind, container):
            return container
    raise TypeError(kind.__name__)


def flat_contents(owner: Any) -> list:
    """The items of a builtin container as a list (of a dict: keys, then values), without user code."""
    kind = container_class(type(owner))
    if issubclass(kind, dict):
        return [*kind.keys(owner), *kind.values(owner)]  # an OrderedDict has an order of its own
    return list(kind.__iter__(owner))


def nn_module_class() -> type | None:
    """``fusegrad.eager.nn.module.Module`` if it has been imported."""
    module = sys.modules.get("fusegrad.eager.nn.module")
    return None if module is None else vars(module).get("Module")


def is_data_descriptor(raw: Any) -> bool:
    """Whether a class attribute takes precedence over the instance's."""
    kind = type(raw)
    return type_lookup(kind, "__set__") is not MISSING or type_lookup(kind, "__delete__") is not MISSING


# Who draws NumPy's random numbers, and what its methods are.
NUMPY_GENERATORS = (np.random.Generator, np.random.RandomState)
DRAWS = type(vars(np.random.Generator)["random"])

# The views of dicts, and all builtin iterators.
VIEWS: frozenset[Any] = frozenset({type({}.keys()), type({}.values()), type({}.items())}) | {
    MappingProxyType, type(OrderedDict().keys()), type(OrderedDict().values()), type(OrderedDict().items()),
}  # fmt: skip
_ITERABLE: tuple[Iterable[Any], ...] = (
    [], (), {}, set(), "", "é", b"", range(1), range(1 << 70), deque(),
    {}.keys(), {}.values(), {}.items(), OrderedDict(), OrderedDict().items(),
)  # fmt: skip
_REVERSIBLE: tuple[Reversible[Any], ...] = ([], {}, {}.values(), {}.items(), deque(), range(1))
ITERATORS = frozenset(
    {zip, map, filter, enumerate, reversed, GeneratorType}
    | VIEWS
    | {type(iter(e)) for e in _ITERABLE}
    | {type(reversed(e)) for e in _REVERSIBLE}
    | {value for name, value in vars(itertools).items() if isinstance(value, type) and name[0] != "_"}
)

# Classes whose instances are looked into as those of `object` are. A class that is written in C may answer in
# another way, and does not say so: `threading.local` from what its thread has, `weakref.proxy` from another
# object, `types.GenericAlias` from a class. So these are told, and any other one is taken for such.
ORDINARY: tuple[type, ...] = (
    object, BaseException, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
    slice, range, property, staticmethod, classmethod, memoryview, deque, OrderedDict, defaultdict,
    functools.partial, *ITERATORS,
    operator.attrgetter, operator.itemgetter, operator.methodcaller, datetime.date, datetime.datetime,
    datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, ContextVar, BuiltinFunctionType,
    CellType, ClassMethodDescriptorType, CodeType, EllipsisType, FunctionType,
    GetSetDescriptorType, MappingProxyType, MemberDescriptorType, MethodDescriptorType, MethodWrapperType,
    SimpleNamespace, TracebackType, WrapperDescriptorType,
)  # fmt: skip
_ORDINARY_LOOKUPS = frozenset({type_lookup(kind, "__getattribute__") for kind in ORDINARY})
# Of other classes of C those are known of classes, modules, and methods, which answer by their function what
# they do not have themselves.
_KNOWN_LOOKUPS = frozenset({vars(kind)["__getattribute__"] for kind in (type, ModuleType, MethodType)})


def has_own_lookup(kind: type) -> bool:
    """Whether attributes of instances may be found in another way than those of an `object`."""
    own = type_lookup(kind, "__getattribute__")
    return type(own) is not WrapperDescriptorType or own not in _ORDINARY_LOOKUPS


def says_its_class(kind: type) -> bool:
    """Whether an instance may say of itself that it is of another class, as `isinstance` hears it."""
    own = type_lookup(kind, "__getattribute__")
    known = type(own) is WrapperDescriptorType and own in _ORDINARY_LOOKUPS | _KNOWN_LOOKUPS
    return not known or type_lookup(kind, "__class__") is not object.__dict__["__class__"]


def lookup(owner: Any, name: str, ordinary: bool = False) -> Found:
    """Find ``owner.name`` without running user code.

    ordinary: as `object.__getattribute__` finds it, whatever look-up the class has.
    """
    kind = type(owner)
    if issubclass(kind, type):  # by `type`: an object may say of itself that it is of another class
        return _lookup_on_class(owner, name)
    if issubclass(kind, ModuleType):
        return _lookup_on_module(owner, name)
    if kind is MethodType:
        # What its class does not have its function may have (see `attributes.py`).
        if type_lookup(kind, name) is MISSING:
            return _DYNAMIC
    elif has_own_lookup(kind) and not ordinary:
        return _DYNAMIC
    raw = type_lookup(kind, name)
    if raw is not MISSING:
        if type(raw) is MemberDescriptorType:
            try:
                return Found("slot", raw.__get__(owner))
            except AttributeError:
                return Found("slot", MISSING)
        if is_data_descriptor(raw):
            return Found("data", raw)
    namespace = instance_dict(owner)
    if namespace is not None and type(namespace) is not dict:
        return _DYNAMIC
    if namespace is not None and name in namespace:
        return Found("instance", namespace[name])
    if raw is not MISSING:
        return Found("class", raw)
    return _lookup_getattr(owner, kind, namespace, name)


def _lookup_getattr(owner: Any, kind: type, namespace: dict | None, name: str) -> Found:
    fallback = type_lookup(kind, "__getattr__")
    if fallback is MISSING:
        return _ABSENT
    module_class = nn_module_class()
    if module_class is None or fallback is not module_class.__dict__.get("__getattr__"):
        return Found("fallback", fallback) if type(fallback) is FunctionType else _DYNAMIC
    for table in MODULE_TABLES:
        entries = (namespace or {}).get(table)
        if entries is not None and type(entries) is not dict and type(entries) is not OrderedDict:
            return _DYNAMIC  # a table whose look-up is code of its own
        if entries is not None and name in entries:
            return Found("module", entries[name])
    return _ABSENT


def _lookup_on_module(owner: ModuleType, name: str) -> Found:
    kind = type(owner)
    if type_lookup(kind, "__getattribute__") is not vars(ModuleType)["__getattribute__"]:
        return _DYNAMIC
    of_class = type_lookup(kind, name)
    if of_class is not MISSING and is_data_descriptor(of_class):
        return _DYNAMIC
    namespace = vars(ModuleType)["__dict__"].__get__(owner)
    if name in namespace:
        return Found("instance", namespace[name])
    if of_class is not MISSING or type_lookup(kind, "__getattr__") is not MISSING:
        return _DYNAMIC
    if "__getattr__" in namespace:
        return _DYNAMIC
    return _ABSENT


def _lookup_on_class(owner: type, name: str) -> Found:
    meta = type(owner)
    if type_lookup(meta, "__getattribute__") is not type.__dict__["__getattribute__"]:
        return _DYNAMIC
    on_meta = type_lookup(meta, name)
    if on_meta is not MISSING and is_data_descriptor(on_meta):
        return Found("meta", on_meta)
    raw = type_lookup(owner, name)
    if raw is not MISSING:
        return Found("class", raw)
    if on_meta is not MISSING:
        return Found("meta", on_meta)
    return _DYNAMIC if type_lookup(meta, "__getattr__") is not MISSING else _ABSENT


# ---------------------------------------------------------------------------------- stores

# All that is known of stores stands here: which kinds there are, and of which rounds of a loop that are left
# out can hand on what they have stored. Nothing is left out that does another one.


class Store(enum.Enum):
    """What a store is, in words that go on from "it sets something "."""

    OWN = "in an object's own dict"
    ITEM = "that a dict or a list holds"
    TABLE = "in a module's tables"
    BUFFER = "among a module's buffers"
    SLOT = "in a slot"
    PROPERTY = "through a property"
    DESCRIPTOR = "through a descriptor"
    FOREIGN = "through a `__setattr__` that its class defines"
    COMPUTED = "of an object that computes its attributes"
    ENGINE = "of one of the engine's objects"
    CLASS = "of a class"
    MODULE = "of a module"
    FUNCTION = "of a function"
    UNKNOWN = "in a place that is not known"


# What rounds that are left out hand on, as they hand on what variables hold.
HANDED_ON = frozenset({Store.OWN, Store.ITEM})


def is_schedule_class(kind: type) -> bool:
    """Whether a class is one of our learning rate schedules, and not derived from one by a user."""
    module = home(kind)
    return module is not None and module.startswith("fusegrad.eager.optim.schedules.")


def is_remade(value: Any) -> bool:
    """Whether a replay can make an object again that a run has made, of its class, attributes and items: of a
    user's class, or one of our distributions. Layers have tables of what they hold.
    """
    if not is_its_attributes(value):
        return False
    kind, ours = type(value), sys.modules.get("fusegrad.eager.distributions.distribution")
    of_users = home(kind) is None and not issubclass(kind, nn_module_class() or ())
    return of_users or (ours is not None and issubclass(kind, vars(ours)["Distribution"]))


def sets_flag(owner: Any, name: str, value: Any) -> bool:
    """Whether a class of a user's has a plain value of its own under a name, and gets another one."""
    of_users = home(owner) is None and not name.startswith("__")
    as_type_does = type_lookup(type(owner), "__setattr__") is vars(type)["__setattr__"]
    are_flags = all(x is None or type(x) in _FLAGS for x in (value, vars(owner).get(name, MISSING)))
    return of_users and as_type_does and are_flags and type_lookup(type(owner), name) is MISSING


_FLAGS = (bool, str, int, float)


def kind_of_attribute(owner: Any, name: str) -> Store:
    """What setting an attribute does; OWN: it puts it into the object's own dict, and nothing else."""
    kind, namespace = type(owner), instance_dict(owner)
    for known, found in _BY_TYPE.items():
        if isinstance(owner, known):
            return found
    raw = type_lookup(kind, name)
    if is_data_descriptor(raw):
        return {property: Store.PROPERTY, MemberDescriptorType: Store.SLOT}.get(type(raw), Store.DESCRIPTOR)
    if type(namespace) is not dict:
        return Store.UNKNOWN
    if lookup(owner, name).where in ("dynamic", "fallback"):
        return Store.COMPUTED
    module, own = nn_module_class(), type_lookup(kind, "__setattr__")
    if module is None or not issubclass(kind, module):
        if own is not object.__setattr__ and kind is not SimpleNamespace:
            return Store.FOREIGN
        # Of the engine's objects schedules are Python through and through.
        return Store.OWN if home(kind) is None or is_schedule_class(kind) else Store.ENGINE
    if own is not vars(module)["__setattr__"]:
        return Store.FOREIGN
    tables = [namespace.get(table) for table in MODULE_TABLES]
    if any(type(table) is not dict or name in table for table in tables):
        buffers = tables[MODULE_TABLES.index("_buffers")]
        return Store.BUFFER if type(buffers) is dict and name in buffers else Store.TABLE
    return Store.OWN if name == "training" or name not in _own_names(module) else Store.ENGINE


_BY_TYPE: dict[type, Store] = {
    type: Store.CLASS,
    ModuleType: Store.MODULE,
    FunctionType: Store.FUNCTION,
    MethodType: Store.FUNCTION,
}


def kind_of_item(owner: Any, key: Any) -> Store:
    """What setting an item does; ITEM: it replaces one that is there, in a plain dict or list."""
    by_name = type(owner) is dict and type(key) is str and key in owner
    by_number = type(owner) is list and type(key) is int and 0 <= key < len(owner)
    return Store.ITEM if by_name or by_number else Store.UNKNOWN


def sets_as_objects_do(kind: type) -> bool:
    """Whether a class sets attributes as all objects do, or all modules, by code that is known."""
    own, module = type_lookup(kind, "__setattr__"), nn_module_class()
    plain = own is object.__setattr__ or kind is SimpleNamespace
    return plain or (module is not None and own is vars(module)["__setattr__"])


@functools.cache
def _own_names(module: type) -> frozenset[str]:
    """The attributes that every module has, by which the engine works."""
    return frozenset(vars(module()))
