"""Modules listed by an observed run: `parameters()`, `named_modules()`, `zero_grad()` and their kin.

They walk over tables that no user sees. They are not followed; one read says that the modules below
have the parts that they had. The parts of modules that the run has made follow from the run.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import MethodType
from typing import Any

from fusegrad.eager.autograd.functional_call import functional_call, with_others
from fusegrad.tracer.observe import attributes, operations, subscripts
from fusegrad.tracer.observe.conditions import Called, Condition, Each, Held
from fusegrad.tracer.observe.lookup import MODULE_TABLES, instance_dict, nn_module_class, type_lookup
from fusegrad.tracer.observe.observer import LOCAL, OUTER, Observer
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.values import Expected
from fusegrad.tracer.twin.sites import Site

LISTINGS = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children "
    "zero_grad".split()
)
_OWN = (*LISTINGS, "_named")


def fallback(observer: Observer, method: MethodType, site: Site) -> Any:
    """What to call in place of the `__getattr__` of all modules, which that of a class calls; else None."""
    module = nn_module_class()
    if module is None or method.__func__ is not vars(module).get("__getattr__"):
        return None
    return functools.partial(_from_tables, observer, method, site)


def _from_tables(observer: Observer, method: MethodType, site: Site, /, name: str) -> Any:
    for table in MODULE_TABLES:
        held = attributes.load(observer, method.__self__, table, site)
        if operations.contains(observer, name, held, site):
            return subscripts.item(observer, held, name, site)
    try:
        return method(name)
    except AttributeError as error:
        observer.explain(error)
        raise


class ModuleRead(Read):
    """That a module, and those below it, have the parts that they had."""

    __slots__ = ("module", "values")
    kind = "module"

    def __init__(self, module: Any, site: Site) -> None:
        self.site, self.module = site, weakref.ref(module)
        self.values = tuple(map(Expected, parts(module)))

    def subject(self) -> str:
        return f"what a {type(self.module()).__name__} is made of"

    def was(self) -> str:
        return "the same modules and tensors"

    def token(self) -> tuple[Any, ...]:
        parts = (x if type(x) is str else id(x) for x in (value.reference() for value in self.values))
        return (type(self), id(self.module()), tuple(parts))

    def _now(self) -> str:
        return "others"

    def conditions(self) -> Iterable[Condition]:
        return (Each(Called(_all_parts, Held(self.module)), self.values),)


def _all_parts(module: Any) -> tuple[Any, ...]:
    return tuple(parts(module))


def parts(module: Any) -> Iterator[Any]:
    """The classes, names, tensors and modules at and below a module, in order."""
    yield type(module)
    own = instance_dict(module) or {}
    for table in MODULE_TABLES:
        for name, value in dict.items(own[table]):
            if value is not None:
                yield name
                yield value
    for below in dict.values(own["_modules"]):
        if below is not None:
            yield from parts(below)


def _from_outside(observer: Observer, module: Any) -> list[Any] | None:
    """The module, if it is from outside, or the topmost ones below it that are; None where unknown."""
    status = observer.status(module)
    if status != LOCAL:
        return [module] if status == OUTER else None
    below = [m for m in dict.values((instance_dict(module) or {})["_modules"]) if m is not None]
    found = [_from_outside(observer, m) for m in below]
    known = [modules for modules in found if modules is not None]
    return [m for modules in known for m in modules] if len(known) == len(found) else None


def _is_ordinary(module: Any) -> bool:
    """Whether no module in question lists its parts in a way of its own."""
    base: Any = nn_module_class()
    modules = [module, *(p for p in parts(module) if base in type(p).__mro__)]
    return all(type_lookup(type(m), name) is vars(base)[name] for m in modules for name in _OWN)


def listing(observer: Observer, method: MethodType, site: Site) -> Any:
    """What to call in place of a module's listing method; None where it is to be followed like others."""
    function, owner = method.__func__, method.__self__
    base: Any = nn_module_class()
    name = getattr(function, "__name__", "")
    if base is None or name not in LISTINGS or function is not vars(base).get(name):
        return None
    if _from_outside(observer, owner) is None or not _is_ordinary(owner):
        return None
    return functools.partial(_list, observer, method, site)


def guard(observer: Observer, module: Any, site: Site) -> bool:
    """Guard what a module is made of; whether that is known, and listed as modules list it."""
    outside = _from_outside(observer, module)
    if outside is None or not _is_ordinary(module):
        return False
    for each in outside:
        observer.read(("module", id(each)), functools.partial(ModuleRead, each, site))
    return True


def _list(observer: Observer, method: MethodType, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    owner: Any = method.__self__
    for value in (*args, *kwargs.values()):
        observer.consume(value, site, f"passes to `{method.__name__}`")
    outside = _from_outside(observer, owner) or []
    for module in outside:
        observer.read(("module", id(module)), functools.partial(ModuleRead, module, site))
    reached = {id(part) for module in outside for part in (module, *parts(module))}
    for path, parameter in (*owner.named_parameters(), *owner.named_buffers(), *owner.named_modules()):
        observer.part(owner, path, parameter)
    found = method(*args, **kwargs)
    if found is None:
        return None
    items = list(found)
    for item in items:
        part = item[1] if type(item) is tuple else item
        if id(part) in reached:
            observer.reached(part)
    return observer.local(iter(items))


def calling(observer: Observer, function: Any, site: Site) -> Callable[..., Any] | None:
    """What to call in place of `functional_call`, which is followed, as is the module; else None.

    Meanwhile the module's parameters and buffers are no look at the world: they are what the run has put
    there, and a replay, which enters no module, has them in its graph.
    """
    return functools.partial(_functional_call, observer, site) if function is functional_call else None


def _functional_call(
    observer: Observer,
    site: Site,
    /,
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    what = "passes to `functional_call`"
    for value in (parameter_and_buffer_dicts, tie_weights, strict):
        observer.consume(value, site, what)
    if not isinstance(module, nn_module_class() or ()) or not guard(observer, module, site):
        observer.consume(module, site, what)
    for value in (args, kwargs):
        observer.consume(value, site, what, passed_on=True)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with with_others(module, parameter_and_buffer_dicts, tie_weights, strict) as places:
        ours = [place for place in places if place not in observer.stores]
        for owner, name in ours:
            observer.stores.add(owner, name)
        try:
            return observer.callee(module, site)(*arguments, **(kwargs or {}))
        finally:
            for owner, name in ours:
                observer.stores.forget(owner, name)
