"""Arithmetic on vectors of floats, for the elementary functions to be written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fusegrad.compiler.codegen.mathematics.coefficients import Pieces, Powers, Table
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.ir_writer import Val, Writer
from fusegrad.compiler.llvm.target import vector_width

Number = Val | float
Pair = tuple[Val, Val]  # a value and what its rounding lost
Scaling = Callable[[Val], Val]  # of a value: the value times a power of two
Rare = Callable[..., Val]  # of the arithmetic to write it with, the lanes that are needed, and operands

# Horner's scheme waits for each of its steps. From so many coefficients on, two at a time are made one of a
# polynomial in x^2 (Estrin's scheme): a multiplication more, and half the waiting.
LONG_POLYNOMIAL = 7


class Power(NamedTuple):
    """A power of two near 2^x.

    exponent: its logarithm, as a float. scaled: scales by 2 to the whole number that is not above it.
    part: what is left of the power then, from 1 to 2, and by what share of it that is more than the double;
    None where the exponent is whole.
    """

    exponent: Val
    scaled: Scaling
    part: Pair | None


class Math:
    """Short names for arithmetic on values of one float dtype and width; Python numbers may stand for values.

    precision: "f32" or "f64" as the dtype, or "short": doubles that serve a float32 result, for which
    shorter polynomials do, and no value comes near the ends of the range.
    """

    def __init__(self, writer: Writer, like: Val, short: bool = False) -> None:
        self.w, self.dtype, self.lanes = writer, like.dtype, like.lanes
        self.wide = like.dtype == "f64"
        self.precision = "short" if short else like.dtype
        self.integer = "i64" if self.wide else "i32"
        self.digits = 52 if self.wide else 23  # of the mantissa, without the leading one

    def of(self, value: Number) -> Val:
        """A number as a value in every lane."""
        return value if isinstance(value, Val) else self.w.constant(value, self.dtype, self.lanes)

    def whole(self, value: int) -> Val:
        """An integer in every lane."""
        return self.w.constant(value, self.integer, self.lanes)

    # Arithmetic.

    def add(self, a: Number, b: Number) -> Val:
        return self.w.binary("fadd", self.of(a), self.of(b))

    def sub(self, a: Number, b: Number) -> Val:
        return self.w.binary("fsub", self.of(a), self.of(b))

    def mul(self, a: Number, b: Number) -> Val:
        return self.w.binary("fmul", self.of(a), self.of(b))

    def div(self, a: Number, b: Number) -> Val:
        return self.w.binary("fdiv", self.of(a), self.of(b))

    def fma(self, a: Number, b: Number, c: Number) -> Val:
        """a * b + c in one rounding."""
        return self.w.call("llvm.fma", [self.of(a), self.of(b), self.of(c)])

    def nfma(self, a: Val, b: Number, c: Number) -> Val:
        """c - a * b in one rounding."""
        return self.fma(self.neg(a), b, c)

    def neg(self, a: Val) -> Val:
        return self.w.emit(f"fneg {a}", a.dtype, a.lanes)

    def abs(self, a: Val) -> Val:
        return self.w.call("llvm.fabs", [a])

    def sqrt(self, a: Val) -> Val:
        return self.w.call("llvm.sqrt", [a])

    def copysign(self, a: Number, sign: Val) -> Val:
        return self.w.call("llvm.copysign", [self.of(a), sign])

    def polynomial(self, x: Val, table: Table, add: Number | None = None, apart: bool = False) -> Val:
        """The polynomial of a table; with `add`, the polynomial times x plus `add`.

        apart: the constant term has a step of its own. In a pair it would be rounded once more.
        """
        if not apart:
            return self._evaluated(x, table[self.precision], add)
        *high, constant = table[self.precision]
        value = self._evaluated(x, high, constant)
        return value if add is None else self.fma(value, x, add)

    def piecewise(self, x: Val, table: Pieces) -> Val:
        """The polynomial of the piece that x is in, from 0 to the last one's middle. Only with AVX-512.

        By Horner's scheme: what waits is not much, and each coefficient is an instruction already.
        """
        middles, *powers = table[self.precision]
        _, shifted = self._rounded(x, (len(middles) - 1) / middles[-1], self.magic)
        number = self.bits(shifted)  # in its low bits, of which no others count
        beyond = self.sub(x, self.looked_up(middles, number))
        result, *rest, value = (self.looked_up(row, number) for row in powers)
        for coefficient in rest:
            result = self.fma(result, beyond, coefficient)
        return self.add(value, self.fma(beyond, result, beyond))

    def _evaluated(self, x: Val, coefficients: Sequence[Number], add: Number | None = None) -> Val:
        """Horner's scheme, in pairs where it is long."""
        power = x
        while len(coefficients) >= LONG_POLYNOMIAL:
            single = len(coefficients) % 2
            pairs = zip(coefficients[single::2], coefficients[single + 1 :: 2], strict=True)
            coefficients = [*coefficients[:single], *(self.fma(a, power, b) for a, b in pairs)]
            power = self.mul(power, power)
        result, *rest = coefficients
        for coefficient in rest:
            result = self.fma(result, power, coefficient)
        return self.of(result) if add is None else self.fma(result, x, add)

    # Comparisons.

    def compare(self, condition: str, a: Number, b: Number) -> Val:
        return self.w.compare(condition, self.of(a), self.of(b))

    def negative(self, a: Val) -> Val:
        """Where the sign is set; cheaper to select by than a comparison."""
        return self.w.compare("lt", self.bits(a), self.whole(0))

    def select(self, condition: Val, a: Number, b: Number) -> Val:
        return self.w.select(condition, self.of(a), self.of(b))

    def at_most(self, x: Val, bound: float) -> Val:
        """min(x, bound) that lets NaN through."""
        return self.select(self.compare("gt", x, bound), bound, x)

    def at_least(self, x: Val, bound: float) -> Val:
        """max(x, bound) that lets NaN through."""
        return self.select(self.compare("lt", x, bound), bound, x)

    def zero_kept(self, x: Val, result: Val) -> Val:
        """`result`, but x itself (and so its sign) where x is zero."""
        return self.select(self.compare("eq", x, 0.0), x, result)

    # Sums and products with what their rounding lost.

    def two_sum(self, a: Val, b: Val) -> Pair:
        total = self.add(a, b)
        taken = self.sub(total, a)
        return total, self.add(self.sub(a, self.sub(total, taken)), self.sub(b, taken))

    def fast_two_sum(self, a: Number, b: Val) -> Pair:
        """`two_sum` where `a` is zero or |a| >= |b|."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def two_product(self, a: Val, b: Number) -> Pair:
        product = self.mul(a, b)
        return product, self.fma(a, b, self.neg(product))

    def quotient(self, above: Pair, below: Pair) -> Val:
        """A quotient in about one rounding."""
        inverse = self.div(1.0, below[0])
        ratio = self.mul(above[0], inverse)
        rest = self.add(self.nfma(ratio, below[0], above[0]), self.nfma(ratio, below[1], above[1]))
        return self.fma(rest, inverse, ratio)

    # Bits.

    def bits(self, a: Val) -> Val:
        """The value's bits as integers."""
        return self.w.bits(a, self.integer)

    def from_bits(self, a: Val) -> Val:
        return self.w.bits(a, self.dtype)

    def nearest(self, x: Val, factor: float = 1.0, offset: float = 0.0) -> Pair:
        """`x * factor + offset` rounded to whole numbers: as floats, and as integers.

        For numbers below 2^22 (2^51 in double precision).
        """
        if offset:
            x, factor = self.fma(x, factor, offset), 1.0
        whole, shifted = self._rounded(x, factor, self.magic)
        return whole, self.w.binary("sub", self.bits(shifted), self.bits(self.of(self.magic)))

    @property
    def magic(self) -> float:
        """Adding it rounds to a whole number, and leaves that in the low bits."""
        return 1.5 * 2.0**self.digits

    def _rounded(self, x: Val, factor: float, magic: Number) -> Pair:
        """`x * factor` rounded to whole numbers, and with `magic` added."""
        shifted = self.fma(x, factor, magic) if factor != 1.0 else self.add(x, magic)
        return self.sub(shifted, magic), shifted

    def power_of_two(self, exponent: Val) -> Val:
        """2 ** exponent for a normal result, from integers."""
        biased = self.w.binary("add", exponent, self.whole(self.bias))
        return self.from_bits(self.w.binary("shl", biased, self.whole(self.digits)))

    @property
    def bias(self) -> int:
        """What is added to exponents to make them bits."""
        return 1023 if self.wide else 127

    def power_near(
        self,
        x: Val,
        factor: float = 1.0,
        normal: bool = False,
        below_one: bool = False,
        powers: Powers | None = None,
    ) -> Power:
        """2^n of the whole number n nearest to x * factor; or of the nearest multiple of 1 / 16.

        The scaling is right at the ends of the range, too: for n up to 1 beyond the largest exponent, and
        down to -152 (-1078 in double precision), where it gives 0. normal: 2^n is certainly no denormal, nor
        infinite. below_one: nor above 1. powers: those of 2 from 1 to 2 by sixteenths, for which two vectors
        of AVX-512 have room.
        """
        fine = len(powers[0]) if powers else 1
        if self.full_of_avx512:
            whole, shifted = self._rounded(x, factor, self.magic / fine)
            part = self._part(powers, self.bits(shifted))
            # The instruction leaves off what is behind the point.
            return Power(whole, lambda value: self.instruction("scalef", [value, whole]), part)
        # With the exponent's bias in them, the low bits need but be moved to where the exponent stands.
        start = self.magic / fine + self.bias
        magic: Number = start
        rest: Number | None = None
        if not normal and self.precision != "short":
            # In two steps, each within the range of exponents: below 1 first by too much, above by too
            # little. The least number has no bits left, so that nothing underflows to 0, which takes some
            # processors 150 cycles. `magic` stays even: halves are rounded as with AVX-512.
            more = 55 if self.wide else 25
            magic, rest = start + more, 2.0**-more
            if not below_one:
                negative = self.negative(x)
                magic = self.select(negative, magic, start - 1)
                rest = self.select(negative, rest, 2.0)
        whole, shifted = self._rounded(x, factor, magic)
        number = self.bits(shifted)
        exponent = self.w.binary("shl", number, self.whole(self.digits - (fine - 1).bit_length()))
        if powers:
            exponent = self.w.binary("and", exponent, self.whole(-1 << self.digits))
        power, part = self.from_bits(exponent), self._part(powers, number)

        def scaled(value: Val) -> Val:
            product = self.mul(value, power)
            return product if rest is None else self.mul(product, rest)

        return Power(whole, scaled, part)

    def _part(self, powers: Powers | None, number: Val) -> Pair | None:
        return (self.looked_up(powers[0], number), self.looked_up(powers[1], number)) if powers else None

    # AVX-512.

    @property
    def avx512(self) -> bool:
        """Whether instructions of AVX-512 may be used by name."""
        return self.w.target is not None and self.w.target.avx512

    @property
    def full(self) -> int:
        """How many lanes a vector of AVX-512 has."""
        return 8 if self.wide else 16

    @property
    def full_of_avx512(self) -> bool:
        """Whether values are one or more vectors that AVX-512's own instructions take."""
        return self.avx512 and self.lanes >= self.full

    def looked_up(self, numbers: Sequence[float], places: Val) -> Val:
        """For each lane the number at its place, of as many numbers as two vectors have lanes.

        places: integers of the same width, of which the lowest bits count. Only with AVX-512.
        """
        return self._in_vectors(lambda given: self._looked_up_in_one(numbers, given), places)

    def _looked_up_in_one(self, numbers: Sequence[float], places: Val) -> Val:
        """`looked_up` for one vector, which may have fewer lanes, or for a scalar."""
        w, lanes, full = self.w, places.lanes, self.full
        assert len(numbers) == 2 * full and lanes <= full
        if not lanes:
            places = w.splat(places, full)
        elif lanes < full:
            places = w.shuffled(places, places, [i % lanes for i in range(full)])
        one, two = (
            Val("<" + ", ".join(str(w.constant(n, self.dtype)) for n in half) + ">", self.dtype, full)
            for half in (numbers[:full], numbers[full:])
        )
        symbol = f"llvm.x86.avx512.vpermi2var.{'pd' if self.wide else 'ps'}.512"
        w.declared.add(f"declare {one.type} @{symbol}({one.type}, {places.type}, {one.type})")
        found = w.emit(f"call {one.type} @{symbol}({one}, {places}, {two})", self.dtype, full)
        if not lanes:
            return w.emit(f"extractelement {found}, i32 0", self.dtype)
        return found if lanes == full else w.shuffled(found, found, list(range(lanes)))

    def instruction(self, name: str, operands: list[Val], immediate: str = "") -> Val:
        """An instruction of AVX-512 on full vectors, in the current rounding mode."""
        return self._in_vectors(lambda *given: self._instruction_on_one(name, given, immediate), *operands)

    def _instruction_on_one(self, name: str, operands: Sequence[Val], immediate: str) -> Val:
        suffix, mask = ("pd", "i8") if self.wide else ("ps", "i16")
        symbol, kind = f"llvm.x86.avx512.mask.{name}.{suffix}.512", operands[0].type
        extra = [immediate] if immediate else []
        kinds = [*(o.type for o in operands), *(e.split()[0] for e in extra), kind, mask, "i32"]
        self.w.declared.add(f"declare {kind} @{symbol}({', '.join(kinds)})")
        arguments = [*map(str, operands), *extra, f"{kind} zeroinitializer", f"{mask} -1", "i32 4"]
        return self.w.emit(f"call {kind} @{symbol}({', '.join(arguments)})", self.dtype, self.full)

    def _in_vectors(self, function: Callable[..., Val], *operands: Val) -> Val:
        """`function` of each full vector of the operands, or of what is less than one."""
        lanes = operands[0].lanes
        if lanes <= self.full:
            return function(*operands)
        halves = ([self._half(o, start) for o in operands] for start in (0, lanes // 2))
        low, high = (self._in_vectors(function, *given) for given in halves)
        return self.w.shuffled(low, high, list(range(lanes)))

    def _half(self, value: Val, start: int) -> Val:
        """Half of the lanes, from `start` on."""
        return self.w.shuffled(value, value, list(range(start, start + value.lanes // 2)))

    def signed_by_parity(self, value: Val, number: Val) -> Val:
        """-value where the integer `number` is odd."""
        sign = self.w.binary("shl", number, self.whole(63 if self.wide else 31))
        return self.from_bits(self.w.binary("xor", self.bits(value), sign))

    def signed_as(self, sign: Val, value: Val) -> Val:
        """-value where `sign` is negative."""
        bit = self.w.binary("and", self.bits(sign), self.bits(self.of(-0.0)))
        return self.from_bits(self.w.binary("xor", self.bits(value), bit))

    # What few lanes need.

    def rarely(self, name: str, needed: Val, value: Val, operands: list[Val], compute: Rare) -> Val:
        """`value`, replaced by `compute` of the operands in the lanes that are `needed`.

        It stands in a function of its own, which the module has once, and which is called where any
        lane needs it: the loop around stays short.
        """
        w = self.w
        w.declared.add("declare i1 @llvm.expect.i1(i1, i1)")
        some = needed.text
        if self.lanes:
            bits = w.emit(f"bitcast {needed} to i{self.lanes}", "bool")
            some = w.emit(f"icmp ne i{self.lanes} {bits.text}, 0", "bool").text
        expected = w.emit(f"call i1 @llvm.expect.i1(i1 {some}, i1 false)", "bool")
        symbol = self._rare_function(name, [needed, value, *operands], compute)
        before = w.block
        with w.when(expected.text):
            arguments = ", ".join(map(str, (needed, value, *operands)))
            replaced = w.emit(f"call {value.type} @{symbol}({arguments})", value.dtype, value.lanes)
            inside = w.block
        merged = f"phi {value.type} [ {value.text}, %{before} ], [ {replaced.text}, %{inside} ]"
        return w.emit(merged, value.dtype, value.lanes)

    def _rare_function(self, name: str, operands: list[Val], compute: Rare) -> str:
        """Writes the function, and gives its symbol.

        It is not optimised: that would take longer than the rest of most kernels.
        """
        # Of few lanes, too, AVX-512 looks numbers up in vectors of its whole width.
        bits = 512 if self.avx512 else min(512, max(128, 8 * DTYPES[self.dtype].size * self.lanes))

        def body(inner: Writer, needed: Val, value: Val, *rest: Val) -> Val:
            math = Math(inner, value, self.precision == "short")
            return inner.select(needed, compute(math, needed, *rest), value)

        symbol = f"fusegrad_{name}_{self.precision}_{self.lanes}"
        return self.w.function(symbol, operands, body, f"optnone cold {vector_width(bits)}")

    def from_library(self, name: str, x: Val, needed: Val) -> Val:
        """The C library's function in the lanes that are `needed`, one after the other; x in the others."""
        w, count = self.w, max(self.lanes, 1)
        symbol, element = name if self.wide else f"{name}f", DTYPES[self.dtype].register
        values, flags = w.stack(f"[{count} x {element}]"), w.stack(f"[{count} x i8]")
        w.line(f"store {x}, ptr {values}")
        w.line(f"store {w.convert(needed, 'u8')}, ptr {flags}")
        with w.loop("0", str(count)) as lane:
            flag = w.emit(f"load i8, ptr {w.offset(flags, lane)}", "u8")
            with w.when(w.convert(flag, "bool").text):
                place = w.offset(values, lane, element)
                value = w.emit(f"load {element}, ptr {place}", self.dtype)
                w.line(f"store {w.call(symbol, [value])}, ptr {place}")
        return w.emit(f"load {x.type}, ptr {values}", self.dtype, self.lanes)
