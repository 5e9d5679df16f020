"""What is known of a program's way into memory without its sizes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler import products
from fusegrad.compiler.domain import Sources
from fusegrad.compiler.emit import block_of, outer_accumulators
from fusegrad.compiler.fusion import Step
from fusegrad.compiler.kernel import ELEMENTARY, Compute
from fusegrad.compiler.loops import BoundKernel
from fusegrad.compiler.memory import aligned
from fusegrad.compiler.writer import SIZES
from fusegrad.eager.dtypes import FROM_SHORT
from fusegrad.eager.families import Layout, contiguous_layout
from fusegrad.eager.sizes import Symbol
from fusegrad.tracer.graph import Value

# How many elements one chunk of a loop has at least, for cheap work; a chunk that computes
# exponentials is shorter. Chunks are what threads share.
CHUNK_WORK = 1 << 15
MOST_CHUNKS = 64

# Gives the slot and the byte offset of a value.
Placing = Callable[[Value], tuple[int, int]]


class Room(NamedTuple):
    """Something that needs room in the arena: a value of so many bytes, or the scratch of a kernel.

    until: the last step that reads it.
    """

    key: Any
    size: Any
    form: KernelForm | None
    until: int


class _Fresh(NamedTuple):
    """A value with an array of its own: its place among the arrays; strides, in bytes, if not row-major."""

    place: int
    shape: tuple[Any, ...]
    dtype: np.dtype
    strides: tuple[Any, ...] | None


class KernelForm:
    """What the block of a kernel is made from.

    recipe: the block up to how the work is cut, with 0 where `placed` and `numbers` say more. placed:
    for each buffer where its slot stands, and the value that it holds. numbers: sizes as numbers of a
    dtype. counts: the elements of each result.
    """

    def __init__(self, bound: BoundKernel) -> None:
        kernel = bound.kernel
        self.bound, self.kernel, self.sizes = bound, kernel, bound.sizes
        number = {axis: i for i, axis in enumerate(kernel.axes)}
        loop = next((s for s in kernel.loops() if s.kind in ("parallel", "chunked")), None)
        self.loop = None if loop is None else [number[a] for a in loop.axes]
        self.chunked = loop is not None and loop.kind == "chunked"
        heavy = sum(isinstance(s, Compute) and s.op in ELEMENTARY for s in kernel.statements())
        self.work = 1 + 2 * heavy
        self.accumulators = [
            (SIZES[a.dtype], [number[axis] for axis in a.axes]) for a in outer_accumulators(kernel)
        ]
        self.counts = [math.prod(a.value.shape) for a in bound.outputs]
        self.recipe: list[Any] = list(bound.sizes)
        self.numbers: list[tuple[int, Any, str]] = []
        for value, (_, dtype) in zip(bound.numbers, kernel.numbers, strict=True):
            if isinstance(value, Symbol):
                self.numbers.append((len(self.recipe), value, dtype))
            self.recipe.append(0 if isinstance(value, Symbol) else _number_bits(value, dtype))
        self.placed: list[tuple[int, Value]] = []
        for argument in (*bound.inputs, *bound.outputs):
            self.placed.append((len(self.recipe), argument.value))
            self.recipe += [0, argument.offset * argument.value.dtype.itemsize, *argument.strides]
        self.length = block_of(kernel).length

    def chunks(self, sizes: Sequence[int], entries: int = 0) -> tuple[int, int]:
        """Chunk length and number of chunks of the parallel loop, from sizes alone.

        entries: one chunk for each of so many entries of a batch.
        """
        if self.loop is None:
            return 0, 0
        total = math.prod([sizes[a] for a in self.loop])
        if entries:
            return total // entries, entries
        count = max(1, min(MOST_CHUNKS, math.prod(sizes) * self.work // CHUNK_WORK, total))
        length = -(-total // count)
        if self.chunked:
            length = -(-length // 64) * 64
        return length, -(-total // length) if total else 1

    def accumulator_places(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Offsets of the outer accumulators in a chunk's scratch, and the size of it."""
        places, end = [], 0
        for size, axes in self.accumulators:
            places.append(end)
            end += aligned(size * math.prod([sizes[a] for a in axes]))
        return places, end

    def scratch_bytes(self, sizes: Any) -> int:
        """Bytes of scratch that a run takes."""
        if not self.accumulators:
            return 0
        own = sizes.of(self.sizes)
        return self.accumulator_places(own)[1] * max(1, self.chunks(own)[1])

    def block(self, sizes: Any, place: Placing, scratch: tuple[int, int], entries: int) -> list[int]:
        """The block of one use of the kernel; see `emit.Block`, and `chunks` for `entries`."""
        block: list[int] = [n if type(n) is int else sizes.of(n) for n in self.recipe]
        own = block[: len(self.sizes)]
        for at, value, dtype in self.numbers:
            block[at] = _number_bits(sizes.of(value), dtype)
        for at, value in self.placed:
            block[at], start = place(value)
            block[at + 1] += start
        places, size = self.accumulator_places(own)
        block += [*self.chunks(own, entries), *scratch, size, *places]
        assert len(block) == self.length
        return block


def _number_bits(value: Any, dtype: str) -> int:
    """A number as the low bytes of an 8-byte place."""
    packed = np.array(value).astype(FROM_SHORT[dtype].numpy).tobytes()
    bits: int = struct.unpack("<q", packed.ljust(8, b"\0"))[0]
    return bits


class Blueprint:
    """What is known of a program's way into memory without its sizes.

    steps: of the program, in order. needed: the values that must have arrays of their own. into: those
    that are put into the memory of an input. arrays: the values that have one, with their index; the
    inputs come first.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        steps: Sequence[Step],
        sources: Sources,
        needed: Sequence[Value],
        into: Mapping[Value, Value],
    ) -> None:
        self.inputs, self.sources = len(inputs), sources
        arrays = dict.fromkeys(inputs)
        for value in needed:
            arrays.setdefault(sources.base(value))
        opaque: set[Value] = set()
        self.inside = self._joined_in_place(steps, {*arrays, *into}, into)
        joined = {whole for whole, _ in self.inside.values()}
        self.steps = steps = [s for s in steps if s.kind != "loops" or s.equations[0].output not in joined]
        for step in steps:
            if step.kind == "opaque":
                opaque.update(step.made)
                for value in (*step.equations[0].values(), *step.made):
                    arrays.setdefault(sources.base(value))
        self.arrays = {v: i for i, v in enumerate(v for v in arrays if v not in into)}
        self.arrays.update({v: self.arrays[target] for v, target in into.items()})
        self.fresh = [
            _Fresh(index, value.shape, value.dtype, self._byte_strides(value))
            for value, index in self.arrays.items()
            if index >= self.inputs and value not in opaque
        ]
        self.forms = [None if s.kernel is None else KernelForm(s.kernel) for s in steps]
        self.rooms = self._rooms()
        # For all sizes: memory for the arena, and room for the addresses of all arrays.
        self.arenas: list[tuple[np.ndarray, np.ndarray]] = []
        self.layouts = [self._operands(s) if s.kind == "product" else None for s in steps]
        self.opaque = {v: (self.arrays[v], self._byte_strides(v)) for v in opaque}

    def _joined_in_place(
        self, steps: Sequence[Step], fixed: Collection[Value], into: Collection[Value]
    ) -> dict[Value, tuple[Value, Any]]:
        """For each value that lies in the memory of the `cat` that it is a part of, that, and from which
        element on.

        fixed: the values that lie elsewhere.
        """
        kinds = {v: step.kind for step in steps for v in step.made}
        read = {self.sources.base(v) for s in steps if s.kind == "opaque" for v in s.equations[0].values()}

        def moves(part: Any) -> bool:
            made = isinstance(part, Value) and kinds.get(part) in ("kernel", "product", "loops")
            return made and part not in fixed and part not in read and self._byte_strides(part) is None

        inside: dict[Value, tuple[Value, Any]] = {}
        for step in steps:
            equation = step.equations[0]
            if step.kind != "loops" or equation.op.name != "cat" or equation.params["dim"] != 0:
                continue
            parts, whole = equation.inputs, equation.output
            known = whole in into or self._byte_strides(whole) is not None or len({*parts}) < len(parts)
            if known or not all(moves(part) and part not in inside for part in parts):
                continue
            start: Any = 0
            for part in parts:
                inside[part] = whole, start
                start += math.prod(part.shape)
        return inside

    def outermost(self, value: Value) -> Value:
        """The value in whose memory another lies: itself, if it is no part of anything."""
        while value in self.inside:
            value, _ = self.inside[value]
        return value

    def _byte_strides(self, value: Value) -> tuple[Any, ...] | None:
        """The strides in bytes of a value in memory; None if it is row-major."""
        layout = self.sources.layouts.get(value)
        if layout is None or layout == contiguous_layout(value.shape):
            return None
        return tuple([s * value.dtype.itemsize for s in layout.strides])

    def _operands(self, step: Step) -> tuple[Layout, Layout]:
        """How the operands of a product lie."""
        x, y = (self.sources.layout(v) for v in step.equations[0].inputs)
        assert x is not None and y is not None and products.foldable(x, y), (
            "products that BLAS cannot read are copied or opaque"
        )
        return x, y

    def _rooms(self) -> list[list[Room]]:
        """What each step needs room for in the arena."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            for equation in step.equations:
                for value in equation.values():
                    last[self.outermost(self.sources.base(value))] = number
        rooms: list[list[Room]] = []
        roomed: set[Value] = set()
        for number, (step, form) in enumerate(zip(self.steps, self.forms, strict=True)):
            made = [a.value for a in step.kernel.outputs] if step.kernel is not None else []
            if step.kind == "product":
                made = [step.equations[0].output]
            made = [v for v in dict.fromkeys(map(self.outermost, made)) if v not in self.arrays]
            here = [
                Room(v, math.prod(v.shape) * v.dtype.itemsize, None, last.get(v, number))
                for v in made
                if v not in roomed
            ]
            roomed.update(made)
            rooms.append([*here, Room(step, 0, form, number)] if form is not None else here)
        return rooms
