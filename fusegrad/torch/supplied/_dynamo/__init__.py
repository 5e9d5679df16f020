"""`torch._dynamo`, as far as libraries speak to it: fusegrad has another compiler."""

from __future__ import annotations

from typing import Any

import fusegrad as fg
from fusegrad.torch.supplied.compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    itself,
    list_backends as list_backends,
    reset as reset,
)

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "forbid_in_graph"]
__all__ += ["graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static"]
__all__ += ["mark_static_address", "maybe_mark_dynamic", "optimize", "reset"]
forbid_in_graph = itself


def _said(t: Any = None, *args: Any, **options: Any) -> None:
    """Nothing: which sizes vary, and what stays, the compiler sees."""


mark_dynamic = mark_static = mark_static_address = maybe_mark_dynamic = graph_break = _said


def optimize(*args: Any, **options: Any) -> Any:
    """A decorator that compiles. Source: `torch._dynamo.optimize`."""
    return fg.compile


def __getattr__(name: str) -> Any:
    if name == "OptimizedModule":  # loads the compiler
        from fusegrad.compiler.torch_names import OptimizedModule

        return OptimizedModule
    raise AttributeError(name)
