"""Calls of an observed run: what the user calls goes in, what to call in its place, observed, comes out."""

from __future__ import annotations

import enum
import functools
import inspect
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from fusegrad.tracer.observe import attributes, engine_calls, leaves, modules, optimizer_steps, purity
from fusegrad.tracer.observe.arrays import calls as arrays, foreign
from fusegrad.tracer.observe.leaves import name_of, opened
from fusegrad.tracer.observe.lookup import MISSING, type_lookup
from fusegrad.tracer.observe.observer import LOCAL, OUTER, UNKNOWN, Observer
from fusegrad.tracer.observe.python import (
    caches,
    context_variables,
    contexts,
    loggers,
    metaclasses,
    records,
    signatures,
    slots,
    wrappers,
)
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.observe.world import ahead, unknown_calls
from fusegrad.tracer.twin.instrument import is_twin_code, keeps_to_itself
from fusegrad.tracer.twin.sites import Site
from fusegrad.tracer.twin.source import Unsupported


def callee(observer: Observer, function: Any, site: Site) -> Any:
    """What to call in place of ``function``, so that the call is observed.

    Twins and unknown callables are called directly, without a frame of ours in between.
    """
    if foreign.is_foreign(function):
        return functools.partial(_foreign, observer, function, site)
    return _callee(observer, function, site)


def _foreign(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    found = foreign.call(observer, function, args, kwargs, site)
    return _callee(observer, function, site)(*args, **kwargs) if found is MISSING else found


def _callee(observer: Observer, function: Any, site: Site) -> Any:
    kind = type(function)
    if arrays.is_of_numpy(function):
        return functools.partial(leaves.call_of_numpy, observer, function, site)
    if kind is not FunctionType and kind is not MethodType and not _is_callable_object(function):
        kinds = isinstance(function, (type, BuiltinFunctionType))
        is_pure = kinds and purity.lookup_pure(function) is not None
        makes_tuple = isinstance(function, type) and purity.is_namedtuple_class(function)
        if not (is_pure or makes_tuple or purity.is_op(function)):
            observer.does(f"calls {name_of(function)}", site)
    if kind is FunctionType:
        if attributes.is_jitted(function):
            return _jitted(observer, function, site)
        return _python_function(observer, function, site)
    if kind is MethodType:
        return _bound_method(observer, function, site)
    if isinstance(function, type):
        return _class(observer, function, site)
    if kind is BuiltinFunctionType and function.__name__ == "__new__":
        return functools.partial(slots.new, observer, function, site)
    if kind is BuiltinFunctionType and type(function.__self__) is ContextVar:
        return context_variables.method(observer, function, site)
    if kind is BuiltinFunctionType or kind is MethodDescriptorType:
        return leaves.builtin(observer, function, site)
    if kind is MethodWrapperType or kind is WrapperDescriptorType:
        return slots.slot(observer, function, site)
    if kind is functools.partial:
        return _partial(observer, function, site)
    if kind is caches.CACHED and observer.is_known(function):
        return caches.cached(observer, function, site)
    if attributes.is_jitted(function):
        return _jitted(observer, function, site)
    if purity.is_trusted_object(function) and not observer.is_tensor(function):
        return functools.partial(engine_calls.call, observer, function, site)
    return _instance(observer, function, site)


def _is_callable_object(function: Any) -> bool:
    """Whether a call of an object is one of a method that is followed like any other."""
    if isinstance(function, type) or purity.is_trusted_object(function):
        return False
    return purity.python_method(type(function), "__call__") is not MISSING


# ---------------------------------------------------------------------------------- Python functions


def _python_function(observer: Observer, function: FunctionType, site: Site) -> Any:
    status, code = observer.status(function), function.__code__
    if status == LOCAL and is_twin_code(code):
        if not keeps_to_itself(code):
            observer.does(f"calls {name_of(function)}", site)
        return contexts.beginning(observer, function, site)
    followed = _followed(observer, function, status, site)
    # Whatever else a function does that is followed is noted when it does it.
    is_whole = is_twin_code(getattr(followed, "__code__", code)) and keeps_to_itself(code)
    if not (is_whole or purity.is_op(function)):
        observer.does(f"calls {name_of(function)}", site)
    return followed


def _followed(observer: Observer, function: FunctionType, status: str, site: Site) -> Any:
    mode = purity.lookup_pure(function)
    if mode is not None:
        return functools.partial(leaves.call_pure, observer, function, mode, site)
    if purity.asks_kind(function):
        return functools.partial(leaves.call_pure, observer, function, purity.OPAQUE, site)
    if purity.is_trusted(function):
        ours = modules.calling(observer, function, site)
        return functools.partial(engine_calls.call, observer, function, site) if ours is None else ours
    if status == UNKNOWN:
        return opened(observer, function, f"calls {name_of(function)}, a function of unknown origin", site)
    if purity.only_counts(function):
        return function
    if function is inspect.signature:
        return functools.partial(signatures.signature, observer, site)
    if function is functools.update_wrapper:
        return wrappers.updating(observer, site)
    if purity.is_outside_world(function):
        where = function.__globals__.get("__name__")
        return opened(observer, function, f"calls {name_of(function)} of `{where}`", site)
    if records.is_generated(function):
        return records.filler(observer, function, site)
    try:
        twin = observer.followed(function)
    except Unsupported as refusal:
        where = Site(function.__code__.co_filename, refusal.line, "") if refusal.line else site
        reason = f"calls {name_of(function)}, which cannot be followed: {refusal.reason}"
        return opened(observer, function, reason, where)
    observer.read_function(function, site)
    return contexts.beginning(observer, twin, site)


def _bound_method(observer: Observer, method: MethodType, site: Site) -> Any:
    function, owner = method.__func__, method.__self__
    if observer.status(method) == OUTER:
        observer.reached(function)
        observer.reached(owner)
    of_users = optimizer_steps.users(observer, method, site) if type(function) is FunctionType else None
    if of_users is not None:
        observer.does(f"calls {name_of(method)}", site)
        return of_users
    if isinstance(function, FunctionType) and purity.is_trusted(function):
        if not (purity.is_op(function) or purity.only_asks(function)):
            observer.does(f"calls {name_of(method)}", site)
        if function.__name__ in ("__enter__", "__exit__") and observer.is_outer(owner):
            observer.open(f"calls {name_of(method)} of an object that lives outside the function", site)
        return functools.partial(engine_calls.call, observer, method, site)
    ways = modules.listing, modules.fallback, optimizer_steps.schedule, loggers.enabled, ahead.asking
    known = next(filter(None, (way(observer, method, site) for way in ways)), None)
    if known is not None:
        observer.does(f"calls {name_of(method)}", site)
        return known
    target = callee(observer, function, site)
    if target is function:  # made by this run, or open
        return method
    return MethodType(target, owner)


def _jitted(observer: Observer, function: Any, site: Site) -> Any:
    """A jitted function within a run is part of the run: its body is followed."""
    if not observer.is_known(function):
        return opened(observer, function, "calls a jitted function of unknown origin", site)
    wrapped = object.__getattribute__(function, "__wrapped__")
    observer.read(
        ("wrapped", id(function)),
        lambda: GetterRead(function, _get_wrapped, wrapped, "the function under jit", site),
    )
    return callee(observer, observer.reached(wrapped), site)


def _get_wrapped(function: Any) -> Any:
    return object.__getattribute__(function, "__wrapped__")


def _partial(observer: Observer, function: functools.partial, site: Site) -> Any:
    status = observer.status(function)
    if status == UNKNOWN:
        return opened(observer, function, "calls a partial of unknown origin", site)
    if status == OUTER:
        observer.reached(function.func)
        observer.reached(function.args)
        for value in function.args:
            observer.reached(value)
        if function.keywords:
            observer.reached(function.keywords)
            observer.read_contents(function.keywords, site)
    target = callee(observer, function.func, site)
    if target is function.func and observer.status(target) != LOCAL:
        return function
    return functools.partial(target, *function.args, **function.keywords)


def _instance(observer: Observer, function: Any, site: Site) -> Any:
    """An object with ``__call__``."""
    method = purity.python_method(type(function), "__call__")
    if method is MISSING:
        reason = f"calls {name_of(function)}, which is not known"
        return unknown_calls.calling(observer, function, reason, site)
    special = observer.special_method(function, "__call__", site, asked=True)
    return function if special is None else special


# ---------------------------------------------------------------------------------- classes


def _class(observer: Observer, kind: type, site: Site) -> Any:
    if kind is type:
        return functools.partial(_call_type, observer, site)
    if issubclass(kind, np.number) and kind.__module__ == "numpy":
        return functools.partial(leaves.call_of_numpy, observer, kind, site)
    if kind is super:
        return functools.partial(_call_super, observer)
    if issubclass(kind, weakref.ref) or kind.__module__ == "weakref":
        return functools.partial(_watch, observer, kind, site)
    mode = purity.lookup_pure(kind)
    if mode is not None:
        return functools.partial(leaves.call_pure, observer, kind, mode, site)
    if purity.is_trusted(kind):
        return functools.partial(engine_calls.call, observer, kind, site)
    if not observer.is_known(kind):
        return opened(observer, kind, f"makes a {kind.__name__}, a class of unknown origin", site)
    if type(kind) is enum.EnumMeta:
        return _enumeration(observer, kind, site)
    if purity.is_enum_class(kind) or not metaclasses.is_plain(observer, kind, site):
        return opened(observer, kind, f"makes a {kind.__name__}, whose metaclass has code of its own", site)
    if purity.is_namedtuple_class(kind) or purity.is_pure_type(kind) or purity.is_tuple_of_ours(kind):
        observer.read_class(kind, "__new__", type_lookup(kind, "__new__"), site)
        observer.read_class(kind, "__init__", type_lookup(kind, "__init__"), site)
        # What a namedtuple is made of is put into it, and not looked at.
        mode = purity.HELD if issubclass(kind, tuple) else purity.SHALLOW
        return functools.partial(leaves.call_pure, observer, kind, mode, site)
    return _user_class(observer, kind, site)


def _user_class(observer: Observer, kind: type, site: Site) -> Any:
    new, init = type_lookup(kind, "__new__"), type_lookup(kind, "__init__")
    makes = new.__func__ if type(new) is staticmethod else None
    if not isinstance(makes, FunctionType):
        builtin = issubclass(kind, BaseException) or purity.container_of(kind) is not None
        makes = None
        if new is not object.__dict__["__new__"] and not (builtin and purity.is_builtin_new(new)):
            return opened(observer, kind, f"makes a {kind.__name__}, which has a `__new__` of its own", site)
    if type_lookup(kind, "__del__") is not MISSING:
        return opened(observer, kind, f"makes a {kind.__name__}, which has a `__del__`", site)
    observer.read_class(kind, "__new__", new, site)
    observer.read_class(kind, "__init__", init, site)
    base = purity.container_of(kind)
    if base is not None or makes is not None:
        return functools.partial(_made, observer, kind, makes, base, site)
    if init is object.__dict__["__init__"]:
        return functools.partial(_construct, observer, kind, None)
    if not isinstance(init, FunctionType):
        return opened(observer, kind, f"makes a {kind.__name__}, whose `__init__` is not a function", site)
    observer.reached(init)
    if records.is_generated(init):
        return functools.partial(_construct, observer, kind, records.filler(observer, init, site))
    try:
        twin = observer.twin(init)
    except Unsupported as refusal:
        reason = f"makes a {kind.__name__}, whose `__init__` cannot be followed: {refusal.reason}"
        return opened(observer, kind, reason, site)
    observer.read_function(init, site)
    return functools.partial(_construct, observer, kind, twin)


def _construct(observer: Observer, kind: type, init: Callable | None, /, *args: Any, **kwargs: Any) -> Any:
    """What ``type.__call__`` does, with the twin of ``__init__``."""
    if init is None:
        return observer.local(kind(*args, **kwargs))
    new: Callable[..., Any] = kind.__new__
    instance = observer.local(new(kind) if new is object.__new__ else new(kind, *args, **kwargs))
    result = init(instance, *args, **kwargs)
    if result is not None:
        raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
    return instance


def _made(
    observer: Observer,
    kind: type,
    makes: FunctionType | None,
    base: Any,
    site: Site,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """What ``type.__call__`` does where `__new__` is in Python, or that of a builtin container."""
    if makes is None:
        made = slots.make(observer, base, kind, args, kwargs, site)
    else:
        observer.reached(makes)
        made = callee(observer, makes, site)(kind, *args, **kwargs)
        if not isinstance(made, kind):
            return made
    init = type_lookup(type(made), "__init__")
    if isinstance(init, FunctionType):
        callee(observer, observer.reached(init), site)(made, *args, **kwargs)
    elif init is type_lookup(base or object, "__init__") and base not in (None, tuple, frozenset):
        slots.fill(observer, base, made, args, kwargs, site)
    elif init is not object.__dict__["__init__"]:
        observer.open(f"makes a {kind.__name__}, whose `__init__` is not a function", site)
        init.__get__(made)(*args, **kwargs)
    return made


def _enumeration(observer: Observer, kind: type, site: Site) -> Any:
    """`Color(2)`: the member with a value."""

    def member(*args: Any, **kwargs: Any) -> Any:
        values = type_lookup(kind, "_value2member_map_")
        found = (
            len(args) == 1 and not kwargs and is_plain(args[0]) and type(values) is dict and args[0] in values
        )
        if not found:
            observer.open(f"makes a {kind.__name__}, whose metaclass has code of its own", site)
            return kind(*args, **kwargs)
        observer.numbers.look(args[0])
        observer.read_class(kind, "_value2member_map_", values, site)
        return observer.read_item(observer.reached(values), args[0], values[args[0]], site)

    return member


def _call_type(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        observer.open("makes a class", site)
        return type(*args, **kwargs)
    if not observer.is_known(args[0]):
        observer.open("looks at the type of an object of unknown origin", site)
    observer.read_type(args[0], site)
    return observer.reached(type(args[0]))


def _watch(observer: Observer, kind: type, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A weak reference to an object, or what has such ones."""
    observer.open(f"makes a {kind.__name__}, which asks when objects die", site)
    observer.let_go(*args, *kwargs.values())
    return kind(*args, **kwargs)


def _call_super(observer: Observer, /, *args: Any) -> Any:
    return observer.local(super(*args))
