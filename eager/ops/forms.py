"""The forms of public functions that users call: what they cannot take is a TypeError that says so.

    fg.sum("a")     ->     TypeError: sum(): argument 'input' (position 1) must be Tensor, not str

They also take NumPy's names of arguments, and `out=` (`by_name.py`).

Functions take it that they are given tensors, numbers and None, each in its place, and fail somewhere inside
with whatever comes of other things. A form calls its function with the same arguments, and looks at them only
once it has failed, so that it costs what a call of Python does. Methods have one if they take further tensors
than their own, or what NumPy has another name for; operators and the engine have none.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure, is_own_file, type_name
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.places.device import ELSEWHERE, Elsewhere, made_on
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import MISSING, Place, Rule, read, rules
from fusegrad.eager.ops.by_name import MORE, NUMPY_NAMES, WRITERS, aliases_of, by_name, takes_place
from fusegrad.eager.ops.overrides.asking import answer, has_strangers, may_ask

_SHOWN = ("axis", "keepdims")  # of NumPy's names those that programs ask signatures for


def named_like(form: Any, function: Any) -> FunctionType:
    """`form` with the name, the docstring and the signature of `function`, which it stands for."""
    functools.update_wrapper(form, function)
    form.__signature__ = _shown(function)
    made: FunctionType = may_ask(renamed(form, function.__qualname__))
    return made


def _shown(function: Any) -> inspect.Signature:
    """A signature with `axis` and `keepdims`, where `dim` and `keepdim` may be called so."""
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()]
    last = next((i for i, p in enumerate(parameters) if p.kind is p.VAR_KEYWORD), len(parameters))
    named = {p.name: p for p in parameters}
    aliases = aliases_of(named)
    for alias in _SHOWN:
        if alias in aliases and named[aliases[alias]].kind is not inspect.Parameter.POSITIONAL_ONLY:
            known = named[aliases[alias]].replace(name=alias, kind=inspect.Parameter.KEYWORD_ONLY)
            known = known.replace(default=MISSING) if known.default is known.empty else known
            parameters.insert(last, known)
            last += 1
    return signature.replace(parameters=parameters)


def as_method(function: Any) -> Any:
    """`function` as a method of `Tensor`: a form, if it takes further tensors or has names of NumPy's."""
    further = list(inspect.signature(function).parameters.values())[1:]
    named = {p.name for p in further} & NUMPY_NAMES.keys()
    if named or rules(function, 1) or any("Tensor" in str(p.annotation) for p in further):
        return named_like(calling(function, own=1), function)
    # One of its own, since it is another function than the public one to whoever overrides it.
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return functools.update_wrapper(made, function)


# What makes tensors stops where they are to be on another device, and is called again.
_ELSEWHERE = """    except Elsewhere as other:
        place = other.place"""
_THERE = """    with made_on(place):
        return calling({again})"""


def calling(function: Any, own: int = 0) -> FunctionType:
    """A function of the same parameters, and of what they are called besides, that calls `function`.

    own: how many of the parameters a method has by itself. What is not of the type that a rule names is read
    by it (`arguments.py`). All can be given by place, since the interpreter
    calls such functions faster; what came so to a place that `function` does not have is `surplus`:

        def calling(n=MISSING, dim=0, surplus=None, dtype=None, axis=None, out=None):
            try:
                if n is MISSING or surplus is not None or axis is not None or out is not None:
                    return by_name(function, (n, dim), dict(dtype=dtype, axis=axis, out=out), surplus)
                if type(dim) is not int: dim = read_dim(dim, place_dim)
                return function(n, dim, dtype=dtype)
            except Exception as error:
                arguments = given(n, dim, dtype=dtype)
                if has_strangers(arguments): return answer(calling, arguments)
                refused = refusal(error, function, arguments)
                try:
                    if refused is error: raise
                    raise refused from None
                finally:
                    del refused  # or the error would hold the frame that holds it, and so the arguments
    """
    # Not those that a decorated function shows: it may take more.
    parameters = [*inspect.signature(function, follow_wrapped=False).parameters.values()]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        # With a row of arguments, those by name are a dict anyway.
        passed, shown, defaults = "*args, **kwargs", "*args, **kwargs", []
        slow = ["if kwargs and not MORE.isdisjoint(kwargs): return by_name(function, args, kwargs)"]
        again = "*args, **(kwargs | {'device': None})"
        if takes_place(function):
            slow = ["if ELSEWHERE: return by_name(function, args, kwargs)", *slow]
    else:
        by_place = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        ours = {p.name for p in parameters[:own]}
        hidden = {alias: n for alias, n in aliases_of(p.name for p in parameters).items() if n not in ours}
        more = [*hidden, *(["out"] if function in WRITERS else [])]
        needed = [p.name for p in parameters[own:] if p.default is p.empty]
        first = [p.name for p in by_place[:own]]
        places, names = [p.name for p in by_place[own:]], [p.name for p in named]
        defaults = [MISSING if p.default is p.empty else p.default for p in parameters[own:]]
        # Old overloads have a number more, or two.
        surplus = ["surplus", "surplus_2"] if any(p.name == "beta" for p in named) else ["surplus"]
        defaults[len(places) : len(places)] = [None] * len(surplus)
        defaults += [None] * len(more)
        shown = ", ".join([*first, *(f"{n}=None" for n in (*places, *surplus, *names, *more))])
        passed = ", ".join([*first, *places, *(f"{n}={n}" for n in names)])
        tests = [f"{n} is MISSING" for n in needed]
        tests += [f"{n} is not None" for n in (*surplus, *more)]
        tests += ["ELSEWHERE"] if takes_place(function) else []
        again = ", ".join(
            [*first, *(f"{n}={n}" for n in (*places, *surplus, *names, *more) if n != "device")]
        )
        again += ", device=None"
        keywords = ", ".join(f"{n}={n}" for n in (*names, *more))
        row = "".join(f"{n}, " for n in (*first, *places))
        rest = ", ".join(surplus)
        slow = [f"if {' or '.join(tests)}: return by_name(function, ({row}), dict({keywords}), {rest})"]
    known = rules(function, own)
    if "*args" in shown:
        slow += ["args, kwargs = read(function, args, kwargs)"] if known else []
    else:
        slow += map(_reading, known, known.values())
    there = _THERE.format(again=again) if "device" in shown or "kwargs" in shown else ""
    source = "\n".join(
        [
            f"def calling({shown}):",
            "    try:",
            *(f"        {line}" for line in (*slow, f"return function({passed})")),
            *(_ELSEWHERE if there else "").splitlines(),
            "    except Exception as error:",
            f"        arguments = given({passed})",
            "        if has_strangers(arguments): return answer(calling, arguments)",
            f"        refused = refusal(error, function, arguments, own={own})",
            "        try:",
            "            if refused is error: raise",
            "            raise refused from None",
            "        finally:",
            "            del refused",
            *there.splitlines(),
            "",
        ]
    )
    # In a file and a module of our own, so that messages name the user's line.
    file = os.path.join(os.path.dirname(__file__), f"<{function.__name__}>")
    namespace: dict[str, FunctionType] = {}
    globals_of_names = {"by_name": by_name, "MISSING": MISSING, "MORE": MORE, "made_on": made_on}
    globals_of_names |= {"ELSEWHERE": ELSEWHERE, "Elsewhere": Elsewhere}
    names_in_it: dict[str, Any] = {
        "__name__": __name__,
        "function": function,
        "read": read,
        "refusal": refusal,
        "given": given,
        "has_strangers": has_strangers,
        "answer": answer,
    }
    names_in_it |= globals_of_names
    for name, (rule, place) in known.items():
        names_in_it |= {f"read_{name}": rule.read, f"place_{name}": place}
    exec(compile(source, file, "exec"), names_in_it, namespace)
    made = names_in_it["calling"] = namespace["calling"]
    made.__defaults__ = tuple(defaults)
    return made


def _reading(name: str, known: tuple[Rule, Place]) -> str:
    """The line of a form that has an argument read by its rule, where it is of another type."""
    rule, _ = known
    tests = [f"type({name}) is not {kind.__name__}" for kind in rule.plain]
    tests += [f"{name} is not None"] if rule.optional else []
    return f"if {' and '.join(tests) or 'True'}: {name} = read_{name}({name}, place_{name})"


# Once it has failed.


def given(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """What a function was given, by place or by name."""
    return {p: a for p, a in (*enumerate(args), *kwargs.items()) if a is not MISSING}


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
