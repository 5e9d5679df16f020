"""What fusegrad lacks of torch, in test files: a stand-in that says its name when a test uses it.

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

from fusegrad.torch.absent import Absent

# How many files are being read. Names are lenient then, and strict when tests run.
_reading = [0]


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


class Missing(Absent):
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

    def _use(self) -> None:
        if not is_reading():
            super()._use()

    __all__ = ()  # a module that is not there lists nothing

    @property
    def __name__(self) -> str:  # lists of optimizers name their tests by them
        return self._name.rpartition(".")[2]

    def __call__(self, *args: Any, **_: Any) -> Any:
        function = args[0] if len(args) == 1 and isinstance(args[0], FunctionType) else None
        if is_reading() and function is not None and function.__name__.startswith("test"):
            return self._decorated(function)
        return super().__call__()

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def refusing(*_: Any, **__: Any) -> NoReturn:
            self._refuse()

        return refusing

    def _refuse(self) -> NoReturn:
        super()._use()
        raise AssertionError("an absent name refuses to be used")

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._name.rpartition(".")[2]
        if name.endswith("TestCase"):  # the tests of such a class are to be seen, and fail
            return (type(name, (unittest.TestCase,), {"setUp": lambda _: self._refuse()}),)
        return (type(name, (), {"__new__": lambda *_, **__: self()}),)

    def __enter__(self) -> NoReturn:
        self._refuse()

    def __exit__(self, *_: Any) -> None: ...
