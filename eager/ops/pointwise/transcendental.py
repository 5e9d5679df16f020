"""Exponentials, logarithms, roots, trigonometry, and the error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.core.families import FLOAT, REAL_FLOAT
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.pointwise.declare_pointwise import Unary, binary, from_scipy, unary

exp: Unary = unary("exp", np.exp, FLOAT, "exp", lambda g, out: g * out, "e ** x.")
exp2 = unary("exp2", np.exp2, FLOAT, "exp2", lambda g, out: g * (out * math.log(2)), "2 ** x.")
expm1 = unary("expm1", np.expm1, FLOAT, "expm1", lambda g, out: g * (out + 1), "exp(x) - 1, exact near 0.")
log = unary("log", np.log, FLOAT, "log", lambda g, x: g / x, "The natural logarithm.")
log2 = unary("log2", np.log2, FLOAT, "log2", lambda g, x: g / (x * math.log(2)), "The logarithm to base 2.")
log10 = unary("log10", np.log10, FLOAT, "log10", lambda g, x: g / (x * math.log(10)), "To base 10.")
log1p = unary("log1p", np.log1p, FLOAT, "log1p", lambda g, x: g / (x + 1), "log(1 + x), exact near 0.")
sqrt = unary("sqrt", np.sqrt, FLOAT, "sqrt", lambda g, out: g / (out * 2), "The square root.")
rsqrt = unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    FLOAT,
    lambda b, x: b.div(1.0, b.sqrt(x)),
    lambda g, out: g * (out * out * out * -0.5),
    "1 / sqrt(x).",
)
sin = unary("sin", np.sin, FLOAT, "sin", lambda g, x: g * ops.cos(x), "The sine.")
cos = unary("cos", np.cos, FLOAT, "cos", lambda g, x: g * -sin(x), "The cosine.")
tan = unary("tan", np.tan, FLOAT, "tan", lambda g, out: g * (out * out + 1), "The tangent.")
asin = unary(
    "asin",
    np.arcsin,
    FLOAT,
    "asin",
    lambda g, x: g * rsqrt(1 - x * x),
    "The inverse sine.",
    aliases=("arcsin",),
)
acos = unary(
    "acos",
    np.arccos,
    FLOAT,
    "acos",
    lambda g, x: -g * rsqrt(1 - x * x),
    "The inverse cosine.",
    aliases=("arccos",),
)
atan = unary(
    "atan",
    np.arctan,
    FLOAT,
    "atan",
    lambda g, x: g / (x * x + 1),
    "The inverse tangent.",
    aliases=("arctan",),
)
atan2 = binary(
    "atan2",
    np.arctan2,
    REAL_FLOAT,
    "atan2",
    (
        lambda g, x, y: g * (y * _inverse_square_length(x, y)),
        lambda g, x, y: -g * (x * _inverse_square_length(x, y)),
    ),
    "The angle of the point (y, x): atan(x / y) in the right quadrant.",
    numbers="",
    aliases=("arctan2",),
)


def _inverse_square_length(x: Any, y: Any) -> Any:
    """1 / (x * x + y * y), and 0 for the origin, which has no angle."""
    square = x * x + y * y
    return ops.where(square == 0, 0.0, 1 / square)


sinh = unary("sinh", np.sinh, FLOAT, "sinh", lambda g, x: g * cosh(x), "The hyperbolic sine.")
cosh: Unary = unary("cosh", np.cosh, FLOAT, "cosh", lambda g, x: g * sinh(x), "The hyperbolic cosine.")
tanh = unary("tanh", np.tanh, FLOAT, "tanh", lambda g, out: g * (1 - out * out), "The hyperbolic tangent.")


# Inverse hyperbolic functions, in forms that lose no digits near 0 and do not overflow.

_LARGE = 1e9  # beyond it asinh and acosh are log(2x) to the last digit


def _asinh_scalar(b: Any, x: Any) -> Any:
    size = b.minimum(b.abs(x), _LARGE)
    square = b.mul(size, size)
    near = b.log1p(b.add(size, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0))))
    far = b.add(b.log(b.abs(x)), math.log(2))
    value = b.select(b.gt(b.abs(x), _LARGE), far, near)
    return b.select(b.lt(x, 0.0), b.neg(value), b.select(b.eq(x, 0.0), x, value))


def _acosh_scalar(b: Any, x: Any) -> Any:
    # Below 1 there is no root to take; below 0 the square would hide it.
    over = b.sub(b.minimum(b.maximum(x, 0.0), _LARGE), 1.0)
    near = b.log1p(b.add(over, b.sqrt(b.add(b.mul(over, 2.0), b.mul(over, over)))))
    return b.select(b.gt(x, _LARGE), b.add(b.log(x), math.log(2)), near)


def _atanh_scalar(b: Any, x: Any) -> Any:
    size = b.abs(x)
    value = b.mul(b.log1p(b.div(b.mul(size, 2.0), b.sub(1.0, size))), 0.5)
    return b.select(b.lt(x, 0.0), b.neg(value), b.select(b.eq(x, 0.0), x, value))


asinh = unary(
    "asinh",
    np.arcsinh,
    FLOAT,
    _asinh_scalar,
    lambda g, x: g * rsqrt(x * x + 1),
    "Inverse of sinh.",
    aliases=("arcsinh",),
)


def _acosh_gradient(g: Tensor, x: Tensor) -> Tensor:
    """For complex numbers on the branch where acosh itself is."""
    return g * (rsqrt(x + 1) * rsqrt(x - 1)) if x.is_complex() else g * rsqrt(x * x - 1)


acosh = unary(
    "acosh", np.arccosh, FLOAT, _acosh_scalar, _acosh_gradient, "Inverse of cosh.", aliases=("arccosh",)
)
atanh = unary(
    "atanh",
    np.arctanh,
    FLOAT,
    _atanh_scalar,
    lambda g, x: g / (1 - x * x),
    "Inverse of tanh.",
    aliases=("arctanh",),
)


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / angle)


sinc = unary(
    "sinc",
    _sinc,
    FLOAT,
    lambda b, x: b.select(b.eq(x, 0.0), 1.0, b.div(b.sin(b.mul(x, math.pi)), b.mul(x, math.pi))),
    lambda g, x: (
        g
        * ops.where(x * x == 0, 0.0, (x * math.pi * cos(x * math.pi) - sin(x * math.pi)) / (x * x * math.pi))
    ),
    "sin(pi x) / (pi x).",
)


def _sigmoid(x: Any) -> Any:
    result = -x
    # In one piece of memory: a large array's fresh pages take longer than what is computed on them.
    room = result if isinstance(result, np.ndarray) else None
    result = np.exp(result, out=room)
    result += 1
    return np.divide(1, result, out=room)


sigmoid = unary(
    "sigmoid", _sigmoid, FLOAT, "sigmoid", lambda g, out: g * ((1 - out) * out), "1 / (1 + exp(-x))."
)


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
erf = unary(
    "erf",
    from_scipy("erf"),
    REAL_FLOAT,
    "erf",
    lambda g, x: g * (exp(-x * x) * _TWO_OVER_ROOT_PI),
    "The error function.",
)
erfc = unary(
    "erfc",
    from_scipy("erfc"),
    REAL_FLOAT,
    "erfc",
    lambda g, x: g * (exp(-x * x) * -_TWO_OVER_ROOT_PI),
    "1 - erf(x), exact for large x.",
)
erfinv = unary(
    "erfinv",
    lambda x: np.copysign(from_scipy("erfinv")(x), x),  # SciPy forgets the sign of 0
    REAL_FLOAT,
    "erfinv",
    lambda g, out: g * (exp(out * out) / _TWO_OVER_ROOT_PI),
    "The inverse of erf.",
)
