"""`inspect.signature` of an observed run: a function goes in, its signature comes out; what that rests on is
noted.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, MethodType
from typing import Any

from fusegrad.tracer.observe.lookup import MISSING, own_of, type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.twin.sites import Site

# What a function may have that says another signature.
_SAYS_OTHER = ("__signature__", "__wrapped__", "__text_signature__")


def signature(observer: Observer, site: Site, /, *args: Any, **kwargs: Any) -> inspect.Signature:
    """The signature of a function, a method or an object that is called by a method in Python, whose names
    and kinds of parameters may be asked for.
    """
    found = inspect.signature(*args, **kwargs)
    asked = args[0] if len(args) == 1 and not kwargs else None
    function = _called_by(observer, asked, site) if observer.is_known(asked) else None
    if function is None or any(name in vars(function) for name in _SAYS_OTHER):
        observer.open("asks for the signature of what is not a plain function", site)
        return found
    observer.reached(function)
    observer.read_function(function, site)
    for owner in (function, asked) if type(asked) not in (FunctionType, MethodType) else (function,):
        for name in _SAYS_OTHER:
            own, words = functools.partial(own_of, name), f"`{name}` of a {type(owner).__name__}"
            key = ("signature", id(owner), name)
            observer.read(key, functools.partial(GetterRead, owner, own, MISSING, words, site))
    observer.local(found.parameters)
    return observer.local(found)


def _called_by(observer: Observer, asked: Any, site: Site) -> FunctionType | None:
    """The function that a call runs; None if that is none, or something says another signature."""
    if type(asked) is MethodType:
        function: Any = asked.__func__
        return function if type(function) is FunctionType else None
    if type(asked) is FunctionType:
        return asked
    kind = type(asked)
    function = type_lookup(kind, "__call__")
    says_other = [name for name in _SAYS_OTHER if type_lookup(kind, name) is not MISSING]
    own = [name for name in _SAYS_OTHER if own_of(name, asked) is not MISSING]
    if isinstance(asked, type) or type(function) is not FunctionType or says_other or own:
        return None
    observer.read_type(asked, site)
    for name in ("__call__", *_SAYS_OTHER):
        observer.read_class(kind, name, type_lookup(kind, name), site)
    return function
