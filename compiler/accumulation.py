"""How an emitter reduces: accumulators in registers, a vector each, and arrays of them in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fusegrad.compiler.access import Access, memory_type
from fusegrad.compiler.kernel import Accumulate, Accumulator, Buffer, Operand
from fusegrad.compiler.primitives import apply
from fusegrad.compiler.scalar import identity
from fusegrad.compiler.writer import LLVM_TYPES, Val, Writer, vector_type

_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "or": "or_", "and": "and_"}


def combined(w: Writer, how: str, a: Val, b: Val) -> Val:
    """What a combiner makes of two values."""
    return apply(w, _COMBINE[how], [a, b], a.dtype)


class Accumulation(Access):
    """The part of `Emitter` that knows accumulators.

    sizes: of the axes. stacks: accumulators in registers (and variables): room and lanes. partials: arrays of
    accumulators: address.
    """

    sizes: dict[str, str]
    stacks: dict[str, tuple[str, int]]
    partials: dict[str, str]

    def operand(self, operand: Operand, dtype: str) -> Val:
        """A scalar by its name, or a number."""
        return self.values[operand] if isinstance(operand, str) else self.w.constant(operand, dtype)

    def declare(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for an accumulator that holds its identity."""
        type_ = vector_type(LLVM_TYPES[accumulator.dtype], lanes)
        if accumulator.target not in self.stacks:
            self.stacks[accumulator.target] = self.w.stack(type_), lanes
        start = self.w.constant(identity(accumulator.combine, accumulator.dtype), accumulator.dtype, lanes)
        self.w.line(f"store {start}, ptr {self.stacks[accumulator.target][0]}")

    def combine(self, accumulator: Accumulator, a: Val, b: Val) -> Val:
        return combined(self.w, accumulator.combine, a, b)

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

    def held(self, accumulator: Accumulator, place: tuple[str, int]) -> Val:
        """What an accumulator holds; place: its room and lanes."""
        room, lanes = place
        type_ = vector_type(LLVM_TYPES[accumulator.dtype], lanes)
        return self.w.emit(f"load {type_}, ptr {room}", accumulator.dtype, lanes)

    def settled(self, accumulator: Accumulator) -> Val:
        """The accumulator's value as a scalar, its lanes combined."""
        value = self.held(accumulator, self.stacks[accumulator.target])
        return self.w.fold(value, lambda a, b: self.combine(accumulator, a, b)) if value.lanes else value

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
