"""Activation functions, softmax and log_softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.families import FLOAT, REAL, REAL_FLOAT, Composite, Elementwise
from fusegrad.eager.op import bind
from fusegrad.eager.ops import elementwise as ew, inplace as inplace_ops, reduction
from fusegrad.eager.ops.elementwise import METHODS, exp, log, named, sigmoid, tanh, unary, where
from fusegrad.eager.ops.shape import normal_dim
from fusegrad.eager.tensor import Tensor

relu = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    REAL,
    lambda b, x: b.maximum(x, 0.0),
    lambda g, out: where(out <= 0, 0.0, g),
    "max(x, 0).",
)
silu = unary(
    "silu",
    lambda x: x / (1 + np.exp(-x)),
    FLOAT,
    lambda b, x: b.mul(x, b.sigmoid(x)),
    lambda g, x: g * (sigmoid(x) * (x * (1 - sigmoid(x)) + 1)),
    "x * sigmoid(x).",
)
log_sigmoid = unary(
    "log_sigmoid",
    lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    REAL_FLOAT,
    lambda b, x: b.sub(b.minimum(x, 0.0), b.log1p(b.exp(b.neg(b.abs(x))))),
    lambda g, x: g * sigmoid(-x),
    "log(sigmoid(x)).",
)
_FACTOR, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _parametric(
    name: str,
    numpy: Callable[..., Any],
    scalar: Callable[..., Any],
    vjp: Callable[..., Any],
    doc: str,
    defaults: dict[str, float],
    grad_name: str | None = None,
) -> Callable[..., Tensor]:
    """Declare a one-operand op with number parameters and give its public function."""
    op = Elementwise(name, "x", numpy, REAL_FLOAT, scalar, {"x": vjp}, grad_name)
    names = tuple(defaults)

    def function(input: Tensor, *values: Any, **given: Any) -> Tensor:
        in_place = given.pop("inplace", False)
        params = defaults | dict(zip(names, values, strict=False)) | given
        if len(params) > len(names) or len(values) > len(names):
            raise TypeError(f"{name}() takes {', '.join(names) or 'no parameters'}, got {values} {given}")
        return applied(lambda x: bind(op, (x,), params), input, in_place, name)

    return named(function, name, doc, f"nn.functional.{name}")


def applied(function: Callable[[Tensor], Tensor], input: Tensor, in_place: bool, name: str) -> Tensor:
    """`function(input)`, written into `input` where that is asked for."""
    return inplace_ops.inplace(function, f"{name}_")(input) if in_place else function(input)


leaky_relu = _parametric(
    "leaky_relu",
    lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
    lambda b, x, negative_slope: b.select(b.gt(x, 0.0), x, b.mul(x, negative_slope)),
    lambda g, x, negative_slope: where(x > 0, g, g * negative_slope),
    "x, or negative_slope * x below 0.",
    {"negative_slope": 0.01},
)
elu = _parametric(
    "elu",
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    lambda b, x, alpha: b.select(b.gt(x, 0.0), x, b.mul(b.expm1(b.minimum(x, 0.0)), alpha)),
    lambda g, x, alpha: where(x > 0, g, g * (exp(ew.minimum(x, 0.0)) * alpha)),
    "x, or alpha * (exp(x) - 1) below 0.",
    {"alpha": 1.0},
)
celu = _parametric(
    "celu",
    lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    lambda b, x, alpha: b.select(b.gt(x, 0.0), x, b.mul(b.expm1(b.div(b.minimum(x, 0.0), alpha)), alpha)),
    lambda g, x, alpha: where(x > 0, g, g * exp(ew.minimum(x, 0.0) / alpha)),
    "x, or alpha * (exp(x / alpha) - 1) below 0.",
    {"alpha": 1.0},
)
hardtanh = _parametric(
    "hardtanh",
    lambda x, min_val, max_val: np.minimum(np.maximum(x, min_val), max_val),
    lambda b, x, min_val, max_val: b.minimum(b.maximum(x, min_val), max_val),
    lambda g, x, min_val, max_val: where((x > min_val) & (x < max_val), g, 0.0),
    "x limited to min_val and max_val.",
    {"min_val": -1.0, "max_val": 1.0},
)
_softplus = unary(
    "softplus",
    lambda x: np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))),
    FLOAT,
    lambda b, x: b.select(b.gt(x, 20.0), x, b.log1p(b.exp(b.minimum(x, 20.0)))),
    lambda g, x: where(x > 20, g, g * sigmoid(x)),
    "log(1 + exp(x)), linear above 20.",
)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold.

    Source: `torch.nn.functional.softplus`.
    """
    if beta == 1 and threshold == 20:
        return _softplus(input)
    scaled = input * beta
    return where(scaled > threshold, input, ew.log1p(exp(ew.minimum(scaled, threshold))) / beta)


hardshrink = _parametric(
    "hardshrink",
    lambda x, lambd: np.where(np.abs(x) <= lambd, x.dtype.type(0), x),
    lambda b, x, lambd: b.select(b.le(b.abs(x), lambd), 0.0, x),
    lambda g, x, lambd: where(ew.abs(x) <= lambd, 0.0, g),
    "x, or 0 where |x| is at most lambd.",
    {"lambd": 0.5},
)
softshrink = _parametric(
    "softshrink",
    lambda x, lambd: np.where(np.abs(x) <= lambd, x.dtype.type(0), x - np.sign(x) * x.dtype.type(lambd)),
    lambda b, x, lambd: b.select(b.le(b.abs(x), lambd), 0.0, b.sub(x, b.mul(b.sign(x), lambd))),
    lambda g, x, lambd: where(ew.abs(x) <= lambd, 0.0, g),
    "x brought toward 0 by lambd.",
    {"lambd": 0.5},
)
hardsigmoid = _parametric(
    "hardsigmoid",
    lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6,
    lambda b, x: b.div(b.minimum(b.maximum(b.add(x, 3.0), 0.0), 6.0), 6.0),
    lambda g, x: where((x > -3) & (x < 3), g / 6, 0.0),
    "clamp(x + 3, 0, 6) / 6.",
    {},
)
hardswish = _parametric(
    "hardswish",
    lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
    lambda b, x: b.div(b.mul(x, b.minimum(b.maximum(b.add(x, 3.0), 0.0), 6.0)), 6.0),
    lambda g, x: g * where(x <= -3, 0.0, where(x < 3, x / 3 + 0.5, 1.0)),
    "x * clamp(x + 3, 0, 6) / 6.",
    {},
)


def _erf(x: Any) -> Any:
    from scipy import special as scipy_special

    return scipy_special.erf(x).astype(x.dtype, copy=False)


_gelu = Elementwise(
    "gelu",
    "x",
    lambda x: x * 0.5 * (1 + _erf(x * math.sqrt(0.5))),
    REAL_FLOAT,
    lambda b, x: b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0)),
    {
        "x": lambda g, x: (
            g
            * (
                (ew.erf(x * math.sqrt(0.5)) + 1) * 0.5
                + x * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))
            )
        )
    },
)


def _gelu_tanh_gradient(g: Tensor, x: Tensor) -> Tensor:
    t = tanh((x + x * x * x * _CUBE) * _FACTOR)
    return g * ((t + 1) * 0.5 + x * (1 - t * t) * ((x * x * (3 * _CUBE) + 1) * (0.5 * _FACTOR)))


_gelu_tanh = Elementwise(
    "gelu_tanh",
    "x",
    lambda x: 0.5 * x * (1 + np.tanh(_FACTOR * (x + _CUBE * x * x * x))),
    REAL_FLOAT,
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


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to 0 and 6. Source: `torch.nn.functional.relu6`."""
    return hardtanh(input, 0.0, 6.0, inplace=inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), self-normalising. Source: `torch.nn.functional.selu`."""
    return applied(lambda x: elu(x, 1.6732632423543772) * 1.0507009873554805, input, inplace, "selu")


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)). Source: `torch.nn.functional.mish`."""
    return applied(lambda x: x * tanh(softplus(x)), input, inplace, "mish")


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|). Source: `torch.nn.functional.softsign`."""
    return input / (ew.abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x). Source: `torch.nn.functional.tanhshrink`."""
    return input - tanh(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else `value`. Source: `torch.nn.functional.threshold`."""
    return applied(lambda x: where(x <= threshold, value, x), input, inplace, "threshold")


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second. Source: `torch.nn.functional.glu`."""
    first, second = input.chunk(2, dim)
    return first * sigmoid(second)


# Softmax: rows shifted by their largest element, so nothing overflows.


def _softmax_numpy(x: np.ndarray, dim: int) -> Any:
    shifted = np.exp(x - np.maximum.reduce(x, axis=dim, keepdims=True))
    return shifted / np.add.reduce(shifted, axis=dim, keepdims=True)


def _softmax_decomposed(x: Tensor, dim: int) -> Tensor:
    shifted = exp(x - reduction.amax(x, dim, True))
    return shifted / reduction.sum(shifted, dim, True)


def _log_softmax_numpy(x: np.ndarray, dim: int) -> Any:
    shifted = x - np.maximum.reduce(x, axis=dim, keepdims=True)
    return shifted - np.log(np.add.reduce(np.exp(shifted), axis=dim, keepdims=True))


def _log_softmax_decomposed(x: Tensor, dim: int) -> Tensor:
    shifted = x - reduction.amax(x, dim, True)
    return shifted - log(reduction.sum(exp(shifted), dim, True))


_softmax = Composite(
    "softmax",
    "x",
    _softmax_decomposed,
    lambda x, dim: _softmax_numpy(x, dim) if x.size else x.copy(),
    {"x": lambda g, out, dim: out * (g - reduction.sum(g * out, dim, True))},
)
_log_softmax = Composite(
    "log_softmax",
    "x",
    _log_softmax_decomposed,
    lambda x, dim: _log_softmax_numpy(x, dim) if x.size else x.copy(),
    {"x": lambda g, out, dim: g - exp(out) * reduction.sum(g, dim, True)},
)


def _soft(op: Composite, input: Tensor, dim: int | None, dtype: Any) -> Tensor:
    if dtype is not None:
        input = ew.cast(input, dtype)
    if input.array.dtype.kind != "f":
        raise failure(RuntimeError, f"not implemented for {input.array.dtype.name}; pass dtype=float32")
    if dim is None:  # PyTorch's choice for old programs
        dim = 0 if input.array.ndim in (0, 1, 3) else 1
    if not input.array.ndim:
        normal_dim(dim, 0)
        return bind(op, (input.reshape(1),), {"dim": 0}).reshape(())
    return bind(op, (input,), {"dim": normal_dim(dim, input.array.ndim)})


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) scaled to sum to 1 along `dim`. Source: `torch.softmax`.

    >>> import fusegrad as fg
    >>> fg.softmax(fg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _soft(_softmax, input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """log(softmax(x)) without overflow. Source: `torch.log_softmax`."""
    return _soft(_log_softmax, input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x). Source: `torch.nn.functional.softmin`."""
    return softmax(-input, dim, dtype=dtype)


METHODS |= {"softmax": softmax, "log_softmax": log_softmax}
for _name in (
    "leaky_relu",
    "elu",
    "celu",
    "hardtanh",
    "softplus",
    "softshrink",
    "hardsigmoid",
    "hardswish",
    "silu",
):
    METHODS.pop(_name)  # PyTorch has these in nn.functional only
