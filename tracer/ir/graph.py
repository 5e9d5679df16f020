"""The graph IR: what a captured run computed, as a frozen list of typed equations (ANF).

A graph is a straight line. Where the run branched on data stands a `guard` equation: the value
that was seen must be seen again for what follows to hold. Constants and captured tensors are
inputs like the arguments; what they are bound to is kept beside the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusegrad.eager.core.op import Op, TensorType


@dataclass(frozen=True, slots=True)
class Source:
    """The user's line that an equation comes from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Value:
    """A named, typed intermediate. Names are unique within a graph."""

    name: str
    type: TensorType

    def __hash__(self) -> int:
        return hash(self.name)  # the type's takes longer, and tells nothing apart

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype


class Guard(Op):
    """Asserts that a value is what the captured run saw. Params: `expected`, `kind`.

    kind "branch": Python went on because of this value, another value has its own continuation;
    kind "check": another value is an error that only eager can raise, so nothing continues.
    """

    family = "guard"

    def infer(self, types: Any, params: Any) -> tuple[TensorType, ...]:
        return ()


GUARD = Guard("guard", "x", None)

Operand = Any  # a Value or a Python number


@dataclass(frozen=True, slots=True)
class Equation:
    """`outputs = op(inputs, **params)`. Inputs are values or Python numbers."""

    op: Op
    inputs: tuple[Operand, ...]
    params: Mapping[str, Any]
    outputs: tuple[Value, ...]
    source: Source | None = field(default=None, compare=False)

    @property
    def output(self) -> Value:
        return self.outputs[0]

    def values(self) -> Iterator[Value]:
        """The inputs that are values."""
        return (v for v in self.inputs if isinstance(v, Value))

    def key(self) -> tuple[Any, ...]:
        """What the equation computes, hashable; numbers by type and bits (1, 1.0 and -0.0 differ)."""
        inputs = tuple(v if isinstance(v, Value) else (type(v), repr(v)) for v in self.inputs)
        return (self.op.name, inputs, tuple(sorted((k, repr(v)) for k, v in self.params.items())))


@dataclass(frozen=True, eq=False)
class Graph:
    """Typed inputs, equations in order, outputs. Equal graphs print the same text."""

    inputs: tuple[Value, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Operand, ...]

    @functools.cached_property
    def text(self) -> str:
        """The graph as typed Python, without the source comments: its identity."""
        from fusegrad.tracer.ir.text import print_graph

        return print_graph(self, sources=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        from fusegrad.tracer.ir.text import print_graph

        return print_graph(self)

    def guards(self) -> list[Equation]:
        """The guards on data, in order."""
        return [e for e in self.equations if e.op is GUARD]

    def users(self) -> dict[Value, list[Equation]]:
        """For each value the equations that read it."""
        users: dict[Value, list[Equation]] = {}
        for equation in self.equations:
            for value in set(equation.values()):
                users.setdefault(value, []).append(equation)
        return users


class GraphError(AssertionError):
    """A graph that breaks the IR's rules; always a bug in a pass."""


def check(graph: Graph) -> Graph:
    """Re-run the shape and dtype rules over `graph` and give it back.

    Raises GraphError for a value used before its equation, a name given twice, or a type that
    differs from what the op's rule says.
    """
    known: dict[str, Value] = {}

    def define(value: Value) -> None:
        if value.name in known:
            raise GraphError(f"{value.name} is defined twice")
        known[value.name] = value

    def use(value: Any, where: str) -> None:
        if isinstance(value, Value) and known.get(value.name) != value:
            raise GraphError(f"{where} uses {value.name}: {value.type}, which is not defined so before it")

    for value in graph.inputs:
        define(value)
    for equation in graph.equations:
        for operand in equation.inputs:
            use(operand, equation.op.name)
        types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
        inferred = equation.op.infer(types, dict(equation.params))
        expected = (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)
        if expected != tuple(v.type for v in equation.outputs):
            raise GraphError(
                f"{equation.op.name} gives {expected}, the graph says {[v.type for v in equation.outputs]}"
            )
        for value in equation.outputs:
            define(value)
    for operand in graph.outputs:
        use(operand, "the output")
    return graph


def renamed(graph: Graph) -> Graph:
    """The graph with its intermediates named v0, v1, ... in order; inputs keep their names."""
    taken = {v.name for v in graph.inputs}
    names: dict[Value, Value] = {v: v for v in graph.inputs}
    fresh = (n for n in (f"v{i}" for i in _count()) if n not in taken)

    def change(operand: Any) -> Any:
        return names[operand] if isinstance(operand, Value) else operand

    equations = []
    for equation in graph.equations:
        inputs = tuple(change(v) for v in equation.inputs)
        outputs = tuple(Value(next(fresh), v.type) for v in equation.outputs)
        names.update(zip(equation.outputs, outputs, strict=True))
        equations.append(Equation(equation.op, inputs, equation.params, outputs, equation.source))
    return Graph(graph.inputs, tuple(equations), tuple(change(v) for v in graph.outputs))


def _count() -> Iterable[int]:
    i = 0
    while True:
        yield i
        i += 1
