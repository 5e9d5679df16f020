"""Exponentials and the hyperbolic functions: x = k ln 2 + r, a polynomial in r, and a scaling by 2^k.

Of doubles AVX-512 looks 2^(i / 16) up: then k is a multiple of 1/16, r is less, and the polynomial shorter.
"""

from __future__ import annotations

import math

from fusegrad.compiler.codegen.mathematics.arithmetic import Math, Power
from fusegrad.compiler.codegen.mathematics.coefficients import (
    COSH,
    EXP,
    EXP2,
    EXP2_NEAR,
    EXP_NEAR,
    POWERS,
    SINH,
    TANH,
    Powers,
)
from fusegrad.compiler.llvm.ir_writer import Val

# ln 2 in two parts; the first has trailing zeros, so that k times it is exact.
LN2 = {
    "f32": (0.693145751953125, 1.428606765330187e-06),
    "f64": (0.6931471803691238, 1.9082149292705877e-10),
}


def _remainder(m: Math, x: Val, whole: Val) -> Val:
    """x - whole ln2."""
    high, low = LN2[m.dtype]
    return m.nfma(whole, low, m.nfma(whole, high, x))


def _reduced(m: Math, x: Val) -> tuple[Val, Val]:
    """x = k ln2 + r: k as integers, and r."""
    whole, number = m.nearest(x, 1 / math.log(2))
    return number, _remainder(m, x, whole)


def _powers(m: Math) -> Powers | None:
    """The parts of powers of two that are looked up, if any are."""
    return POWERS if m.wide and m.avx512 else None


def _raised(m: Math, near: Power, r: Val, precise: bool = False) -> Val:
    """2^k e^r. precise: in about one rounding, also where a part of the power is looked up."""
    if near.part is None:
        return near.scaled(m.fma(m.polynomial(r, EXP, add=1.0), r, 1.0))
    power, lost = near.part
    beside = m.add(r, lost) if precise else r
    return near.scaled(m.fma(power, m.fma(m.mul(r, r), m.polynomial(r, EXP_NEAR), beside), power))


def _split(m: Math, x: Val, below_zero: bool = False, powers: Powers | None = None) -> tuple[Val, Val, Power]:
    """x = k ln2 + r: x limited to where e^x is neither 0 nor infinite for certain, and a little more; r; and
    2^k. below_zero: x is certainly not above.
    """
    # At these ends k is where `power_near` gives 0, and beyond the largest exponent.
    low, high = {"f32": (-105.4, 89.0), "f64": (-747.2, 710.0), "short": (-700.0, 700.0)}[m.precision]
    bounded = m.at_least(x if below_zero else m.at_most(x, high), low)
    near = m.power_near(bounded, 1 / math.log(2), below_one=below_zero, powers=powers)
    return bounded, _remainder(m, bounded, near.exponent), near


def exp(m: Math, x: Val, below_zero: bool = False, precise: bool = False) -> Val:
    """e^x. below_zero: x is certainly not above. precise: for what has errors of its own to add."""
    _, r, near = _split(m, x, below_zero, _powers(m))
    return _raised(m, near, r, precise)


def times_exp(m: Math, factor: Val, factor_low: Val | None, high: Val, low: Val) -> Val:
    """(factor + factor_low) * e^(high + low), where `low` is nothing beside `high`."""
    bounded, r, near = _split(m, high)
    r, r_low = m.fast_two_sum(r, m.select(m.compare("eq", bounded, high), low, 0.0))
    small = m.add(r, m.fma(m.mul(r, r), m.polynomial(r, EXP), r_low))
    if factor_low is None:
        return near.scaled(m.fma(factor, small, factor))
    rest = m.fma(factor, small, m.fma(factor_low, small, factor_low))
    return near.scaled(m.add(factor, rest))


def exp2(m: Math, x: Val) -> Val:
    """2^x."""
    low, high = (-1078.0, 1024.5) if m.wide else (-152.0, 128.5)  # as in `_split`
    x = m.at_least(m.at_most(x, high), low)
    near = m.power_near(x, powers=_powers(m))
    r = m.sub(x, near.exponent)
    if near.part is None:
        return near.scaled(m.polynomial(r, EXP2, add=1.0))
    power, lost = near.part
    return near.scaled(m.fma(power, m.fma(r, m.polynomial(r, EXP2_NEAR), lost), power))


def expm1(m: Math, x: Val) -> Val:
    """e^x - 1, exact near 0: 2^k (e^r - 1) + (2^k - 1)."""
    low, high = (-40.0, 710.0) if m.wide else (-20.0, 89.0)
    number, r = _reduced(m, m.at_least(m.at_most(x, high), low))
    rest = m.mul(m.mul(r, r), m.polynomial(r, EXP))
    # 2^k leaves the range before e^x does, so it is built at half size and doubled.
    scale = m.power_of_two(m.w.binary("sub", number, m.whole(1)))
    half = m.fma(scale, rest, m.fma(scale, r, m.sub(scale, 0.5)))
    tiny = m.compare("lt", m.abs(x), 2.0**-54 if m.wide else 2.0**-25)
    return m.select(tiny, x, m.add(half, half))


def sigmoid(m: Math, x: Val) -> Val:
    """1 / (1 + e) or e / (1 + e) with e = e^-|x|, so that nothing overflows."""
    e = exp(m, m.neg(m.abs(x)), below_zero=True, precise=True)
    total = m.add(e, 1.0)
    # What the sum lost in rounding, divided by it: 1 / (1 + e) is near 1 - e / 2 on [0, 1].
    lost = m.mul(m.sub(e, m.sub(total, 1.0)), m.fma(e, -0.5, 1.0))
    quotient = m.div(m.select(m.negative(x), e, 1.0), total)
    return m.nfma(quotient, lost, quotient)


def tanh(m: Math, x: Val) -> Val:
    """A polynomial up to 0.55, where tanh is about 1/2, then 1 - 2 / (e^2|x| + 1)."""
    z = m.mul(x, x)
    near = m.fma(x, m.mul(z, m.polynomial(z, TANH)), x)
    size = m.abs(x)
    double = m.mul(m.at_most(size, 20.0 if m.wide else 10.0), 2.0)
    power = m.power_near(double, 1 / math.log(2), normal=True, powers=_powers(m))
    e = _raised(m, power, _remainder(m, double, power.exponent))
    far = m.sub(1.0, m.div(2.0, m.add(e, 1.0)))
    return m.copysign(m.select(m.compare("lt", size, 0.55), near, far), x)


class _Hyperbolic:
    """Half of sinh |x| and of cosh |x|; the whole would leave the range too early.

    With |x| = k ln2 + r, sinh is up sinh(r) + down cosh(r) and cosh is up cosh(r) + down sinh(r), where
    up = (2^k + 2^-k) / 2 and down = (2^k - 2^-k) / 2; at k = 0 that is sinh(r), exact near 0.
    """

    def __init__(self, m: Math, x: Val) -> None:
        self.m = m
        size = m.at_most(m.abs(x), 710.6 if m.wide else 89.6)
        number, self.r = _reduced(m, size)
        grown = m.power_of_two(m.w.binary("sub", number, m.whole(2)))
        shrunk = m.power_of_two(m.w.binary("sub", m.whole(-2), number))
        shrunk = m.select(m.compare("lt", size, 40.0), shrunk, 0.0)  # beyond, it adds nothing and underflows
        self.up, self.down = m.add(grown, shrunk), m.sub(grown, shrunk)
        z = m.mul(self.r, self.r)
        self.sinh_rest = m.mul(m.mul(self.r, z), m.polynomial(z, SINH))
        self.cosh_rest = m.mul(z, m.polynomial(z, COSH))

    def total(self, plain: Val, times_r: Val) -> Val:
        """plain cosh(r) + times_r sinh(r)."""
        m = self.m
        high = m.fma(times_r, self.r, plain)
        low = m.fma(times_r, self.r, m.sub(plain, high))
        rest = m.fma(times_r, self.sinh_rest, m.mul(plain, self.cosh_rest))
        return m.add(high, m.add(low, rest))


def sinh(m: Math, x: Val) -> Val:
    both = _Hyperbolic(m, x)
    half = both.total(both.down, both.up)
    tiny = m.compare("lt", m.abs(x), 2.0**-27 if m.wide else 2.0**-13)
    return m.select(tiny, x, m.copysign(m.add(half, half), x))


def cosh(m: Math, x: Val) -> Val:
    both = _Hyperbolic(m, x)
    half = both.total(both.up, both.down)
    return m.add(half, half)
