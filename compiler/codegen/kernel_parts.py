"""What is known of a kernel before its code is written: its parts, its block, the width of its vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegrad.compiler.codegen.accumulation import rooms_of
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float
from fusegrad.compiler.kernel.ir import (
    ELEMENTARY,
    Accumulator,
    Compute,
    Kernel,
    Load,
    Loop,
    Progression,
    Statement,
    Store,
    noted,
    unrolled_counts,
    written_out,
)
from fusegrad.compiler.llvm.target import Target


@dataclass(frozen=True)
class Block:
    """Where a kernel's arguments stand in its block, in 8-byte places.

    After the sizes and numbers come slot and byte offset of each buffer, and then the steps of each; then
    how the work is cut: chunk length, number of chunks, the scratch slot and offset, bytes per chunk, and
    where in a chunk's scratch each accumulator stands.
    """

    sizes: dict[str, int]
    numbers: dict[str, int]
    buffers: dict[str, int]
    steps: dict[str, int]
    chunk: int
    accumulators: dict[str, int]
    length: int


@noted
def block_of(kernel: Kernel) -> Block:
    """The layout of a kernel's block."""
    place = 0
    sizes, numbers, buffers, steps, accumulators = {}, {}, {}, {}, {}
    for axis in kernel.axes:
        sizes[axis], place = place, place + 1
    for name, _ in kernel.numbers:
        numbers[name], place = place, place + 1
    for buffer in (*kernel.inputs, *kernel.outputs):
        buffers[buffer.name], place = place, place + 2
    for buffer in (*kernel.inputs, *kernel.outputs):
        steps[buffer.name], place = place, place + len(buffer.axes)
    chunk, place = place, place + 5
    for accumulator in outer_accumulators(kernel):
        for name in rooms_of(accumulator):
            accumulators[name], place = place, place + 1
    return Block(sizes, numbers, buffers, steps, chunk, accumulators, place)


def parts(kernel: Kernel) -> tuple[tuple[Statement, ...], Loop | None, tuple[Statement, ...]]:
    """Statements before the parallel loop, the loop itself, and those after it (all, without a loop)."""
    for place, statement in enumerate(kernel.body):
        if isinstance(statement, Loop) and statement.kind in ("parallel", "chunked"):
            return kernel.body[:place], statement, kernel.body[place + 1 :]
    return (), None, kernel.body


def outer_accumulators(kernel: Kernel) -> list[Accumulator]:
    """The accumulators that outlive the parallel loop."""
    return [s for s in parts(kernel)[0] if isinstance(s, Accumulator)]


# So many elementary functions in one body are longer than what a processor looks ahead, and one of `LONG` is.
MANY_FUNCTIONS = 3
LONG = frozenset({"pow", "lgamma", "erfinv"})


@noted
def lanes_of(kernel: Kernel, target: Target) -> int:
    """How many lanes the kernel's vectors have: by its widest float and its heaviest functions.

    The instructions of an elementary function wait for one another; two vectors of them side by side fill
    each other's gaps. Of a long body four do, though registers have no room for all that they keep; where a
    few elements fill fewer, the kernel says so.
    """
    functions = [s.op for s in kernel.statements if isinstance(s, Compute) and s.op in ELEMENTARY]
    if unrolled_counts(kernel):
        # The copies of what is unrolled are side by side.
        return max(2, target.lanes(lane_bytes(kernel)))
    _, loop, _ = parts(kernel)
    # In rows, which may be short, much of four vectors would be idle.
    flat = loop is not None and loop.kind == "chunked"
    long = len(functions) >= MANY_FUNCTIONS or not LONG.isdisjoint(functions)
    vectors = 1 if not functions else target.most_interleaved if long and flat else 2
    return min(vectors, kernel.beside or vectors) * max(2, target.lanes(lane_bytes(kernel)))


@noted
def functions_written(kernel: Kernel) -> int:
    """How many elementary functions a kernel has when its loops are unrolled."""
    found = ((s, around) for s, around in written_out(kernel.body) if isinstance(s, Compute))
    return sum(math.prod(around.values()) for s, around in found if s.op in ELEMENTARY)


@noted
def lane_bytes(kernel: Kernel) -> int:
    """The size of the numbers that fill its vectors: its widest floats, or else integers."""
    dtypes = {s.dtype for s in kernel.statements if isinstance(s, (Compute, Accumulator, Progression))}
    dtypes |= {s.buffer.dtype for s in kernel.statements if isinstance(s, (Load, Store))}
    return max((DTYPES[d].size for d in dtypes if is_float(d)), default=8 if "i64" in dtypes else 4)
