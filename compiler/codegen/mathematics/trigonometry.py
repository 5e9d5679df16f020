"""Sine, cosine and tangent: a multiple of pi is taken off, in parts, and the rest is a polynomial.

For arguments so large that the parts of pi do not reach, `large_angle` finds the rest, lane by lane:
the branch is taken only where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fusegrad.compiler.codegen.mathematics.arithmetic import Math, Pair
from fusegrad.compiler.codegen.mathematics.coefficients import COS_QUARTER, SIN, SIN_QUARTER
from fusegrad.compiler.codegen.mathematics.large_angle import fraction
from fusegrad.compiler.llvm.ir_writer import Val

# pi as the sum of three doubles.
_PI = (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)
# Up to where the remainder is right to the last digit. In float32 the multiple is found in float32.
_LIMIT = {"f32": 1e5, "f64": 2.0**30, "short": 2.0**30}


def _without(m: Math, x: Val, count: Val, unit: float) -> tuple[Val, Val | None]:
    """x - count * pi * unit (unit a power of 2) and what its rounding lost, where that matters.

    The first product is x almost, so that its difference to x is exact.
    """
    first, second, third = (part * unit for part in _PI)
    if m.dtype == "f32":
        double = Math(m.w, m.w.convert(x, "f64"))
        many = m.w.convert(count, "f64")
        rest = double.nfma(many, first, m.w.convert(x, "f64"))
        return m.w.convert(double.nfma(many, second, rest), "f32"), None
    rest = m.nfma(count, first, x)
    if m.precision == "short":
        return m.nfma(count, second, rest), None
    product, product_low = m.two_product(count, second)
    r, low = m.two_sum(rest, m.neg(product))
    return r, m.nfma(count, third, m.sub(low, product_low))


def _sine(m: Math, r: Val, low: Val | None, number: Val) -> Val:
    """sin(r + low) for |r| <= pi / 2, negated where `number` is odd."""
    z = m.mul(r, r)
    beyond = m.mul(z, m.polynomial(z, SIN, apart=True))
    if low is None:
        return m.signed_by_parity(m.fma(r, beyond, r), number)
    cosine = m.fma(z, m.fma(z, 1 / 24, -0.5), 1.0)
    rest = m.fma(r, beyond, m.mul(low, cosine))
    return m.signed_by_parity(m.add(r, rest), number)


# A function of the rest in two parts, and the number of multiples.
Finish = Callable[[Math, Val, Val | None, Val], Val]


def _with_large(m: Math, name: str, x: Val, near: Val, halves: int, offset: int, finish: Finish) -> Val:
    """`near`, and `finish` of what `large_angle` finds where |x| is beyond the limit (or NaN).

    Multiples of pi, or with `halves` of pi/2; with `offset`, half of that more (then the function is even,
    without it odd).
    """
    within = m.compare("le", m.abs(x), _LIMIT[m.precision])
    far = m.w.negated(within)

    def compute(m: Math, needed: Val, x: Val) -> Val:
        rest, rest_low, odd = fraction(m, x, needed, halves, offset)
        double = Math(m.w, rest)
        first, second = (part / (1 + halves) for part in _PI[:2])
        r, low = double.two_product(rest, first)
        low = double.fma(rest, second, double.fma(rest_low, first, low))
        r, low = double.fast_two_sum(r, low)
        if m.dtype == "f32":
            r, odd = m.w.convert(r, "f32"), m.w.convert(odd, "i32")
        # The difference is NaN for what has no angle, else 0.
        value = finish(m, m.add(r, m.sub(x, x)), low if m.precision == "f64" else None, odd)
        return value if offset else m.signed_as(x, value)

    return m.rarely(f"{name}_large", far, near, [x], compute)


def sin(m: Math, x: Val) -> Val:
    """x = n pi + r; the sine is (-1)^n sin(r)."""
    count, number = m.nearest(x, 1 / math.pi)
    near = m.zero_kept(x, _sine(m, *_without(m, x, count, 1.0), number))
    return _with_large(m, "sin", x, near, 0, 0, _sine)


def cos(m: Math, x: Val) -> Val:
    """x = (n - 1/2) pi + r; the cosine is (-1)^n sin(r)."""
    count, number = m.nearest(x, 1 / math.pi, 0.5)
    near = _sine(m, *_without(m, x, m.sub(count, 0.5), 1.0), number)
    return _with_large(m, "cos", x, near, 0, 1, _sine)


def quarter(m: Math, r: Val, low: Val | None = None) -> tuple[Pair, Pair]:
    """sin and cos of r + low for |r| <= pi / 4, each in two parts."""
    z = m.mul(r, r)
    sine = m.mul(m.mul(r, z), m.polynomial(z, SIN_QUARTER))
    cosine = m.nfma(z, 0.5, 1.0)
    lost = m.nfma(z, 0.5, m.sub(1.0, cosine))
    rest = m.fma(m.mul(z, z), m.polynomial(z, COS_QUARTER), lost)
    if low is not None:
        # Also what the square lost: r^2 beyond z.
        rest = m.nfma(m.fma(m.fma(r, r, m.neg(z)), 0.5, m.mul(r, low)), 1.0, rest)
        sine = m.add(sine, low)
    return m.fast_two_sum(r, sine), m.fast_two_sum(cosine, rest)


def _tangent(m: Math, r: Val, low: Val | None, number: Val) -> Val:
    """sin(r + low) / cos(r + low), or -cos / sin for odd `number`, for |r| <= pi / 4."""
    w = m.w
    (s, s_low), (c, c_low) = quarter(m, r, low)
    odd = w.compare("ne", w.binary("and", number, m.whole(1)), m.whole(0))
    above, above_low = m.select(odd, c, s), m.select(odd, c_low, s_low)
    below, below_low = m.select(odd, s, c), m.select(odd, s_low, c_low)
    if m.precision == "short":
        ratio = m.div(above, below)
    else:
        ratio = m.quotient((above, above_low), (below, below_low))
    return m.signed_by_parity(ratio, number)


def tan(m: Math, x: Val) -> Val:
    """x = n pi/2 + r; the tangent is sin(r) / cos(r), or -cos(r) / sin(r) for odd n."""
    count, number = m.nearest(x, 2 / math.pi)
    near = m.zero_kept(x, _tangent(m, *_without(m, x, count, 0.5), number))
    return _with_large(m, "tan", x, near, 1, 0, _tangent)
