"""From the kernel IR to LLVM IR.

A kernel becomes three functions. `NAME(slots, block)` is what a program calls: `slots` holds the
addresses of the program's buffers, `block` the sizes, numbers, offsets and steps of this use.
It cuts the parallel axes into chunks, whose number depends on sizes only, so that results do
not depend on the number of threads, and runs them here or with a team (`thread_pool.py`).
`NAME.task` computes one chunk and leaves what it accumulated in the scratch buffer; `NAME`
then combines these in order and runs the statements after the loops.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fusegrad.compiler.codegen.accumulation import FEW, Array, Places, combined, long_sums
from fusegrad.compiler.codegen.kernel_parts import block_of, functions_written, lanes_of, outer_accumulators
from fusegrad.compiler.codegen.prefetch import Ahead
from fusegrad.compiler.codegen.primitives import apply
from fusegrad.compiler.codegen.tiles import read_by
from fusegrad.compiler.codegen.vector_loops import VectorLoops
from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import (
    Accumulate,
    Accumulator,
    Assign,
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
    unrolled_counts,
    walk,
)
from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.llvm.ir_writer import Val, Writer
from fusegrad.compiler.llvm.target import Target

# Of more elementary functions than this a kernel has each once, and calls it: written out wherever they are
# asked for, they would take LLVM seconds.
MOST_WRITTEN_OUT = 4

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


class Emitter(VectorLoops):
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
        self.divisions = {}
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
            self.values[name] = self._number(name, dtype)
        self._addresses()
        for buffer in (*self.kernel.inputs, *self.kernel.outputs):
            for i, step in enumerate(buffer.steps):
                place = block.steps[buffer.name] + i
                self.steps[buffer.name, i] = w.load_index("%block", place) if step is None else str(step)

    def _number(self, name: str, dtype: str) -> Val:
        place = self.w.offset("%block", str(self.block.numbers[name]), "i64")
        memory = DTYPES[dtype].memory
        return self.w.convert(self.w.emit(f"load {memory_type(dtype)}, ptr {place}", memory), dtype)

    def numbers_of(self, body: Sequence[Statement]) -> None:
        needed = {name for s in body for name in read_by(s)}
        given = ((name, dtype) for name, dtype in self.kernel.numbers if name in needed)
        self.values.update((name, self._number(name, dtype)) for name, dtype in given)

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

    def statements(self, body: Sequence[Statement]) -> None:
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


def filled_in_vectors(accumulator: Accumulator, body: Sequence[Statement]) -> bool:
    """Whether the accumulator is filled inside a vector loop, not once a row."""
    loops = (s for s in walk(tuple(body)) if isinstance(s, Loop) and s.kind in ("vector", "chunked"))
    return any(
        isinstance(s, Accumulate) and s.accumulator == accumulator for loop in loops for s in walk(loop.body)
    )
