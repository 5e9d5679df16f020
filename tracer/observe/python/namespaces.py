"""All attributes of an object, as keywords: `template.format(**self.__dict__)`.

Each is read like any attribute, so that numbers among them are followed; which there are is guarded.
"""

from __future__ import annotations

from typing import Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.lookup import MISSING, instance_dict, type_lookup
from fusegrad.tracer.observe.observer import LOCAL, OUTER, Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site


def as_keywords(observer: Observer, owner: Any, site: Site) -> Any:
    """`owner.__dict__`, of which nobody gets more than names and values."""
    namespace = instance_dict(owner)
    if type(namespace) is dict and observer.status(owner) == LOCAL:
        return observer.local(dict(namespace))
    if type(namespace) is not dict or observer.status(owner) != OUTER or not _is_plain(owner, namespace):
        return attributes.load(observer, owner, "__dict__", site)
    names = _names_of(owner)
    if any((owner, name) in observer.stores and not _was_there(observer, owner, name) for name in names):
        return attributes.load(observer, owner, "__dict__", site)
    observer.read_type(owner, site)
    words = f"the names of the attributes of a {type(owner).__name__}"
    observer.read(("names", id(owner)), lambda: GetterRead(owner, _names_of, names, words, site))
    return observer.local({name: attributes.load(observer, owner, name, site) for name in names})


def _names_of(owner: Any) -> tuple[str, ...]:
    return tuple(instance_dict(owner) or ())


def _is_plain(owner: Any, namespace: dict) -> bool:
    """Whether looking an attribute up gives what the object has under the name, and runs no code."""
    kind = type(owner)
    if type_lookup(kind, "__getattribute__") is not object.__dict__["__getattribute__"]:
        return False
    found = [type_lookup(kind, name) for name in namespace]
    return all(x is MISSING or not hasattr(type(x), "__set__") for x in found)


def _was_there(observer: Observer, owner: Any, name: str) -> bool:
    """Whether an attribute that the run has set, or counted up, was one before."""
    before = observer.stores.before(owner, name)
    return before is None or before.where == "instance"
