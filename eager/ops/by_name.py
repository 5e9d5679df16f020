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
from fusegrad.eager.core.tensor import Tensor


class _Missing:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
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


def by_name(function: Any, args: tuple[Any, ...], named: dict[str, Any], surplus: Any = None) -> Any:
    """What a function gives for `args`, of which some may be MISSING, and for what came by names.

    surplus: an argument by place that it has none for.
    """
    if surplus is not None:
        return _overloaded(function, (*args, surplus))
    own = _parameters(function)
    named = {n: a for n, a in named.items() if a is not MISSING and (a is not None or n in own)}
    given = in_our_names(function, args, named)
    if given is not named or "out" in given or any(a is MISSING for a in args):
        places = dict(zip(own, args, strict=False))
        if len(places) == len(args):  # and not a row of arguments
            given = {n: a for n, a in places.items() if a is not MISSING} | given
            args = ()
    out = given.pop("out", None) if function in WRITERS else None
    return function(*args, **given) if out is None else WRITERS[function](args, given, out)


def _overloaded(function: Any, args: tuple[Any, ...]) -> Any:
    """PyTorch's old overloads of ops with a factor, which came second by its place: `add(x, 2, y)`."""
    known = _parameters(function)
    factor = next((name for name in ("beta", "alpha", "value") if name in known), None)
    if factor is None or isinstance(args[1], Tensor):
        return function(*args)  # which says that these are too many
    warn(f"This overload of {function.__name__} is deprecated; give {factor} by its name.")
    return function(args[0], *args[2:], **{factor: args[1]})


@functools.cache
def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Those that may be given by name, the ones that may be given by place first."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
