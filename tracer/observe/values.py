"""Expected values: an object goes in, a record comes out that can tell whether another one is the same.

Plain values are compared by exact type and bits, other objects by identity, and are held weakly.

Nothing here runs user code: types are asked by `type`, never by `isinstance`, which believes an object's
own `__class__`.
"""

from __future__ import annotations

import struct
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import _GeneratorContextManager
from types import EllipsisType, FunctionType, GeneratorType, MethodType, NoneType, NotImplementedType
from typing import Any

import numpy as np

from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.tracer.observe.lookup import MISSING

_BY_EQUALITY = frozenset({NoneType, bool, int, str, bytes, EllipsisType, NotImplementedType, range})
_NESTED = frozenset({tuple, frozenset, slice, Size})
PLAIN_TYPES = _BY_EQUALITY | {float, complex}


def plain_key(value: Any) -> Any:
    """A hashable key that is equal for two plain values exactly if type and bits are equal.

    Returns ``MISSING`` for a value that is not plain (its state could change or run user code).
    """
    kind = type(value)
    if _is_own_kind(kind):
        return MISSING
    if kind in _BY_EQUALITY:
        return (kind, value) if kind is not range else (kind, value.start, value.stop, value.step)
    if kind is float:
        return kind, struct.pack("<d", value)
    if kind is complex:
        return kind, struct.pack("<dd", value.real, value.imag)
    if kind is tuple or kind is frozenset or kind is Size:
        keys = [plain_key(item) for item in value]
        if any(key is MISSING for key in keys):
            return MISSING
        return kind, (frozenset(keys) if kind is frozenset else tuple(keys))
    if kind is slice:
        bounds = (plain_key(value.start), plain_key(value.stop), plain_key(value.step))
        return MISSING if MISSING in bounds else (kind, *bounds)
    if issubclass(kind, np.void):
        return MISSING  # a view of an array's memory
    if issubclass(kind, np.generic) and kind.__module__ == "numpy" and not value.dtype.hasobject:
        return kind, value.dtype.str, value.tobytes()
    if issubclass(kind, np.dtype):
        return np.dtype, repr(value)
    return MISSING


def _is_own_kind(kind: type) -> bool:
    """Whether a class is of a user's metaclass, which may have a hash and an equality of its own."""
    return type(kind) is not type and not issubclass(kind, np.dtype)


def is_plain(value: Any) -> bool:
    """Whether the value is immutable all the way down and made of Python's (or NumPy's) own scalars."""
    kind = type(value)
    if _is_own_kind(kind):
        return False
    if kind in PLAIN_TYPES:
        return True
    if kind in _NESTED or issubclass(kind, (np.generic, np.dtype)):
        return plain_key(value) is not MISSING
    return False


def texts_of(value: Any) -> list[str]:
    """The texts in a plain value."""
    if type(value) is tuple:
        return [text for item in value for text in texts_of(item)]
    return [value] if type(value) is str else []


class Strong:
    """Stands in for a weak reference to what cannot be weakly referenced (lists, dicts, tuples)."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


def hold(value: Any) -> Callable[[], Any]:
    """A weak reference where possible, else a strong one; call it for the object."""
    try:
        return weakref.ref(value)
    except TypeError:
        return Strong(value)


def ends_late(value: Any) -> bool:
    """Whether letting go of an object may run code: of a generator, or of a context manager that is one."""
    owner = value.__self__ if type(value) is MethodType else value
    return type(owner) in (GeneratorType, _GeneratorContextManager)


def kept(value: Any, *tables: dict[int, Any]) -> Any:
    """What a run keeps of an object, so that the id stays its own by which these tables have it: it, or a
    reference to one that runs code as it dies, and then leaves the tables.
    """
    if not ends_late(value):
        return value
    key = id(value)
    return weakref.ref(value, lambda _: [table.pop(key, None) for table in tables])


def name_of(kind: type) -> str:
    """The name of a class, without asking its metaclass."""
    name: str = type.__dict__["__name__"].__get__(kind)
    return name


class Expected:
    """What a place held: a plain value, an object's identity, or nothing at all (``MISSING``).

    key: of a plain value, else ``MISSING``. reference: call it for the value; None if the object is gone.
    """

    __slots__ = ("_kind", "key", "reference")

    def __init__(self, value: Any):
        self._kind = name_of(type(value))
        self.key = MISSING if value is MISSING else plain_key(value)
        self.reference = Strong(value) if value is MISSING or self.key is not MISSING else hold(value)

    def matches(self, value: Any) -> bool:
        """Whether the value is the one that was seen, to the bit or by identity."""
        seen = self.reference()
        if seen is value:
            return value is not None or self.key is not MISSING  # a dead reference yields None
        if self.key is MISSING or value is MISSING:
            return False
        return plain_key(value) == self.key

    def __str__(self) -> str:
        value = self.reference()
        if value is None and self.key is MISSING:
            return f"{_article(self._kind)} {self._kind} object that is gone"
        return text_of(value)


def text_of(value: Any) -> str:
    """A value in words: a plain one as it prints, of others the kind. Runs no user code."""
    if value is MISSING:
        return "absent"
    if is_plain(value):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    kind = type(value)
    if issubclass(kind, Tensor):
        return f"a tensor {value.array.dtype.name}{list(value.array.shape)}"
    if issubclass(kind, type):
        return f"class {type.__dict__['__qualname__'].__get__(value)}"
    if kind is FunctionType:
        return f"function {value.__qualname__}"
    name = name_of(kind)
    sizes = (c.__len__(value) for c in (list, tuple, dict, set, deque) if issubclass(kind, c))
    size = next((f"of {size}" for size in sizes), "object")
    return f"{_article(name)} {name} {size}"


def _article(noun: str) -> str:
    return "an" if noun[:1] in "AEIOUaeiou" else "a"
