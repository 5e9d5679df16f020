"""Inverse sine, cosine and tangent."""

from __future__ import annotations

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.codegen.mathematics.coefficients import ASIN, ATAN
from fusegrad.compiler.llvm.ir_writer import Val

# pi / 2 in two parts.
_HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08),
    "f64": (1.5707963267948966, 6.123233995736766e-17),
}


def _asin_parts(m: Math, size: Val) -> tuple[Val, Val, Val]:
    """Whether size > 1/2; s, and asin(s) - s, for s = size, or sqrt((1 - size) / 2) if so.

    asin(size) = pi/2 - 2 asin(sqrt((1 - size) / 2)).
    """
    big = m.compare("gt", size, 0.5)
    z = m.select(big, m.nfma(size, 0.5, 0.5), m.mul(size, size))
    s = m.select(big, m.sqrt(z), size)
    return big, s, m.mul(m.mul(s, z), m.polynomial(z, ASIN))


def asin(m: Math, x: Val) -> Val:
    big, s, rest = _asin_parts(m, m.abs(x))
    high, low = _HALF_PI[m.dtype]
    less, lost = m.fast_two_sum(high, m.mul(s, -2.0))
    far = m.add(less, m.add(m.fma(rest, -2.0, low), lost))
    return m.copysign(m.select(big, far, m.add(s, rest)), x)


def acos(m: Math, x: Val) -> Val:
    """pi/2 - asin(x) near 0; twice the other asin near 1, and what is missing to pi near -1."""
    big, s, rest = _asin_parts(m, m.abs(x))
    high, low = _HALF_PI[m.dtype]
    below = m.compare("lt", x, 0.0)
    signed, signed_rest = m.copysign(s, x), m.select(below, m.neg(rest), rest)
    near = m.sub(high, m.sub(signed, m.sub(low, signed_rest)))
    twice = m.mul(m.add(s, rest), 2.0)
    opposite = m.sub(m.fma(s, -2.0, 2 * high), m.fma(rest, 2.0, -2 * low))
    return m.select(big, m.select(below, opposite, twice), near)


def _atan_of_quotient(m: Math, above: Val, below: Val) -> tuple[Val, Val]:
    """atan(above / below) for 0 <= above <= below, as the sum of two numbers.

    Beyond tan(pi/8) as pi/4 + atan((above - below) / (above + below)).
    """
    beyond = m.compare("gt", above, m.mul(below, 0.41421356237309503))
    total = m.add(above, below)
    total_low = m.sub(above, m.sub(total, below))
    n, d = m.select(beyond, m.sub(above, below), above), m.select(beyond, total, below)
    # The quotient in two parts, with what the sum lost.
    inverse = m.div(1.0, d)
    t = m.mul(n, inverse)
    rest = m.nfma(t, m.select(beyond, total_low, 0.0), m.nfma(t, d, n))
    low = m.mul(rest, inverse)
    z = m.mul(t, t)
    low = m.fma(m.mul(t, z), m.polynomial(z, ATAN), low)
    quarter, quarter_low = (part / 2 for part in _HALF_PI[m.dtype])
    high, lost = m.fast_two_sum(m.select(beyond, quarter, 0.0), t)
    return high, m.add(m.add(low, lost), m.select(beyond, quarter_low, 0.0))


def atan(m: Math, x: Val) -> Val:
    """atan(|x|), or pi/2 - atan(1 / |x|) beyond 1, with the sign of x."""
    size = m.abs(x)
    large = m.compare("gt", size, 1.0)
    # Beyond this bound the answer is pi/2, and 1 / |x| may lose digits.
    bounded = m.at_most(size, 2.0**100)
    high, low = _atan_of_quotient(m, m.select(large, 1.0, size), m.select(large, bounded, 1.0))
    right, right_low = _HALF_PI[m.dtype]
    far = m.sub(right, m.sub(high, m.sub(right_low, low)))
    return m.copysign(m.select(large, far, m.add(high, low)), x)


def atan2(m: Math, y: Val, x: Val) -> Val:
    """The angle of the point (x, y): atan(|y| / |x|) in the right quadrant."""
    w = m.w
    a, b = m.abs(y), m.abs(x)
    swap = m.compare("gt", a, b)
    small, large = m.select(swap, b, a), m.select(swap, a, b)
    small, large = _in_range(m, small, large)
    high, low = _atan_of_quotient(m, small, large)
    right, right_low = _HALF_PI[m.dtype]
    # The angle to the nearer axis is added to, or taken from, that axis's own angle.
    left = w.compare("ne", m.bits(m.copysign(1.0, x)), m.bits(m.of(1.0)))
    base = m.select(swap, right, m.select(left, 2 * right, 0.0))
    base_low = m.select(swap, right_low, m.select(left, 2 * right_low, 0.0))
    minus = w.binary("xor", swap, left)
    high, low = m.select(minus, m.neg(high), high), m.select(minus, m.neg(low), low)
    total, lost = m.fast_two_sum(base, high)
    angle = m.copysign(m.add(total, m.add(m.add(low, base_low), lost)), y)
    unordered = w.emit(f"fcmp uno {x}, {y.text}", "bool", x.lanes)
    return m.select(unordered, m.add(x, y), angle)


def _in_range(m: Math, small: Val, large: Val) -> tuple[Val, Val]:
    """Both times a power of 2, so that 1 / large is normal; 0 and 1 for two zeros, 1 and 1 for infinities.

    What the smaller one may lose by it is nothing beside the larger.
    """
    w = m.w
    high, low, up = (2.0**1000, 2.0**-900, 2.0**120) if m.wide else (2.0**120, 2.0**-90, 2.0**40)
    zero = m.compare("eq", large, 0.0)
    infinite = m.compare("eq", large, float("inf"))
    both = w.binary("and", infinite, m.compare("eq", small, large))
    factor = m.select(m.compare("gt", large, high), 2.0**-4, m.select(m.compare("lt", large, low), up, 1.0))
    small, large = m.mul(small, factor), m.mul(large, factor)
    small = m.select(both, 1.0, m.select(infinite, 0.0, small))
    return small, m.select(w.binary("or", zero, infinite), 1.0, large)
