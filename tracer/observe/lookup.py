"""Lookup without running code: an object and a name go in, what lies there and where comes out.

It looks where Python would look, and calls no descriptor, no ``__getattr__``, nothing of the user's.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any


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
    submodules), ``absent``, and ``dynamic`` (only user code could tell).
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


def flat_contents(owner: Any) -> list:
    """The items of a builtin container as a list (of a dict: keys, then values), without user code."""
    if issubclass(type(owner), dict):
        return [*dict.keys(owner), *dict.values(owner)]
    kind: Any
    for kind in (list, tuple, deque, set, frozenset):
        if issubclass(type(owner), kind):
            return list(kind.__iter__(owner))
    raise TypeError(type(owner).__name__)


def nn_module_class() -> type | None:
    """``fusegrad.eager.nn.module.Module`` if it has been imported."""
    module = sys.modules.get("fusegrad.eager.nn.module")
    return None if module is None else vars(module).get("Module")


def is_data_descriptor(raw: Any) -> bool:
    """Whether a class attribute takes precedence over the instance's."""
    kind = type(raw)
    return type_lookup(kind, "__set__") is not MISSING or type_lookup(kind, "__delete__") is not MISSING


def has_own_getattribute(kind: type) -> bool:
    """Whether attribute access on instances runs a ``__getattribute__`` of the user's."""
    return type(type_lookup(kind, "__getattribute__")) is FunctionType


def lookup(owner: Any, name: str) -> Found:
    """Find ``owner.name`` without running user code."""
    kind = type(owner)
    if issubclass(kind, type):  # by `type`: an object may say of itself that it is of another class
        return _lookup_on_class(owner, name)
    if issubclass(kind, ModuleType):
        if kind is ModuleType or not has_own_getattribute(kind):
            return _lookup_on_module(owner, name)
        return _DYNAMIC
    if has_own_getattribute(kind):
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
        return _DYNAMIC
    for table in MODULE_TABLES:
        entries = (namespace or {}).get(table)
        if entries is not None and type(entries) is not dict and type(entries) is not OrderedDict:
            return _DYNAMIC  # a table whose look-up is code of its own
        if entries is not None and name in entries:
            return Found("module", entries[name])
    return _ABSENT


def _lookup_on_module(owner: ModuleType, name: str) -> Found:
    namespace = vars(ModuleType)["__dict__"].__get__(owner)
    if name in namespace:
        return Found("instance", namespace[name])
    if any(type_lookup(type(owner), n) is not MISSING for n in (name, "__getattr__")):
        return _DYNAMIC
    if "__getattr__" in namespace:
        return _DYNAMIC
    return _ABSENT


def _lookup_on_class(owner: type, name: str) -> Found:
    meta = type(owner)
    if has_own_getattribute(meta):
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


def is_dataclass_instance(value: Any) -> bool:
    """Whether the value is an instance of a dataclass (not a class)."""
    return not isinstance(value, type) and type_lookup(type(value), "__dataclass_fields__") is not MISSING
