"""Abstract classes: `isinstance` and `issubclass` go in; what is registered with the classes is read."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any

from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.python import metaclasses
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site


def read(observer: Observer, function: Callable, args: tuple[Any, ...], site: Site) -> None:
    """What a question for a class, or for one of several, depends on besides the class of what is asked."""
    kind, asked_for = type(args[0]) if function is isinstance else args[0], [*_each(args[1:])]
    if not all(metaclasses.checks_instances_plainly(observer, asked, site) for asked in asked_for):
        observer.open(f"`{function.__name__}` runs code of a metaclass", site)
        return
    for asked in asked_for if isinstance(kind, type) else ():
        if type(asked) is abc.ABCMeta and asked not in kind.__mro__:
            made = functools.partial(AbstractRead, kind, asked, site)
            observer.read(("abstract", id(observer.keep(kind)), id(asked)), made)


def _each(kinds: tuple[Any, ...]) -> Iterator[Any]:
    for kind in kinds:
        if isinstance(kind, (tuple, UnionType)):
            yield from _each(kind if isinstance(kind, tuple) else kind.__args__)
        else:
            yield kind


class AbstractRead(GetterRead):
    """Whether a class counts as an abstract one."""

    __slots__ = ("of",)

    def __init__(self, of: type, asked: type, site: Site) -> None:
        answer = issubclass(of, asked)
        again = functools.partial(_answer, of, answer, abc.get_cache_token())
        super().__init__(asked, again, answer, f"whether {of.__name__} counts as {asked.__name__}", site)
        self.of = of


def _answer(kind: type, answer: bool, token: object, asked: type) -> bool:
    # As long as nobody registers anything with any class, nothing need be asked.
    return answer if abc.get_cache_token() == token else issubclass(kind, asked)
