"""A program as boxes and arrows: what the `.dot` and `.html` formats draw."""

from __future__ import annotations

from dataclasses import dataclass

from fusegrad.eager.core.errors import source_line
from fusegrad.tracer.export.program import Program
from fusegrad.tracer.ir.graph import GUARD, Equation, Source, Value, equation_text, literal_text, type_text

# What a box can be, in the order of the legend: inputs, families of ops, guards, results.
KINDS = (
    "argument",
    "parameter",
    "constant",
    "creation",
    "random",
    "elementwise",
    "reduction",
    "view",
    "contraction",
    "composite",
    "opaque",
    "op",
    "guard",
    "output",
)


@dataclass(frozen=True)
class Node:
    """A box. kind: one of KINDS. title, detail, type: what stands in it (a guard has its source line
    for a type). text: its line of the graph.
    """

    key: str
    kind: str
    title: str
    detail: str
    type: str
    text: str
    source: Source | None = None


@dataclass(frozen=True)
class Edge:
    """An arrow from the box that makes `value` to one that reads it."""

    tail: str
    head: str
    value: str


@dataclass(frozen=True)
class Drawing:
    """All boxes in the order of the graph, and all arrows."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def drawing(program: Program) -> Drawing:
    """The boxes and arrows of a program: inputs that are read, equations, guards, results."""
    graph = program.graph
    used = {v for e in graph.equations for v in e.values()} | {
        v for v in graph.outputs if isinstance(v, Value)
    }
    nodes: list[Node] = []
    edges: list[Edge] = []
    maker: dict[Value, str] = {}

    def arrows(operands: tuple[object, ...], head: str) -> None:
        seen = dict.fromkeys(v for v in operands if isinstance(v, Value))
        edges.extend(Edge(maker[v], head, v.name) for v in seen)

    for i, value in enumerate(graph.inputs):
        maker[value] = f"i{i}"
        role = program.role(value)
        if value in used or role == "argument":
            kind = type_text(value.type)
            nodes.append(Node(maker[value], role, value.name, "", kind, f"{value.name}: {kind}"))
    for i, equation in enumerate(graph.equations):
        key = f"e{i}"
        arrows(equation.inputs, key)
        maker.update(dict.fromkeys(equation.outputs, key))
        nodes.append(_equation_node(key, equation))
    for i, result in enumerate(graph.outputs):
        key = f"o{i}"
        arrows((result,), key)
        name = result.name if isinstance(result, Value) else literal_text(result)
        kind = type_text(result.type) if isinstance(result, Value) else type(result).__name__
        title = f"output {i}" if len(graph.outputs) > 1 else "output"
        nodes.append(Node(key, "output", title, "", kind, f"return {name}"))
    return Drawing(tuple(nodes), tuple(edges))


def _equation_node(key: str, equation: Equation) -> Node:
    if equation.op is GUARD:
        source = equation.source
        said = source_line(source.file, source.line).split("  #")[0] if source else ""
        return Node(key, "guard", "guard", _expectation(equation), said, equation_text(equation), source)
    types = ", ".join(type_text(v.type) for v in equation.outputs)
    family = equation.op.family if equation.op.family in KINDS else "op"
    text = equation_text(equation)
    return Node(key, family, equation.op.name, _detail(equation), types, text, equation.source)


def _expectation(guard: Equation) -> str:
    value = guard.inputs[0]
    name = value.name if isinstance(value, Value) else repr(value)
    return f"{name} is {guard.params['expected']!r}"


def _detail(equation: Equation) -> str:
    """Numbers and parameters, shortly: what tells this `mul` or `sum` from others."""
    parts = [literal_text(v) if not isinstance(v, Value) else "·" for v in equation.inputs]
    shown = [" ".join(parts)] if any(p != "·" for p in parts) else []
    for name, value in equation.params.items():
        if value is True or (name not in ("shape", "keepdim") and value is not None):
            shown.append(f"{name}={literal_text(value)}")
    return " ".join(shown)
