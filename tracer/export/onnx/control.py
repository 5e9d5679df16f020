"""Branches and loops in ONNX: `If`, `Scan` and `Loop`, with graphs of their own.

What these take from outside, the file knows by name; a loop's own inputs are what rounds hand on, and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.export.onnx.builder import BOOL, INT64, Builder, Handle
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.tested import FAR

Known = dict[Value, Handle]
# Appends the nodes of a graph within a node; gives its results.
Emit = Callable[[Builder, Graph, Known], list[Handle]]


def _branch(e: Equation, known: Known, b: Builder, emit: Emit) -> tuple[Handle, ...]:
    """`If`: both sides take from outside what they need."""
    test, *operands = e.inputs
    graphs = {}
    for side, attribute in (("then", "then_branch"), ("otherwise", "else_branch")):
        graph = e.params[side].graph
        with b.within() as nodes:
            inside = {inner: known[x] for inner, x in zip(graph.inputs, operands, strict=True)}
            outputs = _given(b, emit(b, graph, inside))
            graphs[attribute] = _graph(b, nodes, [], outputs, [v.shape for v in graph.outputs])
    return tuple(b.several("If", [known[test]], [v.dtype for v in e.outputs], **graphs))


def _rolled(e: Equation, known: Known, b: Builder, emit: Emit) -> tuple[Handle, ...]:
    """`Scan`: of the inputs, those that rounds hand on come first, then those that give each a row."""
    graph, carried, rows = e.params["body"].graph, e.params["carried"], e.params["rows"]
    given = [known[x] for x in e.inputs]
    with b.within() as nodes:
        inside = _inside(b, graph, given, carried + rows)
        taken = [(inside[v], v.shape) for v in graph.inputs[: carried + rows]]
        if not rows:  # a Scan has some
            taken.append((Handle(b, b.inner_name("loop/number"), INT64), ()))
        outputs = _given(b, emit(b, graph, inside))
        body = _graph(b, nodes, taken, outputs, [v.shape for v in graph.outputs])
    read = given[carried : carried + rows]
    if not rows:
        read = [b.constant(0, INT64).shaped("Expand", [e.params["rounds"]])]
    back = int(e.params["backwards"])
    directions = {
        "scan_input_directions": [back] * len(read),
        "scan_output_directions": [back] * (len(outputs) - carried),
    }
    return tuple(
        b.several(
            "Scan",
            [*given[:carried], *read],
            [v.dtype for v in e.outputs],
            body=body,
            num_scan_inputs=len(read),
            **{name: each for name, each in directions.items() if each and back},
        )
    )


def _tested(e: Equation, known: Known, b: Builder, emit: Emit) -> tuple[Handle, ...]:
    """`Loop`: a round whose test fails is the last one, and what it hands on is what it was given."""
    graph, carried, most = e.params["body"].graph, e.params["carried"], e.params["most"]
    given = [known[x] for x in e.inputs]
    with b.within() as nodes:
        inside = _inside(b, graph, given, carried)
        number, goes_on, count = (
            Handle(b, b.inner_name(f"loop/{name}"), dtype)
            for name, dtype in (("number", INT64), ("goes_on", BOOL), ("count", INT64))
        )
        before = [inside[v] for v in graph.inputs[:carried]]
        *made, test = emit(b, graph, dict(inside))
        after = [_chosen(test, new, old) for new, old in zip(made, before, strict=True)]
        outputs = _given(b, [test, *after, count + test.to(INT64)])
        shapes = [v.shape for v in graph.inputs[:carried]]
        taken = [(number, ()), (goes_on, ()), *zip(before, shapes, strict=True), (count, ())]
        body = _graph(b, nodes, taken, outputs, [(), *shapes, ()])
    trips = b.constant(most, INT64) if most < FAR else None
    begun = [trips, b.constant(True, BOOL), *given[:carried], b.constant(0, INT64)]
    made = b.several("Loop", begun, [v.dtype for v in e.outputs[: carried + 1]], body=body)
    return (*made, *(given if e.params["keeps"] else ()))


CONTROL: dict[str, Callable[[Equation, Known, Builder, Emit], tuple[Handle, ...]]] = {
    "branch": _branch,
    "rolled": _rolled,
    "tested": _tested,
}


def _inside(b: Builder, graph: Graph, given: Sequence[Handle], own: int) -> Known:
    """What the inputs of a round are: the first ones its own, the others from outside."""
    inside = {v: Handle(b, b.inner_name(v.name), v.dtype) for v in graph.inputs[:own]}
    return {**inside, **dict(zip(graph.inputs[own:], given[own:], strict=True))}


def _chosen(test: Handle, new: Handle, old: Handle) -> Handle:
    if new.dtype == BOOL:
        return _chosen(test, new.to(INT64), old.to(INT64)).to(BOOL)
    return test.where(new, old)


def _given(b: Builder, handles: Sequence[Handle]) -> list[Handle]:
    """Results by names of the graph's own, as ONNX wants them."""
    return [b.node("Identity", [handle], handle.dtype) for handle in handles]


def _graph(
    b: Builder,
    nodes: list[Any],
    inputs: Sequence[tuple[Handle, tuple[Any, ...]]],
    outputs: Sequence[Handle],
    shapes: Sequence[tuple[Any, ...]],
) -> Any:
    told_inputs = [_told(b, handle, shape) for handle, shape in inputs]
    told_outputs = [_told(b, handle, shape) for handle, shape in zip(outputs, shapes, strict=True)]
    return b.onnx.helper.make_graph(nodes, b.inner_name("graph"), told_inputs, told_outputs)


def _told(b: Builder, handle: Handle, shape: tuple[Any, ...]) -> Any:
    """A value's name and type, with the sizes that are known."""
    listed = [None if has_symbols(n) else int(n) for n in shape]
    code = b.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(handle.dtype))
    return b.onnx.helper.make_tensor_value_info(handle.name, code, listed)
