"""Reversed rounds: the body of a rolled loop goes in, that of the loop back for its gradient comes out.

What is carried back is the gradient of what was carried on, and the sum of those of what is the same for all:

    def round(h, x, w):                          def back(g_h, sum_w, h, x, w):
        v0 = mul(h, w)              goes back        v0 = mul(h, w)
        v1 = add(v0, x)                as            d0 = mul(g_h, w)
        return (v1,)                                 d1 = mul(g_h, h)
                                                     d2 = add(sum_w, d1)
                                                     return (d0, d2, g_h)

where h and x come row by row, h as the loop kept it, and the gradient of x leaves row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.tracer.ir.differentiate import Builder, walked_back, zeros_of
from fusegrad.tracer.ir.graph import Graph, Value, identifier


class ReversedRound(NamedTuple):
    """A round that goes back.

    graph: takes the gradients of what is carried on and the sums for what all rounds read; then, as rows, the
    gradients of what left row by row, what the round was handed, what was kept of it, and its own rows; then
    what all rounds read, and `constants`. Gives the new gradients and sums, and as rows the gradients of the
    rows that were read.
    carried, others, rows: which inputs of the round these gradients are of.
    """

    graph: Graph
    carried: list[int]
    others: list[int]
    rows: list[int]
    constants: list[np.ndarray]


def reversed_round(
    graph: Graph, carried: int, rows: int, given: tuple[int, ...], kept: Sequence[Value] = ()
) -> ReversedRound:
    """The round that goes back.

    carried, rows: how many of the inputs of `graph` are handed on, and come row by row. given: which of the
    outputs that leave row by row have gradients. kept: what of the round need not be computed again.
    """
    inputs = graph.inputs
    names = {v.name for v in inputs} | {v.name for e in graph.equations for v in e.outputs}
    builder = Builder(set(names), "d")

    def new(prefix: str, value: Value) -> Value:
        name = identifier(f"{prefix}_{value.name}", names)
        names.add(name)
        builder.takes(name)
        return Value(name, value.type)

    differentiable = [i for i, v in enumerate(inputs) if v.dtype.kind in "fcV"]
    ours = [i for i in differentiable if i < carried]
    parts = [i for i in differentiable if carried <= i < carried + rows]
    others = [i for i in differentiable if i >= carried + rows]
    seeds = {i: new("g", graph.outputs[i]) for i in (*ours, *given)}
    sums = {i: new("sum", inputs[i]) for i in others}
    tracked = {v for v in inputs if v.dtype.kind in "fcV"}
    tracked.update(v for e in graph.equations for v in e.outputs if v.dtype.kind in "fcV")

    def walk() -> list[Any]:
        begin = ((graph.outputs[i], seed) for i, seed in seeds.items())
        gradients = walked_back(graph, begin, frozenset(tracked), builder)
        for i in others:
            if inputs[i] in gradients:
                gradients[inputs[i]] = builder.tensor(sums[i]) + gradients[inputs[i]]
            else:
                gradients[inputs[i]] = builder.tensor(sums[i])
        wanted = (inputs[i] for i in (*ours, *others, *parts))
        return [builder.value(gradients[v] if v in gradients else zeros_of(v)) for v in wanted]

    results = interpreted(builder, walk)
    taken = (
        *[seeds[i] for i in ours], *sums.values(), *[seeds[i] for i in given], *inputs[:carried], *kept,
        *inputs[carried:], *builder.constants,
    )  # fmt: skip
    again = [e for e in graph.equations if not any(v in kept for v in e.outputs)]
    round_ = Graph(taken, (*again, *builder.equations), tuple(results))
    return ReversedRound(round_, ours, others, parts, [*builder.constants.values()])
