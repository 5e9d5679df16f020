"""The logarithm of gamma numbers, and its gradient to their concentration.

A draw is the quantile of one uniform number. It moves with its concentration as its quantile does; with the
distribution function P(a, x) and the density p, dx/da = -(dP/da) / p at x (the implicit gradient: Figurnov,
Mohamed, Mnih, 2018). Logarithms, since numbers of small concentrations are below any float: the shares of
several, as Beta and Dirichlet need them, are found from their logarithms.
"""

from __future__ import annotations

import numpy as np

from fusegrad.eager.core.families import REAL_FLOAT, Opaque
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.pointwise.declare_pointwise import opaque_binary, unknown

# Above this concentration the gradient is a difference of quantiles, below it a series or an integral.
_LARGE = 20.0
# The series ends, and the integral begins, here or at the concentration, if that is larger.
_FAR = 3.0
_STEP = 0.02  # of the difference, as a part of the concentration


def _log_draw(concentration: np.ndarray, share: np.ndarray) -> np.ndarray:
    # The middle of one of 2**53 equal parts: neither 0 nor 1.
    return _log_quantile(concentration.astype(np.float64), share + 2.0**-54).astype(concentration.dtype)


def _log_quantile(a: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The logarithm of the number up to which the probability is `share`."""
    from scipy import special  # here, since it is slow to import and few programs draw these

    # Near 0, P(a, x) is x**a / gamma(a + 1).
    near = (np.log(share) + special.gammaln(a + 1)) / a
    x = special.gammaincinv(a, share)
    return np.where(near < -30.0, near, np.log(np.maximum(x, 1e-300)))


def _gradient(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """The derivative of the logarithm of a draw to its concentration."""
    dtype = np.result_type(a, log_x)
    a, log_x = np.broadcast_arrays(a.astype(np.float64), log_x.astype(np.float64))
    found = np.empty(a.shape)
    large = a > _LARGE
    far = ~large & (log_x > np.log(np.maximum(a, _FAR)))
    for which, derivative in ((large, _by_difference), (far, _by_integral), (~large & ~far, _by_series)):
        if which.any():
            found[which] = derivative(a[which], log_x[which])
    return found.astype(dtype)


def _by_series(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """Of small draws: with P / p = x sum x**k / (a)_(k+1), and the derivative of each term."""
    from scipy import special

    x = np.exp(log_x)
    term, slope = 1 / a, 1 / a
    total, slopes = term.copy(), term * slope
    for k in range(1, 60):
        term = term * x / (a + k)
        slope = slope + 1 / (a + k)
        total += term
        slopes += term * slope
    return (special.digamma(a) - log_x) * total + slopes


def _by_integral(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """Of large draws: the integral of (log t - digamma(a)) p(t) / p(x) over all t above x."""
    from scipy import special

    places, weights = np.polynomial.laguerre.laggauss(60)
    x = np.exp(log_x)[:, None]
    ratio = np.log1p(places / x)
    heights = (log_x[:, None] + ratio - special.digamma(a)[:, None]) * np.exp((a[:, None] - 1) * ratio)
    return (heights @ weights) / x[:, 0]


def _by_difference(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """Of large concentrations: the quantile's own difference, of fourth order, from the nearer end."""
    from scipy import special

    x = np.exp(log_x)
    below, above = special.gammainc(a, x), special.gammaincc(a, x)
    lower = below < above
    step = a * _STEP
    total = np.zeros(a.shape)
    for times, weight in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
        moved = a + times * step
        quantile = np.where(lower, special.gammaincinv(moved, below), special.gammainccinv(moved, above))
        total += weight * quantile
    return total / (12 * step) / x


_log_gamma_gradient = opaque_binary(
    "log_gamma_draw_gradient",
    _gradient,
    REAL_FLOAT,
    (unknown("log_gamma_draw_gradient"), unknown("log_gamma_draw_gradient")),
    "The derivative of the logarithm of a gamma number to its concentration.",
)


_log_gamma = Opaque(
    "log_gamma_draw",
    "x share",
    _log_draw,
    lambda types: types[0],
    {"x": lambda g, x, out: g * _log_gamma_gradient(x, out), "share": None},
)


def log_gamma_draw(concentration: Tensor, share: Tensor) -> Tensor:
    """The logarithms of gamma numbers of rate 1, of which uniform numbers say which."""
    return bind(_log_gamma, (concentration, share))
