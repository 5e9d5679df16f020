"""Graphs that run: a graph and tensors go in, eager's own results come out, op by op."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.autograd.graph import followed_hooks
from fusegrad.eager.core.op import bind, evaluate
from fusegrad.eager.core.state import in_state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.utils.checkpoint import Run
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, free_values


@dataclass(frozen=True, eq=False)
class Recomputed:
    """What a checkpointed call has computed, and the tensors that it was given as arguments."""

    values: frozenset[Value]
    arguments: tuple[Value, ...]


class GuardFailed(RuntimeError):
    """A graph was run on data that takes another path than the one it was captured on."""


def check_guard(value: Tensor, expected: Any, kind: str) -> None:
    seen = value.array.item()
    if type(seen) is not type(expected) or repr(seen) != repr(expected):
        raise GuardFailed(f"the graph was captured where this value was {expected!r}; here it is {seen!r}")


def evaluate_graph(
    graph: Graph,
    arguments: Mapping[Value, Any] | list[Any] | tuple[Any, ...],
    tracked: Collection[Value] | None = None,
    given: Mapping[Value, np.ndarray] | None = None,
    writes_out: bool = False,
    recomputed: Sequence[Recomputed] = (),
) -> tuple[Any, ...]:
    """Run the graph's equations through `bind` on `arguments` (tensors, in the order of the inputs).

    The result is eager's own: gradients are recorded, doors open. tracked: the values that may need
    gradients; others were made without any (None: all may). given: memory in which some values lie already.
    writes_out: whether rounds of loops that test data, and sides of branches, are run op by op. recomputed:
    the parts that backward computes again, as checkpointed calls.
    Raises GuardFailed where the data take another path.
    """
    known: dict[Value, Any] = dict(zip(graph.inputs, arguments, strict=True))
    parts = [_Part(graph, part, tracked, writes_out) for part in recomputed]
    for equation in graph.equations:
        args = tuple(known[v] if isinstance(v, Value) else v for v in equation.inputs)
        if equation.op is GUARD:
            check_guard(args[0], **equation.params)
            continue
        part = next((part for part in parts if equation in part.graph.equations), None) if parts else None
        with contextlib.nullcontext() if part is None else part.kept_no_longer():
            if given and not given.keys().isdisjoint(equation.outputs):
                result = _known_result(equation, args, given)
            elif writes_out and equation.op.written_out is not None:
                result = equation.op.written_out(args, dict(equation.params))
            else:
                result = bind(equation.op, args, dict(equation.params))
        for value, made in zip(equation.outputs, result if type(result) is tuple else (result,), strict=True):
            free = tracked is None or value in tracked or not made.needs_grad
            known[value] = made if free else made.detach()
    for part in parts:
        part.inputs = tuple([known[v] for v in part.graph.inputs])
    return tuple(known[v] if isinstance(v, Value) else v for v in graph.outputs)


class _Part:
    """The equations of a checkpointed call, as far as they are in a graph: what their nodes keep is computed
    again in backward, of what its `inputs` are then.
    """

    inputs: tuple[Any, ...] = ()

    def __init__(
        self, graph: Graph, part: Recomputed, tracked: Collection[Value] | None, writes_out: bool
    ) -> None:
        equations = tuple(e for e in graph.equations if not part.values.isdisjoint(e.outputs))
        self.graph = Graph(tuple(free_values(equations)), equations, ())

        def again() -> None:
            evaluate_graph(self.graph, self.inputs, tracked, None, writes_out)

        self._run = Run(again, (), {}, contextlib.nullcontext(), True, True)

    @contextlib.contextmanager
    def kept_no_longer(self) -> Iterator[None]:
        """Around the first evaluation of an equation."""
        with self._run.first(), followed_hooks(self._run.pack, self._run.unpack):
            yield


def _known_result(equation: Equation, args: tuple[Any, ...], given: Mapping[Value, np.ndarray]) -> Any:
    """The result of an equation, some of whose values lie in memory already, put on the autograd graph."""
    made: Any = None if len(equation.outputs) == 1 else equation.op.evaluate(args, dict(equation.params))
    arrays = (made,) if type(made) is not tuple else made
    found = tuple(given.get(v, array) for v, array in zip(equation.outputs, arrays, strict=True))
    return evaluate(equation.op, args, dict(equation.params), found if type(made) is tuple else found[0])


def alone() -> in_state:
    """Nobody listens, and no gradients are recorded."""
    return in_state(interpreter=None, grad_enabled=False)
