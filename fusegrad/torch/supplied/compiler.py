"""`torch.compiler`: what programs say to a compiler, of which fusegrad's needs nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import fusegrad as fg


def itself(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A mark on a function, which stays what it is; with and without arguments of its own."""
    return fn if callable(fn) else itself


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function, or a decorator that leaves one as it is: what calls it compiled runs it as Python does.

    Source: `torch.compiler.disable`.
    """
    return fn if callable(fn) else disable


allow_in_graph = assume_constant_result = nested_compile_region = itself


def substitute_in_graph(original_fn: Any, *args: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that leaves a function as it is: the original one is compiled itself."""
    return itself


def is_compiling() -> bool:
    """False: what is compiled runs as Python when it is recorded. Source: `torch.compiler.is_compiling`."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The one that there is, under PyTorch's name. Source: `torch.compiler.list_backends`."""
    return ["inductor"]


def reset() -> None:
    """Nothing: what is compiled goes with its function. Source: `torch.compiler.reset`."""


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no such graphs. Source: `torch.compiler.cudagraph_mark_step_begin`."""


class set_stance(contextlib.ContextDecorator):
    """Nothing is otherwise after it, or in it: what is compiled gives what Python gives.

    Source: `torch.compiler.set_stance`.
    """

    def __init__(self, stance: str = "default", *args: Any, **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...


def compile(*args: Any, **kwargs: Any) -> Any:
    """`torch.compile`. Source: `torch.compiler.compile`."""
    return fg.compile(*args, **kwargs)
