"""Branches on data: two graphs that take and give tensors of the same types are one equation.

    x1, speed1 = branch(test, x, speed, then=hit, otherwise=flight)

says what calls of the one say, or of the other one. This is `jax.lax.cond`. Its gradient is a branch of the
gradients of both: what was not computed has no part in them, not even where it would be infinite.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import REGISTRY, Params, TensorType, bind, wrap
from fusegrad.tracer.ir.cotangent import Cotangents, Presence, Structured, Tensors, cotangents_of, presence
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Subgraph, Value, inlined, once
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.pullback import fresh, pullback
from fusegrad.tracer.ir.rolled import ways_of

# How their names begin.
SIDE = "side"
_WHERE = REGISTRY["where"]


class Back(NamedTuple):
    """The sides of a branch that goes back, each of which gives gradients of what is differentiable of the
    tensors that the branch takes, and the `truths` of some of them.

    presences: when there are gradients. constants: what they take last.
    """

    then: Side
    otherwise: Side
    presences: list[Presence]
    truths: list[int]
    constants: list[np.ndarray]


class Side(Subgraph):
    """What one side of a branch does."""

    @property
    def name(self) -> str:
        return SIDE + super().name.removeprefix("round")

    @once
    def back(self, other: Side, given: tuple[tuple[int, Presence], ...]) -> Back:
        """How this side and the other one go back from the outputs `given`, and when these have gradients."""
        number = len(self.graph.inputs)
        one, two = (pullback(side.graph, given, number) for side in (self, other))
        when = [a.joined(b) for a, b in zip(one.presences, two.presences, strict=True)]
        truths = [i for i, each in enumerate(when) if each is Presence.SOMETIMES]
        common = len(one.graph.inputs) - len(one.constants)
        then, otherwise = one.giving(truths), two.giving(truths)
        behind = _widened(then, len(then.inputs), otherwise.inputs[common:])
        before = _widened(otherwise, common, then.inputs[common:])
        return Back(Side(behind), Side(before), when, truths, [*one.constants, *two.constants])


def _widened(graph: Graph, place: int, others: Sequence[Any]) -> Graph:
    """The graph, which takes more there, and does nothing with it."""
    names = graph.names()
    unused = [fresh(f"other_{v.name}", v.type, names) for v in others]
    return Graph((*graph.inputs[:place], *unused, *graph.inputs[place:]), graph.equations, graph.outputs)


class Branch(Structured):
    """What one of two graphs gives: takes a truth without dimensions, and what they take.

    Params: `then`, `otherwise`, each a `Side`.
    """

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        sides = (ways_of(params[name].graph) for name in ("then", "otherwise"))
        # The first input is the test.
        return [{i + 1 for i in (*one, *other)} for one, other in zip(*sides, strict=True)]

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """The side that was chosen goes back."""
        test, *tensors = inputs
        known = {i: each for i, each in enumerate(given) if each is not None}
        when = tuple([(i, presence(each)) for i, each in known.items()])
        back = params["then"].back(params["otherwise"], when)
        if all(each is Presence.NEVER for each in back.presences):
            return [None] * len(inputs)
        truths = [each.present for each in known.values() if each.present is not None]
        operands = (
            test, *(each.gradient for each in known.values()), *truths, *tensors, *map(wrap, back.constants)
        )  # fmt: skip
        made = bind(BRANCH, operands, {"then": back.then, "otherwise": back.otherwise})
        number = len(back.presences)
        present = dict(zip(back.truths, made[number:], strict=True))
        gradients = iter(cotangents_of(back.presences, dict(enumerate(made)), present))
        return [next(gradients) if x.array.dtype.kind in "fcV" else None for x in inputs]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        # It may give one tensor twice, or what it was given.
        return tuple([np.array(t.array, order="C") for t in _chosen(args, params, writes_out=False)])

    @staticmethod
    def written_out(args: Sequence[Any], params: Params) -> tuple[Any, ...]:
        return _chosen(args, params, writes_out=True)

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        return tuple([v.type for v in params["then"].graph.outputs])


def _chosen(args: Sequence[Any], params: Params, writes_out: bool) -> tuple[Any, ...]:
    """What the side gives that the test chooses."""
    test, *tensors = args
    side: Side = params["then" if test.array.item() else "otherwise"]
    return evaluate_graph(side.graph, tensors, writes_out=writes_out)


BRANCH = Branch("branch", keeps_outputs=False)


def flattened(graph: Graph) -> Graph:
    """The graph, which computes both sides of its branches, and takes what their tests choose; optimised."""
    return optimise(_flattened(graph)) if any(e.op is BRANCH for e in graph.equations) else graph


def _flattened(graph: Graph) -> Graph:
    names = graph.names()
    equations: list[Equation] = []
    known: dict[Any, Any] = {}
    for equation in graph.equations:
        inputs = tuple([known.get(x, x) if isinstance(x, Value) else x for x in equation.inputs])
        if equation.op is not BRANCH:
            equations.append(replace(equation, inputs=inputs))
            continue
        test, *tensors = inputs
        one, other = (
            inlined(_flattened(equation.params[side].graph), tensors, lambda v: fresh(v.name, v.type, names))
            for side in ("then", "otherwise")
        )
        equations += [*one[0], *other[0]]
        for made, x, y in zip(equation.outputs, one[1], other[1], strict=True):
            if x != y:
                equations.append(Equation(_WHERE, (test, x, y), {}, (made,), equation.source))
            else:
                known[made] = x
    outputs = tuple([known.get(v, v) if isinstance(v, Value) else v for v in graph.outputs])
    return Graph(graph.inputs, tuple(equations), outputs)
