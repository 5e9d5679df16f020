"""Loop bodies: rolled loops go in; ones whose round is compiled once, or written out rounds, come out.

Where several rounds could share a kernel, or what a round gives cannot lie where it took it from, the rounds
are written out instead: then they are compiled like any other equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.fuse.isomorphic_groups import Plans
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.periodic_plan import rounds_apart
from fusegrad.compiler.program.pipeline import clone_op
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Value, identifier
from fusegrad.tracer.ir.rolled import ROLLED, Body, unrolled
from fusegrad.tracer.record.rolling import TURN


def with_compiled_loops(graph: Graph, plans: Plans) -> Graph:
    """The graph with the bodies of its loops compiled, or the rounds written out. plans: as for a program."""
    known: dict[Body, CompiledBody | None] = {}
    for equation in graph.equations:
        if equation.op is ROLLED and equation.params["body"] not in known:
            known[equation.params["body"]] = _compiled(equation.params["body"], plans)
    if not known:
        return graph
    graph = unrolled(graph, lambda equation: known[equation.params["body"]] is None)
    equations = []
    for equation in graph.equations:
        if equation.op is ROLLED:
            params = {**equation.params, "body": known[equation.params["body"]]}
            equation = Equation(ROLLED, equation.inputs, params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def with_copies_for_loops(graph: Graph) -> Graph:
    """The graph with a copy of whatever a loop writes over."""
    if not any(e.op is ROLLED for e in graph.equations):
        return graph
    names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    for equation in graph.equations:
        if equation.op is ROLLED:
            copies = [Value(identifier(f"{v.name}_start", names), v.type) for v in equation.outputs]
            names.update(copy.name for copy in copies)
            for copy, taken in zip(copies, equation.inputs, strict=False):
                equations.append(Equation(clone_op, (taken,), {}, (copy,), equation.source))
            inputs = (*copies, *equation.inputs[len(copies) :])
            equation = Equation(ROLLED, inputs, equation.params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _compiled(body: Body, plans: Plans) -> CompiledBody | None:
    """The body, being compiled; None where its rounds are better written out."""
    graph = passes.optimise(body.graph)
    program = Program(graph, plans=plans)
    pairs = list(zip(program.graph.outputs, graph.inputs, strict=False))
    if not rounds_apart(program.steps, TURN):
        return None
    program.into = in_place(program, pairs)
    return CompiledBody(graph, program.begin()) if len(program.into) == len(graph.outputs) else None


class CompiledBody(Body):
    """A body whose results lie in the memory of its first inputs: for programs alone, which give it copies.

    What runs a graph op by op takes that of the capture, whose bodies leave what they are given.
    """

    def __init__(self, graph: Graph, program: Program) -> None:
        super().__init__(graph)
        self.program = program

    def repeat(self, tensors: Sequence[Tensor], rounds: int) -> tuple[Any, ...]:
        """The arrays of the first tensors, which so many rounds have written over."""
        arrays = [np.ascontiguousarray(tensor.array) for tensor in tensors]
        self.program.placed().repeat(arrays, rounds)
        return tuple(arrays[: len(self.graph.outputs)])
