"""Pullbacks: a graph goes in; the graph of its gradients comes out, which takes those of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.differentiate import Builder, walked_back, zeros_of
from fusegrad.tracer.ir.graph import Graph, Value, identifier
from fusegrad.tracer.ir.passes import optimise


class Pullback(NamedTuple):
    """graph: its last inputs are `constants`."""

    graph: Graph
    constants: list[np.ndarray]


def pullback(graph: Graph, given: tuple[int, ...], number: int) -> Pullback:
    """The gradients of the first inputs, so many, where they are differentiable; zeros where there is none.

    It takes the gradients of the outputs `given`, and what the graph takes.
    """
    names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    values = (*graph.inputs, *(v for e in graph.equations for v in e.outputs))
    tracked = frozenset([v for v in values if v.dtype.kind in "fcV"])
    seeds = [fresh(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in given]
    builder = Builder(names, "d")

    def walk() -> list[Value]:
        begin = zip([graph.outputs[i] for i in given], seeds, strict=True)
        gradients = walked_back(graph, begin, tracked, builder)
        wanted = [v for v in graph.inputs[:number] if v.dtype.kind in "fcV"]
        return [builder.value(gradients[v] if v in gradients else zeros_of(v)) for v in wanted]

    results = interpreted(builder, walk)
    inputs = (*seeds, *graph.inputs, *builder.constants)
    whole = Graph(inputs, (*graph.equations, *builder.equations), tuple(results))
    return Pullback(optimise(whole), [*builder.constants.values()])


def fresh(name: str, type_: TensorType, names: set[str]) -> Value:
    """A new value, called like that or nearly so; its name is added to those that are taken."""
    value = Value(identifier(name, names), type_)
    names.add(value.name)
    return value


def place_of(tensors: Sequence[Tensor], index: int) -> int:
    """Which of the gradients is that of one of these tensors."""
    return sum(t.array.dtype.kind in "fcV" for t in tensors[:index])
