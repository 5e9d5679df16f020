"""Elementwise ops in ONNX: what each primitive of scalar expressions is there.

An op's scalar expression, which its declaration holds, is run on handles instead of scalars; so a
new op needs nothing here. Only what depends on the dtype, or is one node in ONNX, is written out.
Where ONNX or onnxruntime differs from NumPy (truncating division) the entry says what NumPy does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.ops.pointwise.powers import small_power
from fusegrad.tracer.export.onnx.builder import BOOL, Handle


def _op(kind: str, **attributes: Any) -> Callable[..., Handle]:
    return lambda x, *others: x.node(kind, *others, **attributes)


def _float_only(kind: str) -> Callable[..., Handle]:
    """For rounding: integers are whole already."""
    return lambda x: x.node(kind) if x.dtype.kind == "f" else x


def _float_node(kind: str, **attributes: Any) -> Callable[[Handle], Handle]:
    """A node that onnxruntime has for float32; of float64, which it would round, the expression."""

    def emit(x: Handle) -> Handle:
        if x.dtype.char not in "ef" or not x.builder.has(kind):
            raise NotImplementedError
        return x.node(kind, **attributes)

    return emit


def _expm1(x: Handle) -> Handle:
    """exp(x) - 1 without cancellation near 0 (Kahan): (u - 1) * x / log(u) for u = exp(x)."""
    u = x.node("Exp")
    less = u - 1
    inexact = less * (x / u.node("Log"))
    settled = u.equals(1).where(x, less.equals(-1).where(-1, inexact))
    return u.equals(math.inf).where(u, settled)


def _log1p(x: Handle) -> Handle:
    """log(1 + x) without cancellation near 0 (Kahan): log(u) * x / (u - 1) for u = 1 + x."""
    u = x + 1
    inexact = u.node("Log") * (x / (u - 1))
    settled = u.equals(1).where(x, inexact)
    return u.equals(math.inf).where(u, settled)


def _trunc(x: Handle) -> Handle:
    return (x < 0).where(x.node("Ceil"), x.node("Floor")) if x.dtype.kind == "f" else x


def _opposed(remainder: Handle, y: Handle) -> Handle:
    """Where a truncating division's remainder has not the divisor's sign."""
    return remainder.equals(0).negated().both((remainder < 0).differs(y < 0))


def _remainder(x: Handle, y: Handle) -> Handle:
    """The remainder with the divisor's sign; an integer's by 0 is 0, as NumPy's."""
    if x.dtype.kind == "f":
        remainder = x.node("Mod", y, fmod=1)
        return _opposed(remainder, y).where(remainder + y, remainder)
    zero = y.equals(0)
    return zero.where(0, x.node("Mod", zero.where(1, y)))


def _fmod(x: Handle, y: Handle) -> Handle:
    """The remainder with the dividend's sign; an integer's by 0 is 0."""
    if x.dtype.kind == "f":
        return x.node("Mod", y, fmod=1)
    zero = y.equals(0)
    return zero.where(0, x.node("Mod", zero.where(1, y), fmod=1))


def _floor_divide(x: Handle, y: Handle) -> Handle:
    """NumPy's floor_divide: exact for integers; for floats through the remainder, as C's fmod has it."""
    zero = y.equals(0)
    if x.dtype.kind != "f":
        divisor = zero.where(1, y)
        quotient = x / divisor
        down = _opposed(x - quotient * divisor, divisor).where(quotient - 1, quotient)
        return zero.where(0, down)
    remainder = x.node("Mod", y, fmod=1)
    quotient = (x - remainder) / y
    quotient = _opposed(remainder, y).where(quotient - 1, quotient)
    floor = quotient.node("Floor")
    rounded = (quotient - floor > 0.5).where(floor + 1, floor)
    return zero.where(x / y, rounded)


def _pow(x: Handle, y: Handle) -> Handle:
    if x.dtype.kind != "f":  # onnxruntime goes through float64, which is inexact and does not wrap
        raise x.builder.refuse(
            "onnxruntime has no exact power of whole numbers by a tensor; convert to floats before it"
        )
    return x.node("Pow", y)


def _pow_number(x: Handle, exponent: float) -> Handle:
    """Small powers as products, as eager computes them; of whole numbers all, by repeated squaring."""
    count = small_power(exponent)
    if count is not None:
        return _product([x] * count)
    if x.dtype.kind == "f":
        return x.node("Pow", exponent)
    factors, square = [], x
    for digit in reversed(f"{int(exponent):b}"):
        if digit == "1":
            factors.append(square)
        square = square * square
    return _product(factors) if factors else x * 0 + 1


def _product(factors: list[Handle]) -> Handle:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _negative(x: Handle) -> Handle:
    """Whether the sign is negative, also that of -0."""
    return (x.equals(0).where(1 / x, x)) < 0


def _atan2(y: Handle, x: Handle) -> Handle:
    """The angle in the first quadrant, then mirrored by the signs of both."""
    height, width = y.node("Abs"), x.node("Abs")
    steep = (height / width).node("Atan")
    both_zero = height.equals(0).both(width.equals(0))
    both_infinite = height.equals(math.inf).both(width.equals(math.inf))
    angle = both_zero.where(0, both_infinite.where(math.pi / 4, steep))
    angle = _negative(x).where(x.like(math.pi) - angle, angle)
    return _negative(y).where(angle.node("Neg"), angle)


def _hypot(x: Handle, y: Handle) -> Handle:
    """The larger times sqrt(1 + ratio**2); right for zeros and infinities."""
    x, y = x.node("Abs"), y.node("Abs")
    large = x.node("Max", y)
    ratio = x.node("Min", y) / large
    length = large * (ratio * ratio + 1).node("Sqrt")
    finite = large.equals(0).where(0, length)
    return x.equals(math.inf).where(math.inf, y.equals(math.inf).where(math.inf, finite))


def _compare(kind: str) -> Callable[..., Handle]:
    return lambda x, y: x.node(kind, y)


def _logical(kind: str) -> Callable[..., Handle]:
    return lambda x, y: x.builder.node(kind, [x.to(BOOL), y.to(BOOL)], BOOL)


def _bits(kind: str) -> Callable[..., Handle]:
    return lambda x, y: _logical(kind)(x, y) if x.dtype == BOOL else x.node(f"Bitwise{kind}", y)


def _isnan(x: Handle) -> Handle:
    return x.node("IsNaN") if x.dtype.kind == "f" else x.equals(x).negated()


def _isinf(x: Handle) -> Handle:
    return x.node("Abs").equals(math.inf) if x.dtype.kind == "f" else x.equals(x).negated()


def _isfinite(x: Handle) -> Handle:
    return x.node("Abs") < math.inf if x.dtype.kind == "f" else x.equals(x)


# The primitives, on handles of one dtype (`select` and `cast` are methods of `Scalars`).
PRIMITIVES: dict[str, Callable[..., Handle]] = {
    "add": lambda x, y: _logical("Or")(x, y) if x.dtype == BOOL else x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x.to(BOOL).both(y.to(BOOL)) if x.dtype == BOOL else x * y,
    "div": lambda x, y: x / y,
    "neg": _op("Neg"),
    "abs": _op("Abs"),
    "sign": _op("Sign"),
    "signbit": _negative,  # but for NaN, whose sign ONNX has no word for
    "pow": _pow,
    "floor_div": _floor_divide,
    "remainder": _remainder,
    "exp": _op("Exp"),
    "exp2": lambda x: x.like(2.0).node("Pow", x),
    "expm1": _expm1,
    "log": _op("Log"),
    "log2": lambda x: x.node("Log") * (1 / math.log(2)),
    "log10": lambda x: x.node("Log") * (1 / math.log(10)),
    "log1p": _log1p,
    "sqrt": _op("Sqrt"),
    "sin": _op("Sin"),
    "cos": _op("Cos"),
    "tan": lambda x: x.node("Sin") / x.node("Cos"),
    "asin": _op("Asin"),
    "acos": _op("Acos"),
    "atan": _op("Atan"),
    "atan2": _atan2,
    "hypot": _hypot,
    "sinh": _op("Sinh"),
    "cosh": lambda x: (x.node("Exp") + x.node("Neg").node("Exp")) * 0.5,
    "tanh": _op("Tanh"),
    "sigmoid": _op("Sigmoid"),
    "erf": _op("Erf"),
    "floor": _float_only("Floor"),
    "ceil": _float_only("Ceil"),
    "trunc": _trunc,
    "round": _float_only("Round"),
    "eq": _compare("Equal"),
    "ne": lambda x, y: x.equals(y).negated(),
    "lt": _compare("Less"),
    "le": _compare("LessOrEqual"),
    "gt": _compare("Greater"),
    "ge": _compare("GreaterOrEqual"),
    "and_": _bits("And"),
    "or_": _bits("Or"),
    "xor": _bits("Xor"),
    "not_": lambda x: x.negated() if x.dtype == BOOL else x.node("BitwiseNot"),
    "truth": lambda x: x.to(BOOL),
    "maximum": _op("Max"),
    "minimum": _op("Min"),
}

# Ops that are better said in ONNX's own words than by their scalar expressions.
ENTRIES: dict[str, Callable[..., Handle]] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "pow_number": _pow_number,
    "copysign": lambda x, y: _negative(y).where(x.node("Abs").node("Neg"), x.node("Abs")),
    "heaviside": lambda x, y: x.equals(0).where(y, (x > 0).to(x.dtype)),
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "gelu": _float_node("Gelu"),
    "gelu_tanh": _float_node("Gelu", approximate="tanh"),
    "elu": lambda x, alpha: _float_node("Elu", alpha=alpha)(x),
    "leaky_relu": lambda x, negative_slope: _float_node("LeakyRelu", alpha=negative_slope)(x),
    "relu": lambda x: x.node("Relu") if x.dtype.char in "ilefd" else x.node("Max", 0),
}


class Scalars:
    """What scalar expressions are written against, as ONNX nodes: values are handles."""

    def __getattr__(self, name: str) -> Callable[..., Handle]:
        if name not in PRIMITIVES:
            raise AttributeError(f"ONNX export has no scalar primitive {name}")

        def primitive(*operands: Any) -> Handle:
            known = next(o for o in operands if isinstance(o, Handle))
            return PRIMITIVES[name](*map(known.like, operands))

        return primitive

    def select(self, condition: Handle, x: Any, y: Any) -> Handle:
        """`x` where `condition`, else `y`."""
        return condition.to(BOOL).where(x, y)

    def cast(self, x: Handle, dtype: Any) -> Handle:
        """`x` converted."""
        return x.to(dtypes.as_dtype(dtype).numpy)


def elementwise(op: Elementwise, operands: list[Handle], params: dict[str, Any]) -> Handle:
    """The nodes for an elementwise op: its entry, or its scalar expression."""
    if op.name in ENTRIES:
        with contextlib.suppress(NotImplementedError):
            return ENTRIES[op.name](*operands, **params)
    if isinstance(op.scalar, str):
        return getattr(Scalars(), op.scalar)(*operands)
    return op.scalar(Scalars(), *operands, **params)
