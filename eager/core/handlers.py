"""Signal handlers: Python calls them between any two instructions of its main thread, so also while an
interpreter is in charge, and in the middle of what that does.

What a handler computes is no part of the run that it interrupts: it is neither recorded nor put off, and it
must not find an interpreter that is half way through an op. So where the process has handlers in Python, what
stands in `state.interpreter` looks at who asks.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from _signal import getsignal  # which gives plain numbers where `signal` gives enumerations
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from fusegrad.eager.core.op import bind
from fusegrad.eager.core.state import Interpreter, state

_SIGNALS = sorted(signal.valid_signals())


def in_charge(interpreter: Interpreter) -> Interpreter:
    """What to put in `state.interpreter` for an interpreter, until the calling function ends."""
    if threading.get_ident() != threading.main_thread().ident:
        return interpreter
    codes = frozenset(_codes())
    return Guarded(interpreter, codes, sys._getframe(1)) if codes else interpreter


def behind(interpreter: Interpreter | None) -> Interpreter | None:
    """The interpreter itself that is in charge."""
    return interpreter._inner if isinstance(interpreter, Guarded) else interpreter


def at_work(function: Callable[..., Any], /, *args: Any) -> Any:
    """Call `function`, which does some of the work of the interpreter in charge."""
    interpreter = state.interpreter
    if not isinstance(interpreter, Guarded):
        return function(*args)
    return interpreter.at_work(function, *args)


def _codes() -> Iterator[CodeType]:
    """The code of the handlers that are functions in Python."""
    for number in _SIGNALS:
        handler: Any = getsignal(number)
        if not callable(handler):
            continue
        while isinstance(handler, functools.partial):
            handler = handler.func
        handler = getattr(handler, "__func__", handler)
        if not hasattr(handler, "__code__"):
            handler = getattr(type(handler), "__call__", None)  # noqa: B004
        code = getattr(handler, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def handler_raised() -> bool:
    """Whether the exception that is being dealt with is a signal handler's: it is the program's, and not of
    what it has interrupted.
    """
    error = sys.exception()
    traceback = None if error is None else error.__traceback__
    codes = frozenset(_codes())
    while codes and traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


class Guarded(Interpreter):
    """An interpreter that signal handlers go past."""

    def __init__(self, inner: Interpreter, codes: frozenset[CodeType], root: FrameType) -> None:
        """codes: of the handlers. root: the frame in which the interpreter took over."""
        self._inner, self._codes, self._root = inner, codes, root
        self._depth = 0  # how many of its methods are at work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def bind(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if not self._interrupted():
            return self._ask("bind", op, args, params)
        state.interpreter = None
        try:
            return bind(op, args, params)
        finally:
            state.interpreter = self

    def at_work(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """Call a function that must not find the interpreter changed by a handler in the middle of it."""
        self._depth += 1
        try:
            return function(*args, **options)
        finally:
            self._depth -= 1

    def _ask(self, name: str, /, *args: Any, **options: Any) -> Any:
        found = self.at_work(getattr(self._inner, name), *args, **options)
        return self if found is self._inner else found  # who is in charge of a backward

    def _interrupted(self) -> bool:
        """Whether it is a handler that asks; the interpreter is told."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not self._root:
            if frame.f_code in self._codes:
                self._ask("interrupted", self._depth > 0)
                return True
            frame = frame.f_back
        return False


def _passing(name: str, otherwise: Any) -> Callable[..., Any]:
    """A method that asks the interpreter, or gives what there is without one."""

    def method(self: Guarded, /, *args: Any, **options: Any) -> Any:
        return otherwise if self._interrupted() else self._ask(name, *args, **options)

    return method


_OTHERWISE = {"check": True, "writes_later": False, "takes_step": False}
for _name in vars(Interpreter):
    if not _name.startswith("_") and _name not in ("bind", "interrupted"):
        setattr(Guarded, _name, _passing(_name, _OTHERWISE.get(_name)))
