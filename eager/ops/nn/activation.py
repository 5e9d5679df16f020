"""Activation functions, element by element; softmax is a reduction (`eager/ops/reduce/softmax.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import constant
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import (
    ONLY_FLOAT,
    ONLY_REAL_FLOAT,
    REAL_NUMBER,
    DTypeRule,
    Elementwise,
)
from fusegrad.eager.core.large import LARGE
from fusegrad.eager.core.memory_order import Orders, rows
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index.repeated import filling
from fusegrad.eager.ops.inplace import IN_ITS_MEMORY, ONE_OP, inplace
from fusegrad.eager.ops.pointwise.comparison import FEW, ZEROS, at_least, at_most
from fusegrad.eager.ops.pointwise.declare_pointwise import (
    OPERANDS,
    documented,
    function_of_one,
    number,
    tensor_operand,
)
from fusegrad.eager.ops.precision import in_half
from fusegrad.eager.ops.shape.shape import normal_dim


def linked(gradient: Tensor, x: Tensor) -> Tensor:
    """`gradient` of a function made of straight lines, tied to `x` with a derivative of zero.

    A second gradient is then zeros, as in PyTorch, instead of an error that there is none.
    """
    if not (state.grad_enabled and x.needs_grad):
        return gradient
    return ops.where(constant(1, (), np.dtype(bool)), gradient, x)


def applied(function: Callable[[Tensor], Tensor], input: Tensor, in_place: bool, name: str) -> Tensor:
    """`function(input)`, written into `input` where that is asked for."""
    if not in_place:
        return function(input)
    write = inplace(function, f"{name}_")
    return (filling(write) if name == "threshold" else write)(input)


def _plain(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    scalar: Callable[..., Any],
    vjp: Callable[..., Any],
    doc: str,
    order: Orders | None = None,
) -> Callable[[Any], Tensor]:
    """Declare a one-operand op and give its function."""
    return function_of_one(Elementwise(name, "x", numpy, rule, scalar, {"x": vjp}, order=order), name, doc)


def _parametric(
    name: str,
    numpy: Callable[..., Any],
    scalar: Callable[..., Any],
    vjp: Callable[..., Any],
    doc: str,
    defaults: dict[str, float],
    rule: DTypeRule = ONLY_REAL_FLOAT,
    in_place: bool = True,
    divisor: str = "",
) -> Callable[..., Tensor]:
    """Declare a one-operand op with number parameters and give its public function.

    divisor: the parameter that must not be 0.
    """
    op = Elementwise(name, "x", numpy, rule, scalar, {"x": vjp})
    op.numbers_vary = True
    accepted = {**defaults, "inplace": False} if in_place else defaults
    names = tuple(accepted)

    def function(input: Tensor, *values: Any, **given: Any) -> Tensor:
        params = accepted | dict(zip(names, values, strict=False)) | given
        if len(params) > len(names) or len(values) > len(names):
            raise TypeError(f"{name}() takes {', '.join(names) or 'no parameters'}, got {values} {given}")
        write = params.pop("inplace", False)
        kind = dtypes.opmath(tensor_operand(input).array.dtype)
        take = dtypes.as_kind if kind.kind in "iu" else dtypes.held
        for n, v in params.items():
            known = v if type(v) in OPERANDS else number(v)
            params[n] = known if isinstance(known, Tensor) else take(known, kind)
        if divisor and not isinstance(params[divisor], Tensor) and not params[divisor]:
            raise failure(RuntimeError, f"{name}: {divisor} cannot be 0")
        return applied(lambda x: bind(op, (x,), params), input, write, name)

    return documented(function, name, doc, f"nn.functional.{name}")


# Made of straight lines. At NaN PyTorch's vectors and its single numbers have different gradients: ours are
# those of a single number, for which NaN is on no side of a bound.

relu = public(method=True, inplace=True)(
    _plain(
        "relu",
        lambda x: at_least(x, 0),
        REAL_NUMBER,
        lambda b, x: b.maximum(0.0, x),
        lambda g, out: linked(ops.where(out <= 0, 0.0, g), out),
        "max(x, 0).",
    )
)


def _relu_in_memory(x: np.ndarray, out: np.ndarray) -> None:
    """`relu` into the memory of `x`; piece by piece, since NumPy has vectors for that (see `at_least`)."""
    if x.size <= FEW:
        np.maximum(ZEROS[x.dtype.char], x, out=x)
        return
    if x.size <= LARGE or not x.flags.c_contiguous:
        at_least(x, 0, x)
        return
    flat = x.reshape(-1)
    for begin in range(0, x.size, LARGE):
        piece = flat[begin : begin + LARGE]
        at_least(piece, 0, piece)


IN_ITS_MEMORY[ONE_OP[relu].op] = _relu_in_memory
leaky_relu = _parametric(
    "leaky_relu",
    lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
    lambda b, x, negative_slope: b.select(b.gt(x, 0.0), x, b.mul(x, negative_slope)),
    lambda g, x, negative_slope: linked(ops.where(x > 0, g, g * negative_slope), x),
    "x, or negative_slope * x below 0.",
    {"negative_slope": 0.01},
)
_hardtanh = _parametric(
    "hardtanh",
    lambda x, min_val, max_val: at_most(at_least(x, x.dtype.type(min_val)), x.dtype.type(max_val)),
    lambda b, x, min_val, max_val: b.minimum(max_val, b.maximum(min_val, x)),
    lambda g, x, min_val, max_val: linked(ops.where((x <= min_val) | (x >= max_val), 0.0, g), x),
    "x limited to min_val and max_val.",
    {"min_val": -1.0, "max_val": 1.0},
    rule=REAL_NUMBER,
)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to `min_val` and `max_val`. Source: `torch.nn.functional.hardtanh`.

    Raises ValueError when `min_val` is above `max_val`, RuntimeError for bools and for negative
    limits of unsigned numbers.
    """
    if min_val > max_val:
        raise failure(ValueError, f"min_val {min_val} cannot be greater than max_val {max_val}")
    if tensor_operand(input).array.dtype.kind == "u" and min_val < 0:
        raise failure(RuntimeError, f"negative limits do not fit {input.array.dtype.name}")
    return _hardtanh(input, min_val, max_val, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to 0 and 6. Source: `torch.nn.functional.relu6`."""
    return hardtanh(input, 0.0, 6.0, inplace)


threshold = public(
    _parametric(
        "threshold",
        lambda x, threshold, value: np.where(x <= x.dtype.type(threshold), x.dtype.type(value), x),
        lambda b, x, threshold, value: b.select(b.le(x, threshold), value, x),
        lambda g, x, threshold, value: linked(ops.where(x <= threshold, 0.0, g), x),
        "x above threshold, else value.",
        {"threshold": 0.0, "value": 0.0},
        rule=REAL_NUMBER,
    )
)
hardshrink = public(method=True)(
    _parametric(
        "hardshrink",
        lambda x, lambd: np.where(np.abs(x) <= lambd, x.dtype.type(0), x),
        lambda b, x, lambd: b.select(b.le(b.abs(x), lambd), 0.0, x),
        lambda g, x, lambd: linked(ops.where(ops.abs(x) <= lambd, 0.0, g), x),
        "x, or 0 where |x| is at most lambd.",
        {"lambd": 0.5},
        in_place=False,
    )
)
_softshrink = _parametric(
    "softshrink",
    lambda x, lambd: np.where(np.abs(x) <= lambd, x * 0, x - np.sign(x) * x.dtype.type(lambd)),
    lambda b, x, lambd: b.select(b.le(b.abs(x), lambd), b.mul(x, 0.0), b.sub(x, b.mul(b.sign(x), lambd))),
    lambda g, x, lambd: linked(ops.where(ops.abs(x) <= lambd, 0.0, g), x),
    "x brought toward 0 by lambd.",
    {"lambd": 0.5},
    in_place=False,
)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x brought toward 0 by `lambd`. Source: `torch.nn.functional.softshrink`.

    Raises RuntimeError for a negative `lambd`.
    """
    if lambd < 0:
        raise failure(RuntimeError, f"lambda must be greater or equal to 0, but found to be {lambd}")
    return _softshrink(input, lambd)


hardsigmoid = _parametric(
    "hardsigmoid",
    lambda x: at_most(at_least(x + 3, 0), 6) / 6,
    lambda b, x: b.div(b.minimum(6.0, b.maximum(0.0, b.add(x, 3.0))), 6.0),
    lambda g, x: linked(ops.where((x > -3) & (x < 3), g / 6, 0.0), x),
    "clamp(x + 3, 0, 6) / 6.",
    {},
)
hardswish = _parametric(
    "hardswish",
    lambda x: x * at_most(at_least(x + 3, 0), 6) / 6,
    lambda b, x: b.div(b.mul(x, b.minimum(6.0, b.maximum(0.0, b.add(x, 3.0)))), 6.0),
    lambda g, x: g * ops.where(x <= -3, 0.0, ops.where(x < 3, x / 3 + 0.5, 1.0)),
    "x * clamp(x + 3, 0, 6) / 6.",
    {},
)


_prelu = Elementwise(
    "prelu",
    "x weight",
    lambda x, weight: np.where(x > 0, x, weight * x),
    ONLY_REAL_FLOAT,
    lambda b, x, weight: b.select(b.gt(x, 0.0), x, b.mul(weight, x)),
    {
        "x": lambda g, x, weight: linked(ops.where(x > 0, g, g * weight), x),
        "weight": lambda g, x: ops.where(x > 0, 0.0, g * x),
    },
    "PreluKernelBackward0",
)


@public(method=True)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, or weight * x below 0; `weight` has one element, or one for each channel (dimension 1).

    Raises RuntimeError for a weight that does not fit. Source: `torch.nn.functional.prelu`.
    """
    input, weight = in_half(input, weight)
    if input.array.dtype != weight.array.dtype:
        names = f"{input.array.dtype.name} and {weight.array.dtype.name}"
        raise failure(RuntimeError, f"Type promoting not supported. Got {names}")
    if weight.array.ndim > 1:
        raise failure(
            RuntimeError, f"Expected weight to be a scalar or 1D, got {weight.array.ndim} dimensions"
        )
    if weight.array.size != 1:
        if not input.array.ndim:
            raise failure(RuntimeError, "Not allow zero-dim input tensor.")
        channels = input.array.shape[1] if input.array.ndim > 1 else 1
        if channels != weight.array.size:
            raise failure(
                RuntimeError,
                f"Mismatch of parameter numbers and input channel size. Found {weight.array.size} "
                f"parameters for {channels} channels",
            )
        weight = ops.reshape(weight, (-1, *[1] * (input.array.ndim - 2)))
    elif weight.array.ndim and not input.array.ndim:
        weight = ops.reshape(weight, ())
    return bind(_prelu, (input, weight))


@public
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x, or below 0 x times a random slope from `lower` to `upper` (their mean when not training).

    Raises ValueError unless lower <= upper. Source: `torch.nn.functional.rrelu`.
    """
    if lower > upper:
        raise failure(
            RuntimeError, f"Lower bound should be less than or equal to the upper bound: {lower}, {upper}"
        )
    if not inplace:
        input = input.contiguous()
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = ops.rand_like(input) * (upper - lower) + lower
    return applied(lambda x: ops.where(x <= 0, x * slope, x), input, inplace, "rrelu")


# Smooth ones.

silu = _plain(
    "silu",
    lambda x: x / (1 + np.exp(-x)),
    ONLY_FLOAT,
    lambda b, x: b.mul(x, b.sigmoid(x)),
    lambda g, x: g * (ops.sigmoid(x) * (x * (1 - ops.sigmoid(x)) + 1)),
    "x * sigmoid(x).",
)
log_sigmoid = _plain(
    "log_sigmoid",
    lambda x: at_most(x, 0) - np.log1p(np.exp(-np.abs(x))),
    ONLY_REAL_FLOAT,
    lambda b, x: b.sub(b.minimum(0.0, x), b.log1p(b.exp(b.neg(b.abs(x))))),
    lambda g, x: g * ops.sigmoid(-x),
    "log(sigmoid(x)).",
    rows,
)
elu = _parametric(
    "elu",
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    lambda b, x, alpha: b.select(b.gt(x, 0.0), x, b.mul(b.expm1(x), alpha)),
    lambda g, x, alpha: ops.where(x <= 0, g * (ops.exp(ops.clamp(x, max=0.0)) * alpha), g),
    "x, or alpha * (exp(x) - 1) below 0.",
    {"alpha": 1.0},
)
celu = public(
    _parametric(
        "celu",
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        lambda b, x, alpha: b.select(b.gt(x, 0.0), x, b.mul(b.expm1(b.div(x, alpha)), alpha)),
        lambda g, x, alpha: ops.where(x <= 0, g * ops.exp(ops.clamp(x, max=0.0) / alpha), g),
        "x, or alpha * (exp(x / alpha) - 1) below 0.",
        {"alpha": 1.0},
        divisor="alpha",
    )
)


def _softplus_numpy(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


def _softplus_scalar(b: Any, x: Any, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else b.mul(x, beta)
    value = b.log1p(b.exp(b.minimum(scaled, threshold)))
    return b.select(b.gt(scaled, threshold), x, value if beta == 1 else b.div(value, beta))


softplus = _parametric(
    "softplus",
    _softplus_numpy,
    _softplus_scalar,
    lambda g, x, beta, threshold: ops.where(x * beta > threshold, g, g * ops.sigmoid(x * beta)),
    "log(1 + exp(beta * x)) / beta; x itself where beta * x is above threshold.",
    {"beta": 1.0, "threshold": 20.0},
    in_place=False,
)
_FACTOR, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _erf(x: Any) -> Any:
    from scipy import special as scipy_special

    return scipy_special.erf(x).astype(x.dtype, copy=False)


_gelu = Elementwise(
    "gelu",
    "x",
    lambda x: x * 0.5 * (1 + _erf(x * math.sqrt(0.5))),
    ONLY_REAL_FLOAT,
    lambda b, x: b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0)),
    {
        "x": lambda g, x: (
            g
            * (
                (ops.erf(x * math.sqrt(0.5)) + 1) * 0.5
                + x * (ops.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))
            )
        )
    },
)


def _gelu_tanh_gradient(g: Tensor, x: Tensor) -> Tensor:
    t = ops.tanh((x + x * x * x * _CUBE) * _FACTOR)
    return g * ((t + 1) * 0.5 + x * (1 - t * t) * ((x * x * (3 * _CUBE) + 1) * (0.5 * _FACTOR)))


_gelu_tanh = Elementwise(
    "gelu_tanh",
    "x",
    lambda x: 0.5 * x * (1 + np.tanh(_FACTOR * (x + _CUBE * x * x * x))),
    ONLY_REAL_FLOAT,
    lambda b, x: b.mul(
        b.mul(x, 0.5),
        b.add(b.tanh(b.mul(b.add(x, b.mul(b.mul(b.mul(x, _CUBE), x), x)), _FACTOR)), 1.0),
    ),
    {"x": _gelu_tanh_gradient},
    "GeluBackward0",
)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function, or its tanh approximation.

    Raises RuntimeError unless `approximate` is "none" or "tanh". Source: `torch.nn.functional.gelu`.
    """
    if approximate not in ("none", "tanh"):
        raise failure(RuntimeError, f"approximate argument must be either none or tanh, got {approximate!r}")
    return bind(_gelu if approximate == "none" else _gelu_tanh, (input,))


@public
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), self-normalising. Source: `torch.nn.functional.selu`."""
    return applied(lambda x: elu(x, 1.6732632423543772) * 1.0507009873554805, input, inplace, "selu")


def _mish_gradient(g: Tensor, x: Tensor) -> Tensor:
    bent = ops.tanh(softplus(x))
    return g * (bent + x * ops.sigmoid(x) * (1 - bent * bent))


_mish = _plain(
    "mish",
    lambda x: x * np.tanh(_softplus_numpy(x, 1.0, 20.0)),
    ONLY_REAL_FLOAT,
    lambda b, x: b.mul(x, b.tanh(_softplus_scalar(b, x, 1.0, 20.0))),
    _mish_gradient,
    "x * tanh(softplus(x)).",
)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)). Source: `torch.nn.functional.mish`."""
    return applied(_mish, input, inplace, "mish")


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|). Source: `torch.nn.functional.softsign`."""
    return input / (ops.abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x). Source: `torch.nn.functional.tanhshrink`."""
    return input - ops.tanh(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second. Source: `torch.nn.functional.glu`.

    Raises RuntimeError for an odd number of elements along `dim`.
    """
    if not input.array.ndim:
        raise failure(RuntimeError, "glu does not support 0-dimensional tensors")
    extent = input.array.shape[normal_dim(dim, input.array.ndim)]
    if extent % 2:
        raise failure(RuntimeError, f"Halving dimension must be even, but dimension {dim} is size {extent}")
    first, second = input.chunk(2, dim)
    return first * ops.sigmoid(second)


def _in_place(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The function that writes its result into its argument: `inplace=True` under a name of its own."""

    def written(input: Tensor, *values: Any, **given: Any) -> Tensor:
        return applied(lambda x: function(x, *values, **given), input, True, name)

    written.__doc__ = f"`{name}` written into `input`. Source: `torch.nn.functional.{name}_`."
    return renamed(written, f"{name}_")


relu_ = public(_in_place(relu, "relu"))
leaky_relu_ = _in_place(leaky_relu, "leaky_relu")
elu_ = _in_place(elu, "elu")
celu_ = public(_in_place(celu, "celu"))
selu_ = public(_in_place(selu, "selu"))
rrelu_ = public(_in_place(rrelu, "rrelu"))
hardtanh_ = _in_place(hardtanh, "hardtanh")
threshold_ = public(_in_place(threshold, "threshold"))
