"""Keys of dicts and caches: a value goes in; whether looking it up runs no code of a user's comes out."""

from __future__ import annotations

import enum
from types import FunctionType, ModuleType
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.python import metaclasses
from fusegrad.tracer.observe.values import is_plain


def is_key(observer: Observer, value: Any) -> bool:
    """Whether a value is hashed and compared without code of a user's, and equal to no other by what may
    change: a plain one, an object by its identity, or a tuple of such.
    """
    if is_plain(value) or purity.is_static(value) or isinstance(value, (type, FunctionType, ModuleType)):
        return (
            not isinstance(value, type)
            or metaclasses.is_plain(observer, value)
            or purity.is_enum_class(value)
        )
    if isinstance(value, enum.Enum):
        # The enum module's own __hash__ is written in Python: it hashes the name.
        return purity.python_method(type(value), "__hash__") in (MISSING, enum.Enum.__hash__)
    if observer.is_tensor(value):
        return _is_kept(observer, value)
    if not observer.is_known(value):
        return False
    if type(value) is tuple or type(value) is frozenset:
        return all(is_key(observer, item) for item in value)
    return all(type_lookup(type(value), name) is vars(object)[name] for name in ("__hash__", "__eq__"))


def _is_kept(observer: Observer, tensor: Any) -> bool:
    """Whether a tensor is one that replays find again, and no other. Dicts have tensors by their identity."""
    if id(tensor) not in observer.captured_tensors or observer.is_input(tensor):
        return False
    observer.compared.add(id(tensor))
    return True
