# ruff: noqa: E501  (one call a line reads as the table that it is)
"""One table of op samples: it drives the tests of every op, eager and compiled.

`SAMPLES[op name]` lists `Sample(call, inputs)`: `call(fg, *tensors)` runs the op through the public
namespace `fg`, which may be fusegrad or torch; `inputs` are NumPy arrays for the tensors. The
table covers `REGISTRY` (a test checks it), so an op cannot be declared without samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    gradients: compare first gradients of the floating-point inputs with PyTorch's.
    second: check second derivatives too.
    random: values are random, so only shapes and dtypes are compared.
    single: PyTorch computes it with single-precision constants even in float64.
    """

    call: Callable[..., Any]
    inputs: list[np.ndarray] = field(default_factory=list)
    gradients: bool = True
    second: bool = True
    random: bool = False
    single: bool = False


SAMPLES: dict[str, list[Sample]] = {}
_random = np.random.default_rng(7)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Random float64 values; tests cast them to the dtype that they are about."""
    return _random.uniform(low, high, shape)


def i(*shape: int, low: int = 0, high: int = 5) -> np.ndarray:
    """Random int64 values."""
    return _random.integers(low, high, shape)


def b(*shape: int) -> np.ndarray:
    """Random bools."""
    return _random.integers(0, 2, shape).astype(bool)


def add(op: str, call: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> None:
    """Put a sample of `op` in the table."""
    SAMPLES.setdefault(op, []).append(Sample(call, list(inputs), **options))


def _unary(names: str, low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    for name in names.split():
        call = lambda fg, x, name=name: getattr(fg, name)(x)  # noqa: E731
        add(name, call, f(3, 4, low=low, high=high), **options)
        add(name, call, f(low=low, high=high), **options)
        add(name, call, f(2, 0, 3, low=low, high=high), **options)


def _functional(names: str, **options: Any) -> None:
    for name in names.split():
        add(name, lambda fg, x, name=name: getattr(fg.nn.functional, name)(x), f(3, 4), **options)


def _binary(names: str, low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    for name in names.split():
        call = lambda fg, x, y, name=name: getattr(fg, name)(x, y)  # noqa: E731
        add(name, call, f(3, 4, low=low, high=high), f(3, 4, low=low, high=high), **options)
        add(name, call, f(3, 1, low=low, high=high), f(4, low=low, high=high), **options)
        add(
            name,
            lambda fg, x, name=name: getattr(fg, name)(x, fg.tensor(1.5, dtype=x.dtype)),
            f(2, 3),
            **options,
        )


# Elementwise.

_unary(
    "neg abs square exp exp2 expm1 sin cos tan sinh cosh tanh sigmoid erf erfc asinh atan relu frac sinc sign"
)
_unary("floor ceil trunc round", second=False)
_unary("log log2 log10 log1p sqrt rsqrt reciprocal", low=0.5, high=3.0)
_unary("asin acos atanh erfinv", low=-0.9, high=0.9)
_unary("acosh", low=1.2, high=3.0)
_unary("logit", low=0.1, high=0.9)
_unary("isnan isinf isfinite logical_not", gradients=False)
add("isnan", lambda fg, x: fg.isnan(x / x), np.array([0.0, 1.0, 0.0]), gradients=False)
add("isinf", lambda fg, x: fg.isinf(1 / x), np.array([0.0, 1.0, -0.0]), gradients=False)
_binary("add sub mul atan2 maximum minimum hypot logaddexp")
_binary("div", low=0.5, high=2.0)
_binary("xlogy", low=0.3, high=2.0)
_binary("eq ne lt le gt ge logical_and logical_or logical_xor", gradients=False)
_binary("remainder fmod", low=0.4, high=3.0)
_binary("floor_divide", low=0.4, high=3.0, gradients=False)
add("add", lambda fg, x, y: fg.add(x, y, alpha=2), f(3), f(3))
add("div", lambda fg, x, y: fg.div(x, y, rounding_mode="trunc"), f(5), f(5, low=0.5), second=False)
add("remainder", lambda fg, x, y: x % y, np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3]))
add("fmod", lambda fg, x, y: fg.fmod(x, y), np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3]))
add(
    "maximum",
    lambda fg, x, y: fg.maximum(x, y),
    np.array([1.0, 2.0, 2.0]),
    np.array([2.0, 2.0, 1.0]),
    second=False,
)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    add(_name, lambda fg, x, y, name=_name: getattr(fg, name)(x, y), i(3, 4), i(4))
    add(_name, lambda fg, x, y, name=_name: getattr(fg, name)(x, y), b(3, 4), b(4))
add("bitwise_not", lambda fg, x: ~x, i(3, 4))
add("bitwise_not", lambda fg, x: ~x, b(3, 4))
for _exponent in (0, 1, 2, 3, 4, 5, 0.5, -1, -2.5):
    add("pow_number", lambda fg, x, e=_exponent: x**e, f(3, 4, low=0.5, high=2.0))
add("pow_number", lambda fg, x: x**2, i(5, low=-3))
add("pow", lambda fg, x, y: fg.pow(x, y), f(3, 4, low=0.5, high=2.0), f(4))
add("pow", lambda fg, x: 2**x, f(3, 4))
add("where", lambda fg, c, x, y: fg.where(c, x, y), b(3, 4), f(3, 4), f(4))
add("where", lambda fg, c, x: fg.where(c, x, 0.0), b(3, 4), f(3, 1))
add("where", lambda fg, x: fg.masked_fill(x, x > 0, 5.0) if hasattr(fg, "masked_fill") else x, f(3, 4))
add("where", lambda fg, x: fg.tril(x, 1) + fg.triu(x), f(4, 3))
add("where", lambda fg, x: fg.nan_to_num(x / x), np.array([0.0, 1.0]), gradients=False)
add("cast", lambda fg, x: x.to(fg.float64), f(3, 4))
add("cast", lambda fg, x: x.to(fg.int64), f(3, 4), gradients=False)
add("cast", lambda fg, x: x.to(fg.bool), i(3, 4))
add("clone", lambda fg, x: x.clone(), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, -0.5, 1), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, min=0.25), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, max=0.25), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, 1, 3), i(6))
add("addcmul", lambda fg, x, y, z: fg.addcmul(x, y, z, value=0.5), f(3, 4), f(4), f(3, 1))
add("addcmul", lambda fg, x, y, z: fg.addcmul(x, y, z, value=2.5), i(3, 4), i(4), i(3, 1))
add("addcdiv", lambda fg, x, y, z: fg.addcdiv(x, y, z, value=0.5), f(3, 4), f(4), f(3, 1, low=0.5))
add("lerp", lambda fg, x, y: fg.lerp(x, y, 0.3), f(3, 4), f(4))
add("lerp", lambda fg, x, y, w: fg.lerp(x, y, w), f(3, 4), f(3, 4), f(3, 4, low=0, high=1))

# Activations.

_functional("silu elu celu hardtanh softplus hardshrink softshrink hardswish leaky_relu gelu")
_functional("hardsigmoid", second=False, single=True)
add("softplus", lambda fg, x: fg.nn.functional.softplus(x, 2.0, 1.0), f(3, 4))
add("log_sigmoid", lambda fg, x: fg.nn.functional.logsigmoid(x), f(3, 4))
add("gelu_tanh", lambda fg, x: fg.nn.functional.gelu(x, approximate="tanh"), f(3, 4))
add("elu", lambda fg, x: fg.selu(x), f(3, 4))
add("hardtanh", lambda fg, x: fg.nn.functional.relu6(x * 5), f(3, 4))
add("tanh", lambda fg, x: fg.nn.functional.mish(x) + fg.nn.functional.softsign(x), f(3, 4))
for _dim in (0, 1, -1):
    add("softmax", lambda fg, x, d=_dim: fg.softmax(x, d), f(3, 4))
    add("log_softmax", lambda fg, x, d=_dim: fg.log_softmax(x, d), f(3, 4))
add("softmax", lambda fg, x: fg.softmax(x, 0), f())

# Reductions.

for _name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "all", "any"):
    _options: dict[str, Any] = {"gradients": _name not in ("all", "any")}
    _op = {"std": "var"}.get(_name, _name)
    _whole = {"amax": lambda fg, x: fg.amax(x, ()), "amin": lambda fg, x: fg.amin(x, ())}
    add(_op, _whole.get(_name, lambda fg, x, n=_name: getattr(fg, n)(x)), f(3, 4), **_options)
    add(_op, lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 4), **_options)
    add(_op, lambda fg, x, n=_name: getattr(fg, n)(x, dim=0, keepdim=True), f(3, 4, 2), **_options)
for _name in ("sum", "mean", "var"):
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, dim=(0, 2)), f(3, 4, 2))
add("sum", lambda fg, x: fg.sum(x, 0), f(0, 3))
add("sum", lambda fg, x: fg.sum(x), i(3, 4))
add("sum", lambda fg, x: x.sum(axis=1, keepdims=True), b(3, 4))
add("prod", lambda fg, x: fg.prod(x, 1), np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [1.0, 2.0, 3.0]]))
add("amax", lambda fg, x: fg.amax(x, 1), np.array([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]]), second=False)
add("max", lambda fg, x: fg.max(x), f(3, 4))
add("min", lambda fg, x: x.min(), f(3, 4))
add("argmax", lambda fg, x: fg.argmax(x, 1), f(3, 4), gradients=False)
add("argmax", lambda fg, x: fg.argmax(x), f(3, 4), gradients=False)
add("argmin", lambda fg, x: fg.argmin(x, 0, keepdim=True), f(3, 4), gradients=False)
add("logsumexp", lambda fg, x: fg.logsumexp(x, 1), f(3, 4))
add("logsumexp", lambda fg, x: fg.logsumexp(x, (0, 1), keepdim=True), f(3, 4))
add("norm", lambda fg, x: x.norm(), f(3, 4))
add("norm", lambda fg, x: fg.linalg.norm(x, dim=1), f(3, 4))
add("norm", lambda fg, x: fg.norm(x, p=1) + fg.norm(x, p=3), f(3, 4))
for _name in ("max", "min", "median"):
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 5))
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 0, keepdim=True), f(3, 5))
add("median_dim", lambda fg, x: x.median(), f(3, 5))
add("sort", lambda fg, x: fg.sort(x), f(3, 5))
add("sort", lambda fg, x: fg.sort(x, 0, descending=True), f(3, 5))
add("topk", lambda fg, x: fg.topk(x, 2), f(3, 5))
add("topk", lambda fg, x: x.topk(2, 0, largest=False), f(3, 5))
add("cumsum", lambda fg, x: fg.cumsum(x, 1), f(3, 5))
add("cumsum", lambda fg, x: x.cumsum(0), i(3, 5))

# Shapes.

add("reshape", lambda fg, x: fg.reshape(x, (4, -1)), f(3, 4))
add("reshape", lambda fg, x: x.t().reshape(-1), f(3, 4))
add("reshape", lambda fg, x: x.unsqueeze(1).squeeze().flatten(), f(3, 4))
add("permute", lambda fg, x: fg.permute(x, (2, 0, 1)), f(2, 3, 4))
add("permute", lambda fg, x: x.T + x.transpose(0, 1), f(2, 3))
add("permute", lambda fg, x: fg.movedim(x, 0, -1), f(2, 3, 4))
add("expand", lambda fg, x: x.expand(2, 3, 4), f(3, 1))
add("expand", lambda fg, x: x.repeat(2, 3) + x.tile((2, 3)), f(2, 2))
add("flip", lambda fg, x: fg.flip(x, (0, 1)), f(2, 3))
add("detach", lambda fg, x: x.detach(), f(2, 3), gradients=False)
add("contiguous", lambda fg, x: x.t().contiguous(), f(2, 3))
for _index in (
    0,
    -1,
    (1, 2),
    slice(1, 3),
    (slice(None), 1),
    (..., 0),
    (None, 1),
    (slice(None, None, 2), slice(1, -1)),
):
    add("getitem", lambda fg, x, index=_index: x[index], f(4, 5))
add("getitem", lambda fg, x: fg.stack(fg.chunk(x, 2, 1)) + fg.stack(x.split(2, dim=1)), f(3, 4))
add("getitem", lambda fg, x: fg.stack(x.unbind(1)), f(3, 4))
add("getitem", lambda fg, x: fg.narrow(x, 1, 1, 2), f(3, 4))
add("embed", lambda fg, x: _inner_gradient(fg, x), f(4, 5), gradients=False)
add("cat", lambda fg, x, y: fg.cat([x, y], 1), f(2, 3), f(2, 1))
add("cat", lambda fg, x, y: fg.stack([x, y], -1), f(2, 3), f(2, 3))
add("cat", lambda fg, x: fg.roll(x, 2) + fg.roll(x, (1, -1), (0, 1)), f(3, 4))
add("cat", lambda fg, x, y: fg.cat([x, y]), f(2, 3), i(1, 3))


def _inner_gradient(fg: Any, x: Any) -> Any:
    """The gradient of a basic index, whose rule is the op `embed`."""
    x = x.detach().requires_grad_()
    return fg.autograd.grad((x[1:3, 2] ** 2).sum(), x)[0]


# Products.

for _a, _b in (
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 3)),
    ((2, 3, 4), (4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
):
    add("matmul", lambda fg, x, y: x @ y, f(*_a), f(*_b))
add("matmul", lambda fg, x, y: fg.einsum("bij,bjk->bki", x, y), f(2, 3, 4), f(2, 4, 2))
add("matmul", lambda fg, x, y: fg.einsum("ii,...j->j", x, y), f(3, 3), f(2, 4))
add("matmul", lambda fg, x, y: fg.tensordot(x, y, 2), f(2, 3, 4), f(3, 4, 2))
add("matmul", lambda fg, x, y: fg.outer(x, y), f(3), f(4))
add("addmm", lambda fg, c, x, y: fg.nn.functional.linear(x, y, c), f(2), f(3, 4), f(2, 4))
add("addmm", lambda fg, c, x, y: fg.addmm(c, x, y), f(3, 1), f(3, 4), f(4, 2))

# Indexing.

for _index in ([0, 2], ([0, 1], [1, 3]), (slice(None), [3, 0, 0]), (1, [0, 2]), ([[0, 1], [2, 3]],), (0, slice(None), [1, 0]),
               ([0, 1], slice(None), [1, 0]), (None, [1], ..., None)):  # fmt: skip
    add("take", lambda fg, x, index=_index: x[index], f(4, 5, 3))
add("take", lambda fg, x, index: x[index], f(4, 5), i(2, 3, high=4))
add("take", lambda fg, x: x[x > 0], f(4, 5))
add("take", lambda fg, x, index: x[:, index, None], f(4, 5), b(5))
add("take", lambda fg, x, index: fg.index_select(x, 1, index), f(4, 5), i(3))
add("take", lambda fg, w, index: fg.nn.functional.embedding(index, w), f(5, 3), i(2, 4))
add("flat_index", lambda fg, x, p, q: x[p, q], f(4, 5), i(3, 1, high=4), i(2))
add("put", lambda fg, x, index, s: fg.index_add(x, 0, index, s), f(4, 3), i(5, high=4), f(5, 3))
add("put", lambda fg, x, index, s: fg.index_copy(x, 0, index, s), f(4, 3), np.array([2, 0]), f(2, 3))
add("nonzero", lambda fg, x: fg.nonzero(x > 0), f(3, 4), gradients=False)
add("gather", lambda fg, x, index: fg.gather(x, 1, index), f(3, 4), i(3, 2, high=4))
add("gather", lambda fg, x, index: fg.take_along_dim(x, index, 0), f(3, 4), i(1, 4, high=3))
add("scatter", lambda fg, x, index, s: fg.scatter_add(x, 0, index, s), f(3, 4), i(2, 4, high=3), f(2, 4))
add(
    "scatter",
    lambda fg, x, index, s: fg.scatter(x, 1, index, s),
    f(3, 4),
    np.array([[0, 2], [1, 3], [3, 0]]),
    f(3, 2),
)
add("scatter", lambda fg, x, index: x.scatter(1, index, 1.5), f(3, 4), i(3, 2, high=4))
add("assign", lambda fg, x, y: _written(fg, x, y), f(3, 4), f(4))
add("assign", lambda fg, x: fg.nn.functional.pad(x, (1, 2, 0, 1), value=0.5), f(3, 4))
add("eq", lambda fg, x: fg.nn.functional.one_hot(x, 5), i(3, 2), gradients=False)


def _written(fg: Any, x: Any, y: Any) -> Any:
    """x with a row replaced by an in-place write."""
    z = x * 1
    z[1] = y
    z[:, 2] = 0.5
    return z


# Losses and normalisation.

for _how in ("mean", "sum", "none"):
    for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        add(
            _name,
            lambda fg, x, y, n=_name, how=_how: getattr(fg.nn.functional, n)(x, y, reduction=how),
            f(3, 4),
            f(3, 4),
        )
    add("binary_cross_entropy", lambda fg, x, y, how=_how: fg.nn.functional.binary_cross_entropy(x, y.detach(), reduction=how),
        f(3, 4, low=0.1, high=0.9), f(3, 4, low=0.1, high=0.9))  # fmt: skip
    add("nll_loss", lambda fg, x, t, how=_how: fg.nn.functional.nll_loss(x, t, reduction=how), f(6, 5), i(6))
    add(
        "nll_loss",
        lambda fg, x, t, how=_how: fg.nn.functional.cross_entropy(x, t, ignore_index=2, reduction=how),
        f(6, 5),
        i(6),
    )
    add(
        "nll_loss",
        lambda fg, x, t, how=_how: fg.nn.functional.cross_entropy(x, t, label_smoothing=0.1, reduction=how),
        f(6, 5),
        i(6),
    )
    add("nll_loss_weighted", lambda fg, x, t, w, how=_how: fg.nn.functional.cross_entropy(x, t, w.detach(), reduction=how, ignore_index=1),
        f(6, 5), i(6), f(5, low=0.5))  # fmt: skip
add("nll_loss", lambda fg, x, t: fg.nn.functional.cross_entropy(x, t), f(2, 5, 3), i(2, 3))
add("nll_loss", lambda fg, x, t: fg.nn.functional.cross_entropy(x, t), f(5), i())
add(
    "nll_loss_weighted",
    lambda fg, x, t, w: fg.nn.functional.cross_entropy(x, t, w.detach(), label_smoothing=0.2),
    f(6, 5),
    i(6),
    f(5, low=0.5),
)
add(
    "log_softmax",
    lambda fg, x, t: fg.nn.functional.cross_entropy(x, t.detach()),
    f(3, 4),
    f(3, 4, low=0, high=1),
)
add("layer_norm", lambda fg, x: fg.nn.functional.layer_norm(x, (4,)), f(3, 4))
add(
    "layer_norm_affine",
    lambda fg, x, w, c: fg.nn.functional.layer_norm(x, (2, 4), w, c),
    f(3, 2, 4),
    f(2, 4),
    f(2, 4),
)
add("mean", lambda fg, x, w: fg.nn.functional.rms_norm(x, (4,), w, 1e-5), f(3, 4), f(4))
add(
    "norm",
    lambda fg, x, y: fg.cosine_similarity(x, y) + fg.nn.functional.normalize(x).sum(1),
    f(3, 4),
    f(3, 4),
)

# Creation and random numbers.

add("full", lambda fg: fg.full((2, 3), 1.5) + fg.zeros(3) + fg.ones(2, 1))
add("arange", lambda fg: fg.arange(2, 11, 3))
add("arange", lambda fg: fg.arange(0, 1, 0.25))
add("arange", lambda fg: fg.eye(3, 2))
add("linspace", lambda fg: fg.linspace(0, 1, 7))
add("linspace", lambda fg: fg.logspace(0, 2, 5))
for _name in ("rand", "randn"):
    add(_name, lambda fg, n=_name: getattr(fg, n)(3, 4), random=True)
add("randint", lambda fg: fg.randint(3, 9, (3, 4)), random=True)
add("randperm", lambda fg: fg.randperm(7), random=True)
add("multinomial", lambda fg, x: fg.multinomial(x, 3), f(2, 5, low=0.1), random=True, gradients=False)
