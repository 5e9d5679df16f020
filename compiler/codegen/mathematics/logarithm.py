"""Logarithms: x = 2^k (1 + f) with 1 + f from 3/4 to 3/2, and log(1 + f) by a polynomial."""

from __future__ import annotations

import math

from fusegrad.compiler.codegen.mathematics.arithmetic import Math, Pair
from fusegrad.compiler.codegen.mathematics.coefficients import LOG, LOG_RATIO, LOG_RATIO_TAIL
from fusegrad.compiler.codegen.mathematics.exponential import LN2
from fusegrad.compiler.llvm.ir_writer import Val

# log10(2) in two parts, as LN2; both positive, for k is infinite at 0 and at infinity.
_LOG10_2 = {
    "f32": (0.301025390625, 4.605039066518657e-06),
    "f64": (0.3010299955494702, 1.1451100898021838e-10),
}


def _split(m: Math, x: Val) -> Pair:
    """x = 2^k (1 + f) with f from -1/4 to 1/2: f, and k as a float; for normal x > 0."""
    w = m.w
    if m.full_of_avx512:
        return _split_by_instruction(m, x)
    low = m.whole(0x3FE8 << 48 if m.wide else 0x3F40 << 16)  # 3/4
    moved = w.binary("sub", m.bits(x), low)
    number = w.binary("ashr", moved, m.whole(m.digits))
    fraction = w.binary("and", moved, m.whole((1 << m.digits) - 1))
    return m.sub(m.from_bits(w.binary("add", fraction, low)), 1.0), w.convert(number, m.dtype)


def _split_by_instruction(m: Math, x: Val) -> Pair:
    """The same for any x: f is NaN below 0, and k infinite at 0 and at infinity."""
    mantissa = m.instruction("getmant", [x], "i32 15")  # in [3/4, 3/2), NaN for negative numbers
    exponent = m.instruction("getexp", [x])
    # Mantissas from 3/2 to 2 are halved, so that the exponent is one more.
    k = m.select(m.compare("lt", mantissa, 1.0), m.add(exponent, 1.0), exponent)
    return m.sub(mantissa, 1.0), k


def _split_any(m: Math, x: Val) -> Pair:
    """`_split` for denormal x, too."""
    if m.precision == "short" or m.full_of_avx512:
        return _split(m, x)
    tiny = m.compare("lt", x, 2.0**-1022 if m.wide else 2.0**-126)
    steps = m.digits + 2
    f, k = _split(m, m.select(tiny, m.mul(x, 2.0**steps), x))
    return f, m.sub(k, m.select(tiny, float(steps), 0.0))


def _beyond_f(m: Math, f: Val) -> Val:
    """log(1 + f) - f."""
    if m.dtype == "f32":
        return m.mul(m.mul(f, f), m.fma(f, m.polynomial(f, LOG), -0.5))
    # log(1 + f) = log((1 + s) / (1 - s)) = 2 s + R s, and 2 s is f - s f = f - f^2 / 2 + s f^2 / 2.
    s = m.div(f, m.add(f, 2.0))
    z = m.mul(s, s)
    half_square = m.mul(m.mul(f, f), 0.5)
    return m.fma(s, m.fma(z, m.polynomial(z, LOG_RATIO), half_square), m.neg(half_square))


def _log_of_product(m: Math, f: Val, k: Val, correction: Val | None = None) -> Val:
    """k ln2 + log(1 + f) + correction."""
    high, low = LN2[m.dtype]
    rest = _beyond_f(m, f)
    if correction is not None:
        rest = m.add(rest, correction)
    return m.fma(k, high, m.add(f, m.fma(k, low, rest)))


def _with_ends(m: Math, x: Val, result: Val, at_zero: Val | None = None) -> Val:
    """The values of a logarithm outside its range: inf at inf, -inf at 0, NaN below and for NaN."""
    at_zero = x if at_zero is None else at_zero
    result = m.select(m.compare("eq", x, math.inf), x, result)
    result = m.select(m.compare("eq", at_zero, 0.0), -math.inf, result)
    return m.select(m.compare("ge", at_zero, 0.0), result, math.nan)


def _right_at_ends(m: Math, x: Val, result: Val) -> Val:
    """`_with_ends`, where the instructions of `_split_by_instruction` have not seen to it."""
    return result if m.full_of_avx512 else _with_ends(m, x, result)


def log(m: Math, x: Val) -> Val:
    """The natural logarithm."""
    return _right_at_ends(m, x, _log_of_product(m, *_split_any(m, x)))


def log2(m: Math, x: Val) -> Val:
    """The logarithm to base 2; exact for powers of 2."""
    f, k = _split_any(m, x)
    factor = math.log2(math.e)
    tail = m.fma(_beyond_f(m, f), factor, m.mul(f, factor - 1))
    return _right_at_ends(m, x, m.add(m.add(k, f), tail))


def log10(m: Math, x: Val) -> Val:
    """The logarithm to base 10."""
    f, k = _split_any(m, x)
    factor = math.log10(math.e)
    high, low = _LOG10_2[m.dtype]
    tail = m.fma(k, low, m.mul(_beyond_f(m, f), factor))
    return _right_at_ends(m, x, m.fma(k, high, m.fma(f, factor, tail)))


def log1p(m: Math, x: Val) -> Val:
    """log(1 + x); what 1 + x loses in rounding is put back as a correction."""
    u = m.add(x, 1.0)
    # (x - (u - 1)) / u, taken where |x| < 1 and as 1 - (u - x) where x is larger.
    big = m.compare("gt", x, 1.0)
    lost = m.select(big, m.sub(1.0, m.sub(u, x)), m.sub(x, m.sub(u, 1.0)))
    result = _with_ends(m, x, _log_of_product(m, *_split(m, u), m.div(lost, u)), u)
    # Below the rounding step of 1 + x the argument is the answer (and keeps the sign of 0).
    small = m.compare("lt", m.abs(x), 2.0**-54 if m.wide else 2.0**-25)
    return m.select(small, x, result)


def log_in_two(m: Math, x: Val) -> Pair:
    """log(x) for x >= 0 in two parts that hold about 66 bits; at 0, inf and NaN the first alone is right."""
    f, k = _split_any(m, x)
    high, low = _log1p_in_two(m, f)
    ln2_high, ln2_low = LN2["f64"]
    total, lost = m.fast_two_sum(m.mul(k, ln2_high), high)
    total, low = m.fast_two_sum(total, m.add(m.fma(k, ln2_low, low), lost))
    return _with_ends(m, x, total), low


def _log1p_in_two(m: Math, f: Val) -> Pair:
    """log(1 + f) = 2 s + s z (2/3 + z * tail(z)) with s = f / (2 + f), z = s^2, each in two parts."""
    total = m.add(f, 2.0)
    total_low = m.sub(f, m.sub(total, 2.0))
    inverse = m.div(1.0, total)
    s = m.mul(f, inverse)
    s_low = m.mul(m.sub(m.nfma(s, total, f), m.mul(s, total_low)), inverse)
    z, z_low = m.two_product(s, s)
    z_low = m.fma(m.add(s, s), s_low, z_low)
    third = m.of(2 / 3)
    factor, factor_low = m.fast_two_sum(third, m.mul(z, m.polynomial(z, LOG_RATIO_TAIL)))
    factor_low = m.add(factor_low, 3.700743415417188e-17)  # 2/3 beyond its double
    p, p_low = m.two_product(z, factor)
    p_low = m.add(p_low, m.fma(z, factor_low, m.mul(z_low, factor)))
    t, t_low = m.two_product(s, p)
    t_low = m.add(t_low, m.fma(s, p_low, m.mul(s_low, p)))
    high, low = m.fast_two_sum(m.add(s, s), t)
    return high, m.add(low, m.add(m.add(s_low, s_low), t_low))
