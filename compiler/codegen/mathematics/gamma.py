"""log|gamma| and digamma; in double precision only."""

from __future__ import annotations

import math

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.codegen.mathematics.coefficients import DIGAMMA, DIGAMMA_FAR, LGAMMA, STIRLING
from fusegrad.compiler.codegen.mathematics.logarithm import log, log_in_two
from fusegrad.compiler.codegen.mathematics.trigonometry import quarter
from fusegrad.compiler.llvm.ir_writer import Val

# From here on both functions are Stirling's series.
_FAR = 4
# The root of digamma in two parts.
_ROOT = (1.4616321449683622, 9.549995429965697e-17)


def lgamma(m: Math, x: Val) -> Val:
    """A polynomial around 2, the logarithm of what leads there, and Stirling's series from 4 on.

    x = n + u with u from -3/4 to 1/4, and gamma(x) is gamma(2 + u) times (x - 1) (x - 2) ..., or divided
    by x, or by x (x + 1). Negative numbers, whose roots need care, go to the C library lane by lane.
    """
    n, _ = m.nearest(x, 1.0, 0.25)
    u = m.sub(x, n)
    far = m.compare("ge", x, _FAR)
    up, pair, pair_low = _leading_factors(m, x, n)
    argument = m.select(far, x, up)
    if m.precision == "short":
        inverse, logarithm, low = m.div(1.0, x), log(m, argument), m.of(0.0)
    else:
        inverse = m.div(1.0, m.select(far, x, pair))
        logarithm, low = log_in_two(m, argument)
        low = m.fma(m.select(far, 0.0, pair_low), inverse, low)
        low = m.select(m.compare("gt", argument, 0.0), low, 0.0)  # log 0 has no rest
    over = m.compare("lt", n, 2.0)  # the factors are divided by
    near_log, near_low = (m.select(over, m.neg(part), part) for part in (logarithm, low))
    rest = m.fma(u, m.polynomial(m.add(u, 0.25), LGAMMA), near_low)
    near = m.add(near_log, m.fma(u, 0.25, rest))
    result = m.select(far, _stirling(m, x, inverse, logarithm, low), near)
    below = m.compare("lt", x, 0.0)
    return m.rarely("lgamma_below", below, result, [x], _lgamma_below)


def _lgamma_below(m: Math, needed: Val, x: Val) -> Val:
    return m.from_library("lgamma", x, needed)


def _leading_factors(m: Math, x: Val, n: Val) -> tuple[Val, Val, Val]:
    """gamma(x) / gamma(2 + u), for n of 0 and 1 its inverse; and x (x + 1) in two parts for n of 0, else 1.

    Where x is so small that one could not divide by it, too, as then nothing is lost.
    """
    product = m.of(1.0)
    for step in range(1, _FAR - 1):
        needed = m.compare("ge", n, step + 2.0)
        product = m.select(needed, m.mul(product, m.sub(x, float(step))), product)
    following, following_low = m.fast_two_sum(1.0, x)
    pair, pair_low = m.two_product(x, following)
    pair_low = m.fma(x, following_low, pair_low)
    zero = m.compare("eq", n, 0.0)
    up = m.select(zero, pair, m.select(m.compare("eq", n, 1.0), x, product))
    known = m.w.binary("and", zero, m.compare("gt", x, 2.0**-200))
    return up, m.select(known, pair, 1.0), m.select(known, pair_low, 0.0)


def _stirling(m: Math, x: Val, inverse: Val, logarithm: Val, low: Val) -> Val:
    """(x - 1/2) (log x - 1) - 1/2 + log(2 pi) / 2 + a polynomial in 1 / x^2, over x."""
    tail = m.mul(inverse, m.polynomial(m.mul(inverse, inverse), STIRLING))
    rest = m.add(tail, 0.5 * math.log(2 * math.pi) - 0.5)
    less, half = m.sub(logarithm, 1.0), m.sub(x, 0.5)
    if m.precision == "short":
        return m.fma(half, less, rest)
    less_low = m.add(low, m.sub(m.sub(logarithm, less), 1.0))
    product, product_low = m.two_product(half, less)
    total = m.add(product, m.add(m.fma(half, less_low, product_low), rest))
    return m.select(m.compare("gt", x, 1e305), product, total)  # what is infinite has no rest


def digamma(m: Math, x: Val) -> Val:
    """A polynomial from 1 to 2, the steps that lead there, and Stirling's series from 4 on.

    For x < 0 by reflection: digamma(1 - x) - pi / tan(pi x).
    """
    below = m.compare("lt", x, 0.0)
    t = m.select(below, m.sub(1.0, x), x)
    n = m.at_least(m.nearest(m.at_most(t, 10.0), 1.0, -1.5)[0], -1.0)
    far = m.compare("ge", t, float(_FAR))
    above, divisor, divisor_low = _inverse_steps(m, t, n)
    inverse = m.div(1.0, m.select(far, t, divisor))
    steps = m.mul(above, inverse)
    y = m.sub(t, n)
    high, low = _ROOT
    distance = m.sub(y, high)
    factor = m.polynomial(m.sub(y, 1.5), DIGAMMA)
    if m.precision == "short":
        near = m.add(steps, m.fma(distance, factor, distance))
    else:
        around, around_low = m.fast_two_sum(distance, m.fma(m.sub(distance, low), factor, -low))
        missing = m.nfma(steps, divisor_low, m.nfma(steps, divisor, above))
        total, lost = m.two_sum(steps, around)
        near = m.add(total, m.add(m.fma(missing, inverse, around_low), lost))
    # At 0, and where 1 / x is nearly infinite, nothing else counts.
    near = m.select(m.compare("lt", t, 2.0**-900), steps, near)
    square = m.mul(inverse, inverse)
    tail = m.fma(square, m.polynomial(square, DIGAMMA_FAR), m.mul(inverse, 0.5))
    result = m.select(far, m.sub(log(m, t), tail), near)
    return m.rarely("digamma_below", below, result, [result, x], _reflected)


def _reflected(m: Math, _: Val, other: Val, x: Val) -> Val:
    return m.sub(other, _pi_cotangent(m, x))


def _inverse_steps(m: Math, t: Val, n: Val) -> tuple[Val, Val, Val]:
    """-1 / t for n = -1, 0 for 0, 1 / (t - 1) for 1, 1 / (t - 1) + 1 / (t - 2) for 2.

    Above and below the line; what is below in two parts.
    """
    down = m.sub(t, 1.0)
    both, both_low = m.two_product(down, m.sub(t, 2.0))
    two, first = m.compare("ge", n, 2.0), m.compare("lt", n, 0.0)
    above = m.select(first, -1.0, m.select(two, m.fma(t, 2.0, -3.0), n))
    below = m.select(first, t, m.select(two, both, m.select(m.compare("eq", n, 0.0), 1.0, down)))
    return above, below, m.select(two, both_low, 0.0)


def _pi_cotangent(m: Math, x: Val) -> Val:
    """pi / tan(pi x); NaN for whole numbers, where digamma has no value."""
    f = m.sub(x, m.w.call("llvm.roundeven", [x]))
    size = m.abs(f)
    steep = m.compare("le", size, 0.25)
    (s, s_low), (c, c_low) = quarter(m, m.mul(m.select(steep, size, m.sub(0.5, size)), math.pi))
    sine, cosine = m.add(s, s_low), m.add(c, c_low)
    ratio = m.div(m.select(steep, cosine, sine), m.select(steep, sine, cosine))
    value = m.copysign(m.mul(ratio, math.pi), f)
    return m.select(m.compare("eq", f, 0.0), math.nan, value)
