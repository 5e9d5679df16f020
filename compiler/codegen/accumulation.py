"""How an emitter reduces: accumulators in registers, a vector each, and arrays of them in memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from fusegrad.compiler.codegen.access import Access
from fusegrad.compiler.codegen.primitives import apply
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float, memory_type
from fusegrad.compiler.kernel.ir import Accumulate, Accumulator, Buffer, Operand
from fusegrad.compiler.kernel.scalar import identity
from fusegrad.compiler.llvm.ir_writer import Val, Writer, vector_type

_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "or": "or_", "and": "and_"}


def combined(w: Writer, how: str, a: Val, b: Val) -> Val:
    """What a combiner makes of two values."""
    return apply(w, _COMBINE[how], [a, b], a.dtype)


class Accumulation(Access):
    """The part of `Emitter` that knows accumulators.

    sizes: of the axes. stacks: accumulators in registers (and variables): room and lanes. partials: arrays of
    accumulators: address. nans: of extremes of floats that are held without NaN: room for the lanes that met
    one. unpaired: while vectors come in pairs, by accumulator the one that has not been looked at for NaN.
    """

    sizes: dict[str, str]
    stacks: dict[str, tuple[str, int]]
    partials: dict[str, str]
    nans: dict[str, str]
    unpaired: dict[str, Val] | None

    def operand(self, operand: Operand, dtype: str) -> Val:
        """A scalar by its name, or a number."""
        return self.values[operand] if isinstance(operand, str) else self.w.constant(operand, dtype)

    def declare(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for an accumulator that holds its identity."""
        type_ = vector_type(DTYPES[accumulator.dtype].register, lanes)
        if accumulator.target not in self.stacks:
            self.stacks[accumulator.target] = self.w.stack(type_), lanes
        start = self.w.constant(identity(accumulator.combine, accumulator.dtype), accumulator.dtype, lanes)
        self.w.line(f"store {start}, ptr {self.stacks[accumulator.target][0]}")
        if lanes and accumulator.combine in ("max", "min") and is_float(accumulator.dtype):
            self._declare_nans(accumulator, lanes)

    def _declare_nans(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for the lanes of an extreme that met a NaN.

        The larger of two numbers is one instruction, that NaN wins takes three more; whether any of two
        vectors has one takes two.
        """
        nobody = self.w.constant(0, DTYPES[accumulator.dtype].bits, lanes)
        if accumulator.target not in self.nans:
            self.nans[accumulator.target] = self.w.stack(nobody.type)
        self.w.line(f"store {nobody}, ptr {self.nans[accumulator.target]}")

    def combine(self, accumulator: Accumulator, a: Val, b: Val) -> Val:
        """What two parts of a reduction come to, whichever comes first."""
        how, w = accumulator.combine, self.w
        if how not in ("max", "min") or not is_float(a.dtype):
            return combined(w, how, a, b)
        if accumulator.target in self.nans and a.lanes:
            wins = "gt" if how == "max" else "lt"
            one, two = (w.select(w.compare(wins, x, y), x, y) for x, y in ((a, b), (b, a)))
            return self._zeros_united(how, one, two)
        united = self._zeros_united(how, a, b)
        return w.select(w.compare("eq", a, b), united, combined(w, how, a, b))

    def _zeros_united(self, how: str, a: Val, b: Val) -> Val:
        """Of two equal numbers that one; of zeros 0 as the larger, and -0 as the smaller, if one is that."""
        whole = DTYPES[a.dtype].bits
        bits = self.w.binary("and" if how == "max" else "or", self.w.bits(a, whole), self.w.bits(b, whole))
        return self.w.bits(bits, a.dtype)

    def accumulate(self, statement: Accumulate) -> None:
        """Take a value into its accumulator; lanes beyond the end take the identity."""
        w, accumulator = self.w, statement.accumulator
        value = self.operand(statement.value, accumulator.dtype)
        if accumulator.axes:
            address = self.array_element(accumulator)
            known = self.load_array(accumulator, address)
            value = w.splat(value, known.lanes)
            self.store_array(accumulator, address, self.combine(accumulator, known, value))
            return
        room, lanes = self.stacks[accumulator.target]
        value = w.splat(value, lanes)
        if lanes and self.mask is not None:
            nothing = w.constant(identity(accumulator.combine, accumulator.dtype), accumulator.dtype, lanes)
            value = w.select(self.mask, value, nothing)
        known = self.held(accumulator, self.stacks[accumulator.target])
        w.line(f"store {self.combine(accumulator, known, value)}, ptr {room}")
        if accumulator.target in self.nans:
            self._note_nan(accumulator.target, value)

    @contextlib.contextmanager
    def in_pairs(self) -> Iterator[None]:
        """What is accumulated here comes an even number of times."""
        self.unpaired = {}
        yield
        assert not self.unpaired
        self.unpaired = None

    def _note_nan(self, target: str, value: Val) -> None:
        """Mark the lanes in which `value`, or the one before it that has not been looked at, has a NaN."""
        w, other = self.w, value
        if self.unpaired is not None:
            if target not in self.unpaired:
                self.unpaired[target] = value
                return
            other = self.unpaired.pop(target)
        whole = DTYPES[value.dtype].bits
        unordered = w.emit(f"fcmp uno {other}, {value.text}", "bool", value.lanes)
        type_ = vector_type(DTYPES[whole].register, value.lanes)
        found = w.emit(f"sext {unordered} to {type_}", whole, value.lanes)
        known = w.emit(f"load {type_}, ptr {self.nans[target]}", whole, value.lanes)
        w.line(f"store {w.binary('or', known, found)}, ptr {self.nans[target]}")

    def held(self, accumulator: Accumulator, place: tuple[str, int]) -> Val:
        """What an accumulator holds; place: its room and lanes."""
        room, lanes = place
        type_ = vector_type(DTYPES[accumulator.dtype].register, lanes)
        return self.w.emit(f"load {type_}, ptr {room}", accumulator.dtype, lanes)

    def settled(self, accumulator: Accumulator) -> Val:
        """The accumulator's value as a scalar, its lanes combined."""
        w = self.w
        value = self.held(accumulator, self.stacks[accumulator.target])
        if not value.lanes:
            return value
        total = w.fold(value, lambda a, b: self.combine(accumulator, a, b))
        if accumulator.target not in self.nans:
            return total
        bits = 8 * DTYPES[value.dtype].size * value.lanes
        lanes = w.emit(f"load i{bits}, ptr {self.nans[accumulator.target]}", "i64")
        some = w.emit(f"icmp ne i{bits} {lanes.text}, 0", "bool")
        return w.select(some, w.constant(math.nan, value.dtype), total)

    def array_element(self, accumulator: Accumulator) -> str:
        """The address of an array accumulator's element at the current indices (row-major)."""
        w = self.w
        position = "0"
        for axis in accumulator.axes:
            if position != "0":
                position = w.index("mul", position, self.sizes[axis])
                position = w.index("add", position, self.indices[axis])
            else:
                position = self.indices[axis]
        return w.offset(self.partials[accumulator.target], position, memory_type(accumulator.dtype))

    def _array_buffer(self, accumulator: Accumulator, address: str) -> Buffer:
        """An array of accumulators seen as a buffer whose current element is at `address`."""
        buffer = Buffer(f"*{accumulator.target}", accumulator.dtype, (self.vector_axis or "",), 1)
        self.pointers[buffer.name], self.steps[buffer.name, 0] = address, "1"
        return buffer

    def load_array(self, accumulator: Accumulator, address: str) -> Val:
        """The accumulators from `address` on: one, or as many as lanes in a vector loop."""
        with self._at_zero():
            return self.load(self._array_buffer(accumulator, address))

    def store_array(self, accumulator: Accumulator, address: str, value: Val) -> None:
        """Put accumulators back at `address`."""
        with self._at_zero():
            self.store(self._array_buffer(accumulator, address), value)

    @contextlib.contextmanager
    def _at_zero(self) -> Iterator[None]:
        """The vector axis at 0: array accumulators are addressed with the index already added."""
        before = dict(self.indices)
        self.indices[self.vector_axis or ""] = "0"
        yield
        self.indices = before
