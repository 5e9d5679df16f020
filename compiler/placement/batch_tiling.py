"""Batch tiling: a program's steps go in; runs of them that can be done entry by entry come out.

Attention multiplies the matrices of every head, takes a softmax of each and multiplies again. Run step by
step, what one step leaves for the next has gone from the nearer caches; run head by head, it is still
there, and what no other step reads needs room for one head a thread.

A recurrent network multiplies the rows of a state by the same matrix again and again, each time too little
to be shared. There the entries are blocks of rows, one for each core, and every core takes its rows through
all of the steps.

    v0: f32[8, 32, 32] = matmul(q, k)               steps 0 to 2, 8 times
    v1: f32[8, 32, 32] = exp(v0)          become        v0 in [0:4096]
    v2: f32[8, 32, 16] = matmul(v1, v)                  v1 in [4096:8192]

of the room that each thread has; v2 has an array for all 8 entries.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.codegen.kernel_parts import parts
from fusegrad.compiler.gemm import matmul
from fusegrad.compiler.kernel.bound_kernel import Argument
from fusegrad.compiler.kernel.ir import PLACE, Buffer
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.ir_writer import Writer
from fusegrad.compiler.llvm.tasks import function, module, run_tasks, task_name, threads_of_team
from fusegrad.compiler.placement.kernel_arguments import KernelForm
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint
from fusegrad.compiler.runtime import threads
from fusegrad.compiler.runtime.allocator import FirstFit, aligned
from fusegrad.eager.lazy import cached_property
from fusegrad.tracer.ir.graph import Value

# From how many bytes on, handed from step to step, the steps are run entry by entry.
WORTH = 1 << 20
# With blocks of rows: from how many multiplications on, and with how many rows at least.
WORTH_WORK, FEWEST_ROWS = 1 << 20, 4

# The block of a batch, in 8-byte places: then follow, for each value of its own, where it lies in a worker's
# room and the bytes of an entry, and for each step its task and its block.
ENTRIES, STEPS, SLOTS, OWN, ROOM, ROOM_BYTES, REST = 0, 1, 2, 3, 4, 6, 7
# A worker's room comes after the counter of entries.
COUNTER_BYTES = 64


@dataclass(frozen=True, eq=False)
class Batch:
    """The steps from `first` to before `last`, run for each of so many entries.

    rows: whether the entries are blocks of rows of single products. own: the values that only these steps
    read, with the place of an entry in a worker's room, and its bytes.
    """

    first: int
    last: int
    entries: int
    rows: bool
    own: dict[Value, tuple[int, int]]

    @cached_property
    def slots(self) -> dict[Value, int]:
        """The numbers of the slots of its own, from 0."""
        return {value: number for number, value in enumerate(self.own)}

    def room_bytes(self) -> int:
        """Bytes that one worker needs for the values of its own."""
        return max((start + aligned(size) for start, size in self.own.values()), default=0)

    def bytes(self) -> int:
        """Bytes that all of it needs in the arena."""
        return COUNTER_BYTES + min(threads.pool_size(), self.entries) * self.room_bytes()

    def block(self, room: tuple[int, int], slots: int, calls: Sequence[tuple[int, int]]) -> list[int]:
        """The block of the call.

        room: slot and byte offset of its room. slots: how many there are; those of its own come after.
        calls: the address of each step's task, and of its block.
        """
        block = [self.entries, len(calls), slots, len(self.own), *room, self.room_bytes()]
        for start, size in self.own.values():
            block += [COUNTER_BYTES + start, size]
        return [*block, *(number for call in calls for number in call)]


# Which steps.

# The block of each step that is a product.
_Blocks = Sequence[list[int] | None]


def batches(blueprint: Blueprint, sizes: Any, blocks: _Blocks) -> list[Batch]:
    """The stretches of steps that are run entry by entry."""
    found: list[Batch] = []
    number = 0
    while number < len(blocks):
        finder, following = _finder(blueprint, sizes, blocks, number), number + 1
        if finder is not None:
            first = number
            while first > (found[-1].last if found else 0) and finder.reads(first - 1) is not None:
                first -= 1
            while following < len(blocks) and finder.reads(following) is not None:
                following += 1
            found += finder.batches(first, following)
        number = following
    return found


def _finder(blueprint: Blueprint, sizes: Any, blocks: _Blocks, number: int) -> _Finder | None:
    """What finds the batch that a step belongs to, if that is a product with entries to share."""
    block = blocks[number]
    if block is None:
        return None
    cores, entries = threads.cores(), _matrices(block)
    if entries == 1 and cores > 1 and _rows_are_shared(block, cores):
        return _Finder(blueprint, sizes, blocks, cores, True)
    return _Finder(blueprint, sizes, blocks, entries, False) if entries >= max(2, cores) else None


def product_blocks(blueprint: Blueprint, sizes: Any) -> _Blocks:
    """The block of each step that is a product, placed nowhere."""
    blocks: list[list[int] | None] = []
    for layouts in blueprint.layouts:
        if layouts is None:
            blocks.append(None)
        else:
            left, right = (sizes.of(layout) for layout in layouts)
            blocks.append(matmul.product_block(left, right, 1, ((0, 0), (0, 0), (0, 0))))
    return blocks


def _matrices(block: list[int]) -> int:
    return block[matmul.BATCH0] * block[matmul.BATCH1]


def _rows_are_shared(block: list[int], entries: int) -> bool:
    """Whether a product is too small to be divided by itself, and has enough rows for so many entries."""
    rows = block[matmul.M]
    whole = _matrices(block) == block[matmul.PARTS] == 1
    return whole and rows % entries == 0 and rows // entries >= FEWEST_ROWS


class _Finder:
    """What the steps do with the entries of a batch of a certain length."""

    def __init__(self, blueprint: Blueprint, sizes: Any, blocks: _Blocks, entries: int, rows: bool) -> None:
        self.blueprint, self.sizes, self.blocks = blueprint, sizes, blocks
        self.entries, self.rows = entries, rows
        self.reads = functools.cache(self._reads)

    def batches(self, first: int, last: int) -> Iterator[Batch]:
        """The steps from `first` to `last`, so that none reads another entry of what one before it made."""
        start, made, wholes = first, set[Value](), set[Value]()
        for number in range(first, last):
            reads = self.reads(number)
            assert reads is not None
            if any(value in wholes or (value in made and not apart) for value, apart in reads.items()):
                yield from self._batch(start, number)
                start, made, wholes = number, set(), set()
            for value in self._made(number):
                made.add(value)
                # An entry of the whole that a part lies in is no entry of the part.
                wholes.update(self.blueprint.around(value))
        yield from self._batch(start, last)

    def _batch(self, first: int, last: int) -> Iterator[Batch]:
        """The batch of these steps, if it is worth it."""
        made = {v for number in range(first, last) for v in self._made(number)}
        handed = {v for number in range(first, last) for v in self.reads(number) or () if v in made}
        if not (self._is_worth_sharing(first, last) if self.rows else self._is_much(handed)):
            return
        own: dict[Value, tuple[int, int]] = {}
        arena = FirstFit()
        for number in range(first, last):
            arena.come_to(number)
            for room in self.blueprint.rooms[number]:
                if room.key in handed and room.until < last:
                    size = self._entry_bytes(room.key)
                    own[room.key] = arena.place(aligned(size), room.until), size
        yield Batch(first, last, self.entries, self.rows, own)

    def _is_much(self, handed: Iterable[Value]) -> bool:
        return sum(map(self._entry_bytes, handed)) * self.entries >= WORTH

    def _is_worth_sharing(self, first: int, last: int) -> bool:
        found = filter(None, self.blocks[first:last])
        works = [math.prod(block[matmul.M : matmul.K + 1]) for block in found]
        return len(works) > 1 and sum(works) >= WORTH_WORK

    def _entry_bytes(self, value: Value) -> int:
        return self._count(value) // self.entries * value.dtype.itemsize

    def _count(self, value: Value) -> int:
        return math.prod(self.sizes.of(value.shape))

    def _made(self, number: int) -> list[Value]:
        form, step = self.blueprint.forms[number], self.blueprint.steps[number]
        return [step.equations[0].output] if form is None else [a.value for a in form.bound.outputs]

    def _reads(self, number: int) -> dict[Value, bool] | None:
        """What a step reads, and whether a task for one entry reads only that entry of it.

        None where the step has no such tasks, or what it makes does not lie entry after entry in memory of
        its own.
        """
        blueprint = self.blueprint
        form = blueprint.forms[number]
        if form is None and blueprint.layouts[number] is None:
            return None
        for value in self._made(number):
            given = blueprint.arrays.get(blueprint.outermost(value), blueprint.inputs) < blueprint.inputs
            if given or self._count(value) % self.entries:
                return None
        return self._product_reads(number) if form is None else self._kernel_reads(form)

    def _product_reads(self, number: int) -> dict[Value, bool] | None:
        block = self.blocks[number]
        if block is None:
            return None
        if not _rows_are_shared(block, self.entries) if self.rows else _matrices(block) != self.entries:
            return None
        x, y = map(self.blueprint.sources.base, self.blueprint.steps[number].equations[0].values())
        left = self._operand_is_apart(x, block, matmul.A, block[matmul.M], block[matmul.K])
        right = self._operand_is_apart(y, block, matmul.B, block[matmul.K], block[matmul.N])
        return {x: left, y: right} if x != y else {x: left and right}

    def _operand_is_apart(self, value: Value, block: list[int], place: int, rows: int, columns: int) -> bool:
        """Whether an entry of the product reads only that entry of an operand of these rows and columns."""
        entry = self._count(value) // self.entries
        _, offset, leading, transposed, outer, inner = block[place : place + 6]
        if offset:
            return False
        if self.rows:
            of_left = place == matmul.A and not transposed
            return of_left and rows // self.entries * leading == entry and columns <= leading
        if block[matmul.BATCH0] > 1 and outer != inner * block[matmul.BATCH1]:
            return False
        lines, length = (columns, rows) if transposed else (rows, columns)
        return inner == entry and (lines - 1) * leading + length <= entry

    def _kernel_reads(self, form: KernelForm) -> dict[Value, bool] | None:
        kernel, bound = form.kernel, form.bound
        loop = form.cut.loop
        if loop is None or len(kernel.body) > 1 or parts(kernel)[1] is None:
            return None
        own = self.sizes.of(bound.sizes)
        divided = _divided([(kernel.axes[axis], own[axis]) for axis in loop], self.entries)
        if divided is None:
            return None
        axes = dict(zip(kernel.axes, own, strict=True))
        if not all(
            self._apart(b, a, axes, divided) for b, a in zip(kernel.outputs, bound.outputs, strict=True)
        ):
            return None
        reads: dict[Value, bool] = {}
        for buffer, argument in zip(kernel.inputs, bound.inputs, strict=True):
            apart = self._apart(buffer, argument, axes, divided)
            reads[argument.value] = reads.get(argument.value, True) and apart
        return reads

    def _apart(
        self, buffer: Buffer, argument: Argument, axes: dict[str, int], divided: dict[str, int]
    ) -> bool:
        """Whether a task for one entry touches only that entry of a buffer.

        divided: into how many the axes of the parallel loop are divided for the entries, from the outermost.
        """
        if PLACE in buffer.axes or self.sizes.of(argument.offset) != 0:
            return False
        steps = dict(zip(buffer.axes, self.sizes.of(argument.strides), strict=True))
        entry = expected = self._count(argument.value) // self.entries
        for axis, count in reversed(divided.items()):
            if count > 1 and steps.get(axis, 0) * (axes[axis] // count) != expected:
                return False
            expected *= count
        reach = sum((axes[a] // divided.get(a, 1) - 1) * step for a, step in steps.items())
        return min(steps.values(), default=0) >= 0 and reach < entry


def _divided(loop: Sequence[tuple[str, int]], entries: int) -> dict[str, int] | None:
    """For the outermost axes of a loop, into how many each is divided, for entries to be stretches of it.

    None where entries and sizes do not fit.
    """
    divided: dict[str, int] = {}
    for axis, size in loop:
        if entries > 1:
            count = math.gcd(size, entries)
            if count != min(size, entries):
                return None
            divided[axis] = count
            entries //= count
    return divided if entries == 1 else None


# Code.

_COPY, _LEAST = "void @llvm.memcpy.p0.p0.i64", "i64 @llvm.smin.i64"


def batch_address() -> int:
    """The function that runs a batch."""
    (address,) = code().addresses().values()
    return address


@llvm_jit.remembered
def code() -> llvm_jit.Module:
    """The module of that function, which is being compiled from the first time that it is asked for.

    It starts a worker for each thread; each takes entries from a counter until there are no more.
    """
    symbol = "fusegrad_batch"
    w = Writer({f"declare {_COPY}(ptr, ptr, i64, i1)", f"declare {_LEAST}(i64, i64)"})
    entries, threads, workers = w.load_index("%block", ENTRIES), threads_of_team(w), w.name()
    w.line(f"store i64 0, ptr {_room(w)}")
    w.line(f"{workers} = call {_LEAST}(i64 {threads}, i64 {entries})")
    run_tasks(w, symbol, workers)
    functions = [
        function(f"void @{symbol}(ptr %slots, ptr %block)", w),
        _task(symbol),
    ]
    return llvm_jit.Module(module(w.declared, functions), [symbol])


def _room(w: Writer) -> str:
    """The address of the room in the arena, where the counter stands."""
    slot, offset = w.load_index("%block", ROOM), w.load_index("%block", ROOM + 1)
    return w.offset(_load(w, w.offset("%slots", slot, "ptr")), offset)


def _load(w: Writer, address: str, type_: str = "ptr") -> str:
    name = w.name("p")
    w.line(f"{name} = load {type_}, ptr {address}")
    return name


def _task(symbol: str) -> str:
    """`SYMBOL.task(worker, slots, block)`: the steps for one entry after the other, with slots of its own."""
    w = Writer(set())
    entries, steps, known, own = (w.load_index("%block", place) for place in (ENTRIES, STEPS, SLOTS, OWN))
    slots, entry, more = w.name("p"), w.name(), w.name()
    w.line(f"{slots} = alloca ptr, i64 {w.index('add', known, own)}")
    size = w.index("mul", known, "8")
    w.line(f"call {_COPY}(ptr {slots}, ptr %slots, i64 {size}, i1 false)")
    counter = _room(w)
    room = w.offset(counter, w.index("mul", "%number", w.load_index("%block", ROOM_BYTES)))
    w.line("br label %next")
    w.start("next")
    w.line(f"{entry} = atomicrmw add ptr {counter}, i64 1 monotonic")
    w.line(f"{more} = icmp slt i64 {entry}, {entries}")
    w.line(f"br i1 {more}, label %one, label %done")
    w.start("one")
    rest = w.offset("%block", str(REST), "i64")
    with w.loop("0", own) as i:
        # As if all entries lay here: the steps add what lies before this one.
        field = w.offset(rest, w.index("shl", i, "1"), "i64")
        start, step = w.load_index(field, 0), w.load_index(field, 1)
        start = w.index("sub", start, w.index("mul", entry, step))
        place = w.offset(slots, w.index("add", known, i), "ptr")
        w.line(f"store ptr {w.offset(room, start)}, ptr {place}")
    calls = w.offset(rest, w.index("shl", own, "1"), "i64")
    with w.loop("0", steps) as i:
        field = w.offset(calls, w.index("shl", i, "1"), "i64")
        task, block = _load(w, field), _load(w, w.offset(field, "1", "i64"))
        w.line(f"call void {task}(i64 {entry}, ptr {slots}, ptr {block})")
    w.line("br label %next")
    w.start("done")
    return function(f"internal void @{task_name(symbol)}(i64 %number, ptr %slots, ptr %block)", w)
