"""The table of the ONNX export: for each op, how it is said in ONNX.

An entry takes the operands as handles (elementwise ones already broadcastable and in the dtype
that the op computes in) and the equation, and gives the result's handle. Where ONNX or
onnxruntime differs from NumPy (NaN in `ReduceMax`, truncating division) the entry says what
NumPy does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.op import TensorType
from fusegrad.eager.ops.elementwise import small_power
from fusegrad.eager.ops.shape import Slice
from fusegrad.tracer.export.onnx_builder import BOOL, INT32, INT64, Builder, Handle
from fusegrad.tracer.graph import Equation, Value

# Elementwise: (operands..., params) -> result, in the compute dtype or bool.


def _op(kind: str, **attributes: Any) -> Callable[..., Handle]:
    return lambda x, *others: x.node(kind, *others, **attributes)


def _float_only(kind: str) -> Callable[..., Handle]:
    """For rounding: integers are whole already."""
    return lambda x: x.node(kind) if x.dtype.kind == "f" else x


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


def _softplus(x: Handle) -> Handle:
    return (x > 20).where(x, _log1p(x.node("Min", 20).node("Exp")))


def _trunc(x: Handle) -> Handle:
    return (x < 0).where(x.node("Ceil"), x.node("Floor")) if x.dtype.kind == "f" else x


def _sign(x: Handle) -> Handle:
    return x.node("Sign")


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
            "whole numbers to the power of a tensor: convert to floats before, with .float()"
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


ELEMENTWISE: dict[str, Callable[..., Handle]] = {
    "add": lambda x, y: _logical("Or")(x, y) if x.dtype == BOOL else x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x.to(BOOL).both(y.to(BOOL)) if x.dtype == BOOL else x * y,
    "div": lambda x, y: x / y,
    "neg": _op("Neg"),
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "abs": _op("Abs"),
    "sign": _sign,
    "pow_number": _pow_number,
    "pow": _pow,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "exp": _op("Exp"),
    "exp2": lambda x: x.like(2.0).node("Pow", x),
    "expm1": _expm1,
    "log": _op("Log"),
    "log2": lambda x: x.node("Log") * (1 / math.log(2)),
    "log10": lambda x: x.node("Log") * (1 / math.log(10)),
    "log1p": _log1p,
    "sqrt": _op("Sqrt"),
    "rsqrt": lambda x: 1 / x.node("Sqrt"),
    "sin": _op("Sin"),
    "cos": _op("Cos"),
    "tan": lambda x: x.node("Sin") / x.node("Cos"),
    "asin": _op("Asin"),
    "acos": _op("Acos"),
    "atan": _op("Atan"),
    "atan2": _atan2,
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
    "logical_and": _logical("And"),
    "logical_or": _logical("Or"),
    "logical_xor": _logical("Xor"),
    "logical_not": lambda x: x.to(BOOL).negated(),
    "bitwise_and": _bits("And"),
    "bitwise_or": _bits("Or"),
    "bitwise_xor": _bits("Xor"),
    "bitwise_not": lambda x: x.negated() if x.dtype == BOOL else x.node("BitwiseNot"),
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "maximum": _op("Max"),
    "minimum": _op("Min"),
    "where": lambda condition, x, y: condition.to(BOOL).where(x, y),
    "clone": _op("Identity"),
    "relu": lambda x: x.node("Relu") if x.dtype.char in "ilefd" else x.node("Max", 0),
    "silu": lambda x: x * x.node("Sigmoid"),
    "softplus": _softplus,
}

# All others: (equation, operands) -> result.


def _type(equation: Equation) -> TensorType:
    operand = equation.inputs[0]
    assert isinstance(operand, Value)
    return operand.type


def _axes(equation: Equation) -> list[int]:
    dim = equation.params["dim"]
    return list(range(len(_type(equation).shape)) if dim is None else dim)


def _reduced(kind: str, x: Handle, equation: Equation) -> Handle:
    return x.shaped(kind, _axes(equation), keepdims=int(equation.params["keepdim"]))


def _sum(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(e.output.dtype), e)


def _prod(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceProd", x.to(e.output.dtype), e)


def _any(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(BOOL).to(INT64), e) > 0


def _all(e: Equation, x: Handle) -> Handle:
    return _reduced("ReduceSum", x.to(BOOL).negated().to(INT64), e).equals(0)


def _extreme(kind: str) -> Callable[[Equation, Handle], Handle]:
    """onnxruntime loses a NaN that does not come first; NumPy gives it."""

    def emit(e: Equation, x: Handle) -> Handle:
        result = _reduced(kind, x, e)
        if x.dtype.kind != "f":
            return result
        poisoned = _reduced("ReduceMax", x.node("IsNaN").to(INT32), e).to(BOOL)
        return poisoned.where(math.nan, result)

    return emit


def _place(kind: str) -> Callable[[Equation, Handle], Handle]:
    """The first extreme's index; a NaN is more extreme than any number."""

    def find(x: Handle, kind: str, e: Equation) -> Handle:
        dim, keep = e.params["dim"], e.params["keepdim"]
        if dim is None:
            x = x.shaped("Reshape", [-1])
        supported = x if x.dtype.char in "Bbilefd" else x.to(INT32)
        axis = 0 if dim is None else dim
        found = x.builder.node(kind, [supported], INT64, axis=axis, keepdims=int(keep and dim is not None))
        return _reshaped(found, e.output.shape)

    def emit(e: Equation, x: Handle) -> Handle:
        if not _type(e).shape:
            return x.builder.constant(0, INT64)
        found = find(x, kind, e)
        if x.dtype.kind != "f":
            return found
        nan = x.node("IsNaN").to(INT32)
        dim = e.params["dim"]
        axes = list(range(len(_type(e).shape))) if dim is None else [dim]
        poisoned = nan.shaped("ReduceMax", axes, keepdims=int(e.params["keepdim"])).to(BOOL)
        return poisoned.where(find(nan, "ArgMax", e), found)

    return emit


def _reshaped(x: Handle, shape: tuple[int, ...]) -> Handle:
    return x.shaped("Reshape", shape, allowzero=int(0 in shape))


def _getitem(e: Equation, x: Handle) -> Handle:
    """Slices first, whole numbers as slices of one; the reshape drops these and adds new dimensions."""
    entries = [i for i in e.params["index"] if i is not None]
    slices = [i if isinstance(i, Slice) else Slice(i, i + 1, 1) for i in entries]
    cut = [(axis, s) for axis, s in enumerate(slices) if s != Slice(0, _type(e).shape[axis], 1)]
    if cut:
        starts, stops, steps = ([s[k] for _, s in cut] for k in range(3))
        x = x.shaped("Slice", starts, stops, [axis for axis, _ in cut], steps)
    return _reshaped(x, e.output.shape)


def _embed(e: Equation, x: Handle) -> Handle:
    """A part put into zeros: padding; for steps above 1 each element first gets zeros behind it."""
    shape = e.params["shape"]
    entries = [i if isinstance(i, Slice) else Slice(i, i + 1, 1) for i in e.params["index"] if i is not None]
    counts = [len(range(*s)) for s in entries]
    x = _reshaped(x, tuple(counts))
    for axis, (s, count) in enumerate(zip(entries, counts, strict=True)):
        if s.step > 1 and count:
            apart = _reshaped(x, (*counts[: axis + 1], 1, *counts[axis + 1 :]))
            behind = [0] * (axis + 1) + [s.step - 1] + [0] * (len(counts) - axis - 1)
            counts[axis] *= s.step
            x = _reshaped(apart.shaped("Pad", [0] * len(behind) + behind), tuple(counts))
            spare = counts[axis] - (shape[axis] - s.start)
            if spare > 0:
                counts[axis] -= spare
                x = x.shaped("Slice", [0], [counts[axis]], [axis], [1])
    before = [s.start for s in entries]
    after = [n - b - c for n, b, c in zip(shape, before, counts, strict=True)]
    return x.shaped("Pad", before + after)


def _flip(e: Equation, x: Handle) -> Handle:
    dims = list(e.params["dims"])
    if not dims:
        return x
    return x.shaped("Slice", [-1] * len(dims), [np.iinfo(np.int64).min] * len(dims), dims, [-1] * len(dims))


def _cat(e: Equation, *tensors: Handle) -> Handle:
    parts = [t.to(e.output.dtype) for t in tensors]
    return parts[0].builder.node("Concat", parts, e.output.dtype, axis=e.params["dim"])


def _matmul(e: Equation, x: Handle, y: Handle) -> Handle:
    return x.node("MatMul", y)


def _permute(e: Equation, x: Handle) -> Handle:
    return x.builder.node("Transpose", [x], x.dtype, perm=list(e.params["dims"]))


def _full(b: Builder, e: Equation) -> Handle:
    number = b.constant(e.params["value"], e.output.dtype)
    return number.shaped("Expand", e.output.shape) if e.output.shape else number


def _arange(b: Builder, e: Equation) -> Handle:
    return b.constant(e.op.evaluate((), dict(e.params)), e.output.dtype)


CREATION: dict[str, Callable[[Builder, Equation], Handle]] = {"full": _full, "arange": _arange}

OTHERS: dict[str, Callable[..., Handle]] = {
    "cast": lambda e, x: x.to(e.output.dtype),
    "detach": lambda e, x: x,
    "reshape": lambda e, x: _reshaped(x, e.output.shape),
    "permute": _permute,
    "expand": lambda e, x: x.shaped("Expand", e.output.shape),
    "getitem": _getitem,
    "flip": _flip,
    "embed": _embed,
    "cat": _cat,
    "sum": _sum,
    "prod": _prod,
    "any": _any,
    "all": _all,
    "amax": _extreme("ReduceMax"),
    "amin": _extreme("ReduceMin"),
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "matmul": _matmul,
}
