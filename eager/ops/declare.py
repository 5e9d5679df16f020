"""Decorators that make a function public: in `fusegrad`, as a method of `Tensor`, with an in-place form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from fusegrad.eager.core.names import attach, publish
from fusegrad.eager.ops.forms import as_method
from fusegrad.eager.ops.inplace import attach_in_place

F = TypeVar("F", bound=Callable[..., Any])


@overload
def public(function: F) -> F: ...


@overload
def public(
    *, name: str = "", aliases: Sequence[str] = (), method: bool = False, inplace: bool = False
) -> Callable[[F], F]: ...


def public(
    function: Any = None,
    *,
    name: str = "",
    aliases: Sequence[str] = (),
    method: bool = False,
    inplace: bool = False,
) -> Any:
    """Make a function public in `fusegrad`.

    name, aliases: what it is called, if not by its own name alone.
    method: make it a method of `Tensor` too. inplace: and its in-place form, whose name ends in `_`.
    """

    def declare(function: F) -> F:
        names = (name or function.__name__, *aliases)
        publish(function, *names)
        if method:
            attach(as_method(function), *names)
        if inplace:
            attach_in_place(function, *names)
        return function

    return declare if function is None else declare(function)


@overload
def method(function: F) -> F: ...


@overload
def method(*, name: str = "", aliases: Sequence[str] = (), inplace: bool = False) -> Callable[[F], F]: ...


def method(
    function: Any = None, *, name: str = "", aliases: Sequence[str] = (), inplace: bool = False
) -> Any:
    """Make a function a method of `Tensor`, and no more; see `public`."""

    def declare(function: F) -> F:
        names = (name or function.__name__, *aliases)
        attach(as_method(function), *names)
        if inplace:
            attach_in_place(function, *names)
        return function

    return declare if function is None else declare(function)
