"""The error function, its complement, and its inverse."""

from __future__ import annotations

import math

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.codegen.mathematics.coefficients import (
    ERF,
    ERF_FAR,
    ERF_PIECES,
    ERFCX,
    ERFINV,
    ERFINV_FAR,
)
from fusegrad.compiler.codegen.mathematics.exponential import exp, times_exp
from fusegrad.compiler.codegen.mathematics.logarithm import log
from fusegrad.compiler.llvm.ir_writer import Val


def erf(m: Math, x: Val) -> Val:
    """x (1 + polynomial in x^2) up to 1, then 1 - exp(-x^2) times a polynomial in |x|.

    The exponential is written as in the derivative, so that a kernel with both computes it once. AVX-512
    picks the coefficients of as many pieces as make that superfluous.
    """
    size = m.abs(x)
    if m.avx512:
        return m.copysign(m.piecewise(m.at_most(size, ERF_PIECES[m.precision][0][-1]), ERF_PIECES), x)
    near = m.fma(x, m.polynomial(m.mul(x, x), ERF), x)
    bell = exp(m, m.mul(m.neg(x), x), below_zero=True)
    far = m.nfma(bell, m.polynomial(m.at_most(size, 6.0), ERF_FAR), 1.0)
    return m.copysign(m.select(m.compare("lt", size, 1.0), near, far), x)


def erfc(m: Math, x: Val) -> Val:
    """1 - erf(x) up to 0.84; then e^(-x^2) times a polynomial in (x - 2) / (x + 2), over x + 2."""
    size = m.abs(x)
    one, lost = m.fast_two_sum(1.0, m.neg(x))
    near = m.add(one, m.nfma(x, m.polynomial(m.mul(x, x), ERF), lost))
    tail = _erfc_far(m, m.at_most(size, 28.0))
    far = m.select(m.compare("lt", x, 0.0), m.sub(2.0, tail), tail)
    return m.select(m.compare("lt", size, 0.84), near, far)


def _erfc_far(m: Math, x: Val) -> Val:
    below = m.add(x, 2.0)
    inverse = m.div(1.0, below)
    beyond = m.polynomial(m.fma(m.sub(x, 2.0), inverse, -0.25), ERFCX)
    ratio = m.mul(m.add(beyond, 0.75), inverse)
    square = m.mul(x, x)
    if m.precision == "short":
        return m.mul(exp(m, m.neg(square)), ratio)
    # (3/4 + beyond) / (x + 2) is ratio and what it misses; and the square, too, in two parts.
    below_low = m.sub(x, m.sub(below, 2.0))
    missing = m.nfma(ratio, below_low, m.add(m.nfma(ratio, below, 0.75), beyond))
    square_low = m.fma(x, x, m.neg(square))
    return times_exp(m, ratio, m.mul(missing, inverse), m.neg(square), m.neg(square_low))


def erfinv(m: Math, x: Val) -> Val:
    """x times a function of w = -log(1 - x^2): near 1, where few are, sqrt(w) and what is missing to it."""
    w = m.neg(log(m, m.nfma(x, x, 1.0)))
    # Most of erfinv(x) / x, and the rest, whose rounding then matters little.
    large = m.compare("gt", w, 2.0)
    most = m.select(large, 1.5, 0.875)
    at_zero = m.select(large, -0.613773074547242, 0.011226925452758014)  # sqrt(pi) / 2 - most
    near = m.fma(x, most, m.mul(x, m.polynomial(w, ERFINV, add=at_zero, apart=True)))
    result = m.rarely("erfinv_far", m.compare("gt", w, 5.0), near, [x, w], _erfinv_far)
    return m.select(m.compare("eq", w, math.inf), m.copysign(math.inf, x), result)


def _erfinv_far(m: Math, _: Val, x: Val, w: Val) -> Val:
    root = m.sqrt(w)
    return m.fma(x, root, m.mul(x, m.polynomial(m.sub(root, 4.0), ERFINV_FAR)))
