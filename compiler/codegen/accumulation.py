"""How an emitter reduces: accumulators in registers, a vector each, and arrays of them in memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

from fusegrad.compiler.codegen.access import Access
from fusegrad.compiler.codegen.primitives import apply
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float, memory_type
from fusegrad.compiler.kernel.ir import Accumulate, Accumulator, Buffer, Operand, Statement
from fusegrad.compiler.kernel.scalar import identity
from fusegrad.compiler.llvm.ir_writer import Val, Writer, vector_type

Array = tuple[str, str]  # an address, and the dtype of what is there
Place = tuple[str, int]  # a room on the stack, and the lanes of what it holds
Places = dict[str, Place]  # by accumulator

# So many vectors, or rows, are added one to the other. NumPy's pairwise sums begin with as many steps.
BLOCK = 16

_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "or": "or_", "and": "and_"}


def combined(w: Writer, how: str, a: Val, b: Val) -> Val:
    """What a combiner makes of two values."""
    return apply(w, _COMBINE[how], [a, b], a.dtype)


def is_array_of_blocks(accumulator: Accumulator) -> bool:
    """Whether it is two arrays: the whole, and the block of rows that is being summed."""
    return bool(accumulator.axes) and accumulator.total != accumulator.dtype


def rooms_of(accumulator: Accumulator) -> dict[str, str]:
    """What an accumulator that outlives a loop takes there: names, and dtypes."""
    block = {block_name(accumulator): accumulator.dtype} if is_array_of_blocks(accumulator) else {}
    return {accumulator.target: accumulator.total, **block}


def block_name(accumulator: Accumulator) -> str:
    return f"block of {accumulator.target}"


def _held_as(accumulator: Accumulator, lanes: int) -> str:
    """The dtype of what is in a room of an accumulator: vectors hold a block, a scalar the whole."""
    return accumulator.dtype if lanes else accumulator.total


class Accumulation(Access):
    """The part of `Emitter` that knows accumulators.

    sizes: of the axes. stacks: accumulators in registers (and variables). wholes: where the sums are of which
    vectors hold the last block. arrays, whole_arrays: where array accumulators are. nans: of extremes of
    floats that are held without NaN: room for the lanes that met one. zeros: room for the least bits that
    lanes met. unpaired: while vectors come in pairs, by accumulator the one that has not been looked at for
    NaN.
    """

    sizes: dict[str, str]
    stacks: dict[str, Place]
    wholes: dict[str, Place]
    arrays: dict[str, Array]
    whole_arrays: dict[str, str]
    nans: dict[str, str]
    zeros: dict[str, str]
    unpaired: dict[str, Val] | None

    def operand(self, operand: Operand, dtype: str) -> Val:
        """A scalar by its name, or a number."""
        return self.values[operand] if isinstance(operand, str) else self.w.constant(operand, dtype)

    def declare(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for an accumulator that holds its identity."""
        target = accumulator.target
        if target not in self.stacks:
            self.stacks[target] = self._room(accumulator, lanes)
        self._clear(accumulator, self.stacks[target])
        if lanes and accumulator.total != accumulator.dtype:
            if target not in self.wholes:
                self.wholes[target] = self._room(accumulator, 0)
            self._clear(accumulator, self.wholes[target])
        if lanes and accumulator.combine in ("max", "min") and is_float(accumulator.dtype):
            self._declare_nans(accumulator, lanes)
            self._declare_zeros(accumulator, lanes)

    def copy_of(self, accumulator: Accumulator) -> Place:
        """Another room like that of an accumulator in a vector loop, for vectors that it takes in turn."""
        place = self._room(accumulator, self.stacks[accumulator.target][1])
        self._clear(accumulator, place)
        return place

    def _room(self, accumulator: Accumulator, lanes: int) -> Place:
        return self.w.stack(vector_type(DTYPES[_held_as(accumulator, lanes)].register, lanes)), lanes

    def _clear(self, accumulator: Accumulator, place: Place) -> None:
        room, lanes = place
        dtype = _held_as(accumulator, lanes)
        self.w.line(
            f"store {self.w.constant(identity(accumulator.combine, dtype), dtype, lanes)}, ptr {room}"
        )

    def _declare_nans(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for the lanes of an extreme that met a NaN.

        The larger of two numbers is one instruction, that NaN wins takes three more; whether any of two
        vectors has one takes two.
        """
        nobody = self.w.constant(0, DTYPES[accumulator.dtype].bits, lanes)
        if accumulator.target not in self.nans:
            self.nans[accumulator.target] = self.w.stack(nobody.type)
        self.w.line(f"store {nobody}, ptr {self.nans[accumulator.target]}")

    # Sums. What a vector has added up for a while is taken into the whole, which is kept in a wider dtype.

    @contextlib.contextmanager
    def in_blocks(
        self, body: Sequence[Statement], start: str, stop: str, step: int, copies: Sequence[Places] = ()
    ) -> Iterator[str]:
        """A loop over `range(start, stop, step)` that takes in block after block.

        copies: the rooms that `body` accumulates in by turns, if it is not their own.
        """
        w = self.w
        if not self._with_wholes(body):
            with w.loop(start, stop, str(step)) as index:
                yield index
            return
        with self.blocks(start, stop, step * BLOCK) as (first, last, more):
            with w.loop(first, last, str(step)) as index:
                yield index
            with w.when(more):
                self.take_in(body, copies)

    @contextlib.contextmanager
    def blocks(self, start: str, stop: str, size: int) -> Iterator[tuple[str, str, str]]:
        """A loop over blocks of a range: begin, end, and whether another one follows."""
        w = self.w
        with w.loop(start, stop, str(size)) as first:
            following = Val(w.index("add", first, str(size)), "i64")
            more = w.compare("lt", following, Val(stop, "i64"))
            yield first, w.select(more, following, Val(stop, "i64")).text, more.text

    def take_in(self, body: Sequence[Statement], copies: Sequence[Places] = ()) -> None:
        """Add what the vectors of `body` hold to the wholes, and begin anew."""
        for target, accumulator in self._with_wholes(body).items():
            places = [places[target] for places in copies] or [self.stacks[target]]
            parts = [self.held(accumulator, place) for place in places]
            for place in places:
                self._clear(accumulator, place)
            part = self.w.convert(
                self._fold(accumulator, self._united(accumulator, parts)), accumulator.total
            )
            known = self.held(accumulator, self.wholes[target])
            self.w.line(f"store {self.combine(accumulator, known, part)}, ptr {self.wholes[target][0]}")

    def _with_wholes(self, body: Sequence[Statement]) -> dict[str, Accumulator]:
        found = (s.accumulator for s in body if isinstance(s, Accumulate))
        return {a.target: a for a in found if a.target in self.wholes}

    def _united(self, accumulator: Accumulator, parts: list[Val]) -> Val:
        """Several as one, in pairs."""
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.combine(accumulator, one, two) for one, two in pairs]
        return parts[0]

    def _fold(self, accumulator: Accumulator, value: Val) -> Val:
        return self.w.fold(value, lambda a, b: self.combine(accumulator, a, b))

    # One value after the other.

    def combine(self, accumulator: Accumulator, a: Val, b: Val) -> Val:
        """What two parts of a reduction come to, whichever comes first."""
        how, w = accumulator.combine, self.w
        if how not in ("max", "min") or not is_float(a.dtype):
            return combined(w, how, a, b)
        if accumulator.target in self.nans and a.lanes:
            return w.select(w.compare("gt" if how == "max" else "lt", b, a), b, a)
        larger = combined(w, how, a, b)
        if accumulator.target in self.zeros and a.lanes:
            return larger
        # Equal numbers have the same bits, but for zeros: 0 is the larger, and -0 the smaller one.
        whole = DTYPES[a.dtype].bits
        bits = w.binary("and" if how == "max" else "or", w.bits(a, whole), w.bits(b, whole))
        return w.select(w.compare("eq", a, b), w.bits(bits, a.dtype), larger)

    # Zeros of both signs are equal to instructions, so which of them a vector holds is chance. But the bits
    # of the one that is to stay are the least of all, which it takes one more instruction to know.

    def _declare_zeros(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for the least bits that lanes of an extreme met."""
        whole = DTYPES[accumulator.dtype].bits
        most = -1 if accumulator.combine == "max" else identity("min", whole)
        start = self.w.constant(most, whole, lanes)
        if accumulator.target not in self.zeros:
            self.zeros[accumulator.target] = self.w.stack(start.type)
        self.w.line(f"store {start}, ptr {self.zeros[accumulator.target]}")

    def _note_zero(self, accumulator: Accumulator, value: Val) -> None:
        w, room = self.w, self.zeros[accumulator.target]
        bits = w.bits(value, DTYPES[value.dtype].bits)
        least = "llvm.umin" if accumulator.combine == "max" else "llvm.smin"
        w.line(f"store {w.call(least, [self._marks(room, value), bits])}, ptr {room}")

    def _signed_zero(self, accumulator: Accumulator, value: Val, total: Val) -> Val:
        """`total`, which the lanes of `value` were united to; if it is zero, which is rare, the right one."""
        w, zero, room = self.w, 0.0 if accumulator.combine == "max" else -0.0, self.w.stack(total.type)
        w.line(f"store {total}, ptr {room}")
        with w.when(w.compare("eq", total, w.constant(0.0, total.dtype)).text, rare=True):
            least = self._marks(self.zeros[accumulator.target], value)
            wanted = 0 if accumulator.combine == "max" else identity("max", least.dtype)
            some = self._any_lane(w.compare("eq", least, w.constant(wanted, least.dtype, least.lanes)))
            right = w.select(some, *(w.constant(z, total.dtype) for z in (zero, -zero)))
            w.line(f"store {right}, ptr {room}")
        return w.emit(f"load {total.type}, ptr {room}", total.dtype)

    def accumulate(self, statement: Accumulate) -> None:
        """Take a value into its accumulator; lanes beyond the end take the identity."""
        w, accumulator = self.w, statement.accumulator
        value = self.operand(statement.value, accumulator.dtype)
        if accumulator.axes:
            address = self.array_element(accumulator)
            known = self.load_elements(self.arrays[accumulator.target][1], address)
            value = w.convert(w.splat(value, known.lanes), known.dtype)
            self.store_elements(address, self.combine(accumulator, known, value))
            return
        room, lanes = self.stacks[accumulator.target]
        value = w.convert(w.splat(value, lanes), _held_as(accumulator, lanes))
        if lanes and self.mask is not None:
            nothing = w.constant(identity(accumulator.combine, accumulator.dtype), accumulator.dtype, lanes)
            value = w.select(self.mask, value, nothing)
        known = self.held(accumulator, self.stacks[accumulator.target])
        w.line(f"store {self.combine(accumulator, known, value)}, ptr {room}")
        if accumulator.target in self.nans:
            self._note_nan(accumulator.target, value)
        if accumulator.target in self.zeros:
            self._note_zero(accumulator, value)

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
        unordered = w.emit(f"fcmp uno {other}, {value.text}", "bool", value.lanes)
        known = self._marks(self.nans[target], value)
        type_ = vector_type(DTYPES[known.dtype].register, value.lanes)
        found = w.emit(f"sext {unordered} to {type_}", known.dtype, value.lanes)
        w.line(f"store {w.binary('or', known, found)}, ptr {self.nans[target]}")

    def held(self, accumulator: Accumulator, place: Place) -> Val:
        """What an accumulator holds in a room of its."""
        room, lanes = place
        dtype = _held_as(accumulator, lanes)
        return self.w.emit(f"load {vector_type(DTYPES[dtype].register, lanes)}, ptr {room}", dtype, lanes)

    def settled(self, accumulator: Accumulator) -> Val:
        """The accumulator's value as a scalar, its lanes combined."""
        w, target = self.w, accumulator.target
        value = self.held(accumulator, self.wholes.get(target) or self.stacks[target])
        if not value.lanes:
            return value
        total = self._fold(accumulator, value)
        if target in self.zeros:
            total = self._signed_zero(accumulator, value, total)
        if target not in self.nans:
            return total
        marks = self._marks(self.nans[target], value)
        some = self._any_lane(w.compare("ne", marks, w.constant(0, marks.dtype, marks.lanes)))
        return w.select(some, w.constant(math.nan, value.dtype), total)

    def _marks(self, room: str, like: Val) -> Val:
        """What a room holds of integers, as wide as the lanes of a value."""
        whole = DTYPES[like.dtype].bits
        return self.w.emit(
            f"load {vector_type(DTYPES[whole].register, like.lanes)}, ptr {room}", whole, like.lanes
        )

    def _any_lane(self, condition: Val) -> Val:
        lanes = self.w.emit(f"bitcast {condition} to i{condition.lanes}", "bool")
        return self.w.emit(f"icmp ne i{condition.lanes} {lanes.text}, 0", "bool")

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
        address, dtype = self.arrays[accumulator.target]
        return w.offset(address, position, memory_type(dtype))

    def _elements(self, dtype: str, address: str) -> Buffer:
        """What lies at an address, as a buffer whose current element is there."""
        buffer = Buffer(f"*{address}", dtype, (self.vector_axis or "",), 1)
        self.pointers[buffer.name], self.steps[buffer.name, 0] = address, "1"
        return buffer

    def load_elements(self, dtype: str, address: str) -> Val:
        """The accumulators from `address` on: one, or as many as lanes in a vector loop."""
        with self._at_zero():
            return self.load(self._elements(dtype, address))

    def store_elements(self, address: str, value: Val) -> None:
        """Put accumulators back at `address`."""
        with self._at_zero():
            self.store(self._elements(value.dtype, address), value)

    @contextlib.contextmanager
    def _at_zero(self) -> Iterator[None]:
        """The vector axis at 0: array accumulators are addressed with the index already added."""
        before = dict(self.indices)
        self.indices[self.vector_axis or ""] = "0"
        yield
        self.indices = before
