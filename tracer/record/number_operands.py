"""Ops whose numbers stand beside their operands: `x.clamp(max=k)` with another `k` at each call.

A number that is a parameter is written into compiled code. One that a replay comes by anew becomes an operand
of an op that is the same otherwise, as `a * k` has it from the start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.families import Elementwise

# Whose expressions and gradients ask nothing about their numbers but whether one is 1, and do the same then.
TAKES_OPERANDS = frozenset({"addcdiv", "addcmul", "clamp", "hardshrink", "leaky_relu", "threshold"})


@functools.cache
def by_operands(op: Elementwise, names: tuple[str, ...]) -> Elementwise:
    """The op with these parameters as further operands, without a gradient.

    >>> from fusegrad.eager.core.op import REGISTRY
    >>> by_operands(REGISTRY["leaky_relu"], ("negative_slope",)).arguments
    ('x', 'negative_slope')
    """
    own = len(op.arguments)

    def with_numbers(function: Callable[..., Any], first: int) -> Callable[..., Any]:
        def taking(*operands: Any, **params: Any) -> Any:
            numbers = dict(zip(names, operands[first:], strict=True))
            return function(*operands[:first], **numbers, **params)

        return taking

    assert callable(op.scalar)
    rules = dict(zip(op.arguments, op.rules or (), strict=True))
    return Elementwise(
        f"{op.name}_by_{'_'.join(names)}",
        " ".join((*op.arguments, *names)),
        with_numbers(op.numpy, own),
        op.rule_of_dtype,
        with_numbers(op.scalar, own + 1),
        {name: rule and rule.function for name, rule in rules.items()} | dict.fromkeys(names),
        op.grad_name({}),
        order=op.order,
    )
