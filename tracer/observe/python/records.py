"""Dataclasses: one with the `__init__` that the decorator wrote goes in, what fills its objects comes out.

That `__init__` stores the fields in their order, and calls `__post_init__`; its source is nowhere: it is done
here.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.observer import LOCAL, Observer
from fusegrad.tracer.twin.sites import Site


def is_generated(init: FunctionType) -> bool:
    """Whether a function is an `__init__` that the decorator wrote."""
    code = init.__code__
    return code.co_filename == "<string>" and code.co_qualname == "__create_fn__.<locals>.__init__"


def filler(observer: Observer, init: FunctionType, site: Site) -> Callable[..., None]:
    """What to call in place of such an `__init__`."""
    observer.read_function(init, site)
    return functools.partial(_fill, observer, init, site)


def _fill(
    observer: Observer, init: FunctionType, site: Site, /, instance: Any, *args: Any, **kwargs: Any
) -> None:
    kind = _class_of(type(instance), init)
    if kind is None or observer.status(instance) != LOCAL:
        observer.open(f"calls an `__init__` of a {type(instance).__name__}, whose source is nowhere", site)
        init(instance, *args, **kwargs)
        return
    try:
        given = _signature(init).bind(None, *args, **kwargs).arguments
    except TypeError:
        init(instance, *args, **kwargs)  # which says what is wrong with them
        raise
    fields, frozen = kind.__dict__["__dataclass_fields__"], kind.__dict__["__dataclass_params__"].frozen
    put = attributes.store_ordinary if frozen else _put
    passed = []
    for field in fields.values():
        for default in (field.default, field.default_factory):
            if default is not dataclasses.MISSING:
                observer.reached(default)
        value = _value(observer, kind, field, given, site)
        if field._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            passed.append(value)
        elif value is not dataclasses.MISSING:
            put(observer, site, instance, field.name, observer.adopt(value))
    if "__post_init__" in init.__code__.co_names:
        method = observer.special_method(instance, "__post_init__", site)
        (instance.__post_init__ if method is None else method)(*passed)


def _put(observer: Observer, site: Site, /, instance: Any, name: str, value: Any) -> None:
    attributes.store(observer, value, instance, name, site)


def _class_of(kind: type, init: FunctionType) -> type | None:
    """The dataclass whose `__init__` it is, or the function that another one wraps."""
    for base in kind.__mro__:
        found = vars(base).get("__init__") if "__dataclass_fields__" in vars(base) else None
        while isinstance(found, FunctionType):
            if found is init:
                return base
            found = vars(found).get("__wrapped__")
    return None


@functools.lru_cache(256)
def _signature(init: FunctionType) -> inspect.Signature:
    return inspect.signature(init)


def _value(observer: Observer, kind: type, field: Any, given: dict[str, Any], site: Site) -> Any:
    """What a field is set to; `dataclasses.MISSING` where it is left alone, as those of classes are."""
    if field._field_type is dataclasses._FIELD_CLASSVAR:  # type: ignore[attr-defined]
        return dataclasses.MISSING
    if field.init and field.name in given:
        return given[field.name]
    if field.default_factory is not dataclasses.MISSING:
        return observer.callee(field.default_factory, site)()
    # Without a part in `__init__` the class has it, if it can.
    return field.default if field.init or "__slots__" in vars(kind) else dataclasses.MISSING
