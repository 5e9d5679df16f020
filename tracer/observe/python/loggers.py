"""Loggers and warnings of an observed run: `isEnabledFor` goes in, its answer, which the logger keeps, comes
out; `warnings.warn` goes in, and runs. A warning that is not shown any more, as each is shown once, is none.
"""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

_ASKS = logging.Logger.isEnabledFor


def enabled(observer: Observer, method: MethodType, site: Site) -> Callable[..., bool] | None:
    """What to call in place of a logger's `isEnabledFor`; None for other methods."""
    if method.__func__ is not _ASKS or type(method.__self__) not in (logging.Logger, logging.RootLogger):
        return None
    return (
        functools.partial(_is_enabled, observer, method.__self__, site)
        if observer.is_known(method.__self__)
        else None
    )


def _is_enabled(observer: Observer, logger: Any, site: Site, /, level: Any) -> bool:
    observer.numbers.look(level)
    # It writes its answer down, or has done so; when settings that it follows from change, that is empty.
    answer = logger.isEnabledFor(level)
    disabled, kept = (attributes.load(observer, logger, name, site) for name in ("disabled", "_cache"))
    if not disabled:
        if not is_plain(level) or kept.get(level) is not answer:
            observer.open("asks a logger for a level that it does not keep", site)
        else:
            observer.read_item(kept, level, answer, site)
    return answer


def warn(
    observer: Observer,
    site: Site,
    /,
    message: Any,
    category: Any = None,
    stacklevel: Any = 1,
    source: Any = None,
    **options: Any,
) -> None:
    """`warnings.warn`, for the function that called it, or those around."""
    plain = (
        type(message) is str and (category is None or isinstance(category, type)) and type(stacklevel) is int
    )
    place = _place(stacklevel) if plain and not options else None
    if place is None:
        observer.open("calls `warn` of `_warnings`", site)
        warnings.warn(message, category, stacklevel + 1, source, **options)
        return
    observer.numbers.look(message, stacklevel)
    module, line = place
    registry = module.setdefault("__warningregistry__", {})
    key = message, category or UserWarning, line
    before = registry.get("version"), registry.get(key)
    warnings.warn(message, category, stacklevel + 1, source)
    observer.read(
        ("filters",),
        lambda: GetterRead(warnings, _filters, _filters(warnings), "which warnings are shown", site),
    )
    if _is_ignored(key, module.get("__name__") or "<unknown>"):
        return
    if before != (registry.get("version"), True):
        observer.open("warns", site, "once")  # it is shown now, perhaps, and then no more
    shown = functools.partial(_was_shown, key)
    observer.read(
        ("warned", id(registry), key),
        lambda: GetterRead(registry, shown, shown(registry), "which warnings were shown", site),
    )


def _place(stacklevel: int) -> tuple[dict[str, Any], int] | None:
    """The names of a caller's module, among them which warnings were shown, and the caller's line; None if
    that is not in the run, as others may make the next call.
    """
    frame = sys._getframe(2)
    for _ in range(stacklevel - 1):
        if frame.f_back is None or frame.f_back.f_code is Observer.run.__code__:
            return None
        frame = frame.f_back
    kept = frame.f_globals.get("__warningregistry__", {})
    return (frame.f_globals, frame.f_lineno) if type(kept) is dict else None


def _is_ignored(key: tuple[str, type, int], module: str) -> bool:
    """Whether filters say that a warning is not shown."""
    text, category, line = key
    for action, message, kind, where, number in warnings.filters:
        patterns: tuple[tuple[Any, str], ...] = (message, text), (where, module)
        fits = all(_fits(pattern, given) for pattern, given in patterns)
        if fits and issubclass(category, kind) and number in (0, line):
            return action == "ignore"
    return False


def _fits(pattern: Any, given: str) -> bool:
    """Whether a filter's pattern fits; those that the interpreter begins with have whole names."""
    if pattern is None or isinstance(pattern, str):
        return pattern in (None, given)
    return pattern.match(given) is not None


def _was_shown(key: Any, registry: dict[Any, Any]) -> tuple[Any, Any]:
    return registry.get(key), registry.get("version")


def _filters(module: Any) -> tuple[int, ...]:
    return id(module.filters), *map(id, module.filters)
