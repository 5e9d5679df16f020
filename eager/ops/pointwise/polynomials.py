"""Orthogonal polynomials of `torch.special`: each is a start and a three-term recursion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core.families import REAL_FLOAT
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.pointwise.declare_pointwise import opaque_binary


def _polynomial(
    name: str,
    first: Callable[[Any], Any],
    following: Callable[[int, Any, Any, Any], Any],
    doc: str,
    shifted: bool = False,
    largest: dict[str, int] | None = None,
) -> Callable[[Any, Any], Tensor]:
    """Declare a family of polynomials: `name(x, n)`, n cut to a whole number; 0 for a negative one.

    first: the polynomial of degree 1 (that of degree 0 is 1).
    following: that of degree k + 1, from k, x and those of degrees k and k - 1.
    largest: degrees (by dtype) beyond which the values are NaN.
    """

    def evaluate(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        dtype = np.result_type(x, n)
        x, degree = np.broadcast_arrays(np.asarray(x, np.float64), np.trunc(n))  # some terms cancel
        z = x + x - 1 if shifted else x
        before, now = np.ones_like(x), first(z)
        result = np.where(degree < 0, 0, np.where(degree < 1, before, now))
        bound = (largest or {}).get(dtype.name)
        highest = int(np.max(degree, initial=0, where=np.isfinite(degree)))
        for k in range(1, highest if bound is None else min(highest, bound)):
            before, now = now, following(k, z, now, before)
            result = np.where(degree == k + 1, now, result)
        if bound is not None:
            result = np.where(degree > bound, np.nan, result)
        return result.astype(dtype)

    return opaque_binary(
        f"special_{name}", evaluate, REAL_FLOAT, None, doc, numbers="xy", source=f"special.{name}"
    )


def _chebyshev(k: int, x: Any, now: Any, before: Any) -> Any:
    return (x + x) * now - before


_CHEBYSHEV_STARTS: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x,
    "u": lambda x: x + x,
    "v": lambda x: x + x - 1,
    "w": lambda x: x + x + 1,
}


def _chebyshev_polynomial(kind: str, shifted: bool = False) -> Callable[[Any, Any], Tensor]:
    prefix, where = ("shifted_", "2x - 1") if shifted else ("", "x")
    doc = f"Chebyshev's polynomial {kind.upper()} of degree n at {where}."
    name = f"{prefix}chebyshev_polynomial_{kind}"
    return _polynomial(name, _CHEBYSHEV_STARTS[kind], _chebyshev, doc, shifted)


chebyshev_polynomial_t = _chebyshev_polynomial("t")
chebyshev_polynomial_u = _chebyshev_polynomial("u")
chebyshev_polynomial_v = _chebyshev_polynomial("v")
chebyshev_polynomial_w = _chebyshev_polynomial("w")
shifted_chebyshev_polynomial_t = _chebyshev_polynomial("t", shifted=True)
shifted_chebyshev_polynomial_u = _chebyshev_polynomial("u", shifted=True)
shifted_chebyshev_polynomial_v = _chebyshev_polynomial("v", shifted=True)
shifted_chebyshev_polynomial_w = _chebyshev_polynomial("w", shifted=True)
_HERMITE_LIMIT = {"float32": 128, "float64": 512}
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h",
    lambda x: x + x,
    lambda k, x, now, before: (x + x) * now - (k + k) * before,
    "The physicists' Hermite polynomial of degree n at x.",
    largest=_HERMITE_LIMIT,
)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he",
    lambda x: x,
    lambda k, x, now, before: x * now - k * before,
    "The probabilists' Hermite polynomial of degree n at x.",
    largest=_HERMITE_LIMIT,
)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l",
    lambda x: 1 - x,
    lambda k, x, now, before: ((k + k + 1 - x) * now - k * before) / (k + 1),
    "The Laguerre polynomial of degree n at x.",
)
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p",
    lambda x: x,
    lambda k, x, now, before: ((k + k + 1) * x * now - k * before) / (k + 1),
    "The Legendre polynomial of degree n at x.",
)
