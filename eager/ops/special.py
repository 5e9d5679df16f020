"""Elementwise ops beyond the everyday ones: clamping, mixing, special functions, comparing closely."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import FLOAT, REAL, REAL_FLOAT, Elementwise, Opaque
from fusegrad.eager.op import bind
from fusegrad.eager.ops.elementwise import (
    METHODS as ELEMENTWISE_METHODS,
    abs,
    binary,
    cast,
    cos,
    eq,
    exp,
    isfinite,
    isnan,
    le,
    log_of,
    logical_and,
    logical_or,
    maximum,
    method,
    minimum,
    operand,
    reciprocal,
    rsqrt,
    sigmoid,
    sin,
    unary,
    where,
)
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = ELEMENTWISE_METHODS

# Clamping.


def _clamp_numpy(x: Any, min: Any, max: Any) -> Any:
    if min is not None:
        x = np.maximum(x, min)
    return np.minimum(x, max) if max is not None else x


def _clamp_scalar(b: Any, x: Any, min: Any, max: Any) -> Any:
    if min is not None:
        x = b.maximum(x, min)
    return b.minimum(x, max) if max is not None else x


def _clamp_gradient(g: Tensor, x: Tensor, min: Any, max: Any) -> Tensor:
    """Passes where x lies within the bounds, ends included."""
    if min is None:
        return where(x <= max, g, 0.0)
    if max is None:
        return where(x >= min, g, 0.0)
    return where(logical_and(x >= min, x <= max), g, 0.0)


_clamp = Elementwise("clamp", "x", _clamp_numpy, REAL, _clamp_scalar, {"x": _clamp_gradient})


@method
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limited to `min` and `max` (numbers or tensors, None for no limit). Source: `torch.clamp`.

    >>> import fusegrad as fg
    >>> fg.clamp(fg.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise failure(RuntimeError, "At least one of 'min' or 'max' must not be None")
    bounds = [operand(v) for v in (min, max) if v is not None]
    if any(isinstance(v, Tensor) for v in bounds):
        if min is not None:
            input = maximum(input, min)
        return minimum(input, max) if max is not None else input
    kind = dtypes.result_type([input.array, *bounds])
    params = {"min": _as_kind(min, kind), "max": _as_kind(max, kind)}
    return bind(_clamp, (cast(input, kind),), params)


def _as_kind(value: Any, dtype: np.dtype) -> Any:
    """A Python number that NumPy and the kernels take next to `dtype` without changing it."""
    if value is None:
        return None
    return float(value) if dtype.kind == "f" else int(value)


METHODS["clip"] = clip = clamp


@method
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """At least `min`. Source: `torch.clamp_min`."""
    return clamp(input, min)


@method
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """At most `max`. Source: `torch.clamp_max`."""
    return clamp(input, None, max)


# Mixing.


def _addcmul_numpy(x: Any, y: Any, z: Any, value: Any) -> Any:
    product = y * z
    # As in PyTorch, the factor takes the tensors' dtype: a fraction is cut off for integers.
    return x + (product if value == 1 else product.dtype.type(value) * product)


_addcmul = Elementwise(
    "addcmul",
    "x y z",
    _addcmul_numpy,
    REAL,
    lambda b, x, y, z, value: b.add(x, b.mul(b.mul(y, z), value) if value != 1 else b.mul(y, z)),
    {"x": lambda g: g, "y": lambda g, z, value: g * (z * value), "z": lambda g, y, value: g * (y * value)},
)
_addcdiv = Elementwise(
    "addcdiv",
    "x y z",
    lambda x, y, z, value: x + value * (y / z) if value != 1 else x + y / z,
    FLOAT,
    lambda b, x, y, z, value: b.add(x, b.mul(b.div(y, z), value) if value != 1 else b.div(y, z)),
    {
        "x": lambda g: g,
        "y": lambda g, z, value: g * (value / z),
        "z": lambda g, y, z, value: -g * (y * value / (z * z)),
    },
)


@method
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2. Source: `torch.addcmul`."""
    return bind(_addcmul, (operand(input), operand(tensor1), operand(tensor2)), {"value": value})


@method
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2. Source: `torch.addcdiv`."""
    return bind(_addcdiv, (operand(input), operand(tensor1), operand(tensor2)), {"value": value})


def _lerp_numpy(x: Any, y: Any, w: Any) -> Any:
    return np.where(np.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


_lerp = Elementwise(
    "lerp",
    "x y w",
    _lerp_numpy,
    REAL_FLOAT,
    lambda b, x, y, w: b.select(
        b.lt(b.abs(w), 0.5),
        b.add(x, b.mul(w, b.sub(y, x))),
        b.sub(y, b.mul(b.sub(y, x), b.sub(1.0, w))),
    ),
    {"x": lambda g, w: g * (1 - w), "y": lambda g, w: g * w, "w": lambda g, x, y: g * (y - x)},
)


@method
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From `input` (weight 0) to `end` (weight 1) along a line. Source: `torch.lerp`."""
    return bind(_lerp, (operand(input), operand(end), operand(weight)))


hypot = binary(
    "hypot",
    np.hypot,
    REAL_FLOAT,
    lambda b, x, y: _hypot_scalar(b, b.abs(x), b.abs(y)),
    (lambda g, x, out: g * (x / out), lambda g, y, out: g * (y / out)),
    "sqrt(x**2 + y**2) without overflow.",
)


def _hypot_scalar(b: Any, x: Any, y: Any) -> Any:
    """The larger times sqrt(1 + ratio**2); right for zeros and infinities."""
    large, small = b.maximum(x, y), b.minimum(x, y)
    ratio = b.div(small, large)
    length = b.mul(large, b.sqrt(b.add(b.mul(ratio, ratio), 1.0)))
    infinite = b.or_(b.eq(x, math.inf), b.eq(y, math.inf))
    return b.select(infinite, math.inf, b.select(b.eq(large, 0.0), 0.0, length))


def _logaddexp_scalar(b: Any, x: Any, y: Any) -> Any:
    large = b.maximum(x, y)
    total = b.add(large, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))))
    return b.select(b.and_(b.eq(x, y), b.eq(b.abs(x), math.inf)), x, total)


logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    REAL_FLOAT,
    _logaddexp_scalar,
    (lambda g, x, y: g * sigmoid(x - y), lambda g, x, y: g * sigmoid(y - x)),
    "log(exp(x) + exp(y)) without overflow.",
)
xlogy = binary(
    "xlogy",
    lambda x, y: np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log(y)),
    REAL_FLOAT,
    lambda b, x, y: b.select(b.and_(b.eq(x, 0.0), b.eq(y, y)), 0.0, b.mul(x, b.log(y))),
    (
        lambda g, x, y: g * where(logical_and(eq(x, 0), le(y, 0)), 0.0, log_of(y)),
        lambda g, x, y: g * x / y,
    ),
    "x * log(y); 0 where x is 0.",
)

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
    over = b.sub(b.minimum(x, _LARGE), 1.0)
    near = b.log1p(b.add(over, b.sqrt(b.add(b.mul(over, 2.0), b.mul(over, over)))))
    return b.select(b.gt(x, _LARGE), b.add(b.log(x), math.log(2)), near)


asinh = unary(
    "asinh", np.arcsinh, REAL_FLOAT, _asinh_scalar, lambda g, x: g * rsqrt(x * x + 1), "Inverse of sinh."
)
acosh = unary(
    "acosh", np.arccosh, REAL_FLOAT, _acosh_scalar, lambda g, x: g * rsqrt(x * x - 1), "Inverse of cosh."
)
atanh = unary(
    "atanh",
    np.arctanh,
    REAL_FLOAT,
    lambda b, x: b.mul(b.log1p(b.div(b.mul(x, 2.0), b.sub(1.0, x))), 0.5),
    lambda g, x: g * reciprocal(1 - x * x),
    "Inverse of tanh.",
)
logit = unary(
    "logit",
    lambda x: np.log(x / (1 - x)),
    REAL_FLOAT,
    lambda b, x: b.log(b.div(x, b.sub(1.0, x))),
    lambda g, x: g / (x * (1 - x)),
    "log(x / (1 - x)).",
)


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / angle)


sinc = unary(
    "sinc",
    _sinc,
    REAL_FLOAT,
    lambda b, x: b.select(b.eq(x, 0.0), 1.0, b.div(b.sin(b.mul(x, math.pi)), b.mul(x, math.pi))),
    lambda g, x: (
        g * where(eq(x, 0), 0.0, (x * math.pi * cos(x * math.pi) - sin(x * math.pi)) / (x * x * math.pi))
    ),
    "sin(pi x) / (pi x).",
)

# Special functions that only SciPy evaluates: compiled code calls them as they are.


def _scipy(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """`scipy.special.NAME` for the default float and wider, imported at its first use."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        from scipy import special

        x = x if x.dtype.kind == "f" else x.astype(dtypes.default_float().numpy)
        return getattr(special, name)(x).astype(x.dtype, copy=False)

    return evaluate


def _float_type(types: Any) -> Any:
    kind = types[0].dtype if types[0].dtype.kind == "f" else dtypes.default_float().numpy
    return types[0]._replace(dtype=kind)


_erfc = Opaque(
    "erfc",
    "x",
    _scipy("erfc"),
    _float_type,
    {"x": lambda g, x: g * (exp(-x * x) * (-2 / math.sqrt(math.pi)))},
)
_erfinv = Opaque(
    "erfinv",
    "x",
    _scipy("erfinv"),
    _float_type,
    {"x": lambda g, out: g * (exp(out * out) * (math.sqrt(math.pi) / 2))},
)


@method
def erfc(input: Tensor) -> Tensor:
    """1 - erf(x), exact for large x. Source: `torch.erfc`."""
    return bind(_erfc, (input,))


@method
def erfinv(input: Tensor) -> Tensor:
    """The inverse of erf. Source: `torch.erfinv`."""
    return bind(_erfinv, (input,))


# Replacing and comparing.


@method
def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced; by default by 0 and the largest numbers. Source: `torch.nan_to_num`."""
    if input.array.dtype.kind != "f":
        return input.clone()
    limits = np.finfo(input.array.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = where(isfinite(input), input, where(input > 0, high, low))
    return where(isnan(input), nan, finite)


@method
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where `mask` is true, `input` elsewhere. Source: `torch.Tensor.masked_fill`."""
    value = operand(value)
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise failure(RuntimeError, f"value must be 0-dimensional, got shape {list(value.array.shape)}")
        value = cast(value, input.dtype)
    elif input.array.dtype.kind in "bui":
        value = np.asarray(value).astype(input.array.dtype).item()
    return where(mask, value, input)


@method
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + rtol * |other|, elementwise. Source: `torch.isclose`."""
    close = logical_or(
        eq(input, other),
        logical_and(le(abs(input - other), abs(other) * rtol + atol), isfinite(input - other)),
    )
    return logical_or(close, logical_and(isnan(input), isnan(other))) if equal_nan else close


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close; a Python bool. Source: `torch.allclose`."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal; a Python bool. Source: `torch.equal`."""
    return input.array.shape == other.array.shape and bool(eq(input, other).all())


@method
def signbit(input: Tensor) -> Tensor:
    """Whether negative, -0.0 included. Source: `torch.signbit`."""
    if input.array.dtype.kind != "f":
        return input < 0
    return logical_or(input < 0, logical_and(eq(input, 0), reciprocal(input) < 0))
