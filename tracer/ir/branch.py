"""Branches on data: two graphs that take and give tensors of the same types are one equation.

    x1, speed1 = branch(test, x, speed, then=hit, otherwise=flight)

says what calls of the one say, or of the other one. This is `jax.lax.cond`. Its gradient is a branch of the
gradients of both: what was not computed has no part in them, not even where it would be infinite.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fusegrad.eager.core.op import REGISTRY, Op, Params, TensorType, bind, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Subgraph, Value
from fusegrad.tracer.ir.pullback import fresh, place_of, pullback
from fusegrad.tracer.ir.rolled import ways_of

# How their names begin.
SIDE = "side"
_WHERE = REGISTRY["where"]


class Side(Subgraph):
    """What one side of a branch does."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._back: dict[Any, tuple[Side, Side, list[Any]]] = {}

    @property
    def name(self) -> str:
        return SIDE + super().name.removeprefix("round")

    def back(self, other: Side, given: tuple[int, ...]) -> tuple[Side, Side, list[Any]]:
        """The sides of the gradients of this one and the other one, from those of the outputs `given`, and
        what they take last.
        """
        key = other, given
        if key not in self._back:
            number = len(self.graph.inputs)
            one, two = (pullback(side.graph, given, number) for side in (self, other))
            common = len(one.graph.inputs) - len(one.constants)
            behind = _widened(one.graph, len(one.graph.inputs), two.graph.inputs[common:])
            before = _widened(two.graph, common, one.graph.inputs[common:])
            self._back[key] = Side(behind), Side(before), [*one.constants, *two.constants]
        return self._back[key]


def _widened(graph: Graph, place: int, others: Sequence[Any]) -> Graph:
    """The graph, which takes more there, and does nothing with it."""
    names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    unused = [fresh(f"other_{v.name}", v.type, names) for v in others]
    return Graph((*graph.inputs[:place], *unused, *graph.inputs[place:]), graph.equations, graph.outputs)


class Branch(Op):
    """What one of two graphs gives: takes a truth without dimensions, and what they take.

    Params: `then`, `otherwise`, each a `Side`.
    """

    family = "rolled"
    fills = False

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        sides = (ways_of(params[name].graph) for name in ("then", "otherwise"))
        # The first input is the test.
        return [{i + 1 for i in (*one, *other)} for one, other in zip(*sides, strict=True)]

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


def _gradient(g: Any, inputs: Sequence[Tensor], index: int, then: Side, otherwise: Side) -> Tensor | None:
    gradients = g if type(g) is list else [g]
    given = tuple([i for i, known in enumerate(gradients) if known is not None])
    leads = Branch.leads({"then": then, "otherwise": otherwise})
    if not any(index in leads[i] for i in given):
        return None
    test, *tensors = inputs
    one, other, constants = then.back(otherwise, given)
    operands = test, *[gradients[i] for i in given], *tensors, *map(wrap, constants)
    found: Tensor = bind(BRANCH, operands, {"then": one, "otherwise": other})[place_of(tensors, index - 1)]
    return found


BRANCH = Branch("branch", "*tensors", {"tensors": _gradient})


def flattened(graph: Graph) -> Graph:
    """The graph, which computes both sides of its branches, and takes what their tests choose."""
    if not any(e.op is BRANCH for e in graph.equations):
        return graph
    names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    known: dict[Any, Any] = {}
    for equation in graph.equations:
        inputs = tuple([known.get(x, x) if isinstance(x, Value) else x for x in equation.inputs])
        if equation.op is not BRANCH:
            equations.append(replace(equation, inputs=inputs))
            continue
        test, *tensors = inputs
        one, other = (
            _put(flattened(equation.params[side].graph), tensors, equations, names)
            for side in ("then", "otherwise")
        )
        for made, x, y in zip(equation.outputs, one, other, strict=True):
            if x != y:
                equations.append(Equation(_WHERE, (test, x, y), {}, (made,), equation.source))
            else:
                known[made] = x
    outputs = tuple([known.get(v, v) if isinstance(v, Value) else v for v in graph.outputs])
    return Graph(graph.inputs, tuple(equations), outputs)


def _put(graph: Graph, tensors: Sequence[Any], equations: list[Equation], names: set[str]) -> list[Any]:
    """What another graph gives of these, behind the equations. names: those that are taken."""
    known: dict[Any, Any] = dict(zip(graph.inputs, tensors, strict=True))
    for equation in graph.equations:
        inputs = tuple([known.get(x, x) if isinstance(x, Value) else x for x in equation.inputs])
        outputs = tuple([fresh(v.name, v.type, names) for v in equation.outputs])
        known.update(zip(equation.outputs, outputs, strict=True))
        equations.append(replace(equation, inputs=inputs, outputs=outputs))
    return [known[v] for v in graph.outputs]
