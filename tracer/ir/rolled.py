"""Rolled loops: rounds that all do the same are one equation; `unrolled` writes them out again.

    now1, before1 = rolled(now, before, speed, body=round, rounds=47)

says what 47 calls of `round` say, each of which gets what the one before gave in the place of its first
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Subgraph, Value


class Body(Subgraph):
    """What a round does: its outputs take the place of its first inputs in the next one."""

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """One round, op by op."""
        return evaluate_graph(self.graph, tensors)

    def repeat(self, tensors: Sequence[Tensor], rounds: int) -> tuple[Any, ...]:
        """The arrays that so many rounds give in the end, for what the first one gets."""
        return repeated(self, tensors, rounds)


def repeated(
    round_: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], times: int
) -> tuple[Any, ...]:
    """The arrays that `round_` gives when it is called so often, each time on what it gave before."""
    carried: Sequence[Tensor] = ()
    for _ in range(times):
        carried = round_(*carried, *tensors[len(carried) :])
    return tuple([tensor.array for tensor in carried])


class Rolled(Op):
    """Rounds of a loop. Params: `body`, a `Body`; `rounds`: how many there are, at least one."""

    family = "rolled"

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return params["body"].repeat(args, params["rounds"])

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        return tuple([v.type for v in params["body"].graph.outputs])


ROLLED = Rolled("rolled", "*tensors", None)


def unrolled(graph: Graph, which: Callable[[Equation], bool] = lambda equation: True) -> Graph:
    """The graph with every round written out, of those of its loops for which `which` holds."""
    if not any(e.op is ROLLED and which(e) for e in graph.equations):
        return graph
    equations: list[Equation] = []
    names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    for equation in graph.equations:
        if equation.op is ROLLED and which(equation):
            equations += _written_out(equation, names)
        else:
            equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _written_out(loop: Equation, names: set[str]) -> Iterator[Equation]:
    """The equations of all rounds of a loop. names: those that are taken; theirs are added."""
    body, rounds = loop.params["body"].graph, loop.params["rounds"]
    inputs = loop.inputs
    for number in range(1, rounds + 1):
        now: dict[Value, Value] = dict(zip(body.inputs, inputs, strict=True))
        if number == rounds:
            now.update(zip(body.outputs, loop.outputs, strict=True))
        for equation in body.equations:
            for value in equation.outputs:
                if value not in now:
                    now[value] = Value(_free(f"{value.name}_round{number}", names), value.type)
            yield _renamed(equation, now)
        inputs = (*[now[v] for v in body.outputs], *inputs[len(body.outputs) :])


def _renamed(equation: Equation, now: Mapping[Value, Value]) -> Equation:
    inputs = tuple([now[v] if isinstance(v, Value) else v for v in equation.inputs])
    outputs = tuple([now[v] for v in equation.outputs])
    return Equation(equation.op, inputs, equation.params, outputs, equation.source)


def _free(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name
