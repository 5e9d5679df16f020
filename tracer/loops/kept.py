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
from fusegrad.tracer.ir.tested import HANDED_ON, HANDED_ON_KEPT
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


def keeps_its_result(equation: Equation, value: Value, tracked: Collection[Value]) -> bool:
    """Whether the node that makes what an equation gives keeps that `value` of it."""
    pairs = enumerate(equation.inputs)
    rules = [equation.op.rule(i) for i, v in pairs if isinstance(v, Value) and v in tracked]
    number = equation.outputs.index(value)
    return any(rule and number in rule.saved_outputs(len(equation.outputs)) for rule in rules)


def is_kept(
    value: Value, equations: Sequence[Equation], kept: Collection[Value], tracked: Collection[Value]
) -> bool:
    """Whether nodes keep the memory of a value: it is one of `kept`, or a view of what its own node keeps."""
    made = {output: equation for equation in equations for output in equation.outputs}
    while value not in kept and value in made:
        equation = made[value]
        if not isinstance(equation.op, View):
            return keeps_its_result(equation, value, tracked)
        value = equation.inputs[0]
    return value in kept


def handed_on(result: Tensor, node: str, is_kept: bool) -> Tensor:
    """What a variable holds in the end, apart from what the op of all rounds keeps.

    node: the name of the node that made it in a round; is_kept: whether that keeps it for backward.
    """
    copied: Tensor = bind(HANDED_ON_KEPT if is_kept else HANDED_ON, (result,), {"node": node})
    return copied


def apart(recorder: Recorder, tensor: Tensor) -> Tensor:
    """A tensor that holds what this one does, and that nobody else has."""
    if tensor.needs_grad or not has_values(tensor.array):
        return handed_on(tensor, "" if tensor.grad_fn is None else tensor.grad_fn.name(), False)
    copy = wrap(tensor.array.copy())
    recorder.memory.define(copy.array, recorder.value_of(tensor), is_chosen=True)
    return copy
