"""Payne and Hanek's reduction: what multiples of pi leave of any double, however large.

x = m 2^e with a whole number m of 53 bits, so that of the bits of 1/pi only those count whose product
with x is below 2 (multiples of 2 turn no angle) and not too small to matter: 192 of them. The product
with m, modulo 2^192, is x / pi modulo 2.
"""

from __future__ import annotations

import functools

from fusegrad.compiler.codegen.mathematics.arithmetic import Math
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
_FUNCTION = f"""
define private void @{_SYMBOL}(double %x, i64 %halves, i64 %offset, ptr %rest, ptr %low, ptr %odd)
 noinline optnone cold nounwind {{
entry:
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %field = and i64 %shifted, 2047
  %mantissa = and i64 %bits, 4503599627370495
  %whole = or i64 %mantissa, 4503599627370496
  %above = add i64 %field, %halves
  %position = sub i64 {_DIGITS + 1075 - 191}, %above
  %word = lshr i64 %position, 6
  %bit = and i64 %position, 63
  %p0 = getelementptr i64, ptr @{_SYMBOL}_bits, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %w0 = load i64, ptr %p0
  %w1 = load i64, ptr %p1
  %w2 = load i64, ptr %p2
  %w3 = load i64, ptr %p3
  %a0 = call i64 @llvm.fshr.i64(i64 %w1, i64 %w0, i64 %bit)
  %a1 = call i64 @llvm.fshr.i64(i64 %w2, i64 %w1, i64 %bit)
  %a2 = call i64 @llvm.fshr.i64(i64 %w3, i64 %w2, i64 %bit)
  %m = zext i64 %whole to i128
  %b0 = zext i64 %a0 to i128
  %b1 = zext i64 %a1 to i128
  %c0 = mul i128 %m, %b0
  %c1 = mul i128 %m, %b1
  %q0 = trunc i128 %c0 to i64
  %carried = lshr i128 %c0, 64
  %d1 = add i128 %c1, %carried
  %q1 = trunc i128 %d1 to i64
  %d2 = lshr i128 %d1, 64
  %e2 = trunc i128 %d2 to i64
  %c2 = mul i64 %whole, %a2
  %added = shl i64 %offset, 62
  %f2 = add i64 %c2, %e2
  %q2 = add i64 %f2, %added
  %s2 = call i64 @llvm.fshl.i64(i64 %q2, i64 %q1, i64 1)
  %s1 = call i64 @llvm.fshl.i64(i64 %q1, i64 %q0, i64 1)
  %s0 = shl i64 %q0, 1
  %nearer = xor i64 %q2, %s2
  %parity = lshr i64 %nearer, 63
  store i64 %parity, ptr %odd
  %sign = ashr i64 %s2, 63
  %t2 = xor i64 %s2, %sign
  %t1 = xor i64 %s1, %sign
  %t0 = xor i64 %s0, %sign
  %zeros = call i64 @llvm.ctlz.i64(i64 %t2, i1 false)
  %n2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t1, i64 %zeros)
  %n1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t0, i64 %zeros)
  %first = lshr i64 %n2, 11
  %second = call i64 @llvm.fshl.i64(i64 %n2, i64 %n1, i64 42)
  %second.digits = and i64 %second, 9007199254740991
  %exponent = sub i64 970, %zeros
  %scale.bits = shl i64 %exponent, 52
  %sign.bit = and i64 %sign, -9223372036854775808
  %scale.signed = or i64 %scale.bits, %sign.bit
  %scale = bitcast i64 %scale.signed to double
  %first.float = uitofp i64 %first to double
  %second.float = uitofp i64 %second.digits to double
  %rest.value = fmul double %first.float, %scale
  store double %rest.value, ptr %rest
  %second.scaled = fmul double %second.float, %scale
  %low.value = fmul double %second.scaled, 0x3CA0000000000000
  store double %low.value, ptr %low
  ret void
}}
"""
_NEEDED = {
    "declare i64 @llvm.ctlz.i64(i64, i1)",
    "declare i64 @llvm.fshl.i64(i64, i64, i64)",
    "declare i64 @llvm.fshr.i64(i64, i64, i64)",
}


def fraction(m: Math, x: Val, needed: Val, halves: int, offset: int) -> tuple[Val, Val, Val]:
    """The rest in two parts (doubles) and the parity (i64) for the lanes that are `needed`."""
    w, count = m.w, max(m.lanes, 1)
    # A definition of one line stands among the declarations, so that a module has it once.
    w.declared |= {_table(), " ".join(_FUNCTION.split()), *_NEEDED}
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
