"""Elementary functions as branch-free vector code, at most 2 ulp from the true value.

Numba's LLVM has no vector mathematics library here, so these are ours: argument reduction and
polynomials, right at ±0, ±inf and NaN. Sources: Cephes (exp), FreeBSD msun (log), and
Cody & Waite's reduction. Functions without an entry are called lane by lane from the C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fusegrad.compiler.writer import Val, Writer


class Math:
    """Short names for arithmetic on values of one float dtype and width."""

    def __init__(self, writer: Writer, like: Val) -> None:
        self.w, self.dtype, self.lanes = writer, like.dtype, like.lanes
        self.wide = like.dtype == "f64"
        self.integer = "i64" if self.wide else "i32"

    def c(self, value: float) -> Val:
        return self.w.constant(value, self.dtype, self.lanes)

    def k(self, value: int) -> Val:
        return self.w.constant(value, self.integer, self.lanes)

    def add(self, a: Val, b: Val) -> Val:
        return self.w.binary("fadd", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.w.binary("fsub", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        return self.w.binary("fmul", a, b)

    def div(self, a: Val, b: Val) -> Val:
        return self.w.binary("fdiv", a, b)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        return self.w.call("llvm.fma", [a, b, c])

    def abs(self, a: Val) -> Val:
        return self.w.call("llvm.fabs", [a])

    def copysign(self, a: Val, sign: Val) -> Val:
        return self.w.call("llvm.copysign", [a, sign])

    def neg(self, a: Val) -> Val:
        return self.w.emit(f"fneg {a}", a.dtype, a.lanes)

    def polynomial(self, x: Val, coefficients: list[float]) -> Val:
        """Horner's scheme, highest power first."""
        result = self.c(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, self.c(coefficient))
        return result

    def at_most(self, x: Val, bound: float) -> Val:
        """min(x, bound) that lets NaN through."""
        limit = self.c(bound)
        return self.w.select(self.w.compare("gt", x, limit), limit, x)

    def at_least(self, x: Val, bound: float) -> Val:
        """max(x, bound) that lets NaN through."""
        limit = self.c(bound)
        return self.w.select(self.w.compare("lt", x, limit), limit, x)

    def to_bits(self, a: Val) -> Val:
        return self.w.bits(a, self.integer)

    def from_bits(self, a: Val) -> Val:
        return self.w.bits(a, self.dtype)

    def scale_by_instruction(self, value: Val, exponent: Val) -> Val:
        """value * 2^exponent by AVX-512's own instruction, for full vectors."""
        suffix, mask = ("pd", "i8") if self.wide else ("ps", "i16")
        symbol = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
        kind = value.type
        self.w.declared.add(f"declare {kind} @{symbol}({kind}, {kind}, {kind}, {mask}, i32)")
        arguments = f"{value}, {exponent}, {kind} zeroinitializer, {mask} -1, i32 4"
        return self.w.emit(f"call {kind} @{symbol}({arguments})", value.dtype, value.lanes)

    def power_of_two(self, exponent: Val) -> Val:
        """2 ** exponent for a normal result, from an integer vector."""
        bias, shift = (1023, 52) if self.wide else (127, 23)
        biased = self.w.binary("add", exponent, self.k(bias))
        return self.from_bits(self.w.binary("shl", biased, self.k(shift)))


# ln 2 in two parts; the first has trailing zeros, so that k * LN2_HIGH is exact.
_LN2 = {
    "f32": (0.693145751953125, 1.428606765330187e-06),
    "f64": (0.6931471803691238, 1.9082149292705877e-10),
}
# (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2], highest power first.
_EXP = {
    "f32": [
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ],
    "f64": [1 / math.factorial(n) for n in range(13, 1, -1)],
}


def _reduced(m: Math, x: Val) -> tuple[Val, Val, Val]:
    """x = k ln2 + r: k as float and integer vectors, and r."""
    # Adding 1.5 * 2^mantissa rounds to a whole number and leaves it in the low bits.
    magic = m.c(1.5 * 2.0 ** (52 if m.wide else 23))
    shifted = m.fma(x, m.c(1 / math.log(2)), magic)
    whole = m.sub(shifted, magic)
    number = m.w.binary("sub", m.to_bits(shifted), m.to_bits(magic))
    high, low = _LN2[m.dtype]
    r = m.fma(whole, m.c(-high), x)
    return whole, number, m.fma(whole, m.c(-low), r)


def _expm1_part(m: Math, r: Val) -> Val:
    """e^r - 1 for small r."""
    return m.fma(m.mul(r, r), m.polynomial(r, _EXP[m.dtype]), r)


def _scaled(m: Math, value: Val, whole: Val, number: Val) -> Val:
    """value * 2^number (`whole` as a float), right at the ends of the range (inf, denormals)."""
    if m.w.avx512 and m.lanes == (8 if m.wide else 16):
        return m.scale_by_instruction(value, whole)
    # In two steps, each within the range of exponents.
    half = m.w.binary("ashr", number, m.k(1))
    rest = m.w.binary("sub", number, half)
    return m.mul(m.mul(value, m.power_of_two(half)), m.power_of_two(rest))


def exp(m: Math, x: Val) -> Val:
    """e^x. Beyond the bounds the result is inf or 0 in any case."""
    low, high = (-746.0, 710.0) if m.wide else (-104.0, 89.0)
    x = m.at_least(m.at_most(x, high), low)
    whole, number, r = _reduced(m, x)
    return _scaled(m, m.add(_expm1_part(m, r), m.c(1.0)), whole, number)


def expm1(m: Math, x: Val) -> Val:
    """e^x - 1, exact near 0: 2^k (e^r - 1) + (2^k - 1)."""
    low, high = (-40.0, 710.0) if m.wide else (-20.0, 89.0)
    bounded = m.at_least(m.at_most(x, high), low)
    _, number, r = _reduced(m, bounded)
    small = _expm1_part(m, r)
    # 2^k leaves the range before e^x does, so it is built at half size and doubled.
    scale = m.power_of_two(m.w.binary("sub", number, m.k(1)))
    half = m.fma(scale, small, m.sub(scale, m.c(0.5)))
    result = m.add(half, half)
    return m.w.select(m.w.compare("eq", x, m.c(0.0)), x, result)


# (tanh(x) - x) / x^3 in x^2 for |x| < 0.625, highest power first; in double precision a quotient.
_TANH = {
    "f32": (
        [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1],
        [],
    ),
    "f64": (
        [-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3],
        [1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3],
    ),
}


def tanh(m: Math, x: Val) -> Val:
    """A polynomial near 0 (source: Cephes), else t / (t + 2) with t = e^2|x| - 1 and the sign of x."""
    absolute = m.abs(x)
    size = m.at_most(absolute, 20.0 if m.wide else 10.0)
    _, number, r = _reduced(m, m.add(size, size))
    scale = m.power_of_two(number)
    t = m.fma(scale, _expm1_part(m, r), m.sub(scale, m.c(1.0)))
    far = m.copysign(m.div(t, m.add(t, m.c(2.0))), x)
    upper, lower = _TANH[m.dtype]
    z = m.mul(x, x)
    ratio = m.polynomial(z, upper)
    if lower:
        ratio = m.div(ratio, m.polynomial(z, lower))
    near = m.fma(m.mul(x, z), ratio, x)
    # fma(-0 * 0, c, -0) is +0 for negative c: zero is its own answer.
    near = m.w.select(m.w.compare("eq", x, m.c(0.0)), x, near)
    return m.w.select(m.w.compare("lt", absolute, m.c(0.625)), near, far)


def sigmoid(m: Math, x: Val) -> Val:
    """1 / (1 + e) or e / (1 + e) with e = e^-|x|, so that nothing overflows."""
    e = exp(m, m.neg(m.abs(x)))
    total = m.add(e, m.c(1.0))
    # What the sum lost in rounding, divided by it: 1 / (1 + e) is near 1 - e / 2 on [0, 1].
    lost = m.mul(m.sub(e, m.sub(total, m.c(1.0))), m.fma(e, m.c(-0.5), m.c(1.0)))
    quotient = m.div(m.w.select(m.w.compare("lt", x, m.c(0.0)), e, m.c(1.0)), total)
    return m.fma(m.neg(quotient), lost, quotient)


_LOG = {
    "f32": [0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693],
    "f64": [
        1.479819860511658591e-01,
        1.531383769920937332e-01,
        1.818357216161805012e-01,
        2.222219843214978396e-01,
        2.857142874366239149e-01,
        3.999999999940941908e-01,
        6.666666666666735130e-01,
    ],
}


def _log_of(m: Math, f: Val, number: Val, correction: Val | None) -> Val:
    """k ln2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)); source: msun's log."""
    s = m.div(f, m.add(f, m.c(2.0)))
    z = m.mul(s, s)
    r = m.mul(z, m.polynomial(z, _LOG[m.dtype]))
    half_square = m.mul(m.mul(f, f), m.c(0.5))
    k = m.w.convert(number, m.dtype)
    high, low = (
        (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        if m.wide
        else (0.69313812256, 9.0580006145e-06)
    )
    tail = m.mul(k, m.c(low)) if correction is None else m.fma(k, m.c(low), correction)
    inner = m.sub(half_square, m.fma(s, m.add(half_square, r), tail))
    return m.fma(k, m.c(high), m.sub(f, inner))


def _split(m: Math, x: Val) -> tuple[Val, Val]:
    """x = 2^k (1 + f) with 1 + f around 1: f and integer k."""
    shift, low = (52, 0x3FE6A09E00000000) if m.wide else (23, 0x3F3504F3)
    moved = m.w.binary("sub", m.to_bits(x), m.k(low))
    number = m.w.binary("ashr", moved, m.k(shift))
    fraction = m.w.binary("and", moved, m.k((1 << shift) - 1))
    return m.sub(m.from_bits(m.w.binary("add", fraction, m.k(low))), m.c(1.0)), number


def _log_ends(m: Math, x: Val, result: Val, at_zero: Val) -> Val:
    """The values of a logarithm outside its range: inf at inf, -inf at 0, NaN below and for NaN."""
    w = m.w
    infinite = w.compare("eq", x, m.c(math.inf))
    result = w.select(infinite, x, result)
    result = w.select(w.compare("eq", at_zero, m.c(0.0)), m.c(-math.inf), result)
    valid = w.compare("ge", at_zero, m.c(0.0))
    return w.select(valid, result, m.c(math.nan))


def log(m: Math, x: Val) -> Val:
    """The natural logarithm."""
    w = m.w
    smallest, boost, steps = (
        (2.2250738585072014e-308, 2.0**54, 54) if m.wide else (1.17549435e-38, 2.0**25, 25)
    )
    tiny = w.compare("lt", x, m.c(smallest))
    f, number = _split(m, w.select(tiny, m.mul(x, m.c(boost)), x))
    number = w.binary("sub", number, w.select(tiny, m.k(steps), m.k(0)))
    return _log_ends(m, x, _log_of(m, f, number, None), x)


def log1p(m: Math, x: Val) -> Val:
    """log(1 + x); what 1 + x loses in rounding is put back as a correction. Source: msun's log1p."""
    w = m.w
    u = m.add(x, m.c(1.0))
    # (x - (u - 1)) / u, taken where |x| < 1 and as 1 - (u - x) where x is larger.
    big = w.compare("gt", x, m.c(1.0))
    lost = w.select(big, m.sub(m.c(1.0), m.sub(u, x)), m.sub(x, m.sub(u, m.c(1.0))))
    f, number = _split(m, u)
    result = _log_of(m, f, number, m.div(lost, u))
    result = _log_ends(m, x, result, u)
    # Below the rounding step of 1 + x the argument is the answer (and keeps the sign of 0).
    small = w.compare("lt", m.abs(x), m.c(2.0**-54 if m.wide else 2.0**-25))
    return w.select(small, x, result)


FUNCTIONS: dict[str, Callable[[Math, Val], Val]] = {
    "exp": exp,
    "expm1": expm1,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "log": log,
    "log1p": log1p,
}
# The C library's names for the rest ("f" is appended for float32).
LIBRARY = {
    "exp2": "exp2", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh",
    "erf": "erf", "pow": "pow",
}  # fmt: skip
ROUNDING = {
    "sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil",
    "trunc": "llvm.trunc", "round": "llvm.roundeven", "abs": "llvm.fabs",
}  # fmt: skip


def call(writer: Writer, name: str, operands: list[Val]) -> Val:
    """The function `name` of float operands."""
    if name in ROUNDING:
        return writer.call(ROUNDING[name], operands)
    if name in FUNCTIONS:
        return FUNCTIONS[name](Math(writer, operands[0]), operands[0])
    symbol = LIBRARY[name] + ("f" if operands[0].dtype == "f32" else "")
    return writer.each_lane(symbol, operands)
