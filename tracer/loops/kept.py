"""Kept: what rounds do goes in; which of the values that they read eager's nodes keep for backward comes out.

An op that stands for rounds computes them again for the gradient, of all that it was given. Eager keeps less:
who writes the rest afterwards must not be told that backward needs it. So the op is given tensors of their
own for that, which nobody else has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import bind, wrap
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.tested import HANDED_ON
from fusegrad.tracer.record.recorder import Recorder


def kept_by_nodes(
    equations: Sequence[Equation], tracked: Collection[Value], ends: Collection[Value]
) -> set[Value]:
    """The values that nodes keep, and those that they are views of. tracked: those that need gradients; ends:
    the values that rounds hand on, and leave. Nodes that do not lead back from those are gone.
    """
    kept: set[Value] = set()
    behind = {*ends}
    for equation in reversed(equations):
        is_live = not behind.isdisjoint(equation.outputs)
        for i, value in enumerate(equation.inputs):
            rule = equation.op.rule(i) if isinstance(value, Value) and value in tracked else None
            if rule is not None and is_live:
                behind.add(value)
                saved = (equation.inputs[k] for k in rule.saved(len(equation.inputs)))
                kept.update(v for v in saved if isinstance(v, Value))
        is_view = isinstance(equation.op, View) or equation.op is SELECT_AT
        if is_view and equation.output in kept:
            kept.add(equation.inputs[0])
    return kept


def keeps_its_result(equation: Equation, tracked: Collection[Value]) -> bool:
    """Whether the node that makes what an equation gives keeps that."""
    pairs = enumerate(equation.inputs)
    rules = [equation.op.rule(i) for i, value in pairs if isinstance(value, Value) and value in tracked]
    return any(rule is not None and rule.needs_output for rule in rules)


def apart(recorder: Recorder, tensor: Tensor) -> Tensor:
    """A tensor that holds what this one does, and that nobody else has."""
    if tensor.needs_grad or not has_values(tensor.array):
        node = "" if tensor.grad_fn is None else tensor.grad_fn.name()
        copied: Tensor = bind(HANDED_ON, (tensor,), {"node": node})
        return copied
    copy = wrap(tensor.array.copy())
    recorder.memory.define(copy.array, recorder.value_of(tensor), is_chosen=True)
    return copy
