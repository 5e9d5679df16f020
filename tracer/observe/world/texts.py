"""Methods of texts, of numbers that a replay comes by anew: what they give is made again in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusegrad.tracer.observe import numbers
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import LOCAL, Observer
from fusegrad.tracer.twin.unfailing import by_place, joined


def made(observer: Observer, owner: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `format` and `join` of a text give for numbers that are followed, and texts of them; MISSING for
    others.
    """
    if name == "format":
        template = by_place(owner, len(args), [*kwargs]) if kwargs else owner
        if template is None:
            return MISSING
        return numbers.computed_of(observer, str.format, (template, *args, *kwargs.values()))
    if kwargs:
        return MISSING
    local = name == "join" and len(args) == 1 and type(args[0]) in (list, tuple)
    if not local or observer.status(args[0]) != LOCAL or not all(type(x) is str for x in args[0]):
        return MISSING
    return numbers.computed_of(observer, joined, (owner, *args[0]))
