"""What fusegrad lacks of torch: a stand-in that says its name when somebody uses it.

While a test file is read, decorators and lists of dtypes mention many names. There a missing one only stands
where it is mentioned; a test that uses it fails with an AttributeError of its own, and the others run.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NoReturn

import fusegrad as fg

# How many files are being read. Names are lenient then, and strict when tests run.
_reading = [0]

# Lists of dtypes are asked whether all in them are dtypes.
DTYPES = frozenset(
    """bfloat16 chalf complex32 uint16 uint32 uint64 quint8 qint8 qint32 quint4x2 quint2x4 float8_e4m3fn
    float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 bits8 bits16""".split()
)


@contextmanager
def reading() -> Iterator[None]:
    """Missing names may be mentioned."""
    _reading[0] += 1
    try:
        yield
    finally:
        _reading[0] -= 1


def is_reading() -> bool:
    return _reading[0] > 0


def complaint(name: str) -> str:
    return f"fusegrad has no {name}"


class Missing:
    """A name of torch that fusegrad lacks.

    >>> with reading():
    ...     flag = Missing("torch.backends").xeon.is_available()
    >>> flag
    torch.backends.xeon.is_available()
    >>> flag.more
    Traceback (most recent call last):
        ...
    AttributeError: fusegrad has no torch.backends.xeon.is_available()
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self) -> NoReturn:
        raise AttributeError(complaint(self._name))

    def __repr__(self) -> str:
        return self._name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return fg.dtype if self._name.rpartition(".")[2] in DTYPES else Missing

    __all__ = ()  # a module that is not there lists nothing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not is_reading():
            self._refuse()
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **_: Any) -> Any:
        if not is_reading():
            self._refuse()
        if len(args) == 1 and isinstance(args[0], FunctionType) and args[0].__name__.startswith("test"):
            return self._decorated(args[0])
        return Missing(f"{self._name}()")

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def refusing(*_: Any, **__: Any) -> NoReturn:
            self._refuse()

        return refusing

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._name.rpartition(".")[2]
        if name.endswith("TestCase"):  # the tests of such a class are to be seen, and fail
            return (type(name, (unittest.TestCase,), {"setUp": lambda _: self._refuse()}),)
        return (type(name, (), {"__new__": lambda *_, **__: self()}),)

    def __instancecheck__(self, _: Any) -> bool:
        return False  # nothing is of a type that is not there

    def __subclasscheck__(self, _: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return other  # in annotations

    __ror__ = __or__

    def __iter__(self) -> Iterator[Any]:
        if not is_reading():
            self._refuse()
        return iter(())

    def __bool__(self) -> bool:
        if not is_reading():
            self._refuse()
        return not self._name.endswith("()")  # a flag that was asked for says no

    def __getitem__(self, _: Any) -> Any:
        if not is_reading():
            self._refuse()
        return self

    def _number(self, *_: Any) -> Any:
        if not is_reading():
            self._refuse()
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _number

    def __enter__(self) -> NoReturn:
        self._refuse()

    def __exit__(self, *_: Any) -> None: ...
