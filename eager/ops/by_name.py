"""NumPy's names of arguments, which PyTorch takes for its own, and `out=`: the slow way of public functions.

    fg.sum(x, axis=1, keepdims=True)     is     fg.sum(x, dim=1, keepdim=True)

Forms (`forms.py`) have these names as parameters that are None, and come here if one of them is not, or an
argument is MISSING that must be given. All other calls go straight to their functions, and cost nothing more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.places.device import ELSEWHERE, made_on, other_default
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import MISSING, read

# Those of PyTorch's parser of arguments, for each of ours. It calls `input` what its pages call A.
NUMPY_NAMES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}
NUMPY_NAMES["A"] = NUMPY_NAMES["self"] = ("input", *NUMPY_NAMES["input"])
_OURS = {alias: name for name, aliases in NUMPY_NAMES.items() for alias in aliases}
MORE = frozenset((*_OURS, "out"))

# By the functions that take `out=`: what calls one with arguments, and writes its result.
WRITERS: dict[Any, Callable[[tuple[Any, ...], dict[str, Any], Any], Any]] = {}


def aliases_of(names: Iterable[str]) -> dict[str, str]:
    """NumPy's names, each with ours, of the parameters with these names; what two have is the first's."""
    names = [*names]
    pairs = [(alias, name) for name in reversed(names) for alias in NUMPY_NAMES.get(name, ())]
    return {alias: name for alias, name in pairs if alias not in names}


def in_our_names(function: Any, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """What a function is given by names, with ours in the place of NumPy's.

    Raises TypeError for what is given twice.
    """
    if not _OURS.keys() & named.keys():
        return named
    parameters, ours = _parameters(function), dict(named)
    places = [*parameters]
    for alias, name in aliases_of(parameters).items():
        if alias not in ours:
            continue
        place = places.index(name)
        before = args[place] if place < len(args) else ours.get(name, MISSING)
        if before is not MISSING and before is not parameters[name].default:
            raise failure(
                TypeError,
                f"{function.__name__}() got multiple values for argument {name!r}, also as {alias!r}",
            )
        ours[name] = ours.pop(alias)
    return ours


def by_name(function: Any, args: tuple[Any, ...], named: dict[str, Any], *surplus: Any) -> Any:
    """What a function gives for `args`, of which some may be MISSING, and for what came by names.

    surplus: arguments by place that it has none for, or None.
    """
    if ELSEWHERE and named.get("device") is None and takes_place(function):
        place = other_default()
        if place is not None:
            with made_on(place):
                return by_name(function, args, named, *surplus)
    further = [a for a in surplus if a is not None]
    if further:
        args, factors = overloaded(function, (*args, *further), function.__name__)
        return by_name(function, args, named | factors)
    own = _parameters(function)
    named = {n: a for n, a in named.items() if a is not MISSING and (a is not None or n in own)}
    given = in_our_names(function, args, named)
    if given is not named or "out" in given or any(a is MISSING for a in args):
        places = dict(zip(own, args, strict=False))
        if len(places) == len(args) and not _takes_a_row(function):
            given = {n: a for n, a in places.items() if a is not MISSING} | given
            args = ()
    out = given.pop("out", None) if function in WRITERS else None
    read_args, given = read(function, args, given)
    args = tuple(read_args)
    return function(*args, **given) if out is None else WRITERS[function](args, given, out)


def overloaded(
    function: Any, args: tuple[Any, ...], name: str, own: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What PyTorch's old overloads of ops with factors give by place and by name.

        add(x, 2, y)     addmm(2, x, 3, a, b)     x.addmm_(2, 3, a, b)

    name: what the function is called. own: how many further arguments a method has before these.
    """
    known = _parameters(function)
    factors = [factor for factor in ("beta", "alpha", "value") if factor in known]
    tensors = tuple(a for a in args if isinstance(a, Tensor))
    numbers = [a for a in args if not isinstance(a, Tensor)]
    places = sum(p.kind is not p.KEYWORD_ONLY for p in known.values()) - own
    plain = all(isinstance(n, (bool, int, float, complex)) for n in numbers)
    if not (plain and numbers and len(tensors) == places and len(numbers) <= len(factors)):
        return args, {}  # of which the function says that they are too many
    given = dict(zip(factors, numbers, strict=False))
    warn(f"This overload of {name} is deprecated; give {' and '.join(given)} by name.")
    return tensors, given


@functools.cache
def _takes_a_row(function: Any) -> bool:
    """Whether arguments by place are a row of any number, as sizes are."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


# What is made of what is there, wherever that is.
_STAYS = frozenset({"normal", "from_dlpack"})


@functools.cache
def takes_place(function: Any) -> bool:
    """Whether a function makes tensors on the default device."""
    known = inspect.signature(function, follow_wrapped=False).parameters
    return (
        bool({"device", "options"} & known.keys())
        and not {"self", "input"} & known.keys()
        and function.__name__ not in _STAYS
    )


@functools.cache
def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Those that may be given by name, the ones that may be given by place first."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
