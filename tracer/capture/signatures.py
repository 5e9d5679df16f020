"""What is called: the plain function behind a callable, and names for the leaves of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fusegrad.eager.core.pytree import flatten, is_container
from fusegrad.tracer.observe.lookup import nn_module_class


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    """A name for each leaf of the arguments, from the signature: `x`, `batch_0`, `batch_1`."""
    module = nn_module_class()
    if module is not None and args and function is vars(module)["__call__"]:
        function = type(args[0]).forward  # which gets the arguments as they are
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        named: list[tuple[str, Any]] = []
        positional = list(bound.args)
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                named += [(f"{parameter.name}{i}", v) for i, v in enumerate(positional)]
                positional = []
            elif positional and parameter.kind in (
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            ):
                named.append((parameter.name, positional.pop(0)))
    except (TypeError, ValueError):
        named = [(f"argument{i}", v) for i, v in enumerate(args)]
    count = len(args)
    named = named[:count] + [(f"argument{i}", args[i]) for i in range(len(named), count)]
    named += list(kwargs.items())
    names: list[str] = []
    for name, value in named:
        leaves: list[Any] = []
        flatten(value, leaves)
        names += [name] if not is_container(value) else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def plain_function(function: Any, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The Python function behind a jitted function, bound method or callable object, and its arguments."""
    while True:
        if inspect.ismethod(function):  # first: it shows the attributes of its function
            args = (function.__self__, *args)
            function = function.__func__
        elif getattr(function, "__fusegrad_jit__", False):
            function = function.__wrapped__
        elif not inspect.isfunction(function) and inspect.isfunction(_call_of(function)):
            args = (function, *args)
            function = _call_of(function)
        else:
            return function, args


def _call_of(value: Any) -> Any:
    """What calling an object runs: `__call__` as its class defines it."""
    return vars(type).get("__call__") if isinstance(value, type) else getattr(type(value), "__call__", None)  # noqa: B004
