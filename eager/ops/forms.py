"""The forms of public functions that users call: what they cannot take is a TypeError that says so.

    fg.sum("a")     ->     TypeError: sum(): argument 'input' (position 1) must be Tensor, not str

Functions take it that they are given tensors, numbers and None, each in its place, and fail somewhere inside
with whatever comes of other things. A form calls its function with the same arguments, and looks at them only
once it has failed, so that it costs what a call of Python does. Methods have one if they take further tensors
than their own; operators and the engine have none.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure, is_own_file, type_name
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.tensor import Tensor

_KWARGS = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)


def named_like(form: Any, function: Any) -> FunctionType:
    """`form` with the name, the docstring and the signature of `function`, which it stands for."""
    functools.update_wrapper(form, function)
    made: FunctionType = renamed(form, function.__qualname__)
    return made


def refusing(function: Any) -> FunctionType:
    """A form of the same parameters that does no more than refuse."""
    return named_like(calling(function), function)


def as_method(function: Any) -> Any:
    """`function` as a method of `Tensor`: a form that refuses, if it takes further tensors than its first."""
    further = list(inspect.signature(function).parameters.values())[1:]
    if not any("Tensor" in str(p.annotation) for p in further):
        return function
    return named_like(calling(function, known={"refusal": functools.partial(refusal, own=1)}), function)


class _Default:
    """Stands for a default in a source."""

    def __repr__(self) -> str:
        return "None"


def calling(
    function: Any,
    extra: Sequence[inspect.Parameter] = (),
    lines: Sequence[str] = ("return {call}",),
    known: dict[str, Any] | None = None,
) -> FunctionType:
    """A function of the same parameters, and `extra`, whose body is `lines`, with `known` to refer to.

    In these "{call}" is the call of `function`, and "{name}" its name. In the place of defaults the source
    has None:

        def calling(n, m=None, *, dtype=None):
            try:
                return function(n, m, dtype=dtype)
            except Exception as error:
                refused = refusal(error, function, given(n, m, dtype=dtype))
                if refused is error: raise
                raise refused from None
    """
    # Not those that a decorated function shows: it may take more.
    parameters = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Default())
        for p in inspect.signature(function, follow_wrapped=False).parameters.values()
    ]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        # With a row of arguments, those by name are a dict anyway.
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        parameters = [*(p for p in parameters if p.kind not in by_name), _KWARGS]
    passed = ", ".join(map(_passed, parameters))
    body = [line.format(call=f"function({passed})", name=repr(function.__name__)) for line in lines]
    source = "\n".join(
        [
            f"def calling{with_parameters(inspect.Signature(parameters), extra)}:",
            "    try:",
            *(f"        {line}" for line in body),
            "    except Exception as error:",
            f"        refused = refusal(error, function, given({passed}))",
            "        if refused is error: raise",
            "        raise refused from None\n",
        ]
    )
    # In a file and a module of our own, so that messages name the user's line.
    file = os.path.join(os.path.dirname(__file__), f"<{function.__name__}>")
    namespace: dict[str, FunctionType] = {}
    names = {"__name__": __name__, "function": function, "refusal": refusal, "given": given, **(known or {})}
    exec(compile(source, file, "exec"), names, namespace)
    made, defaults = namespace["calling"], function.__kwdefaults__ or {}
    made.__defaults__ = function.__defaults__
    made.__kwdefaults__ = {name: defaults.get(name) for name in made.__kwdefaults__ or {}}
    return made


def with_parameters(signature: inspect.Signature, extra: Sequence[inspect.Parameter]) -> inspect.Signature:
    """`signature` with `extra` parameters, given by name."""
    parameters = list(signature.parameters.values())
    last = next((i for i, p in enumerate(parameters) if p.kind is p.VAR_KEYWORD), len(parameters))
    return signature.replace(parameters=[*parameters[:last], *extra, *parameters[last:]])


def _passed(parameter: inspect.Parameter) -> str:
    """A parameter as what is passed on to a function that has it as well."""
    name, kind = parameter.name, parameter.kind
    if kind is parameter.KEYWORD_ONLY:
        return f"{name}={name}"
    return (
        f"*{name}"
        if kind is parameter.VAR_POSITIONAL
        else f"**{name}"
        if kind is parameter.VAR_KEYWORD
        else name
    )


# Once it has failed.


def given(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """What a function was given, by place or by name."""
    return {**dict(enumerate(args)), **kwargs}


# What comes of things of other types. Where nobody gave any, it is a fault of ours, and stays what it is.
_UNTOLD = (AttributeError, KeyError, AssertionError, UnboundLocalError, UnicodeError)
# What few functions take anything of, and none in the place of a tensor.
_STRANGE = (str, bytes, bytearray, dict, set, frozenset, type, FunctionType, BuiltinFunctionType)


def refusal(
    error: Exception, function: Any, arguments: dict[Any, Any], name: str = "", own: int = 0
) -> Exception:
    """What is raised in the place of `error`, which `function` raised for these: most often that.

    name: what it is called, if not by its name. own: how many of the arguments a method has by itself.
    """
    located = getattr(error, "fusegrad_located", False)
    if not located and not _is_ours(error):
        return error
    name, text, strange = name or function.__qualname__, str(error), False
    if isinstance(error, TypeError):
        return error if name in text and located else _told(name, error)
    parameters = list(inspect.signature(function).parameters.values())
    places = {place: _parameter(parameters, place) for place in arguments}
    if isinstance(error, _UNTOLD):
        blamed = getattr(error, "obj", None) if isinstance(error, AttributeError) else arguments
        wrong = _no_tensor(blamed, name, arguments, places, own)
        if wrong is not None:
            return failure(TypeError, wrong)
        if isinstance(error, AttributeError):
            strange = type(blamed).__module__ == "builtins"
            if not strange:
                return error
    elif not isinstance(error, (ValueError, IndexError, RuntimeError)):
        return error
    if strange or any(_is_strange(value, places[place]) for place, value in arguments.items()):
        kinds = ", ".join(map(type_name, arguments.values()))
        wrong = f"{name}() received an invalid combination of arguments - got ({kinds})"
        return failure(TypeError, wrong if isinstance(error, _UNTOLD) else f"{wrong}: {text}")
    return error if located or isinstance(error, _UNTOLD) else _told(name, error)


def _told(name: str, error: Exception) -> Exception:
    """`error` with the function's name, where that is missing."""
    text = str(error)
    kind = next(k for k in (TypeError, ValueError, IndexError, RuntimeError) if isinstance(error, k))
    if type(error) is not kind and not isinstance(error, TypeError):
        return error
    return failure(kind, text if text.startswith(name) else f"{name}(): {text.partition(_AT)[0]}")


_AT = "\n  at "  # behind which a message has the user's line


def _parameter(parameters: list[inspect.Parameter], place: Any) -> inspect.Parameter | None:
    """The parameter that an argument was given to, by its place or its name."""
    if isinstance(place, int):
        return parameters[min(place, len(parameters) - 1)] if parameters else None
    return next((p for p in parameters if p.name == place), None)


def _is_ours(error: Exception) -> bool:
    """Whether it was raised by the engine or by NumPy, and not by a function of the user's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename if trace is not None else ""
    return is_own_file(file) or os.path.dirname(np.__file__) in file


def _no_tensor(
    blamed: Any, name: str, arguments: dict[Any, Any], places: dict[Any, Any], own: int
) -> str | None:
    """In PyTorch's words, which argument, or element of one, `blamed` is, of which something was asked for
    that tensors have; None if it is none of them.
    """
    for place, value in arguments.items():
        if value is blamed and not isinstance(value, Tensor):
            called = getattr(places[place], "name", place)
            at = f" (position {place + 1 - own})" if isinstance(place, int) else ""
            return f"{name}(): argument '{called}'{at} must be Tensor, not {type_name(value)}"
        if isinstance(value, (list, tuple)):
            for number, element in enumerate(value):
                if element is blamed and not isinstance(element, Tensor):
                    kind = type_name(element)
                    return (
                        f"{name}(): expected Tensor as element {number} in argument {place}, but got {kind}"
                    )
    return None


def _is_strange(value: Any, parameter: inspect.Parameter | None) -> bool:
    """Whether the parameter takes nothing of this type, as far as that can be seen."""
    kind = str(getattr(parameter, "annotation", ""))
    if isinstance(value, (list, tuple)):
        return any(isinstance(element, _STRANGE) or type(element) is object for element in value)
    told = bool(kind) and "Any" not in kind and "_empty" not in kind
    text = isinstance(getattr(parameter, "default", None), str)
    if value is None:
        return "None" not in kind and (text or told)
    if isinstance(value, str):
        return told and not text and "str" not in kind
    called = getattr(parameter, "name", "")
    if called == "dtype" or "Callable" in kind or "dict" in kind:
        return False
    return isinstance(value, _STRANGE) or type(value) is object
