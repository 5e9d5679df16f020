"""Arguments of kernels: one use of a kernel goes in; its block of sizes, numbers and slots comes out.

The product with 2 and the sum of the rows of f32[6, 40] is the kernel

    def kernel(n0, n1, k0: f32, x0: "f32[i0, i1:1]", y0: "f32[i0]")

and this use of it the block

    [6, 40, 1073741824, 1, 0, 2, 0, 40, 1, 1, 6, 1, 3, 0, 0]

in which stand n0 and n1; the bits of the float32 2.0; of x0 the slot 1 and the byte 0 from which on it
begins; of y0 the slot 2 and the byte 0; the steps 40 and 1 of x0, and 1 of y0; that all 6 rows are one chunk;
and slot, byte and size of the scratch, of which there is none. `kernel_parts.Block` says where what stands.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.codegen.accumulation import BLOCK, is_array_of_blocks, rooms_of
from fusegrad.compiler.codegen.kernel_parts import block_of, outer_accumulators
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.ir import ELEMENTARY, Compute, Kernel
from fusegrad.compiler.runtime.allocator import aligned
from fusegrad.eager.core.dtypes import FROM_SHORT
from fusegrad.eager.core.sizes import Symbol
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.ir.symbolic_sizes import largest, smallest

# How many elements one chunk of a loop has at least, for cheap work; a chunk that computes
# exponentials is shorter. Chunks are what threads share.
CHUNK_WORK = 1 << 15
MOST_CHUNKS = 64

# Gives the slot and the byte offset of a value.
Placing = Callable[[Value], tuple[int, int]]


def number_bits(value: Any, dtype: str) -> int:
    """A number as the low bytes of an 8-byte place."""
    packed = np.array(value).astype(FROM_SHORT[dtype].numpy).tobytes()
    bits: int = struct.unpack("<q", packed.ljust(8, b"\0"))[0]
    return bits


class Cut:
    """What is the same for all uses of a kernel of how its work is cut into chunks.

    loop: the axes, by number, of the loop that is cut. accumulators: bytes and axes of those that outlive it.
    in_blocks: whether its rows are summed block by block.
    """

    def __init__(self, kernel: Kernel) -> None:
        number = {axis: i for i, axis in enumerate(kernel.axes)}
        loop = next((s for s in kernel.loops() if s.kind in ("parallel", "chunked")), None)
        self.loop = None if loop is None else [number[a] for a in loop.axes]
        self.chunked = loop is not None and loop.kind == "chunked"
        heavy = sum(isinstance(s, Compute) and s.op in ELEMENTARY for s in kernel.statements)
        self.work = 1 + 2 * heavy
        outer = outer_accumulators(kernel)
        rooms = [(dtype, a.axes) for a in outer for dtype in rooms_of(a).values()]
        self.accumulators = [(DTYPES[dtype].size, [number[axis] for axis in axes]) for dtype, axes in rooms]
        self.in_blocks = any(is_array_of_blocks(a) for a in outer)
        self.length = block_of(kernel).length  # of the block of one use


class KernelForm:
    """What the block of a kernel is made from.

    recipe: the block up to how the work is cut, with 0 where `placed` and `numbers` say more. placed:
    for each buffer where its slot stands, and the value that it holds. numbers: sizes as numbers of a
    dtype. counts: the elements of each result.
    """

    def __init__(self, bound: BoundKernel, cut: Cut) -> None:
        kernel = bound.kernel
        self.bound, self.kernel, self.sizes, self.cut = bound, kernel, bound.sizes, cut
        self.counts = [math.prod(a.value.shape) for a in bound.outputs]
        self.recipe: list[Any] = list(bound.sizes)
        self.numbers: list[tuple[int, Any, str]] = []
        for value, (_, dtype) in zip(bound.numbers, kernel.numbers, strict=True):
            if isinstance(value, Symbol):
                self.numbers.append((len(self.recipe), value, dtype))
            self.recipe.append(0 if isinstance(value, Symbol) else number_bits(value, dtype))
        self.placed: list[tuple[int, Value]] = []
        buffers = (*kernel.inputs, *kernel.outputs)
        for buffer, argument in zip(buffers, (*bound.inputs, *bound.outputs), strict=True):
            self.placed.append((len(self.recipe), argument.value))
            # In elements of what the kernel takes them for: of complex numbers it reads parts.
            self.recipe += [0, argument.offset * DTYPES[buffer.dtype].size]
        for argument in (*bound.inputs, *bound.outputs):
            self.recipe += argument.strides

    def chunks(self, sizes: Sequence[int], entries: int = 0) -> tuple[int, int]:
        """Chunk length and number of chunks of the parallel loop, from sizes alone.

        entries: one chunk for each of so many entries of a batch.
        """
        if self.cut.loop is None:
            return 0, 0
        total = math.prod([sizes[a] for a in self.cut.loop])
        if entries:
            return total // entries, entries
        # Of open sizes these are expressions.
        count = largest(1, smallest(MOST_CHUNKS, math.prod(sizes) * self.cut.work // CHUNK_WORK, total))
        length = -(-total // count)
        unit = 64 if self.cut.chunked else BLOCK if self.cut.in_blocks else 1
        length = -(-length // unit) * unit
        return length, largest(1, -(-total // largest(1, length)))

    def accumulator_places(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Offsets of the outer accumulators in a chunk's scratch, and the size of it."""
        places, end = [], 0
        for size, axes in self.cut.accumulators:
            places.append(end)
            end += aligned(size * math.prod([sizes[a] for a in axes]))
        return places, end

    def scratch_bytes(self, sizes: Any) -> Any:
        """Bytes of scratch that a run takes; of open sizes an expression."""
        if not self.cut.accumulators:
            return 0
        own = sizes.of(self.sizes)
        return self.accumulator_places(own)[1] * largest(1, self.chunks(own)[1])

    def block(
        self,
        sizes: Any,
        place: Placing,
        scratch: tuple[int, int],
        entries: int,
        bits: Callable[[Any, str], Any] = number_bits,
    ) -> list[int]:
        """The block of one use of the kernel; see `kernel_parts.Block`, and `chunks` for `entries`.

        bits: gives a number of a dtype as the low bytes of a place.
        """
        block: list[int] = [n if type(n) is int else sizes.of(n) for n in self.recipe]
        own = block[: len(self.sizes)]
        for at, value, dtype in self.numbers:
            block[at] = bits(sizes.of(value), dtype)
        for at, value in self.placed:
            block[at], start = place(value)
            block[at + 1] += start
        places, size = self.accumulator_places(own)
        block += [*self.chunks(own, entries), *scratch, size, *places]
        assert len(block) == self.cut.length
        return block

    def is_shared(self, sizes: Any) -> bool:
        """Whether a use of the kernel has several tasks."""
        return self.chunks(sizes.of(self.sizes))[1] > 1


def kernel_form(bound: BoundKernel, cuts: dict[int, Cut]) -> KernelForm:
    """The form of one use; how a kernel is cut is found out once."""
    cut = cuts.get(id(bound.kernel)) or cuts.setdefault(id(bound.kernel), Cut(bound.kernel))
    return KernelForm(bound, cut)
