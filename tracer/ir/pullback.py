"""Pullbacks: a graph goes in; the graph of its gradients comes out, which takes those of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.cotangent import Cotangent, Presence, presence, truth_of, zeros_of
from fusegrad.tracer.ir.differentiate import Walk
from fusegrad.tracer.ir.graph import Graph, Value, identifier
from fusegrad.tracer.ir.passes import optimise


class Pullback(NamedTuple):
    """graph: gives gradients of what it was to give them of, and behind them for each a truth, that there is
    one; its last inputs are `constants`. presences: when there are.
    """

    graph: Graph
    presences: list[Presence]
    constants: list[np.ndarray]

    def giving(self, truths: Sequence[int]) -> Graph:
        """The graph that gives all gradients, and these of the truths."""
        number = len(self.presences)
        made = (*self.graph.outputs[:number], *(self.graph.outputs[number + i] for i in truths))
        return optimise(Graph(self.graph.inputs, self.graph.equations, made))


def pullback(graph: Graph, given: Sequence[tuple[int, Presence]], number: int) -> Pullback:
    """The gradients of the first inputs, so many, where they are differentiable; zeros where there is none.

    given: when there are gradients of which outputs. It takes these, truths for those that there are only
    sometimes, and what the graph takes.
    """
    walk = Walk(graph, given)
    builder = walk.builder
    wanted = [v for v in graph.inputs[:number] if v.dtype.kind in "fcV"]
    found: dict[Value, Cotangent] = {}

    def results() -> list[Value]:
        found.update(walk.back())
        gradients = [found[v].gradient if v in found else zeros_of(v) for v in wanted]
        return [builder.value(x) for x in (*gradients, *(truth_of(found.get(v)) for v in wanted))]

    made = interpreted(builder, results)
    inputs = (*walk.seeds.values(), *walk.truths.values(), *graph.inputs, *builder.constants)
    whole = Graph(inputs, (*graph.equations, *builder.equations), tuple(made))
    when = [presence(found.get(v)) for v in wanted]
    return Pullback(whole, when, [*builder.constants.values()])


def fresh(name: str, type_: TensorType, names: set[str]) -> Value:
    """A new value, called like that or nearly so; its name is added to those that are taken."""
    value = Value(identifier(name, names), type_)
    names.add(value.name)
    return value


def place_of(tensors: Sequence[Tensor], index: int) -> int:
    """Which of the gradients is that of one of these tensors."""
    return sum(t.array.dtype.kind in "fcV" for t in tensors[:index])
