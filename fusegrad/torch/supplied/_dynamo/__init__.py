"""`torch._dynamo`, as far as libraries speak to it: fusegrad has another compiler."""

from __future__ import annotations

import dataclasses
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
__all__ += [
    "ExplainOutput",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
]
__all__ += ["mark_static_address", "maybe_mark_dynamic", "optimize", "reset"]
forbid_in_graph = itself


def _said(t: Any = None, *args: Any, **options: Any) -> None:
    """Nothing: which sizes vary, and what stays, the compiler sees."""


mark_dynamic = mark_static = mark_static_address = maybe_mark_dynamic = graph_break = _said


def optimize(*args: Any, **options: Any) -> Any:
    """A decorator that compiles. Source: `torch._dynamo.optimize`."""
    return fg.compile


@dataclasses.dataclass
class ExplainOutput:
    """What became of a call: its graph, and where the program was cut, or left to Python.

    Source: `torch._dynamo.backends.debugging.ExplainOutput`.
    """

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[Any]
    op_count: int
    ops_per_graph: list[Any]
    out_guards: list[Any]
    compile_times: str = ""

    def __str__(self) -> str:
        heads = f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\n"
        return f"{heads}Op Count: {self.op_count}\nBreak Reasons:\n" + "\n".join(map(str, self.break_reasons))


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """What would become of a call of `f`: a function that makes it. Source: `torch._dynamo.explain`.

    >>> import fusegrad as fg
    >>> print(explain(lambda x: fg.sin(x) + 1)(fg.ones(2)).graph_break_count)
    0
    """

    def called(*args: Any, **kwargs: Any) -> ExplainOutput:
        from fusegrad.tracer.capture.api import capture  # which few programs need

        taken = capture(f, args, kwargs)
        breaks, ops = len(taken.reasons), [equation.op.name for equation in taken.graph.equations]
        return ExplainOutput([taken.graph], breaks + 1, breaks, taken.reasons, len(ops), [ops], taken.reads)

    return called(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else called


def __getattr__(name: str) -> Any:
    if name == "OptimizedModule":  # loads the compiler
        from fusegrad.compiler.torch_names import OptimizedModule

        return OptimizedModule
    raise AttributeError(name)
