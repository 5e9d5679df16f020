"""Calls of fusegrad's own functions in an observed run: operands go in and are guarded, eager's result comes
out; what was computed is the recorder's to know.
"""

from __future__ import annotations

import functools
from types import MethodType
from typing import Any

import numpy as np

from fusegrad.eager.autograd.function import Function, FunctionNode
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.utils import containers
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.arrays import calls as arrays, of_tensors
from fusegrad.tracer.observe.arrays.into_tensors import brought
from fusegrad.tracer.observe.arrays.known import any_symbol, symbol_of
from fusegrad.tracer.observe.arrays.untold import note_call
from fusegrad.tracer.observe.leaves import name_of
from fusegrad.tracer.observe.lookup import MISSING, flat_contents
from fusegrad.tracer.observe.numbers import is_standing, standing_for
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import Site

_HANDING = (vars(Function)["apply"].__func__, Tensor.register_hook)
_DRAWING = ("fusegrad.eager.random.random", "fusegrad.eager.random.drawing")


def call(observer: Observer, function: Any, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """One of fusegrad's own functions: the recorder sees what it does, its operands must be guarded."""
    note_call(observer, function, args, site)
    if purity.is_door(function, args, kwargs):
        return observer.numbers.take(functools.partial(function, **kwargs))
    if observer.numbers.follows_sizes and _tells_size(function):
        return observer.numbers.take(functools.partial(function, *args, **kwargs), is_deed=False)
    if observer.numbers.any_followed:
        found = of_tensors.tensor_of(observer, function, args, kwargs)
        if found is not MISSING:
            return observer.adopt(found)
    given = _standing(observer, function, site, args, kwargs)
    if observer.arrays.bringing is None and any_symbol(observer, _plain(*given)):
        call = functools.partial(_call_ours, observer, function, site, args, kwargs)
        return brought(observer, function, args, kwargs, site, call)
    return _call_ours(observer, function, site, *given)


def _tells_size(function: Any) -> bool:
    """Whether it is a tensor's `size` or `numel`."""
    return type(function) is MethodType and function.__func__ in (Tensor.size, Tensor.numel)


def _standing(
    observer: Observer, function: Any, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a function of ours is given: where it is made of ops, what stands for numbers in their place."""
    numbers = observer.numbers
    called = function.__func__ if type(function) is MethodType else function
    if not (numbers.any_followed and _computes(called)):
        return args, kwargs
    for value in (*args, *kwargs.values()):
        if type(value) is list:
            observer.consume(value, site, f"passes to {name_of(function)}", deep=False)
    stands = [standing_for(x, numbers) for x in arrays.plain(observer, args, site)]
    return tuple(stands), {name: standing_for(x, numbers) for name, x in kwargs.items()}


def _computes(function: Any) -> bool:
    """Whether a function of ours is made of ops, or of draws."""
    module = getattr(function, "__globals__", {}).get("__name__")
    return purity.is_op(function) or module in _DRAWING


def _plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Those of a call's operands that are not such."""
    return tuple([x for x in (*args, *kwargs.values()) if not is_standing(x)])


def _call_ours(
    observer: Observer, function: Any, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    values = _plain(args, kwargs)
    if observer.arrays.bringing is not None:  # which looks at the numbers that go into no tensor
        values = tuple([x for x in values if not isinstance(x, np.number) or symbol_of(observer, x) is None])
    observer.numbers.look(*values)
    what = f"passes to {name_of(function)}"
    if isinstance(function, MethodType):
        owner = function.__self__
        engine = observer.is_known(owner) and (purity.is_trusted_object(owner) or purity.is_optimizer(owner))
        ours = engine or observer.is_tensor(owner) or _stands_for_engine(observer, owner, function)
        if not (ours or purity.is_static(owner)):
            observer.consume(owner, site, what)
    passes = purity.is_transform(function) or _takes_closure(observer, function)
    if passes or _maps_a_tree(observer, function, args, kwargs):
        calls_it = not purity.makes_transform(function)
        args = tuple([passed(observer, value, calls_it, site, what) for value in args])
        for value in kwargs.values():
            observer.consume(value, site, what, passed_on=True)
    else:
        passed_on = _hands_on(function)
        for value in values:
            observer.consume(value, site, what, passed_on=passed_on)
    return observer.adopt(function(*args, **kwargs))


def _hands_on(function: Any) -> bool:
    """Whether a function of ours hands its arguments on to the user's code, and does not look into them."""
    return type(function) is MethodType and function.__func__ in _HANDING


def _takes_closure(observer: Observer, function: Any) -> bool:
    """Whether a function of ours is the step of an optimizer, which calls what it is given, first of all."""
    owner = getattr(function, "__self__", None)
    is_step = type(function) is MethodType and function.__name__ == "step" and purity.is_optimizer(owner)
    return is_step and observer.is_known(owner)


_MAPS = ("tree_map", "tree_map_only")
_BUILTIN_NODES = frozenset(containers.SUPPORTED_NODES)  # those of users, who flatten them, come later


def _maps_a_tree(observer: Observer, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function of ours calls the one that it is given, for what is in containers without code."""
    module = getattr(function, "__globals__", {}).get("__name__")
    if module != containers.__name__ or function.__name__ not in _MAPS or kwargs:
        return False
    pending = [value for value in args if type(value) in _BUILTIN_NODES]
    while pending:
        for part in flat_contents(pending.pop()):
            if type(part) in _BUILTIN_NODES:
                pending.append(part)
            elif type(part) in containers.SUPPORTED_NODES:
                return False
    return True


def _stands_for_engine(observer: Observer, owner: Any, method: MethodType) -> bool:
    """Whether the owner of a method of ours is a custom Function, or its `ctx`."""
    is_function = _hands_on(method) and isinstance(owner, type)
    return observer.is_known(owner) and (is_function or isinstance(owner, FunctionNode))


def passed(observer: Observer, value: Any, calls_it: bool, site: Site, what: str) -> Any:
    """An argument of a transform. Of a function that is called it is the twin, which takes what the transform
    gives as made by this run; objects are guarded where the function uses them.
    """
    if not (calls_it and callable(value)) or observer.is_tensor(value):
        observer.consume(value, site, what, passed_on=True)
        return value
    twin = observer.callee(value, site)

    def given(*args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            observer.adopt(argument)
        return twin(*args, **kwargs)

    given.of_run = value  # type: ignore[attr-defined]
    return given
