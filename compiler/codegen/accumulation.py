"""How an emitter reduces: accumulators in registers, a vector each, and arrays of them in memory."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fusegrad.compiler.codegen.lane_rows import LaneRows
from fusegrad.compiler.codegen.primitives import apply
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float, memory_type
from fusegrad.compiler.kernel.ir import (
    Accumulate,
    Accumulator,
    Buffer,
    Kernel,
    Loop,
    Operand,
    Statement,
    noted,
    walk,
    written_out,
)
from fusegrad.compiler.kernel.scalar import identity
from fusegrad.compiler.llvm.ir_writer import Val, Writer, vector_type

Array = tuple[str, str]  # an address, and the dtype of what is there


class Place(NamedTuple):
    """A room on the stack; the lanes and the dtype of what it holds."""

    room: str
    lanes: int
    dtype: str


Places = dict[str, Place]  # by accumulator

# A lane adds so many numbers one to the other; NumPy's sums of fewer do so too.
FEW = 8
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


def is_sum(accumulator: Accumulator) -> bool:
    """Whether it adds floats, which in one long line would round too often."""
    return accumulator.combine == "add" and is_float(accumulator.dtype)


@noted
def long_sums(kernel: Kernel) -> frozenset[str]:
    """The sums of floats, of one lane each, of more than `FEW` numbers."""
    return frozenset(_long_sums(kernel.body, 1.0, in_lanes=False))


def _long_sums(body: Iterable[Statement], times: float, in_lanes: bool) -> Iterator[str]:
    """Those in a body that runs so many times in each lane."""
    for s in body:
        if isinstance(s, Loop):
            vectors = s.kind in ("vector", "chunked")
            inner = 1.0 if vectors else times * (s.count or math.inf)
            yield from _long_sums(s.body, inner, in_lanes or vectors)
        elif isinstance(s, Accumulate) and in_lanes and times > FEW and is_sum(s.accumulator):
            yield s.accumulator.target


def most_in_a_round(body: Sequence[Statement]) -> int:
    """How often a round of a loop adds to one accumulator, inner serial loops apart: those have blocks."""
    times = [
        math.prod(n for axis, n in around.items() if axis not in s.accumulator.axes)
        for s, around in written_out(body)
        if isinstance(s, Accumulate)
    ]
    return max(times, default=1)


def block_name(accumulator: Accumulator) -> str:
    return f"block of {accumulator.target}"


class Accumulation(LaneRows):
    """The part of `Emitter` that knows accumulators.

    sizes: of the axes. stacks: accumulators in registers (and variables). wholes: where the sums are of which
    vectors hold the last block. apart: accumulators of which each lane is a result. long_sums: those that
    take more than a few numbers a lane. arrays, whole_arrays: where array accumulators are. nans: of extremes
    of floats that are held without NaN: room for the lanes that met one. zeros: room for the least bits that
    lanes met. unpaired: while vectors come in pairs, by accumulator the one that has not been looked at for
    NaN.
    """

    sizes: dict[str, str]
    stacks: dict[str, Place]
    wholes: dict[str, Place]
    apart: set[str]
    long_sums: frozenset[str]
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
        # Vectors hold a block, a scalar the whole.
        self._declare_room(self.stacks, accumulator, lanes, accumulator.dtype if lanes else accumulator.total)
        if lanes and accumulator.total != accumulator.dtype:
            self._declare_room(self.wholes, accumulator, 0, accumulator.total)
        if lanes and accumulator.combine in ("max", "min") and is_float(accumulator.dtype):
            self._declare_nans(accumulator, lanes)
            self._declare_zeros(accumulator, lanes)

    def declare_apart(self, accumulator: Accumulator, lanes: int) -> None:
        """Room for an accumulator of which each lane is a result of its own."""
        self.apart.add(accumulator.target)
        self._declare_room(self.stacks, accumulator, lanes, accumulator.dtype)
        if accumulator.total != accumulator.dtype or accumulator.target in self.long_sums:
            self._declare_room(self.wholes, accumulator, lanes, accumulator.total)

    def _declare_room(self, rooms: Places, accumulator: Accumulator, lanes: int, dtype: str) -> None:
        target = accumulator.target
        if target not in rooms:
            rooms[target] = self.room(lanes, dtype)
        self._clear(accumulator, rooms[target])

    def copy_of(self, accumulator: Accumulator) -> Place:
        """Another room like that of an accumulator in a vector loop, for vectors that it takes in turn."""
        _, lanes, dtype = self.stacks[accumulator.target]
        place = self.room(lanes, dtype)
        self._clear(accumulator, place)
        return place

    def room(self, lanes: int, dtype: str) -> Place:
        """Room on the stack for one value."""
        return Place(self.w.stack(vector_type(DTYPES[dtype].register, lanes)), lanes, dtype)

    def _clear(self, accumulator: Accumulator, place: Place) -> None:
        start = self.w.constant(identity(accumulator.combine, place.dtype), place.dtype, place.lanes)
        self.w.line(f"store {start}, ptr {place.room}")

    # Array accumulators over axes that are unrolled are single ones, each for one element.

    def is_by_element(self, accumulator: Accumulator) -> bool:
        """Whether each element of an array accumulator has room of its own."""
        return bool(accumulator.axes) and self.counts.keys() >= {*accumulator.axes}

    def elements(self, accumulator: Accumulator) -> list[Accumulator]:
        """The accumulators of the single elements, in the order of the array."""
        ranges = (range(self.counts[axis]) for axis in accumulator.axes)
        return [self._element(accumulator, map(str, index)) for index in itertools.product(*ranges)]

    def _element(self, accumulator: Accumulator, index: Iterable[str]) -> Accumulator:
        return replace(accumulator, target=f"{accumulator.target}[{', '.join(index)}]", axes=())

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
        with self.blocks(start, stop, step * max(1, BLOCK // most_in_a_round(body))) as (first, last, more):
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

    def take_in_lanes(self, body: Sequence[Statement]) -> None:
        """The same for those sums alone of which each lane is a result."""
        self._take_in({t: a for t, a in self._with_wholes(body).items() if t in self.apart})

    def take_in(self, body: Sequence[Statement], copies: Sequence[Places] = ()) -> None:
        """Add what the vectors of `body` hold to the wholes, and begin anew."""
        self._take_in(self._with_wholes(body), copies)

    def _take_in(self, accumulators: Mapping[str, Accumulator], copies: Sequence[Places] = ()) -> None:
        for target, accumulator in accumulators.items():
            places = [places[target] for places in copies] or [self.stacks[target]]
            parts = [self.held(place) for place in places]
            for place in places:
                self._clear(accumulator, place)
            part = self._united(accumulator, parts)
            part = part if target in self.apart else self._fold(accumulator, part)
            known = self.held(self.wholes[target])
            total = self.combine(accumulator, known, self.w.convert(part, accumulator.total))
            self.w.line(f"store {total}, ptr {self.wholes[target].room}")

    def _with_wholes(self, body: Sequence[Statement]) -> dict[str, Accumulator]:
        """The sums that `body` adds to and that outlive it, where vectors hold no more than a block."""
        inside = tuple(walk(tuple(body)))
        own = {s.target for s in inside if isinstance(s, Accumulator)}
        found: list[Accumulator] = []
        for accumulator in (s.accumulator for s in inside if isinstance(s, Accumulate)):
            if accumulator.target not in own:
                found += self.elements(accumulator) if self.is_by_element(accumulator) else [accumulator]
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
        if self.is_by_element(accumulator):
            accumulator = self._element(accumulator, (self.indices[axis] for axis in accumulator.axes))
        if accumulator.axes:
            address = self.array_element(accumulator)
            known = self.load_elements(self.arrays[accumulator.target][1], address)
            value = w.convert(w.splat(value, known.lanes), known.dtype)
            self.store_elements(address, self.combine(accumulator, known, value))
            return
        room, lanes, dtype = place = self.stacks[accumulator.target]
        value = w.convert(w.splat(value, lanes), dtype)
        if lanes and self.mask is not None and accumulator.target not in self.apart:
            nothing = w.constant(identity(accumulator.combine, accumulator.dtype), accumulator.dtype, lanes)
            value = w.select(self.mask, value, nothing)
        w.line(f"store {self.combine(accumulator, self.held(place), value)}, ptr {room}")
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

    def held(self, place: Place) -> Val:
        """What a room holds."""
        room, lanes, dtype = place
        return self.w.emit(f"load {vector_type(DTYPES[dtype].register, lanes)}, ptr {room}", dtype, lanes)

    def settled(self, accumulator: Accumulator) -> Val:
        """The accumulator's value as a scalar, its lanes combined unless each is a result."""
        w, target = self.w, accumulator.target
        value = self.held(self.wholes.get(target) or self.stacks[target])
        if not value.lanes or target in self.apart:
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
        buffer = Buffer(f"*{address}", dtype, (self.vector_axis or "",), (1,))
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
