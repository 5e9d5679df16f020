"""Forks of the process: a child has only the thread that forked.

A lock that another thread held at that moment would stay taken in it for ever, and a module that one was
importing would stay half imported: whoever needs either waits and is never told. So whoever forks waits for
what is done under the locks of this file, and for modules that are being imported, beside the program or
where another thread first needs them.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

_importing = threading.RLock()

# Whose modules fusegrad imports where they are first needed, and for how many seconds a fork waits for those
# that another thread imports: that thread may wait for the one that forks.
_IMPORTED = ("fusegrad", "numpy", "scipy", "numba", "llvmlite", "ml_dtypes")
_PATIENCE = 5.0


def _others_import() -> bool:
    """Whether another thread is importing such a module: Python makes no lock of modules anew in a child."""
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    owners = [
        getattr(reference(), "owner", None)
        for name, reference in [*locks.items()]
        if name.partition(".")[0] in _IMPORTED
    ]
    return any(owner not in (None, threading.get_ident()) for owner in owners)


class _Asked(NamedTuple):
    """What is called in the thread that forks, and afterwards in both processes."""

    before: Callable[[], object]
    after: Callable[[], object]
    after_in_child: Callable[[], object]


class _Fork:
    """What is done around a fork."""

    def __init__(self) -> None:
        self.asked: list[_Asked] = []
        self._begun: list[_Asked] = []
        # The thread that forks: its part is registered more than once, maybe while it is played.
        self._thread = 0

    def before(self) -> None:
        if self._thread == threading.get_ident():
            return
        end = time.monotonic() + _PATIENCE
        while True:
            self._take()
            if not _others_import() or time.monotonic() > end:
                return
            self.after()  # they may need what was taken
            time.sleep(0.001)

    def _take(self) -> None:
        # First, as the module may ask for something as well: that is then not begun in the middle.
        _importing.acquire()
        self._thread = threading.get_ident()
        self._begun = self.asked[::-1]
        for one in self._begun:
            one.before()

    def after(self) -> None:
        if self._thread == threading.get_ident():
            self._thread = 0
            for one in reversed(self._begun):
                one.after()
            _importing.release()

    def after_in_child(self) -> None:
        if self._thread == threading.get_ident():
            self._thread = 0
            for one in reversed(self._begun):
                one.after_in_child()
            _importing.release()


_fork = _Fork()


def come_first() -> None:
    """From now on whoever forks waits for what is done here before he takes the locks of modules that were
    imported since: what one waits for may need them.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after_in_child
        )


come_first()


def around_forks(
    before: Callable[[], object],
    after: Callable[[], object],
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Have functions called when the process is forked: `before`, last come first, then `after` in the parent
    and `after_in_child`, or `after` again, in the child. Unlike with `os.register_at_fork` none is called
    afterwards that was not called before.
    """
    _fork.asked.append(_Asked(before, after, after_in_child or after))


def lock() -> AbstractContextManager[bool]:
    """A lock that no other thread holds when the process is forked.

    >>> with lock():
    ...     pass
    """
    made = threading.RLock()
    around_forks(made.acquire, made.release)
    return made


class Loads(Protocol):
    """What has something loaded, once."""

    load: Callable[[], object] | None


class Installing:
    """Has `owner.load()` import a module in a thread beside the program, and call its `install()`.

    A child that was forked before that came to its end has its owner load it anew.
    """

    def __init__(self, owner: Loads, module: str) -> None:
        self._owner, self._module = owner, module
        self._begun = self._installed = False
        owner.load = self._begin
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin(self) -> None:
        self._begun = True
        threading.Thread(target=self._install, daemon=True).start()

    def _install(self) -> None:
        with _importing:
            module = importlib.import_module(self._module)
        module.install()
        self._installed = True

    def _begin_anew(self) -> None:
        if self._begun and not self._installed:
            self._owner.load = self._begin
