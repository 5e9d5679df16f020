"""Elementwise ops beyond the everyday ones: clamping, mixing, special functions, comparing closely."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import constant
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import (
    FLOAT,
    NUMBER,
    ONLY_FLOAT,
    ONLY_REAL_FLOAT,
    REAL_FLOAT,
    REAL_NUMBER,
    DTypeRule,
    Elementwise,
)
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.pointwise.comparison import at_least, at_most
from fusegrad.eager.ops.pointwise.declare_pointwise import (
    binary,
    from_scipy,
    number,
    operand,
    tensor_operand,
    unary,
)
from fusegrad.eager.ops.pointwise.powers import log_of

# Clamping.


def _clamp_numpy(x: Any, min: Any, max: Any) -> Any:
    if min is not None:
        x = at_least(x, min)
    return at_most(x, max) if max is not None else x


def _clamp_scalar(b: Any, x: Any, min: Any, max: Any) -> Any:
    if min is not None:
        x = b.maximum(min, x)
    return b.minimum(max, x) if max is not None else x


def _clamp_gradient(g: Tensor, x: Tensor, min: Any, max: Any) -> Tensor:
    """Passes where x lies within the bounds, ends included."""
    if min is None:
        return ops.where(x <= max, g, 0.0)
    if max is None:
        return ops.where(x >= min, g, 0.0)
    return ops.where(ops.logical_and(x >= min, x <= max), g, 0.0)


_NO_TENSOR = (float, int, type(None))  # bounds that leave the dtype of floats as it is
_clamp = Elementwise(
    "clamp", "x", _clamp_numpy, REAL_NUMBER, _clamp_scalar, {"x": _clamp_gradient}, "ClampBackward1"
)
_clamp.numbers_vary = True


@public(method=True, inplace=True)
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limited to `min` and `max`, numbers or tensors (None for no limit). Source: `torch.clamp`.

    >>> import fusegrad as fg
    >>> fg.clamp(fg.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise failure(RuntimeError, "At least one of 'min' or 'max' must not be None")
    input = tensor_operand(input)
    if input.array.dtype.kind == "f" and type(min) in _NO_TENSOR and type(max) in _NO_TENSOR:
        kind = input.array.dtype
        return bind(_clamp, (input,), {"min": dtypes.as_kind(min, kind), "max": dtypes.as_kind(max, kind)})
    min, max = (None if v is None else operand(v) for v in (min, max))
    bounds = [v for v in (min, max) if v is not None]
    if any(isinstance(v, Tensor) for v in bounds):
        kind = dtypes.result_type([input.array, *[v.array if isinstance(v, Tensor) else v for v in bounds]])
        low, high = [None if v is None else ops.cast(tensor_operand(v), kind) for v in (min, max)]
        return _clamped_by_tensors(ops.cast(input, kind), low, high)
    kind = dtypes.result_type([input.array, *bounds])
    params = {"min": dtypes.as_kind(min, kind), "max": dtypes.as_kind(max, kind)}
    return bind(_clamp, (ops.cast(input, kind),), params)


def _clamped_by_tensors(x: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    """The bounds take the gradient of what lies outside; a NaN is kept, and takes none of it."""
    if min is not None:
        nan = (x + min).detach()
        x = ops.where(ops.ge(x, min), x, ops.where(ops.lt(x, min), min, nan))
    if max is not None:
        nan = (x + max).detach()
        x = ops.where(ops.le(x, max), x, ops.where(ops.gt(x, max), max, nan))
    return x


clip = public(name="clip", method=True, inplace=True)(clamp)


@public(method=True, inplace=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """At least `min`. Source: `torch.clamp_min`."""
    return clamp(input, min)


@public(method=True, inplace=True)
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
    NUMBER,
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
_addcmul.numbers_vary = _addcdiv.numbers_vary = True


@public(method=True, inplace=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2. Source: `torch.addcmul`."""
    operands = (operand(input), operand(tensor1), operand(tensor2))
    return bind(_addcmul, operands, {"value": _factor(value, operands)})


@public(method=True, inplace=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2. Source: `torch.addcdiv`.

    Raises RuntimeError where both tensors are integers.
    """
    if all(tensor_operand(t).array.dtype.kind in "bui" for t in (tensor1, tensor2)):
        raise failure(
            RuntimeError, "Integer division with addcdiv is no longer supported; use .float() first"
        )
    operands = (operand(input), operand(tensor1), operand(tensor2))
    return bind(_addcdiv, operands, {"value": _factor(value, operands)})


def _factor(value: Any, operands: tuple[Any, ...]) -> Any:
    """A factor in what the operands are computed in. Raises RuntimeError for one that this cannot hold."""
    if isinstance(value, Tensor):
        return value
    kind = dtypes.opmath(dtypes.result_type([x.array if isinstance(x, Tensor) else x for x in operands]))
    return dtypes.as_kind(value, kind) if kind.kind in "iu" else dtypes.held(value, kind)


def _lerp_numpy(x: Any, y: Any, w: Any) -> Any:
    return np.where(np.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


_lerp = Elementwise(
    "lerp",
    "x y w",
    _lerp_numpy,
    ONLY_FLOAT,
    lambda b, x, y, w: b.select(
        b.lt(b.abs(w), 0.5),
        b.add(x, b.mul(w, b.sub(y, x))),
        b.sub(y, b.mul(b.sub(y, x), b.sub(1.0, w))),
    ),
    {"x": lambda g, w: g * (1 - w), "y": lambda g, w: g * w, "w": lambda g, x, y: g * (y - x)},
)
_lerp.second_if_tensor = "w"


@public(method=True, inplace=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From `input` (weight 0) to `end` (weight 1) along a line. Source: `torch.lerp`.

    Raises RuntimeError for tensors of different dtypes.
    """
    operands = (tensor_operand(input), tensor_operand(end), operand(weight))
    kinds = {x.array.dtype.name for x in operands if isinstance(x, Tensor)}
    if len(kinds) > 1 or operands[0].array.dtype.kind not in "fcV":
        raise failure(
            RuntimeError, f"expected floating-point tensors of one dtype, got {' and '.join(sorted(kinds))}"
        )
    _factor(operands[2], operands[:2])
    return bind(_lerp, operands)


hypot = binary(
    "hypot",
    np.hypot,
    ONLY_REAL_FLOAT,
    "hypot",
    (lambda g, x, out: g * (x / out), lambda g, y, out: g * (y / out)),
    "sqrt(x**2 + y**2) without overflow.",
    numbers="",
)


def _logaddexp_scalar(b: Any, x: Any, y: Any) -> Any:
    large = b.maximum(x, y)
    total = b.add(large, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))))
    return b.select(b.and_(b.eq(x, y), b.eq(b.abs(x), math.inf)), x, total)


logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    ONLY_REAL_FLOAT,
    _logaddexp_scalar,
    (lambda g, x, y: g * ops.sigmoid(x - y), lambda g, x, y: g * ops.sigmoid(y - x)),
    "log(exp(x) + exp(y)) without overflow.",
    numbers="",
    inplace=False,
)


def _logaddexp2_scalar(b: Any, x: Any, y: Any) -> Any:
    rest = b.mul(b.log1p(b.exp2(b.neg(b.abs(b.sub(x, y))))), 1 / math.log(2))
    return b.select(b.and_(b.eq(x, y), b.eq(b.abs(x), math.inf)), x, b.add(b.maximum(x, y), rest))


logaddexp2 = binary(
    "logaddexp2",
    np.logaddexp2,
    ONLY_REAL_FLOAT,
    _logaddexp2_scalar,
    (lambda g, x, y: g / (ops.exp2(y - x) + 1), lambda g, x, y: g / (ops.exp2(x - y) + 1)),
    "log2(2 ** x + 2 ** y) without overflow.",
    numbers="",
    inplace=False,
)
xlogy = binary(
    "xlogy",
    from_scipy("xlogy"),
    REAL_FLOAT,
    lambda b, x, y: b.select(b.and_(b.eq(x, 0.0), b.eq(y, y)), 0.0, b.mul(x, b.log(y))),
    (
        lambda g, x, y: g * ops.where(ops.logical_and(ops.eq(x, 0), _tensor(y <= 0)), 0.0, log_of(y)),
        lambda g, x, y: g * x / y,
    ),
    "x * log(y); 0 where x is 0.",
)
xlog1py = method(
    binary(
        "special_xlog1py",
        from_scipy("xlog1py"),
        REAL_FLOAT,
        lambda b, x, y: b.select(b.and_(b.eq(x, 0.0), b.eq(y, y)), 0.0, b.mul(x, b.log1p(y))),
        (
            lambda g, x, y: (
                g * ops.where(ops.logical_and(ops.eq(x, 0), _tensor(y <= -1)), 0.0, ops.log1p(_tensor(y)))
            ),
            lambda g, x, y: g * x / (y + 1),
        ),
        "x * log1p(y); 0 where x is 0.",
        named=False,
    )
)


def _tensor(value: Any) -> Tensor:
    """A Python number or bool of a gradient rule as a tensor in double precision."""
    return value if isinstance(value, Tensor) else ops.tensor(value, dtype=np.asarray(value).dtype)


_logit = unary(
    "logit",
    lambda x: np.log(x / (1 - x)),
    REAL_FLOAT,
    lambda b, x: b.log(b.div(x, b.sub(1.0, x))),
    lambda g, x: ops.where(
        ops.logical_or(ops.lt(x, 0), ops.lt(1 - x, 0)), math.nan, g / ((x + 0.0) * (1 - x))
    ),
    "log(x / (1 - x)).",
    named=False,
)


@public(method=True, inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with x limited to `eps` and 1 - `eps` first. Source: `torch.logit`."""
    input = tensor_operand(input)
    if eps is None:
        return _logit(input)
    # Not `clamp`, which has no gradient at NaN.
    return _logit(ops.where(input < eps, eps, ops.where(input > 1 - eps, 1 - eps, input)))


# Replacing and comparing.


def _nan_to_num_scalar(b: Any, x: Any, nan: float, posinf: float, neginf: float) -> Any:
    finite = b.select(b.eq(x, math.inf), posinf, b.select(b.eq(x, -math.inf), neginf, x))
    return b.select(b.eq(x, x), finite, nan)


_nan_to_num = Elementwise(
    "nan_to_num",
    "x",
    np.nan_to_num,
    ONLY_FLOAT,
    _nan_to_num_scalar,
    {"x": lambda g, x: ops.where(ops.isfinite(x), g, 0.0)},
)
_nan_to_num.numbers_vary = True


@public(method=True, inplace=True)
def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced; by default by 0 and the largest numbers. Source: `torch.nan_to_num`."""
    if tensor_operand(input).array.dtype.kind not in "fcV":
        return input.clone()
    limits = dtypes.finfo(input.dtype)
    high = float(limits.max) if posinf is None else number(posinf)
    low = float(limits.min) if neginf is None else number(neginf)
    params = {"nan": 0.0 if nan is None else number(nan), "posinf": high, "neginf": low}
    return bind(_nan_to_num, (input,), params)


@public(method=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where `mask` is true, `input` elsewhere. Source: `torch.Tensor.masked_fill`.

    Raises RuntimeError for a mask that is not bool, or a value that the dtype cannot hold.
    """
    value, mask = operand(value), tensor_operand(mask)
    if mask.array.dtype.kind != "b":
        raise failure(RuntimeError, f"only supports boolean masks, got {mask.array.dtype.name}")
    # In row-major order, as PyTorch gives it.
    return ops.where(mask.contiguous(), _like(value, input), input.contiguous())


@method
def fill(input: Tensor, value: Any) -> Tensor:
    """`value` in the shape and dtype of `input`. Source: `torch.fill`."""
    always = constant(1, (), np.dtype(bool))
    return ops.where(always, _like(operand(value), tensor_operand(input)), input)


def _like(value: Any, input: Tensor) -> Any:
    """A number or 0-d tensor in the dtype of `input`; raises RuntimeError where it does not fit."""
    if not isinstance(value, Tensor):
        return dtypes.as_kind(value, input.array.dtype)
    if value.array.ndim:
        raise failure(
            RuntimeError, f"only supports a 0-dimension value tensor, got shape {list(value.array.shape)}"
        )
    if value.array.dtype.kind == "c" and input.array.dtype.kind != "c":
        raise failure(RuntimeError, f"value cannot be converted to type {input.array.dtype.name}")
    return ops.cast(value, input.dtype)


@public(method=True)
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + |rtol * other|, elementwise. Source: `torch.isclose`.

    Raises RuntimeError for different dtypes and negative tolerances.
    """
    _refuse_other_dtype(tensor_operand(input), tensor_operand(other))
    if rtol < 0 or atol < 0:
        raise failure(RuntimeError, f"rtol and atol must not be negative, got {rtol} and {atol}")
    close = ops.eq(input, other)
    if equal_nan and input.array.dtype.kind in "fcV":
        close = ops.logical_or(close, ops.logical_and(ops.isnan(input), ops.isnan(other)))
    if input.array.dtype.kind in "bui":  # as floats, so that bools and unsigned numbers have a difference
        input, other = ops.cast(input, dtypes.default_float()), ops.cast(other, dtypes.default_float())
    error = ops.abs(input - other)
    return ops.logical_or(
        close, ops.logical_and(ops.isfinite(error), ops.le(error, ops.abs(other * rtol) + atol))
    )


def _refuse_other_dtype(input: Tensor, other: Tensor) -> None:
    if input.array.dtype != other.array.dtype:
        raise failure(RuntimeError, f"{input.array.dtype.name} did not match {other.array.dtype.name}")


@public(method=True)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close; a Python bool. Source: `torch.allclose`."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal; a Python bool. Source: `torch.equal`."""
    return input.shape == other.shape and bool(ops.eq(input, other).all())


_signbit = unary(
    "signbit",
    np.signbit,
    DTypeRule("f", False, np.dtype(bool)),
    lambda b, x: b.signbit(x),
    None,
    "Whether the sign is negative, that of -0.0 and of NaN too.",
    named=False,
)


@public(method=True)
def signbit(input: Tensor) -> Tensor:
    """Whether the sign is negative, that of -0.0 and of NaN too. Source: `torch.signbit`."""
    return _signbit(input) if tensor_operand(input).array.dtype.kind in "fV" else ops.lt(input, 0)
