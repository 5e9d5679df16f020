"""A graph goes in, its nodes come out: equation by equation, by what each op is in ONNX."""

from __future__ import annotations

import numpy as np

from fusegrad.eager.core.families import Elementwise, Reduction
from fusegrad.eager.core.op import Op
from fusegrad.tracer.export.onnx.attention import attended, attentions
from fusegrad.tracer.export.onnx.builder import Builder, Handle
from fusegrad.tracer.export.onnx.control import CONTROL
from fusegrad.tracer.export.onnx.nodes import NODES, is_one_node
from fusegrad.tracer.export.onnx.ops import OTHERS, REDUCTIONS, creation, rearranged
from fusegrad.tracer.export.onnx.scalars import ENTRIES, Scalars, elementwise
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.passes import dead_code, decompose


def forward_graph(graph: Graph) -> Graph:
    """What is written: no guards, no dead code, and composite ops taken apart unless ONNX has them."""
    unguarded = tuple(e for e in graph.equations if e.op is not GUARD)
    return dead_code(decompose(Graph(graph.inputs, unguarded, graph.outputs), is_one_node))


def sayable(op: Op) -> bool:
    """Whether the export has a form for `op` in ONNX, at least for some dtypes and parameters."""
    if op.name in {*OTHERS, *NODES, *CONTROL} or op.family in ("view", "creation"):
        return True
    if isinstance(op, Elementwise):
        return op.name in ENTRIES or callable(op.scalar) or hasattr(Scalars(), op.scalar)
    return isinstance(op, Reduction) and op.combine in REDUCTIONS


def emit(builder: Builder, graph: Graph, known: dict[Value, Handle]) -> None:
    """Append the nodes of a graph, and tell `known`, which has its inputs, what its values are."""
    whole = attentions(graph, builder)
    within = {value for attention in whole.values() for value in attention.within}
    for equation in graph.equations:
        if not within.isdisjoint(equation.outputs):
            continue
        builder.at(equation)
        _refuse_types(builder, equation)
        joined = whole.get(equation.outputs[0]) if equation.outputs else None
        results = _emitted(builder, equation, known) if joined is None else (attended(joined, known),)
        for value, made in zip(equation.outputs, results, strict=True):
            known[value] = builder.rename(made.to(value.dtype), builder.inner_name(value.name))
        if builder.sizes is not None:
            builder.sizes.refuse_fixed(equation)


def _emit_within(builder: Builder, graph: Graph, known: dict[Value, Handle]) -> list[Handle]:
    """The same of a graph within an equation; what it gives."""
    graph = forward_graph(graph)
    emit(builder, graph, known)
    return [known[v] for v in graph.outputs if isinstance(v, Value)]


def _refuse_types(builder: Builder, equation: Equation) -> None:
    for value in (*equation.values(), *equation.outputs):
        if value.dtype.kind == "c":
            raise builder.refuse(f"ONNX does not compute with complex numbers, here {value.dtype.name}")


def _emitted(builder: Builder, equation: Equation, known: dict[Value, Handle]) -> tuple[Handle, ...]:
    """The nodes for one equation: by the table, or by what its family knows of it."""
    op = equation.op
    if op.name in CONTROL:
        return CONTROL[op.name](equation, known, builder, _emit_within)
    if is_one_node(equation):
        return (NODES[op.name](equation, *(known[v] for v in equation.values())),)
    if not sayable(op):
        raise builder.refuse("ONNX has no form of it, or none as exact; exporting to .py takes every op")
    if op.name in OTHERS:
        made = OTHERS[op.name](equation, *(known[v] for v in equation.inputs))
        return made if isinstance(made, tuple) else (made,)
    if isinstance(op, Elementwise):
        return (_elementwise(builder, equation, op, known),)
    if op.family == "creation":
        return (creation(builder, equation),)
    operands = [known[v] for v in equation.inputs]
    if isinstance(op, Reduction) and op.combine is not None:
        return (REDUCTIONS[op.combine](equation, *operands),)
    return (rearranged(equation, *operands),)


def _elementwise(builder: Builder, equation: Equation, op: Elementwise, known: dict[Value, Handle]) -> Handle:
    """The operands promoted as the op's dtype rule says, then its scalar expression."""
    types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
    if op.name == "pow_number":  # its number is a parameter and takes part in promotion
        types.append(equation.params["exponent"])
    compute = op.compute_dtype(types)
    operands = []
    for i, operand in enumerate(equation.inputs):
        handle = known.get(operand) if isinstance(operand, Value) else None
        if i < op.data:
            operands.append(handle or builder.constant(operand, np.dtype(bool)))
        else:
            operands.append(handle.to(compute) if handle else builder.constant(operand, compute))
    return elementwise(op, operands, dict(equation.params))
