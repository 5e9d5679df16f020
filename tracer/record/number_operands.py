"""Ops whose numbers stand beside their operands: `x.clamp(max=k)` with another `k` at each call.

A number that is a parameter is written into compiled code. One that a replay comes by anew becomes an operand
of an op that is the same otherwise, as `a * k` has it from the start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.families import Composite, Elementwise
from fusegrad.eager.core.op import Op


@functools.cache
def by_operands(op: Elementwise | Composite, names: tuple[str, ...]) -> Op:
    """The op with these parameters as further operands, without a gradient.

    >>> from fusegrad.eager.core.op import REGISTRY
    >>> by_operands(REGISTRY["leaky_relu"], ("negative_slope",)).arguments
    ('x', 'negative_slope')
    """
    own = len(op.arguments)

    def with_numbers(function: Any, first: int = own) -> Callable[..., Any]:
        def taking(*operands: Any, **params: Any) -> Any:
            numbers = dict(zip(names, operands[first:], strict=True))
            return function(*operands[:first], **numbers, **params)

        return taking

    name, arguments = f"{op.name}_by_{'_'.join(names)}", " ".join((*op.arguments, *names))
    rules = dict(zip(op.arguments, op.rules or (), strict=True))
    vjp = {name: rule and rule.function for name, rule in rules.items()} | dict.fromkeys(names)
    numpy = with_numbers(op.numpy)
    if isinstance(op, Composite):
        order: Any = op.order
        return type(op)(name, arguments, with_numbers(op.decompose), numpy, vjp, op.grad_name, order)
    scalar = with_numbers(op.scalar, own + 1)  # behind what builds the expression
    return Elementwise(
        name, arguments, numpy, op.rule_of_dtype, scalar, vjp, op.grad_name({}), order=op.order
    )
