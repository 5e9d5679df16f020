"""Slots of builtin classes, as `super().__init__` and `super().__setitem__`: one goes in, what to call in its
place comes out.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from fusegrad.tracer.observe import attributes, leaves, operations, purity, subscripts
from fusegrad.tracer.observe.leaves import opened
from fusegrad.tracer.observe.observer import LOCAL, Observer
from fusegrad.tracer.observe.python import own_lookups
from fusegrad.tracer.twin.sites import Site


def slot(observer: Observer, function: Any, site: Site) -> Any:
    """A slot, bound to its owner or not: harmless for `object`'s own, and for those of containers."""
    of, name = getattr(function, "__objclass__", None), function.__name__
    owner = getattr(function, "__self__", None)
    bound = () if owner is None else (owner,)
    is_made = isinstance(owner, BaseException) and observer.status(owner) == LOCAL
    if (of is object or is_made) and name == "__init__":
        return function
    if of is object and name == "__getattribute__":
        return functools.partial(own_lookups.ordinary, observer, site, *bound)
    if of is object and name == "__setattr__":
        return functools.partial(attributes.store_ordinary, observer, site, *bound)
    if of in purity.CONTAINERS and (name == "__init__" or name in _OF_CONTAINERS):
        return functools.partial(_call, observer, of, name, site, *bound)
    return opened(observer, function, f"calls the slot `{name}`", site)


def _call(
    observer: Observer, kind: Any, name: str, site: Site, /, owner: Any, *args: Any, **kwargs: Any
) -> Any:
    """A slot of a builtin container, of an object that is one, or of a class that derives from it."""
    if name == "__init__":
        return fill(observer, kind, owner, args, kwargs, site)
    as_kind, takes = _OF_CONTAINERS[name]
    if not isinstance(owner, kind) or kwargs or len(args) != takes:
        observer.open(f"calls the slot `{name}`", site)
        return getattr(kind, name)(owner, *args, **kwargs)
    return as_kind(observer, kind, owner, *args, site)


def _set(observer: Observer, kind: Any, owner: Any, key: Any, value: Any, site: Site) -> None:
    subscripts.set_as(observer, kind, value, owner, key, site)


_OF_CONTAINERS: dict[str, tuple[Callable[..., Any], int]] = {
    "__getitem__": (subscripts.item_as, 1),
    "__setitem__": (_set, 2),
    "__delitem__": (subscripts.delete_as, 1),
    "__contains__": (operations.contains_as, 1),
    "__len__": (operations.length_as, 0),
    "__iter__": (operations.iterator_as, 0),
}


# ---------------------------------------------------------------------------------- making


def new(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """`object.__new__(kind)`, or a container's: an object that the run has made."""
    of = function.__self__
    kind = args[0] if args else None
    if not (isinstance(kind, type) and observer.is_known(kind) and (of is object or of in purity.CONTAINERS)):
        observer.open(f"calls the `__new__` of {getattr(of, '__name__', 'a class')}", site)
        return function(*args, **kwargs)
    if of is object:
        return observer.local(function(*args, **kwargs))
    return make(observer, of, kind, args[1:], kwargs, site)


def make(
    observer: Observer, base: Any, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any], site: Site
) -> Any:
    """An object of a class that derives from a builtin container, as that one's `__new__` makes it."""
    if base not in (tuple, frozenset):
        return observer.local(base.__new__(kind))
    return observer.local(
        base.__new__(kind, leaves.call_pure(observer, base, purity.PURE[base], site, *args, **kwargs))
    )


def fill(
    observer: Observer, base: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], site: Site
) -> None:
    """What the `__init__` of a builtin container does with an object that is one."""
    if observer.status(owner) != LOCAL or (base is deque and (kwargs or len(args) > 1)):
        observer.open(f"calls `__init__` of {subscripts.outside(observer, owner)}", site)
        base.__init__(owner, *args, **kwargs)
        return
    made = leaves.call_pure(observer, base, purity.PURE[base], site, *args, **kwargs)
    if base is OrderedDict:  # which sets its items as the class does
        for key, value in made.items():
            subscripts.store_item(observer, value, owner, key, site)
    else:
        base.__init__(owner, made)
