"""Makes the polynomials of `compiler/codegen/mathematics/coefficients.py`: python tools/polynomials.py

Each function is fitted at Chebyshev points by least squares of the relative error, in 100 digits,
which comes within a factor of two of the best polynomial; then the coefficients are rounded to
the target format, lowest power first, and those that are left make up for it. The number of terms is
the least whose error before that rounding, relative to the function that the polynomial serves, is
below the bound of the precision:

- f32, f64: for arithmetic in that format;
- short: for arithmetic in double that serves a float32 result.

Where AVX-512 picks the coefficients of each lane from two vectors, a function is cut into as many pieces as
these have room for. The middle of each is a number whose function value is nearly one of the format, so that
the constant term has no rounding error to speak of (Gal's accurate tables, 1986).
"""

from __future__ import annotations

import struct
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mpmath import mp, mpf

mp.dps = 100
BITS = {"f32": 27, "f64": 56, "short": 31}
TARGET = Path(__file__).parent.parent / "compiler" / "mathematics" / "coefficients.py"
HEADER = '''"""Polynomial coefficients, highest power first. Written by tools/polynomials.py; do not edit.

The first line of each table says what the polynomial approximates and where; the comment of each
row, how many terms it has and its largest error, relative to the function that it serves.
"""

# fmt: off

Table = dict[str, tuple[float, ...]]
# By piece of the function: the middle; then the coefficients in what is beyond it, highest power first, with
# 1 taken from that of the first power, and the value at the middle last.
Pieces = dict[str, tuple[tuple[float, ...], ...]]
Powers = tuple[tuple[float, ...], tuple[float, ...]]
'''
Real = Callable[[mpf], mpf]


class Piece(NamedTuple):
    """`function` on [low, high]; an error e of it is an error `share(x)` * e of what it serves."""

    name: str
    text: str
    function: Real
    low: mpf
    high: mpf
    share: Real
    precisions: str = "f32 f64 short"


def rounded(value: mpf, precision: str) -> mpf:
    """The nearest number of the format."""
    if precision == "f32":
        return mpf(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    return mpf(float(value))


def nodes(count: int, low: mpf, high: mpf) -> list[mpf]:
    """Chebyshev points."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fitted(piece: Piece, terms: int, precision: str = "") -> list[mpf]:
    """Coefficients, lowest power first: least squares of the relative error at Chebyshev points.

    With a precision they are rounded one after the other, and each time those that are left are
    fitted anew, so that they make up for it.
    """
    points = nodes(3 * terms, piece.low, piece.high)
    shares = [mpf(piece.share(x)) for x in points]
    powers = [[share * x**power for power in range(terms)] for x, share in zip(points, shares, strict=True)]
    values = [share * _function(piece, x) for x, share in zip(points, shares, strict=True)]
    columns = list(zip(*powers, strict=True))
    normal = mp.matrix([[mp.fdot(a, b) for b in columns] for a in columns])
    wanted = mp.matrix([mp.fdot(a, values) for a in columns])
    if not precision:
        return list(mp.lu_solve(normal, wanted))
    known: list[mpf] = []
    while len(known) < terms:
        rest = mp.lu_solve(normal[len(known) :, len(known) :], wanted[len(known) :])
        known.append(rounded(rest[0], precision))
        wanted -= normal[:, len(known) - 1] * known[-1]
    return known


_cache: dict[tuple[str, mpf], mpf] = {}


def _function(piece: Piece, x: mpf) -> mpf:
    key = (piece.name, x)
    if key not in _cache:
        _cache[key] = piece.function(x)
    return _cache[key]


def largest_error(piece: Piece, coefficients: list[mpf]) -> mpf:
    """The largest error at points twice as dense as the extrema and more."""
    worst = mpf(0)
    for x in [*nodes(120, piece.low, piece.high), piece.low, piece.high]:
        if x != 0:
            value = mp.polyval(coefficients[::-1], x)
            worst = max(worst, abs((value - _function(piece, x)) * piece.share(x)))
    return worst


def table(piece: Piece) -> str:
    """The Python text of a piece's table."""
    lines = ["", f"# {piece.text}", f"{piece.name}: Table = {{"]
    for precision in piece.precisions.split():
        terms = 1
        while largest_error(piece, fitted(piece, terms)) > mpf(2) ** -BITS[precision]:
            terms += 1
        coefficients = fitted(piece, terms, precision)
        error = float(mp.log(largest_error(piece, coefficients), 2))
        print(f"{piece.name:16} {precision:6}{terms:3} terms, 2^{error:.1f}")
        lines.append(f"    # {terms} terms, 2^{error:.1f}")
        numbers = ", ".join(repr(float(c)) for c in coefficients[::-1])
        lines += textwrap.wrap(
            f'"{precision}": ({numbers}),', 106, initial_indent=" " * 4, subsequent_indent=" " * 8
        )
    return "\n".join([*lines, "}"])


class Curve(NamedTuple):
    """An odd `function` from 0 to the ends by precision, where it is 1 in that format."""

    name: str
    text: str
    function: Real
    ends: dict[str, str]


# How many pieces two vectors hold; how far apart the numbers are of which one becomes a middle, and how many.
COUNTS = {"f32": 32, "f64": 16}
STEP, TRIALS = mpf(2) ** -20, 200


def accurate(function: Real, place: mpf, precision: str) -> mpf:
    """The number near `place` at which the function is most nearly a number of the format."""

    def error(x: mpf) -> mpf:
        value = function(x)
        return abs(value - rounded(value, precision))

    return min((rounded(place + i * STEP, precision) for i in range(TRIALS)), key=error)


def pieces_of(curve: Curve, precision: str) -> list[tuple[mpf, Piece]]:
    """The middle of each piece, and what is fitted beside r and the value there. Around 0 these are the odd
    powers, in r^2.
    """
    count, end, function = COUNTS[precision], rounded(mpf(curve.ends[precision]), precision), curve.function
    width = end / (count - 1)
    half = width / 2 + TRIALS * STEP
    odd = _over(function, 1, _identity)
    found = [(mpf(0), Piece(f"{curve.name}{precision}0", "", odd, EPSILON, half**2, lambda z: 1))]
    for number in range(1, count):
        last = number == count - 1
        middle = end if last else accurate(function, number * width, precision)

        def beyond(r: mpf, middle: mpf = middle) -> mpf:
            with mp.extradps(60):
                return (function(middle + r) - function(middle)) / r - 1

        def share(r: mpf, middle: mpf = middle) -> mpf:
            return r / function(middle + r)

        piece = Piece(f"{curve.name}{precision}{number}", "", beyond, -half, EPSILON if last else half, share)
        found.append((middle, piece))
    return found


def coefficients_of(
    curve: Curve, pieces: list[tuple[mpf, Piece]], terms: int, precision: str
) -> list[list[mpf]]:
    """The coefficients of each piece, lowest power first."""
    found = []
    for number, (middle, piece) in enumerate(pieces):
        known = [mpf(0)] * terms
        if number:
            known[:] = [rounded(curve.function(middle), precision), *fitted(piece, terms - 1, precision)]
        else:
            known[1::2] = fitted(piece, terms // 2, precision)
        found.append(known)
    return found


def pieces_table(curve: Curve) -> str:
    """The Python text of a curve's table: a row for the middles, then one for each power."""
    lines = ["", f"# {curve.text}", f"{curve.name}: Pieces = {{"]
    for precision in COUNTS:
        pieces, terms = pieces_of(curve, precision), 4
        _, (_, steepest), *_ = pieces
        while largest_error(steepest, fitted(steepest, terms - 1)) > mpf(2) ** -BITS[precision]:
            terms += 1
        terms += terms % 2
        coefficients = coefficients_of(curve, pieces, terms, precision)
        beside = (found[1::2] if not number else found[1:] for number, found in enumerate(coefficients))
        errors = [largest_error(p, found) for (_, p), found in zip(pieces, beside, strict=True)]
        error = float(mp.log(max(errors), 2))
        print(f"{curve.name:16} {precision:6}{terms:3} terms, 2^{error:.1f}")
        lines += [f"    # {len(pieces)} pieces of {terms} terms, 2^{error:.1f}", f'    "{precision}": (']
        for row in [[middle for middle, _ in pieces], *list(zip(*coefficients, strict=True))[::-1]]:
            numbers = ", ".join(repr(float(c)) for c in row)
            lines += textwrap.wrap(f"({numbers}),", 106, initial_indent=" " * 8, subsequent_indent=" " * 9)
        lines.append("    ),")
    return "\n".join([*lines, "}"])


def _over(function: Real, low_power: int, start: Real) -> Real:
    """(function(sqrt z) - start(sqrt z)) / sqrt(z)^low_power, with more digits for what cancels."""

    def quotient(z: mpf) -> mpf:
        with mp.extradps(60):
            r = mp.sqrt(z)
            return (function(r) - start(r)) / r**low_power

    return quotient


def _log_of_ratio(s: mpf) -> mpf:
    return mp.log((1 + s) / (1 - s))


def _identity(r: mpf) -> mpf:
    return r


def _stirling(w: mpf) -> mpf:
    """What lgamma is beyond Stirling's first terms, times x, in w = 1 / x^2."""
    with mp.extradps(40):
        x = 1 / mp.sqrt(w)
        return (mp.loggamma(x) - ((x - mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def _digamma_tail(w: mpf) -> mpf:
    """log x - 1 / (2 x) - digamma x, over w = 1 / x^2."""
    with mp.extradps(40):
        x = 1 / mp.sqrt(w)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / w


# The root of digamma.
ROOT = mp.findroot(mp.digamma, mpf("1.4616321449683623"))


def _erfcx(t: mpf) -> mpf:
    """exp(x^2) erfc(x) (x + 2) in t = (x - 2) / (x + 2)."""
    x = 2 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (x + 2)


def _erfinv(w: mpf) -> mpf:
    """erfinv(x) / x in w = -log(1 - x^2)."""
    with mp.extradps(60):
        return _erfinv_of(w) / mp.sqrt(-mp.expm1(-w))


def _erfinv_of(w: mpf) -> mpf:
    """The y with erf(y)^2 = 1 - e^-w, by Newton's method on log erfc, in which it is nearly straight."""
    if w < mpf("0.01"):
        return mp.erfinv(mp.sqrt(-mp.expm1(-w)))
    q = mp.exp(-w) / (1 + mp.sqrt(-mp.expm1(-w)))  # 1 - x
    goal, y = mp.log(q), mp.sqrt(w)
    for _ in range(60):
        tail = mp.erfc(y)
        step = (mp.log(tail) - goal) * tail / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y -= step
        if abs(step) < mpf(10) ** -110:
            break
    return y


def h(number: str) -> mpf:
    return mpf(number)


HALF_LN2 = mp.log(2) / 2 * h("1.001")
QUARTER, HALF_PI = mp.pi / 4 * h("1.001"), mp.pi / 2 * h("1.01")
EIGHTH = mp.tan(mp.pi / 8) * h("1.001")
EPSILON = h("1e-9")

PIECES = [
    Piece("EXP", "(e^r - 1 - r) / r^2 for |r| <= ln(2) / 2",
          lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2 * h("1.0001"), HALF_LN2, lambda r: r * r),
    Piece("EXP_NEAR", "the same for |r| <= ln(2) / 32",
          lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2 / 16 * h("1.0001"), HALF_LN2 / 16, lambda r: r * r,
          "f64 short"),
    Piece("EXP2", "(2^r - 1) / r for |r| <= 1/2",
          lambda r: mp.expm1(r * mp.log(2)) / r, h("-0.5002"), h("0.5001"), lambda r: r, "f32 f64"),
    Piece("EXP2_NEAR", "the same for |r| <= 1/32",
          lambda r: mp.expm1(r * mp.log(2)) / r, h("-0.03126"), h("0.031255"), lambda r: r, "f64"),
    Piece("SINH", "(sinh r - r) / r^3 in r^2 for r <= ln(2) / 2",
          _over(mp.sinh, 3, _identity), EPSILON, HALF_LN2**2, lambda z: z, "f32 f64"),
    Piece("COSH", "(cosh r - 1) / r^2 in r^2 for r <= ln(2) / 2",
          _over(mp.cosh, 2, lambda r: mpf(1)), EPSILON, HALF_LN2**2, lambda z: z, "f32 f64"),
    Piece("TANH", "(tanh r - r) / r^3 in r^2 for r <= 0.55",
          _over(mp.tanh, 3, _identity), EPSILON, h("0.55") ** 2, lambda z: z, "f32 f64"),
    Piece("LOG", "(log(1 + f) - f + f^2 / 2) / f^3 for f from -1/4 to 1/2",
          lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, h("-0.2501"), h("0.5001"),
          lambda f: f**3 / mp.log1p(f), "f32"),
    Piece("LOG_RATIO", "(log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2 for s <= 1/5",
          _over(_log_of_ratio, 3, lambda s: 2 * s), EPSILON, h("0.04001"), lambda z: z / 2, "f64 short"),
    Piece("LOG_RATIO_TAIL", "(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in s^2, likewise",
          _over(_log_of_ratio, 5, lambda s: 2 * s + 2 * s**3 / 3), EPSILON, h("0.04001"),
          lambda z: 2**10 * z**2 / 2, "f64"),
    Piece("SIN", "(sin r - r) / r^3 in r^2 for r <= pi / 2",
          _over(mp.sin, 3, _identity), EPSILON, HALF_PI**2,
          lambda z: z ** mpf("1.5") / mp.sin(mp.sqrt(z)), "f32 f64"),
    Piece("SIN_QUARTER", "the same for r <= pi / 4",
          _over(mp.sin, 3, _identity), EPSILON, QUARTER**2, lambda z: z, "f64 short"),
    Piece("COS_QUARTER", "(cos r - 1 + r^2 / 2) / r^4 in r^2 for r <= pi / 4",
          _over(mp.cos, 4, lambda r: 1 - r * r / 2), EPSILON, QUARTER**2, lambda z: z * z, "f64 short"),
    Piece("ASIN", "(asin r - r) / r^3 in r^2 for r <= 1/2",
          _over(mp.asin, 3, _identity), EPSILON, h("0.2501"), lambda z: z, "f32 f64"),
    Piece("ATAN", "(atan r - r) / r^3 in r^2 for r <= tan(pi / 8)",
          _over(mp.atan, 3, _identity), EPSILON, EIGHTH**2, lambda z: z, "f32 f64"),
    Piece("ERF", "erf(r) / r - 1 in r^2 for r <= 1",
          _over(mp.erf, 1, _identity), EPSILON, h("1.001"), lambda z: 1),
    Piece("ERF_FAR", "exp(x^2) erfc(x) for x from 1 to where erf is 1",
          lambda x: mp.exp(x * x) * mp.erfc(x), h("0.999"), h("6"), lambda x: mp.exp(-x * x), "f32 f64"),
    Piece("ERFCX", "exp(x^2) erfc(x) (x + 2) - 3/4 in (x - 2) / (x + 2) - 1/4 for x from 0.84 to 28",
          lambda u: _erfcx(u + h("0.25")) - h("0.75"), h("-0.66"), h("0.617"),
          lambda u: 2 / _erfcx(u + h("0.25")), "f64 short"),
    Piece("ERFINV", "(erfinv(x) / x - sqrt(pi) / 2) / w in w = -log(1 - x^2) <= 5",
          lambda w: (_erfinv(w) - mp.sqrt(mp.pi) / 2) / w, h("1e-6"), h("5.01"), lambda w: w, "f64 short"),
    Piece("ERFINV_FAR", "erfinv(x) / x - s in s - 4 for s = sqrt(w), w from 5 to 37",
          lambda u: _erfinv((u + 4) ** 2) - (u + 4), h("-1.765"), h("2.09"), lambda u: h("0.3"), "f64 short"),
    Piece("LGAMMA", "lgamma(2 + u) / u - 1/4 in u + 1/4 for u from -3/4 to 1/4",
          lambda v: mp.loggamma(h("1.75") + v) / (v - h("0.25")) - h("0.25"), h("-0.5002"), h("0.5001"),
          lambda v: 4, "f64 short"),
    Piece("STIRLING", "(lgamma x - (x - 1/2) log x + x - log(2 pi) / 2) x in 1 / x^2 for x >= 4",
          _stirling, h("1e-6"), h("0.06251"), lambda w: 1 / mpf(7), "f64 short"),
    Piece("DIGAMMA", "digamma(y) / (y - root) - 1 in y - 3/2 for y from 1 to 2",
          lambda u: mp.digamma(u + h("1.5")) / (u + h("1.5") - ROOT) - 1, h("-0.5002"), h("0.5001"),
          lambda u: 1, "f64 short"),
    Piece("DIGAMMA_FAR", "(log x - 1 / (2 x) - digamma x) x^2 in 1 / x^2 for x >= 4",
          _digamma_tail, h("1e-6"), h("0.06251"), lambda w: w / 2, "f64 short"),
]  # fmt: skip


CURVES = [
    Curve("ERF_PIECES", "erf from 0 to where it is 1", mp.erf, {"f32": "3.93", "f64": "5.93"}),
]


def powers_table() -> str:
    """The Python text of the powers of 2 from 1 to 2, as many as two vectors of doubles hold."""
    count = COUNTS["f64"]
    exact = [mpf(2) ** (mpf(i) / count) for i in range(count)]
    lines = [
        "",
        f"# 2^(i / {count}), and by what share of it that is more than its double",
        "POWERS: Powers = (",
    ]
    for row in (exact, [power / rounded(power, "f64") - 1 for power in exact]):
        numbers = ", ".join(repr(float(number)) for number in row)
        lines += textwrap.wrap(f"({numbers}),", 106, initial_indent=" " * 4, subsequent_indent=" " * 5)
    return "\n".join([*lines, ")"])


def main() -> None:
    tables = [*map(table, PIECES), *map(pieces_table, CURVES), powers_table()]
    TARGET.write_text("\n".join([HEADER.rstrip(), *tables]) + "\n")


if __name__ == "__main__":
    main()
