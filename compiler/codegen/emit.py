"""From the kernel IR to LLVM IR.

A kernel becomes three functions. `NAME(slots, block)` is what a program calls: `slots` holds the
addresses of the program's buffers, `block` the sizes, numbers, offsets and steps of this use.
It cuts the parallel axes into chunks, whose number depends on sizes only, so that results do
not depend on the number of threads, and runs them here or with a team (`thread_pool.py`).
`NAME.task` computes one chunk and leaves what it accumulated in the scratch buffer; `NAME`
then combines these in order and runs the statements after the loops.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from fusegrad.compiler.codegen.accumulation import FEW, Accumulation, Array, Places, combined, long_sums
from fusegrad.compiler.codegen.index_set_splitting import Interior, interior
from fusegrad.compiler.codegen.kernel_parts import block_of, functions_written, lanes_of, outer_accumulators
from fusegrad.compiler.codegen.prefetch import Ahead
from fusegrad.compiler.codegen.primitives import apply, extreme
from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import (
    ELEMENTARY,
    Accumulate,
    Accumulator,
    Assign,
    Buffer,
    Compute,
    Kernel,
    Load,
    Loop,
    Operand,
    Progression,
    Read,
    Recall,
    Statement,
    Store,
    Variable,
    is_nested,
    times_written,
    unrolled_counts,
    walk,
)
from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.llvm.ir_writer import LINE, Val, Writer
from fusegrad.compiler.llvm.target import Target

# Of more elementary functions than this a kernel has each once, and calls it: written out wherever they are
# asked for, they would take LLVM seconds.
MOST_WRITTEN_OUT = 4
# A body of more statements than this is there once, for vectors that may not be full: LLVM takes as long for
# it as for a hundred short ones.
LONGEST_TWICE = 128


# Of more buffers than registers have room for, the addresses are found in a loop.
MOST_FOUND_APART = 12


@functools.cache
def _find_text() -> str:
    """`fusegrad_find(slots, places, count, found)`: the addresses that pairs of slot and byte offset give. In
    one line, so that modules that are joined have it once.
    """
    takes = {"slots": "ptr", "places": "ptr", "count": "i64", "found": "ptr"}
    f = FunctionWriter("fusegrad_find", takes, attributes="noinline nounwind", private=True)
    slots, places, count, found = f.given
    with f.loop(count) as i:
        place = places.at(i * 2)
        address = slots.at(place.load("i64")).load("ptr").at(place.load("i64", 1), "i8")
        found.at(i).store(address)
    return " ".join(f.text().split())


class Emitter(Accumulation):
    """Writes one function of a kernel."""

    def __init__(self, kernel: Kernel, declared: set[str], target: Target) -> None:
        self.kernel, self.target, self.lanes = kernel, target, lanes_of(kernel, target)
        self.w = Writer(declared, target)
        self.w.contracts = kernel.contracted
        self.w.calls_functions = functions_written(kernel) > MOST_WRITTEN_OUT
        self.block = block_of(kernel)
        self.streamed = frozenset(kernel.streamed)
        self.values: dict[str, Val] = {}
        self.pointers: dict[str, str] = {}
        self.steps: dict[tuple[str, int], str] = {}
        self.sizes: dict[str, str] = {}
        self.indices: dict[str, str] = {}
        # Set inside a vector loop: its axis; the mask of a tail that is not full, and of how many lanes.
        self.vector_axis: str | None = None
        self.mask: Val | None = None
        self.left: str | None = None
        self.counting: dict[Operand, Val] = {}  # vectors that count on from an index: that index
        self.narrowed: dict[Val, tuple[Val, Val]] = {}  # conditions that are one of all lanes and one of each
        self.certain: frozenset[str] = frozenset()  # booleans that are true in the loop's interior
        self.ahead: Ahead | None = None
        self.stacks: Places = {}  # accumulators in registers, and variables
        self.wholes: Places = {}
        self.apart: set[str] = set()
        self.long_sums = long_sums(kernel)
        self.counts = unrolled_counts(kernel)
        self.seen = None
        self.pending = {}
        self.arrays: dict[str, Array] = {}
        self.whole_arrays: dict[str, str] = {}
        self.nans: dict[str, str] = {}
        self.zeros: dict[str, str] = {}
        self.unpaired: dict[str, Val] | None = None

    # Arguments.

    def arguments(self) -> None:
        """Load sizes, numbers, addresses and steps."""
        w, block = self.w, self.block
        self.sizes = {axis: w.load_index("%block", place) for axis, place in block.sizes.items()}
        for name, dtype in self.kernel.numbers:
            address, loaded = w.name("p"), w.name()
            w.line(f"{address} = getelementptr i64, ptr %block, i64 {block.numbers[name]}")
            w.line(f"{loaded} = load {memory_type(dtype)}, ptr {address}")
            self.values[name] = w.convert(Val(loaded, DTYPES[dtype].memory), dtype)
        self._addresses()
        for buffer in (*self.kernel.inputs, *self.kernel.outputs):
            for i, step in enumerate(buffer.steps):
                place = block.steps[buffer.name] + i
                self.steps[buffer.name, i] = w.load_index("%block", place) if step is None else str(step)

    def _addresses(self) -> None:
        """Where the buffers are: many are found by a loop, of which LLVM has little to do."""
        w, buffers = self.w, self.block.buffers
        if len(buffers) <= MOST_FOUND_APART:
            self.pointers.update((name, self.address(place)) for name, place in buffers.items())
            return
        found = w.stack(f"[{len(buffers)} x ptr]")
        first = w.offset("%block", str(min(buffers.values())), "i64")
        w.declared.add(_find_text())
        w.line(f"call void @fusegrad_find(ptr %slots, ptr {first}, i64 {len(buffers)}, ptr {found})")
        for number, name in enumerate(buffers):
            address = self.pointers[name] = w.name("p")
            w.line(f"{address} = load ptr, ptr {w.offset(found, str(number), 'ptr')}")

    def address(self, place: int) -> str:
        """The address that a slot and a byte offset in the block give."""
        w = self.w
        slot, offset = w.load_index("%block", place), w.load_index("%block", place + 1)
        entry, base = w.name("p"), w.name("p")
        w.line(f"{entry} = getelementptr ptr, ptr %slots, i64 {slot}")
        w.line(f"{base} = load ptr, ptr {entry}")
        return w.offset(base, offset)

    # Scalars.

    def compute(self, statement: Compute) -> Val:
        """One scalar statement, on vectors where an operand is one."""
        if statement.op == "eq" and (found := self._lane_of_index(statement.operands)) is not None:
            return found
        named = [self.values[o] for o in statement.operands if isinstance(o, str)]
        dtype = named[-1].dtype
        operands = [self.operand(o, dtype) for o in statement.operands]
        if statement.op == "select":
            operands = self._narrowed_before(*operands)
        lanes = max(o.lanes for o in operands)
        result = apply(self.w, statement.op, [self.w.splat(o, lanes) for o in operands], statement.dtype)
        if statement.op == "and_" and dtype == "bool":
            every, each = sorted(operands, key=lambda o: o.lanes)
            if each.lanes and not every.lanes:
                self.narrowed[result] = every, each
        return result

    def _narrowed_before(self, condition: Val, yes: Val, no: Val) -> list[Val]:
        """The operands of a selection between scalars, where one condition is for all lanes: that one then
        decides between the scalars. Without registers for masks a vector of it takes ten instructions.
        """
        if condition not in self.narrowed or yes.lanes or no.lanes:
            return [condition, yes, no]
        every, each = self.narrowed[condition]
        return [each, self.w.select(every, yes, no), no]

    def _lane_of_index(self, operands: tuple[Operand, ...]) -> Val | None:
        """Where the vector axis's index equals a scalar: true in one lane at most. None for other operands.

        Long integers take two vectors; which lane it is takes one of short ones.
        """
        w, (index, other) = self.w, operands
        if other in self.counting:
            index, other = other, index
        if index not in self.counting or not isinstance(other, str) or self.values[other].lanes:
            return None
        lane = w.binary("sub", self.values[other], self.counting[index])
        inside = w.emit(f"icmp ult {lane}, {self.lanes}", "bool")
        lane = w.convert(w.select(inside, lane, w.constant(-1, "i64")), "i32")
        return w.compare("eq", w.splat(lane, self.lanes), w.lane_numbers(self.lanes, "i32"))

    def progression(self, statement: Progression) -> Val:
        """`start + step * axis` in whole numbers, then as the dtype."""
        w = self.w
        if statement.axis is None:
            return w.constant(statement.start, statement.dtype)
        index = Val(self.indices[statement.axis], "i64")
        if statement.axis == self.vector_axis:
            if (statement.start, statement.step, statement.dtype) == (0, 1, "i64"):
                self.counting[statement.target] = index
            index = w.binary("add", w.splat(index, self.lanes), w.lane_numbers(self.lanes))
        if statement.step != 1:
            index = w.binary("mul", index, w.constant(statement.step, "i64", index.lanes))
        if statement.start != 0:
            index = w.binary("add", index, w.constant(statement.start, "i64", index.lanes))
        return w.convert(index, statement.dtype)

    # Stores and variables.

    def write(self, statement: Store) -> None:
        """Store a value, or what the combiner makes of it and what is there."""
        buffer, places, when = statement.buffer, statement.places, self.unless_certain(statement.when)
        value = self.operand(statement.value, buffer.dtype)
        if statement.combine is not None:
            known = self.load(buffer, places, when)
            value = combined(self.w, statement.combine, known, self.w.splat(value, known.lanes))
        self.store(buffer, value, places, when)

    def variable(self, target: str, value: Val) -> None:
        """Room for a variable: as many lanes as the loop around it has."""
        lanes = self.lanes if self.vector_axis is not None else 0
        value = self.w.splat(value, lanes)
        if target not in self.stacks:
            self.stacks[target] = self.room(lanes, value.dtype)
        self.w.line(f"store {value}, ptr {self.stacks[target].room}")

    # Statements.

    def statements(self, body: tuple[Statement, ...] | list[Statement]) -> None:
        for statement in body:
            match statement:
                case Load(target, buffer, places, when):
                    self.values[target] = self.load(buffer, places, self.unless_certain(when))
                case Compute(target) if target in self.certain:
                    self.values[target] = self.w.constant(True, "bool")
                case Compute(target):
                    self.values[target] = self.compute(statement)
                case Progression(target):
                    self.values[target] = self.progression(statement)
                case Store():
                    self.write(statement)
                case Accumulator() if self.vector_axis is not None:
                    self.declare_apart(statement, self.lanes)
                case Accumulator():
                    self.declare(statement, self.lanes if filled_in_vectors(statement, body) else 0)
                case Accumulate():
                    self.accumulate(statement)
                case Read(target, accumulator):
                    address = self.array_element(accumulator)
                    self.values[target] = self.load_elements(self.arrays[accumulator.target][1], address)
                case Variable(target, value, dtype):
                    self.variable(target, self.operand(value, dtype))
                case Recall(target, variable):
                    self.values[target] = self.held(self.stacks[variable.target])
                case Assign(variable, value):
                    place = self.stacks[variable.target]
                    now = self.w.splat(self.operand(value, variable.dtype), place.lanes)
                    self.w.line(f"store {now}, ptr {place.room}")
                case Loop():
                    self.loop(statement)

    def loop(self, loop: Loop) -> None:
        """A loop that threads do not share; what was reduced in it is a scalar afterwards."""
        (axis,) = loop.axes
        if loop.count is not None:
            for index in range(loop.count):
                self.indices[axis] = str(index)
                self.statements(loop.body)
                if index % FEW == FEW - 1 or index == loop.count - 1:
                    self.take_in_lanes(loop.body)
        elif loop.kind == "serial":
            self.serial_loop(axis, loop.body)
        else:
            self.vector_loop(axis, loop.body, "0", self.sizes[axis])
        for statement in walk(loop.body):
            if isinstance(statement, Accumulate) and not statement.accumulator.axes:
                accumulator = statement.accumulator
                if accumulator.target not in self.outer_targets:
                    self.values[accumulator.target] = self.settled(accumulator)

    def serial_loop(self, axis: str, body: tuple[Statement, ...]) -> None:
        """One index after the other; in a loop over vectors, for all lanes."""
        size = self.sizes[axis]
        if self.vector_axis is None:
            with self.w.loop("0", size) as self.indices[axis]:
                self.statements(body)
            return
        with self.in_blocks(body, "0", size, 1) as self.indices[axis], self.inner_round():
            self.statements(body)
        self.take_in(body)

    @property
    def outer_targets(self) -> set[str]:
        return {a.target for a in outer_accumulators(self.kernel)}

    def vector_loop(self, axis: str, body: tuple[Statement, ...], start: str, stop: str) -> None:
        """Full vectors first, several at a time where that helps, then one masked vector for the rest."""
        w = self.w
        found = None if is_nested(body) else interior(axis, body)
        if found is not None:
            self.split_loop(axis, body, start, stop, found)
            return
        self.vector_axis = axis
        room = w.index("sub", stop, start)
        full = w.index("and", room, str(-self.lanes))
        end = w.index("add", start, full)
        if waits_for_itself(body):
            many = w.index("and", room, str(-self.lanes * COPIES))
            start, first = w.index("add", start, many), start
            some = w.name()
            w.line(f"{some} = icmp sgt i64 {many}, 0")
            with w.when(some):
                self.copied(axis, body, first, start)
        if times_written(body) > LONGEST_TWICE:
            with self.in_blocks(body, start, stop, self.lanes) as index:
                self.masked(axis, body, index, stop)
            self.take_in(body)
            self.vector_axis = None
            return
        lines = self.next_row(axis) if self.ahead is not None and self.ahead.body is body else {}
        with self.in_blocks(body, start, end, self.lanes) as index:
            self.indices[axis] = index
            for buffer, line in lines.items():
                vector = w.offset(line, index, memory_type(buffer.dtype))
                for place in range(0, self.lanes * DTYPES[buffer.dtype].size, LINE):
                    w.prefetch(w.offset(vector, str(place)))
            self.vector_round(body)
        rest = w.index("sub", stop, end)
        some = w.name()
        w.line(f"{some} = icmp sgt i64 {rest}, 0")
        with w.when(some):
            self.masked(axis, body, end, stop)
        self.take_in(body)
        self.vector_axis = None

    def next_row(self, axis: str) -> dict[Buffer, str]:
        """Where what is fetched ahead begins."""
        assert self.ahead is not None
        before = dict(self.indices)
        self.indices[axis] = "0"
        self.indices[self.ahead.row] = self.w.index("add", self.indices[self.ahead.row], "1")
        found = {buffer: self.row_address(buffer) for buffer in self.ahead.buffers}
        self.indices = before
        return found

    def masked(self, axis: str, body: tuple[Statement, ...], index: str, stop: str) -> None:
        """The body for the vector at `index`, of which lanes from `stop` on take no part."""
        self.indices[axis] = index
        with self.first_lanes_only(self.w.index("sub", stop, index)):
            self.vector_round(body)

    def vector_round(self, body: tuple[Statement, ...]) -> None:
        """The body for one vector."""
        with self.one_round() if is_nested(body) else contextlib.nullcontext():
            self.statements(body)

    @contextlib.contextmanager
    def first_lanes_only(self, count: str) -> Iterator[None]:
        """Of vectors so many lanes take part, or all."""
        self.left, self.mask = count, self.w.first_lanes(count, self.lanes)
        yield
        self.mask = self.left = None

    def split_loop(
        self, axis: str, body: tuple[Statement, ...], start: str, stop: str, found: Interior
    ) -> None:
        """Whole vectors of the interior without its conditions; before and behind it one vector at a time,
        with all of them. Both are in one loop that runs twice, so that there is one copy of its code.
        """
        w = self.w
        first, last = self.interior_range(axis, start, stop, found)
        self.vector_axis = axis
        with w.loop("0", "2") as turn:
            before = Val(w.name(), "bool")
            w.line(f"{before.text} = icmp eq i64 {turn}, 0")
            begin = w.select(before, Val(start, "i64"), Val(last, "i64"))
            end = w.select(before, Val(first, "i64"), Val(stop, "i64"))
            with self.in_blocks(body, begin.text, end.text, self.lanes) as index:
                self.masked(axis, body, index, end.text)
            self.take_in(body)
            with w.when(before.text):
                self.certain = found.names
                with self.in_blocks(body, first, last, self.lanes) as index:
                    self.indices[axis] = index
                    self.statements(body)
                self.take_in(body)
                self.certain = frozenset()
        self.vector_axis = None

    def interior_range(self, axis: str, start: str, stop: str, found: Interior) -> tuple[str, str]:
        """First and last index of the interior's whole vectors, counted from `start`; both are `stop` if
        there is none.
        """
        w = self.w
        self.indices[axis] = "0"
        self.statements(found.before)
        first, last = Val(start, "i64"), Val(stop, "i64")
        for bound in found.bounds:
            limit = w.binary("sub", self.operand(bound.limit, "i64"), self.values[bound.index])
            if bound.op in ("gt", "le"):
                limit = w.binary("add", limit, w.constant(1, "i64"))
            if bound.op in ("ge", "gt"):
                first = extreme(w, "maximum", first, limit)
            else:
                last = extreme(w, "minimum", last, limit)
        for fact in found.facts:
            last = w.select(self.values[fact], last, first)
        ahead = w.index("add", w.index("sub", first.text, start), str(self.lanes - 1))
        begin = w.index("add", start, w.index("and", ahead, str(-self.lanes)))
        end = w.index("add", start, w.index("and", w.index("sub", last.text, start), str(-self.lanes)))
        some = w.compare("lt", Val(begin, "i64"), Val(end, "i64"))
        nothing = Val(stop, "i64")
        begin, end = (w.select(some, Val(x, "i64"), nothing).text for x in (begin, end))
        return begin, end

    def unless_certain(self, when: str | None) -> str | None:
        """A condition of a load or store, where it has to be tested."""
        return None if when in self.certain else when

    def copied(self, axis: str, body: tuple[Statement, ...], start: str, stop: str) -> None:
        """The body for several vectors at a time, each with accumulators of its own, combined at the end."""
        w = self.w
        accumulators = {s.accumulator.target: s.accumulator for s in body if isinstance(s, Accumulate)}
        own = {target: self.stacks[target] for target in accumulators}
        rooms: list[Places] = [own]
        for _ in range(COPIES - 1):
            rooms.append({target: self.copy_of(a) for target, a in accumulators.items()})
        with self.in_blocks(body, start, stop, self.lanes * COPIES, rooms) as index, self.in_pairs():
            for copy, places in enumerate(rooms):
                self.indices[axis] = w.index("add", index, str(self.lanes * copy))
                self.stacks.update(places)
                self.statements(body)
        self.stacks.update(own)
        for target, accumulator in accumulators.items():
            for places in rooms[1:]:
                united = self.combine(accumulator, self.held(own[target]), self.held(places[target]))
                w.line(f"store {united}, ptr {own[target].room}")


# A short loop that does little but accumulate waits for each result before it can go on: so many vectors
# are taken at a time, unless there is other work to do meanwhile.
COPIES = 4
SHORT_BODY = 8


def waits_for_itself(body: tuple[Statement, ...]) -> bool:
    """Whether a vector loop has little to do between two steps of an accumulator."""
    accumulates = [s for s in body if isinstance(s, Accumulate)]
    return (
        bool(accumulates)
        and not is_nested(body)
        and len(body) <= SHORT_BODY
        and not any(s.accumulator.axes for s in accumulates)
        and not any(isinstance(s, Compute) and s.op in ELEMENTARY for s in body)
    )


def filled_in_vectors(accumulator: Accumulator, body: tuple[Statement, ...] | list[Statement]) -> bool:
    """Whether the accumulator is filled inside a vector loop, not once a row."""
    loops = (s for s in walk(tuple(body)) if isinstance(s, Loop) and s.kind in ("vector", "chunked"))
    return any(
        isinstance(s, Accumulate) and s.accumulator == accumulator for loop in loops for s in walk(loop.body)
    )
