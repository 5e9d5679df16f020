"""`print` in a run: what it shows is text and numbers that a replay has in the end, and shows then, in order.

    print(f"loss {loss.item():.3f}")        a replay prints this call's loss, when all is computed

What is printed is kept as if it were appended to a list from outside (`stores.py`): `Shown` is that list, and
appending to it prints. Anything else than plain values is shown by code of its own, and opens the run.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.stores import Grown
from fusegrad.tracer.observe.values import is_plain

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer
    from fusegrad.tracer.twin.sites import Site

_PLAIN = (str, int, float, bool, type(None))


class Shown:
    """What takes the place of a list: what it gets is printed."""

    def extend(self, calls: Iterable[tuple[tuple[Any, ...], Any, Any, Any]]) -> None:
        """Print what the calls of `print` got: values, `sep`, `end` and `flush`."""
        for values, sep, end, flush in calls:
            print(*values, sep=sep, end=end, flush=flush)


_SHOWN = Shown()


def printer(observer: Observer, site: Site) -> Any:
    """What to call in place of `print`."""
    return functools.partial(_print, observer, site)


def _print(observer: Observer, site: Site, /, *values: Any, **options: Any) -> None:
    values = tuple([_text_of(observer, value, site) for value in values])
    sep, end, flush = (options.get(name) for name in ("sep", "end", "flush"))
    shown = (*values, sep, end, flush)
    if (
        set(options) <= {"sep", "end", "flush", "file"}
        and options.get("file") is None
        and _fit(observer, shown)
    ):
        observer.does("prints", site)
        grown = observer.stores.grown.setdefault(id(_SHOWN), Grown(_SHOWN, ()))
        grown.added.append((values, sep, end, bool(flush)))
        observer.stores.times += 1
        observer.changed("prints")
    else:
        observer.open("prints", site)
    builtins.print(*values, **options)


def _text_of(observer: Observer, value: Any, site: Site) -> Any:
    """What is shown of an object whose class says that in Python; else the value."""
    if type(value) in _PLAIN or observer.is_tensor(value) or not observer.is_known(value):
        return value
    text = attributes.text_of(observer, str, value, site)
    return value if text is None else text


def _fit(observer: Observer, values: tuple[Any, ...]) -> bool:
    """Whether a replay can show all of these as they are shown now."""
    return all(type(x) in _PLAIN and (is_plain(x) or observer.numbers.of(x) is not None) for x in values)
