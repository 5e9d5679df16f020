"""Context managers of an observed run: one that is entered goes in, one that is followed comes out.

So do generators that most of them are made of: they yield within a try or with statement, and what is behind
that runs when somebody lets go of the generator, at the latest. By the end of the run it must have.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.expressions import WAITS
from fusegrad.tracer.twin.sites import Site


class Followed:
    """Stands in a `with` statement for a manager whose class is written in Python."""

    __slots__ = ("enter", "leave", "observer", "site")

    def __init__(self, observer: Observer, enter: Callable, leave: Callable, site: Site) -> None:
        self.observer, self.enter, self.leave, self.site = observer, enter, leave, site

    def __enter__(self) -> Any:
        return self.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.observer.reached(kind)
        self.observer.adopt(error)
        self.observer.adopt(trace)
        ends = bool(self.leave(kind, error, trace))
        if ends and not self.observer.is_explained(error):
            self.observer.open("ends an exception whose cause is not guarded", self.site)
        return ends


def followed(observer: Observer, manager: Any, site: Site) -> Any:
    """What to enter in place of a context manager."""
    if purity.is_known_context(manager):
        return manager
    if type(manager) is _LOCK and observer.is_outer(manager) and not manager.locked():
        words = "whether a lock is held"
        observer.read(("lock", id(manager)), lambda: GetterRead(manager, _is_held, False, words, site))
        return _Holding(observer, manager)
    names = ("__enter__", "__exit__")
    if any(purity.python_method(type(manager), name) is MISSING for name in names):
        observer.open(f"enters a {type(manager).__name__}, whose effects are not known", site)
        return manager
    enter, leave = (observer.special_method(manager, name, site) for name in names)
    if enter is None or leave is None:
        return manager
    return Followed(observer, enter, leave, site)


_LOCK = type(threading.Lock())


class _Holding:
    """Stands in a `with` statement for a lock, which a replay does not take."""

    __slots__ = ("lock", "observer")

    def __init__(self, observer: Observer, lock: Any) -> None:
        self.observer, self.lock = observer, lock

    def __enter__(self) -> Any:
        found = self.lock.__enter__()
        self.observer.held.append(self.lock)
        return found

    def __exit__(self, *exception: Any) -> None:
        self.observer.held.remove(self.lock)
        self.lock.__exit__(*exception)


def _is_held(lock: Any) -> bool:
    """Whether somebody holds a lock: then the call waits, as in eager; what it guards is read at once."""
    return bool(lock.locked())


def beginning(observer: Observer, twin: FunctionType, site: Site) -> Callable[..., Any]:
    """What to call in place of a twin, which may make a generator that waits. One of no context manager opens
    the run: iterators would keep it, and what is behind its `yield` would run later than it does.
    """
    if WAITS not in twin.__code__.co_varnames:
        return twin
    if site.file != contextlib.__file__:
        observer.open(f"calls `{twin.__name__}`, which yields within a try or with statement", site)
        return twin
    return functools.partial(_begun, observer, twin)


def _begun(observer: Observer, twin: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
    made = twin(*args, **kwargs)
    observer.waiting.append(weakref.ref(made))
    return made


def check_ended(observer: Observer) -> None:
    """At the end of a run: what a generator still has to do would be done by nobody."""
    left = [held() for held in observer.waiting]
    if any(g is not None and inspect.getgeneratorstate(g) == inspect.GEN_SUSPENDED for g in left):
        observer.open("leaves a generator where it waits within a try or with statement")
