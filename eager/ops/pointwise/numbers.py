"""What is asked of single numbers: signs, neighbours, common divisors, shifted bits, degrees."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import ONLY_REAL_FLOAT, REAL, DTypeRule, Opaque
from fusegrad.eager.core.memory_order import as_first
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import (
    binary,
    declare_operator,
    opaque_binary,
    tensor_operand,
    unknown,
)

_WHOLE = DTypeRule("ui", False, None)
_REAL_AS_FLOAT = DTypeRule("f", True, None)

# Signs and steps.

copysign = opaque_binary(
    "copysign",
    np.copysign,
    _REAL_AS_FLOAT,
    (
        lambda g, x, out: g * ops.where(ops.eq(x, 0), 0.0, out / x),
        lambda g: ops.zeros_like(g),
    ),
    "|x| with the sign of y.",
    numbers="y",
)
_heaviside = opaque_binary(
    "heaviside",
    lambda x, y: np.where(x == 0, y, x > 0).astype(x.dtype),
    REAL,
    (unknown("heaviside"), unknown("heaviside")),
    "0 below 0, 1 above, and y at 0.",
)


@public(method=True, inplace=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, and `values` at 0. Shapes broadcast. Source: `torch.heaviside`.

    Raises RuntimeError for tensors of different dtypes.
    """
    kinds = [tensor_operand(t).array.dtype for t in (input, values)]
    if kinds[0] != kinds[1]:
        raise failure(RuntimeError, f"expected tensors of one dtype, got {kinds[0].name} and {kinds[1].name}")
    return _heaviside(input, values)


nextafter = opaque_binary(
    "nextafter",
    np.nextafter,
    ONLY_REAL_FLOAT,
    (lambda g, x, y: ops.where(ops.eq(x, y), 0.0, g), lambda g: ops.zeros_like(g)),
    "The number next to x on the way to y.",
)


@public(method=True)
def isposinf(input: Tensor) -> Tensor:
    """Whether infinity; raises RuntimeError for complex numbers. Source: `torch.isposinf`."""
    return ops.eq(_real(input), math.inf)


@public(method=True)
def isneginf(input: Tensor) -> Tensor:
    """Whether minus infinity; raises RuntimeError for complex numbers. Source: `torch.isneginf`."""
    return ops.eq(_real(input), -math.inf)


@public(method=True, inplace=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees in radians. Source: `torch.deg2rad`."""
    return _real(input) * (math.pi / 180)


@public(method=True, inplace=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians in degrees. Source: `torch.rad2deg`."""
    return _real(input) * (180 / math.pi)


def _real(input: Tensor) -> Tensor:
    if tensor_operand(input).array.dtype.kind == "c":
        raise failure(RuntimeError, "not defined for complex numbers")
    return input


# The larger and the smaller, where a NaN stands for nothing; the first of two zeros, whatever their signs.


def _larger_number(x: Any, y: Any) -> Any:
    return np.where((x >= y) | np.isnan(y), x, y)


def _smaller_number(x: Any, y: Any) -> Any:
    return np.where((x <= y) | np.isnan(y), x, y)


fmax = binary(
    "fmax",
    _larger_number,
    REAL,
    lambda b, x, y: b.select(b.or_(b.ge(x, y), b.ne(y, y)), x, y),
    (
        lambda g, x, y: ops.where(ops.logical_or(x >= y, ops.isnan(y)), g, 0.0),
        lambda g, x, y: ops.where(ops.logical_or(x >= y, ops.isnan(y)), 0.0, g),
    ),
    "The larger; the other one where one is NaN.",
    numbers="",
    inplace=False,
)
fmin = binary(
    "fmin",
    _smaller_number,
    REAL,
    lambda b, x, y: b.select(b.or_(b.le(x, y), b.ne(y, y)), x, y),
    (
        lambda g, x, y: ops.where(ops.logical_or(x <= y, ops.isnan(y)), g, 0.0),
        lambda g, x, y: ops.where(ops.logical_or(x <= y, ops.isnan(y)), 0.0, g),
    ),
    "The smaller; the other one where one is NaN.",
    numbers="",
    inplace=False,
)

# Whole numbers.

gcd = opaque_binary("gcd", np.gcd, _WHOLE, None, "The greatest common divisor.")
lcm = opaque_binary("lcm", np.lcm, _WHOLE, None, "The least common multiple.")


def _shifted_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bits that no shift of C's can give, because there are not so many, are 0."""
    bits = x.dtype.itemsize * 8
    inside = (y >= 0) & (y < bits)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype, copy=False)


def _shifted_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shifting by more than all bits, or by less than none, leaves the sign alone."""
    most = x.dtype.itemsize * 8 - (x.dtype.kind == "i")
    if x.dtype.kind == "u":
        inside = y < most
        return np.where(inside, np.right_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype, copy=False)
    return np.right_shift(x, np.where((y >= 0) & (y < most), y, most))


bitwise_left_shift = opaque_binary(
    "bitwise_left_shift", _shifted_left, _WHOLE, None, "The bits of x moved up by y.", numbers="xy"
)
bitwise_right_shift = opaque_binary(
    "bitwise_right_shift", _shifted_right, _WHOLE, None, "The bits of x moved down by y.", numbers="xy"
)
declare_operator("lshift", bitwise_left_shift)
declare_operator("rshift", bitwise_right_shift)
attach(Tensor.__rtruediv__, "__rdiv__")

# Mantissa and exponent.


class Frexp(NamedTuple):
    """What `frexp` gives. Source: `torch.return_types.frexp`."""

    mantissa: Tensor
    exponent: Tensor


def _frexp_types(types: Any) -> tuple[TensorType, TensorType]:
    shape, dtype = types[0]
    if dtype.kind not in "fV":
        raise RuntimeError(f"only floating-point tensors have a mantissa, this is {dtype.name}")
    return TensorType(shape, dtype), TensorType(shape, np.dtype(np.int32))


def _frexp_numpy(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _frexp_types((TensorType(x.shape, x.dtype),))
    mantissa, exponent = np.frexp(x)
    return np.asarray(mantissa), np.asarray(exponent, np.int32)


_frexp = Opaque(
    "frexp",
    "x",
    _frexp_numpy,
    _frexp_types,
    {"x": lambda g, out1: g[0] * ops.pow(2.0, -ops.cast(out1, g[0].dtype))},
    order=as_first,
)


@public(method=True)
def frexp(input: Tensor) -> Frexp:
    """Mantissa (of size 0.5 to 1) and exponent: input = mantissa * 2 ** exponent. Source: `torch.frexp`."""
    return Frexp(*bind(_frexp, (tensor_operand(input),)))


for _function in (bitwise_left_shift, bitwise_right_shift, copysign, gcd, lcm, nextafter):
    public(method=True, inplace=True)(_function)
