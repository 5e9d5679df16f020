"""Special functions of mathematics, as SciPy computes them: most are called so by compiled code, too.

The gamma function's family, the normal distribution's, Bessel functions. PyTorch knows no
derivative of some; neither do these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import ONLY_REAL_FLOAT, REAL_FLOAT, Pointwise
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.pointwise.declare_pointwise import (
    Unary,
    from_scipy,
    opaque_binary,
    opaque_unary,
    tensor_operand,
    unary,
    unknown,
)

# The gamma function.


def _digamma_numpy(x: np.ndarray) -> np.ndarray:
    """SciPy's, with an infinity at 0 whose sign is 0's, and no value at the other poles."""
    value = from_scipy("psi")(x)
    return np.where(x == 0, np.copysign(x.dtype.type(math.inf), -x), value)


def _lgamma_numpy(x: np.ndarray) -> np.ndarray:
    """SciPy's, but right next to 0, and infinite at minus infinity."""
    size = np.abs(x)
    value = np.where(size < np.finfo(x.dtype).tiny, -np.log(size), from_scipy("gammaln")(x))
    return np.where(np.isinf(x), size, value)


lgamma = unary("lgamma", _lgamma_numpy, REAL_FLOAT, "lgamma", lambda g, x: g * digamma(x), "log(|gamma(x)|).")
digamma: Unary = unary(
    "digamma",
    _digamma_numpy,
    REAL_FLOAT,
    "digamma",
    lambda g, x: g * ops.polygamma(1, x),
    "The derivative of lgamma.",
)


def _polygamma_numpy(x: np.ndarray, n: int) -> np.ndarray:
    """As PyTorch: from zeta, for any x."""
    from scipy import special

    scale = (-1.0) ** (n + 1) * special.gamma(n + 1.0)
    return (scale * special.zeta(n + 1.0, x)).astype(x.dtype, copy=False)


_polygamma = Pointwise(
    "polygamma",
    "x",
    _polygamma_numpy,
    REAL_FLOAT,
    {"x": lambda g, x, n: g * ops.polygamma(n + 1, x)},
)


@public
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order `n` of digamma. Source: `torch.polygamma`.

    Raises RuntimeError for a negative order.
    """
    n = size_of(n)
    if n < 0:
        raise failure(RuntimeError, f"polygamma(n, x) does not support negative n, got {n}")
    return bind(_polygamma, (tensor_operand(input),), {"n": n}) if n else digamma(input)


@public(method=True, inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension `p`. Source: `torch.mvlgamma`.

    Raises RuntimeError unless p >= 1.
    """
    if p < 1:
        raise failure(RuntimeError, f"p has to be greater than or equal to 1, got {p}")
    if tensor_operand(input).array.dtype.kind in "bc":
        raise failure(RuntimeError, f"not implemented for {input.array.dtype.name}")
    floating = input if input.array.dtype.kind in "fV" else input.float()
    steps = ops.arange(p, dtype=floating.dtype) * -0.5
    terms = lgamma(ops.unsqueeze(floating, -1) + steps)
    return terms.sum(-1) + 0.25 * p * (p - 1) * math.log(math.pi)


def _density(a: Any, x: Tensor) -> Tensor:
    """The gamma distribution's density: what igamma(a, x) grows by."""
    return ops.exp((a - 1) * ops.log(x) - x - lgamma(a))


igamma = opaque_binary(
    "igamma",
    from_scipy("gammainc"),
    ONLY_REAL_FLOAT,
    (unknown("igamma: input"), lambda g, x, y: g * _density(x, y)),
    "The lower incomplete gamma function, as a share of gamma(x).",
)
igammac = opaque_binary(
    "igammac",
    from_scipy("gammaincc"),
    ONLY_REAL_FLOAT,
    (unknown("igammac: input"), lambda g, x, y: -g * _density(x, y)),
    "The upper incomplete gamma function, as a share of gamma(x).",
)
zeta: Callable[[Any, Any], Tensor] = opaque_binary(
    "special_zeta",
    from_scipy("zeta"),
    REAL_FLOAT,
    (unknown("zeta"), lambda g, x, y: g * -x * zeta(x + 1, y)),
    "Hurwitz' zeta function: the sum of (k + y) ** -x for k = 0, 1, ...",
    numbers="xy",
    source="special.zeta",
)

# The normal distribution.

ndtr = opaque_unary(
    "special_ndtr",
    from_scipy("ndtr"),
    REAL_FLOAT,
    lambda g, x: g * (ops.exp(x * x * -0.5) / math.sqrt(2 * math.pi)),
    "The normal distribution function.",
    "special.ndtr",
)
ndtri = opaque_unary(
    "special_ndtri",
    from_scipy("ndtri"),
    REAL_FLOAT,
    lambda g, out: g * (ops.exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
    "The inverse of ndtr.",
    "special.ndtri",
)
log_ndtr = opaque_unary(
    "special_log_ndtr",
    from_scipy("log_ndtr"),
    REAL_FLOAT,
    lambda g, x: g / erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    "log(ndtr(x)), exact for small x.",
    "special.log_ndtr",
)
erfcx: Unary = opaque_unary(
    "special_erfcx",
    from_scipy("erfcx"),
    REAL_FLOAT,
    lambda g, x, out: g * (x * out * 2 - 2 / math.sqrt(math.pi)),
    "exp(x ** 2) * erfc(x) without overflow.",
    "special.erfcx",
)
entr = opaque_unary(
    "special_entr",
    from_scipy("entr"),
    REAL_FLOAT,
    lambda g, x: g * (-ops.log(x) - 1),
    "-x * log(x), -inf below 0.",
    "special.entr",
)

# Bessel functions.

i0 = opaque_unary("i0", from_scipy("i0"), REAL_FLOAT, lambda g, x: g * i1(x), "The Bessel function I0.")
i0e = opaque_unary(
    "special_i0e",
    from_scipy("i0e"),
    REAL_FLOAT,
    lambda g, x, out: g * (i1e(x) - ops.sign(x) * out),
    "i0(x) * exp(-|x|).",
    "special.i0e",
)
i1: Unary = opaque_unary(
    "special_i1",
    from_scipy("i1"),
    REAL_FLOAT,
    lambda g, x, out: g * ops.where(_next_to_zero(x), 0.5, i0(x) - out / _away_from_zero(x)),
    "The Bessel function I1.",
    "special.i1",
)
i1e: Unary = opaque_unary(
    "special_i1e",
    from_scipy("i1e"),
    REAL_FLOAT,
    lambda g, x, out: (
        g * ops.where(_next_to_zero(x), 0.5, i0e(x) - out * (ops.sign(x) + 1 / _away_from_zero(x)))
    ),
    "i1(x) * exp(-|x|).",
    "special.i1e",
)


def _next_to_zero(x: Tensor) -> Tensor:
    return ops.le(ops.abs(x), dtypes.finfo(x.dtype).eps)


def _away_from_zero(x: Tensor) -> Tensor:
    """`x` with 1 for zeros, so that what is not chosen there has a derivative too."""
    return ops.where(_next_to_zero(x), 1.0, x)


def _underived(name: str, numpy: Any, doc: str) -> Any:
    """A function of `torch.special` that PyTorch does not differentiate."""
    return opaque_unary(f"special_{name}", numpy, REAL_FLOAT, None, doc, f"special.{name}")


def _spherical_j0(x: np.ndarray) -> np.ndarray:
    """sin(x) / x, 1 at 0 and 0 far out."""
    value = np.where(x == 0, x.dtype.type(1), np.sin(x) / x)
    return np.where(np.isinf(x), x.dtype.type(0), value)


def _airy(x: np.ndarray) -> np.ndarray:
    from scipy import special

    value = special.airy(x)[0].astype(x.dtype, copy=False)
    return np.where(x > 200, x.dtype.type(0), value)  # SciPy gives no value far out


bessel_j0 = _underived("bessel_j0", from_scipy("j0"), "The Bessel function J0.")
bessel_j1 = _underived("bessel_j1", from_scipy("j1"), "The Bessel function J1.")
bessel_y0 = _underived("bessel_y0", from_scipy("y0"), "The Bessel function Y0.")
bessel_y1 = _underived("bessel_y1", from_scipy("y1"), "The Bessel function Y1.")
modified_bessel_i0 = _underived("modified_bessel_i0", from_scipy("i0"), "The Bessel function I0.")
modified_bessel_i1 = _underived("modified_bessel_i1", from_scipy("i1"), "The Bessel function I1.")
modified_bessel_k0 = _underived("modified_bessel_k0", from_scipy("k0"), "The Bessel function K0.")
modified_bessel_k1 = _underived("modified_bessel_k1", from_scipy("k1"), "The Bessel function K1.")
scaled_modified_bessel_k0 = _underived("scaled_modified_bessel_k0", from_scipy("k0e"), "K0(x) * exp(x).")
scaled_modified_bessel_k1 = _underived("scaled_modified_bessel_k1", from_scipy("k1e"), "K1(x) * exp(x).")
spherical_bessel_j0 = _underived("spherical_bessel_j0", _spherical_j0, "sin(x) / x.")
airy_ai = _underived("airy_ai", _airy, "The Airy function Ai.")

for _function in (i0, igamma, igammac):
    public(method=True, inplace=True)(_function)
method(inplace=True)(renamed(lambda self, n: polygamma(n, self), "polygamma"))
