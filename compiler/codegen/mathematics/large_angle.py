"""Payne and Hanek's reduction: what multiples of pi leave of any double, however large.

x = m 2^e with a whole number m of 53 bits, so that of the bits of 1/pi only those count whose product
with x is below 2 (multiples of 2 turn no angle) and not too small to matter: 192 of them. The product
with m, modulo 2^192, is x / pi modulo 2.
"""

from __future__ import annotations

import functools
from itertools import pairwise

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word
from fusegrad.compiler.llvm.ir_writer import Val

_DIGITS = 1168  # bits of 1/pi behind the point that are kept; a double needs 1163
_WORDS = 20
_SYMBOL = "fusegrad_large_angle"


def _inverse_pi() -> int:
    """floor(2^_DIGITS / pi), with pi from Machin's formula in whole numbers."""
    one = 1 << (_DIGITS + 64)

    def inverse_tangent(n: int) -> int:
        power, total, k = one // n, one // n, 1
        while power:
            power //= -n * n
            k += 2
            total += power // k
        return total

    pi = 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
    return (one << _DIGITS) // pi


@functools.cache
def _table() -> str:
    """The bits of 1/pi in words, lowest first."""
    words = ", ".join(f"i64 {_inverse_pi() >> 64 * i & (1 << 64) - 1}" for i in range(_WORDS))
    return f"@{_SYMBOL}_bits = private unnamed_addr constant [{_WORDS} x i64] [{words}]"


# |x| / pi + offset / 2 (halves = 0) or |x| / (pi/2) + offset / 2 (halves = 1), less the nearest whole
# number: what is left, from -1/2 to 1/2, in two parts, and whether that number is odd. For |x| of at
# least 2^16; a double comes no nearer to a multiple of pi / 2 than 2^-61, so the highest word that is left
# is not 0. Negating leaves the last bit wrong, which is far beyond both parts.
def _function() -> FunctionWriter:
    """`(x, halves, offset, rest, low, odd)`: stores the two parts and the parity."""
    takes = {"x": "double", "halves": "i64", "offset": "i64", "rest": "ptr", "low": "ptr", "odd": "ptr"}
    f = FunctionWriter(_SYMBOL, takes, attributes="noinline optnone cold nounwind", private=True)
    x, halves, offset, rest, low, odd = f.given
    exponent, whole = (x.bits("i64") >> 52) & 2047, x.bits("i64") & ((1 << 52) - 1) | (1 << 52)
    position = f.number(_DIGITS + 1075 - 191) - (exponent + halves)
    table, word, bit = f.address_of(f"{_SYMBOL}_bits"), position >> 6, position & 63
    words = [table.load("i64", word + number) for number in range(4)]
    low_digits, digits, high_digits = (
        f.call("llvm.fshr.i64", above, below, bit, gives="i64") for below, above in pairwise(words)
    )
    # The product, in three words.
    long = whole.unsigned("i128")
    first = long * low_digits.unsigned("i128")
    second = long * digits.unsigned("i128") + (first >> 64)
    product = [first.to("i64"), second.to("i64")]
    product.append(whole * high_digits + (second >> 64).to("i64") + (offset << 62))
    # Its highest bit is that of whole numbers; without it, what is left is the fraction, with its sign.
    left = [_turned(f, product[2], product[1], 1), _turned(f, product[1], product[0], 1), product[0] << 1]
    odd.store((product[2] ^ left[0]) >> 63)
    sign = f.number(0) - (left[0] < 0).to("i64")
    left = [part ^ sign for part in left]
    zeros = f.call("llvm.ctlz.i64", left[0], f.false, gives="i64")
    high, next_ = _turned(f, left[0], left[1], zeros), _turned(f, left[1], left[2], zeros)
    scale = (((f.number(970) - zeros) << 52) | (sign & -(1 << 63))).bits("double")
    rest.store((high >> 11).unsigned("double") * scale)
    digits = _turned(f, high, next_, 42) & ((1 << 53) - 1)
    low.store(digits.unsigned("double") * scale * f.number(2.0**-53, "double"))
    return f


def _turned(f: FunctionWriter, high: Word, low: Word, count: Word | int) -> Word:
    """The highest word of two that are shifted to the left."""
    return f.call("llvm.fshl.i64", high, low, count, gives="i64")


@functools.cache
def _declared() -> frozenset[str]:
    """The table and the function, each in one line, which then stands among the declarations, so that a
    module has it once.
    """
    f = _function()
    return frozenset({_table(), " ".join(f.text().split()), *f.called.values()})


def fraction(m: Math, x: Val, needed: Val, halves: int, offset: int) -> tuple[Val, Val, Val]:
    """The rest in two parts (doubles) and the parity (i64) for the lanes that are `needed`."""
    w, count = m.w, max(m.lanes, 1)
    w.declared |= _declared()
    angles = w.stack(f"[{count} x double]")
    w.line(f"store {w.convert(x, 'f64')}, ptr {angles}")
    flags = w.stack(f"[{count} x i8]")
    w.line(f"store {w.convert(needed, 'u8')}, ptr {flags}")
    results = [w.stack(f"[{count} x i64]") for _ in range(3)]
    with w.loop("0", str(count)) as lane:
        flag = w.emit(f"load i8, ptr {w.offset(flags, lane)}", "u8")
        with w.when(w.convert(flag, "bool").text):
            angle = w.emit(f"load double, ptr {w.offset(angles, lane, 'double')}", "f64")
            places = ", ".join(f"ptr {w.offset(room, lane, 'i64')}" for room in results)
            w.line(f"call void @{_SYMBOL}({angle}, i64 {halves}, i64 {offset}, {places})")
    rest, low, odd = (
        w.emit(f"load {Val('', dtype, m.lanes).type}, ptr {room}", dtype, m.lanes)
        for room, dtype in zip(results, ("f64", "f64", "i64"), strict=True)
    )
    return rest, low, odd
