"""Python code of the user's that the engine calls itself: the methods of custom Functions, and hooks.

In: what the engine is about to call. Out: what to call in its place, so that the call is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from fusegrad.eager.core.errors import user_location
from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.observer import Observer, active
from fusegrad.tracer.observe.python import metaclasses
from fusegrad.tracer.twin.sites import Site


class Callbacks:
    """What a recorder asks for one run's observer."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def method(self, kind: type, name: str, context: Any) -> Callable[..., Any] | None:
        """A method of a custom Function, observed; None where nothing is known of the class.

        The attributes that the methods put on `context` are this run's own.
        """
        observer = self._observer
        if active() is not observer or not observer.is_known(kind):
            return None
        if not metaclasses.is_plain(observer, kind):
            return None
        observer.local(context)
        site = _site()
        found: Callable[..., Any] = observer.callee(attributes.load(observer, kind, name, site), site)
        return found

    def hook(self, hook: Callable[..., Any]) -> Callable[..., Any] | None:
        """A hook, observed; None where it is not known."""
        observer = self._observer
        if active() is not observer or not isinstance(hook, (FunctionType, MethodType)):
            return None
        found: Callable[..., Any] = observer.callee(hook, _site())
        return found

    def deeds(self) -> int:
        """How often the observed code has changed something that a replay changes, too, or cannot change."""
        return self._observer.stores.times + self._observer.opens


def _site() -> Site:
    file, line = user_location()
    return Site(file, line, "")
