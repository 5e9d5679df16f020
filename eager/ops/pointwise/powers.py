"""Powers: of a number as exponent, of a tensor, and of 2."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import NUMBER, WEAK, Elementwise
from fusegrad.eager.core.memory_order import Order, arranged
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.inplace import attach_in_place
from fusegrad.eager.ops.pointwise.declare_pointwise import OPERANDS, declare_operator, operand, tensor_operand


def _power(x: Any, exponent: Any) -> Any:
    """`x ** exponent` for a number; small whole powers as products (exact to a rounding each)."""
    if exponent == 2:
        return x * x
    count = small_power(exponent)
    if count is None:
        if exponent == 0.5:
            return np.sqrt(x)
        return 1 / np.sqrt(x) if exponent == -0.5 else np.power(x, exponent)
    result = x * x
    for _ in range(count - 2):
        result *= x
    return result


def small_power(exponent: float) -> int | None:
    """`exponent` as a count where `x ** exponent` is computed as that many factors (2 to 4)."""
    return int(exponent) if exponent in (2, 3, 4) else None


def _power_scalar(b: Any, x: Any, exponent: float) -> Any:
    count = small_power(exponent)
    if count is None:
        if exponent in (0.5, -0.5):
            root = b.sqrt(x)
            return root if exponent > 0 else b.div(1.0, root)
        return b.pow(x, exponent)
    result = x
    for _ in range(count - 1):
        result = b.mul(result, x)
    return result


def _power_gradient(g: Tensor, x: Tensor, exponent: float) -> Tensor:
    if exponent == 0:
        return ops.zeros_like(g)
    return g * ((x if exponent == 2 else pow(x, exponent - 1)) * exponent)


class _PowerOp(Elementwise):
    """x ** number: the number is a parameter, so that whole powers become products."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, self.compute_dtype([types[0], params["exponent"]]))

    def evaluate(self, args: Any, params: Any) -> Any:
        array, exponent = args[0].array, params["exponent"]
        if array.dtype.kind == "f" and type(exponent) in WEAK:
            return self.ordered(array, exponent)
        compute = self.compute_dtype([array, exponent])
        if compute.kind in "iu" and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return self.ordered(array.astype(compute, copy=False), exponent)


def _power_of_tensors(x: Any, y: Any) -> Any:
    """`x ** y`; an integer to a negative power is 1 / x ** -y with the fraction cut off."""
    if y.dtype.kind != "i" or not (negative := y < 0).any():
        return np.power(x, y)
    powers = np.power(x, np.where(negative, -y % 2, y))  # only 1 and -1 have whole inverses
    return np.where(negative & (np.abs(x) != 1), 0, powers).astype(x.dtype, copy=False)


_pow_number = _PowerOp(
    "pow_number", "x", _power, NUMBER, _power_scalar, {"x": _power_gradient}, "PowBackward0"
)


class _PowOp(Elementwise):
    """x ** y: where x is a number, PyTorch gives the powers in row-major order."""

    def evaluate(self, args: Any, params: Any) -> Any:
        made = super().evaluate(args, params)
        return made if isinstance(args[0], Tensor) else arranged(made, None)

    def orders(self, shapes: Any, args: Any, params: Any) -> list[Order]:
        return super().orders(shapes, args if isinstance(args[0], Tensor) else (), params)


_pow_tensor = _PowOp(
    "pow",
    "x y",
    _power_of_tensors,
    NUMBER,
    "pow",
    {
        "x": lambda g, x, y: g * ops.where(y == 0, 0.0, y * ops.pow(x, y - 1)),
        "y": lambda g, x, y, out: g * ops.where(_zero_power(x, y), 0.0, out * _log_of_base(x, out)),
    },
    "PowBackward1",
)


_pow_number.numbers_vary, _pow_number.special = _pow_tensor, (0.5, -0.5)


def _zero_power(x: Any, y: Tensor) -> Any:
    """Where a power of 0 stays 0 (or 1) though the exponent changes."""
    counted = (y.real >= 0) & (y.imag == 0) if y.is_complex() else y >= 0
    return counted & (x == 0)


def _log_of_base(x: Any, power: Tensor) -> Any:
    """log(x), complex where the power is: there negative numbers have one too."""
    if not power.is_complex():
        return log_of(x)
    return ops.log(ops.cast(x, power.dtype)) if isinstance(x, Tensor) else log_of(complex(x))


def log_of(x: Any) -> Any:
    """log(x) for a gradient rule, where x may be a Python number: that keeps its full precision."""
    if isinstance(x, Tensor):
        return ops.log(x)
    if isinstance(x, complex):
        return cmath.log(x) if x else -math.inf
    if dtypes.stands_for_float(x):
        return ops.log(ops.full((), x, dtype=dtypes.float64))
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


@public(method=True, inplace=True)
def pow(input: Any, exponent: Any) -> Tensor:
    """`input ** exponent`, either a tensor. Source: `torch.pow`.

    Raises RuntimeError for integers to a negative integer power.

    >>> import fusegrad as fg
    >>> fg.pow(fg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if type(input) not in OPERANDS:
        input = operand(input)
    if type(exponent) not in OPERANDS:
        exponent = operand(exponent)
    if isinstance(exponent, Tensor):
        return bind(_pow_tensor, (input, exponent))
    return bind(_pow_number, (tensor_operand(input),), {"exponent": exponent})


declare_operator("pow", pow)


@public(method=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """`input ** exponent` in double precision. Source: `torch.float_power`."""
    operands = [operand(input), operand(exponent)]
    kinds = [x.array if isinstance(x, Tensor) else x for x in operands]
    double = dtypes.complex128 if dtypes.result_type(kinds).kind == "c" else dtypes.float64
    base, power = (ops.cast(x, double) if isinstance(x, Tensor) else x for x in operands)
    return pow(base, power)


def float_power_of_double(input: Tensor, exponent: Any) -> Tensor:
    """`float_power` where it keeps the dtype of `input`: what can be written in place."""
    result = float_power(input, exponent)
    if result.array.dtype != input.array.dtype:
        raise failure(
            RuntimeError, f"the result has dtype {result.array.dtype.name}, not {input.array.dtype.name}"
        )
    return result


attach_in_place(float_power_of_double, "float_power")


@public(method=True, inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other. Source: `torch.ldexp`."""
    return ops.mul(tensor_operand(input), pow(2.0, tensor_operand(other)))
