"""The public names: what a declaration adds to `fusegrad` and to `Tensor`.

There is no list of them besides: `fusegrad/__init__.py` takes what stands in `PUBLIC`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Member = TypeVar("Member")  # a function or a property
PUBLIC: dict[str, Callable[..., Any]] = {}


def publish(function: F, *names: str) -> F:
    """Make `function` public in `fusegrad`, under its own name or `names`; gives it back.

    Raises ValueError for a name that is taken.
    """
    names = names or (function.__name__,)
    for name in names:
        if name in PUBLIC:
            raise ValueError(f"{name!r} is declared twice")
        PUBLIC[name] = function
        setattr(ops, name, function)
    locate("fusegrad", PUBLIC, names)
    return function


def attach(member: Member, *names: str) -> Member:
    """Make `member` a method (or property) of `Tensor`, under its own name or `names`; gives it back.

    Raises ValueError for a name that is taken.
    """
    for name in names or (member.__name__,):  # type: ignore[attr-defined]
        if name in vars(Tensor):
            raise ValueError(f"Tensor.{name} is declared twice")
        setattr(Tensor, name, member)
        if callable(member) and name not in PUBLIC and not name.startswith("_"):
            setattr(ops, name, member)
    return member


def internal(function: F) -> F:
    """Let other ops find `function` by its name, though it is no public one; gives it back."""
    setattr(ops, function.__name__, function)
    return function


def renamed(function: F, name: str) -> F:
    """`function` under `name` also in tracebacks, profiles and error messages.

    A code object of its own lets the interpreter specialise each op's calls, too.
    """
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function
