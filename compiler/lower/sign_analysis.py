"""Sign analysis: a value goes in; whether its elements are certainly not above or below 0 comes out.

v0 = amax(x, dim=(1,))                    c0 = amax(x, dim=(1,))
v1 = sub(x, v0)              becomes      c1 = sub(x, c0)
v2 = exp(v1)                              l0 = exp_nonpositive(c1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fusegrad.tracer.ir.graph import Equation, Operand, Value

Producers = Mapping[Value, Equation]

# Never below 0; and of the sign of what goes in.
_NONNEGATIVE = frozenset("abs square sqrt exp exp2 sigmoid relu".split())
_KEEPING = frozenset("clone cast sum mean amax amin".split())
DEPTH = 8  # equations that are looked at, one behind the other


def sign(made_by: Producers, operand: Operand, depth: int = DEPTH) -> int:
    """1 if no element is below 0, -1 if none is above, 0 if neither is known.

    Of floats only: integers wrap.
    """
    if isinstance(operand, (int, float)):
        # -0 counts among the negative ones: what it divides changes its sign.
        return -1 if operand < 0 or (operand == 0 and math.copysign(1, operand) < 0) else 1
    if not isinstance(operand, Value):
        return 0
    equation = made_by.get(operand)
    if equation is None or not depth or operand.dtype.kind != "f":
        return 0
    name = equation.op.name
    if name in _NONNEGATIVE or (name == "pow_number" and _even(equation.params["exponent"])):
        return 1
    if name == "full":
        return sign(made_by, equation.params["value"])
    signs = [sign(made_by, x, depth - 1) for x in equation.inputs]
    if name in _KEEPING or equation.op.family == "view":
        return signs[0]
    match name:
        case "neg":
            return -signs[0]
        case "mul":
            return _of_product(made_by, *equation.inputs) or signs[0] * signs[1]
        case "div" if not isinstance(equation.inputs[1], Value):  # others may be -0
            return signs[0] * signs[1]
        case "add":
            return signs[0] if signs[0] == signs[1] else 0
        case "sub":
            return _of_difference(made_by, *equation.inputs) or (signs[0] if signs[0] == -signs[1] else 0)
        case "maximum":
            return 1 if 1 in signs else -1 if signs == [-1, -1] else 0
        case "minimum":
            return -1 if -1 in signs else 1 if signs == [1, 1] else 0
    return 0


def _even(number: Any) -> bool:
    return isinstance(number, (int, float)) and number % 2 == 0


def _of_product(made_by: Producers, x: Operand, y: Operand) -> int:
    """The sign of a square, and of one taken negative."""
    if x == y:
        return 1
    for a, b in ((x, y), (y, x)):
        equation = made_by.get(a) if isinstance(a, Value) else None
        if equation is not None and equation.op.name == "neg" and equation.inputs[0] == b:
            return -1
    return 0


def _of_difference(made_by: Producers, x: Operand, y: Operand) -> int:
    """The sign where the largest element is taken away, or the smallest, or one taken from these."""
    for a, b, order in ((x, y, -1), (y, x, 1)):
        equation = made_by.get(b) if isinstance(b, Value) else None
        if equation is None or equation.op.name not in ("amax", "amin") or equation.inputs[0] != a:
            continue
        dim = equation.params["dim"]
        # Each element has to meet what it went into.
        if equation.params["keepdim"] or dim is None or len(dim) == len(equation.inputs[0].shape):
            return order if equation.op.name == "amax" else -order
    return 0
