"""Powers and the length of a vector."""

from __future__ import annotations

import math

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.codegen.mathematics.exponential import exp, times_exp
from fusegrad.compiler.codegen.mathematics.logarithm import log, log_in_two
from fusegrad.compiler.llvm.ir_writer import Val


def pow(m: Math, x: Val, y: Val) -> Val:
    """e^(y log|x|), log and product in two parts, with the sign and the special cases of C's pow."""
    w, size = m.w, m.abs(x)
    short = m.precision == "short"
    logarithm, log_low = (log(m, size), None) if short else log_in_two(m, size)
    product = m.mul(y, logarithm)
    # x^0 and 1^y are 1 whatever the other is, NaN and infinity included.
    one = w.binary("or", m.compare("eq", y, 0.0), m.compare("eq", logarithm, 0.0))
    power = m.select(one, 0.0, product)
    if log_low is None:
        result = exp(m, power)
    else:
        low = m.fma(y, log_low, m.fma(y, logarithm, m.neg(product)))
        result = times_exp(m, m.of(1.0), None, power, m.select(one, 0.0, low))
    half = m.mul(y, 0.5)
    is_whole = w.compare("eq", w.call("llvm.trunc", [y]), y)
    is_odd = w.binary("and", is_whole, w.compare("ne", w.call("llvm.trunc", [half]), half))
    result = m.select(is_odd, m.copysign(result, x), result)
    below = w.binary("and", m.compare("lt", x, 0.0), m.compare("gt", x, -math.inf))
    no_root = w.emit(f"fcmp une {w.call('llvm.trunc', [y])}, {y.text}", "bool", y.lanes)
    # A negative number has no power but a whole one; that of 0 is 1 even for NaN.
    return m.select(w.binary("and", below, no_root), math.nan, result)


def hypot(m: Math, x: Val, y: Val) -> Val:
    """sqrt(x^2 + y^2) without overflow."""
    w = m.w
    a, b = m.abs(x), m.abs(y)
    if m.precision == "short":
        length = m.sqrt(m.fma(a, a, m.mul(b, b)))
    else:
        swap = w.compare("lt", a, b)
        large, small = m.select(swap, b, a), m.select(swap, a, b)
        huge, tiny = m.compare("gt", large, 2.0**500), m.compare("lt", large, 2.0**-500)
        there = m.select(huge, 2.0**-600, m.select(tiny, 2.0**600, 1.0))
        back = m.select(huge, 2.0**600, m.select(tiny, 2.0**-600, 1.0))
        large, small = m.mul(large, there), m.mul(small, there)
        length = m.mul(m.sqrt(m.fma(large, large, m.mul(small, small))), back)
    infinite = w.binary("or", m.compare("eq", a, math.inf), m.compare("eq", b, math.inf))
    return m.select(infinite, math.inf, length)
