"""How much work a kernel is: a kernel and its sizes go in, about how many cycles it takes comes out.

A small model of what its instructions cost, by which one way to write a kernel is preferred to another. It
knows of vectors of which not all lanes work, of lanes that are fetched one by one, of rows turned over in
registers, and of what each loop and each fold of a vector costs beside its body. Of memory it knows nothing:
the ways that are compared move the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fusegrad.compiler.codegen.kernel_parts import lane_bytes, lanes_of, outer_accumulators, parts
from fusegrad.compiler.codegen.lane_rows import packed_row, turning_work
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.ir import (
    ELEMENTARY,
    Accumulate,
    Buffer,
    Compute,
    Load,
    Loop,
    Statement,
    Store,
    is_nested,
    unrolled_counts,
)
from fusegrad.compiler.llvm.ir_writer import LINE
from fusegrad.compiler.llvm.target import Target
from fusegrad.tracer.ir.symbolic_sizes import likely

# Cycles of a vector of the machine's width: for an elementary function, a division or root, anything else.
FUNCTION, DIVISION, PLAIN = 14.0, 6.0, 0.6
# The same of a single number.
ONE_FUNCTION, ONE_DIVISION, ONE_PLAIN = 14.0, 3.0, 0.6
# A vector that is read or written in one piece; for each lane that is not; a number that all lanes share.
PIECE, EACH_READ_LANE, EACH_WRITTEN_LANE, SHARED = 0.7, 0.8, 1.1, 0.4
# For each lane of a vector along a stretch of memory so long that its lines are gone from the nearest cache,
# or the next one, when their other elements are asked for: this, for a line.
LINE_AGAIN, LINE_FAR, NEAREST_CACHE, NEXT_CACHE = 3.0, 10.0, 1 << 15, 1 << 20
# To begin a loop over vectors, a last vector that is not full, one round of any loop, and to fold a vector.
BEGIN, PARTLY, ROUND, FOLD = 4.0, 4.0, 1.0, 9.0


# So many accumulators stay in registers.
MOST_IN_REGISTERS = 20
# For how many cores there should be work, of kernels over so many elements.
FEW_CORES, WORTH_SHARING = 4, 1 << 16


def each_read(lanes: int) -> float:
    """What it costs to fetch the lanes of a vector one by one."""
    return EACH_READ_LANE * lanes


def kernel_work(bound: BoundKernel, target: Target) -> float:
    """The cycles that a kernel takes, about, on one core."""
    return _Work(bound, target).total()


def nest_text(bound: BoundKernel, target: Target) -> str:
    """In words, how a kernel's loops run over its axes, and about how many cycles it takes."""
    sizes = {axis: likely(n) for axis, n in zip(bound.kernel.axes, bound.sizes, strict=True)}
    lanes = lanes_of(bound.kernel, target)
    said = []
    for loop in bound.kernel.loops():
        over = ", ".join(f"{axis} ({sizes[axis]})" for axis in loop.axes)
        words = _IN_WORDS[loop.kind].format(over, lanes=lanes)
        said += [words] if words not in said else []
    return f"{'; '.join(said)}; about {kernel_work(bound, target):,.0f} cycles"


_IN_WORDS = {
    "parallel": "tasks along {}",
    "chunked": "tasks and vectors of {lanes} along {}",
    "vector": "vectors of {lanes} along {}",
    "serial": "one after the other along {}",
    "unrolled": "{} unrolled",
}


class _Work:
    def __init__(self, bound: BoundKernel, target: Target) -> None:
        kernel = self.kernel = bound.kernel
        self.lanes = lanes_of(kernel, target)
        # How many vectors of the machine one of the kernel's is.
        self.vectors = max(1.0, self.lanes / target.lanes(lane_bytes(kernel)))
        self.sizes = {axis: likely(n) for axis, n in zip(kernel.axes, bound.sizes, strict=True)}
        self.counts = unrolled_counts(kernel)
        arrays = [a for a in outer_accumulators(kernel) if self.counts.keys() >= {*a.axes}]
        self.elements = sum(math.prod(self.counts[axis] for axis in a.axes) for a in arrays)
        # Whether a loop over vectors goes on along its axis before it reads anything beside it.
        self.lanes_are_apart = True
        pairs = [
            *zip(kernel.inputs, bound.inputs, strict=True),
            *zip(kernel.outputs, bound.outputs, strict=True),
        ]
        self.steps: dict[str, Mapping[str, Any]] = {
            b.name: dict(zip(b.axes, map(likely, a.strides), strict=True)) for b, a in pairs
        }

    def total(self) -> float:
        _, loop, _ = parts(self.kernel)
        if loop is None:
            return 0.0
        rows = math.prod(self.sizes[a] for a in loop.axes)
        if loop.kind == "chunked":
            return self._vectors(loop, 1.0) / self._shared_by(-(-rows // self.lanes))
        return self._body(loop.body, rows, None) / self._shared_by(rows)

    def _shared_by(self, tasks: int) -> int:
        """How many of a few cores have something to do. What a kernel computes must not depend on how many
        there are.
        """
        return max(1, min(tasks, FEW_CORES)) if math.prod(self.sizes.values()) >= WORTH_SHARING else 1

    def _body(self, body: Iterable[Statement], times: float, vector: str | None) -> float:
        """A body that runs so many times; vector: the axis of vectors around it."""
        work = 0.0
        for statement in body:
            if not isinstance(statement, Loop):
                work += times * self._statement(statement, vector)
            elif statement.kind == "vector":
                work += self._vectors(statement, times)
            elif statement.count is not None:
                work += self._body(statement.body, times * statement.count, vector)
            else:
                rounds = times * self.sizes[statement.axes[0]]
                work += rounds * ROUND + self._body(statement.body, rounds, vector)
        return work

    def _vectors(self, loop: Loop, times: float) -> float:
        (axis,) = loop.axes
        full, rest = divmod(self.sizes[axis], self.lanes)
        folds = sum(isinstance(s, Accumulate) and not s.accumulator.axes for s in loop.body)
        begun = BEGIN + (PARTLY if rest else 0.0) + FOLD * folds
        rounds = times * (full + bool(rest))
        self.lanes_are_apart = not is_nested(loop.body)
        return times * begun + rounds * ROUND + self._body(loop.body, rounds, axis)

    def _statement(self, statement: Statement, vector: str | None) -> float:
        match statement:
            case Compute(op=op):
                function, division, plain = (
                    (ONE_FUNCTION, ONE_DIVISION, ONE_PLAIN)
                    if vector is None
                    else (n * self.vectors for n in (FUNCTION, DIVISION, PLAIN))
                )
                return function if op in ELEMENTARY else division if op in ("div", "sqrt") else plain
            case Load(buffer=buffer):
                return self._access(buffer, vector, EACH_READ_LANE)
            case Store(buffer=buffer):
                return self._access(buffer, vector, EACH_WRITTEN_LANE)
            case Accumulate(accumulator=accumulator):
                in_memory = accumulator.axes and not self.counts.keys() >= {*accumulator.axes}
                if in_memory:
                    return 2 * PIECE * self.vectors + PLAIN
                several = 4 if accumulator.combine in ("max", "min") else 1
                spilled = 2 * PIECE if accumulator.axes and self.elements > MOST_IN_REGISTERS else 0.0
                return spilled + several * (ONE_PLAIN if vector is None else PLAIN * self.vectors)
        return 0.0

    def _access(self, buffer: Buffer, vector: str | None, each_lane: float) -> float:
        step = self.steps[buffer.name].get(vector, 0) if vector is not None else 0
        if vector is None or step == 0:
            return SHARED
        if abs(step) == 1 or buffer.steps[buffer.axes.index(vector)] == 2:
            return PIECE * self.vectors
        row = packed_row(buffer, vector, self.counts)
        if row > 1:
            return (PIECE + turning_work(row) / row) * self.vectors
        part_of_line = min(1.0, abs(step) * DTYPES[buffer.dtype].size / LINE)
        stretch = part_of_line * LINE * self.sizes[vector] if self.lanes_are_apart else 0
        again = LINE_FAR if stretch > NEXT_CACHE else LINE_AGAIN if stretch > NEAREST_CACHE else 0.0
        return (each_lane + again * part_of_line) * self.lanes
