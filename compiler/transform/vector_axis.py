"""Which axis is the vector: a kernel goes in; the one that computes the same with the least work comes out.

Kernels are built with vectors along the innermost axis. Where that is short, most lanes idle and each row
folds its vectors; where it is far from the memory's order, each lane is fetched by itself. Then vectors along
one of the axes of rows are better: every lane goes through a row of its own, and what is short is unrolled.

    for i0 in parallel(n0):                         for i0 in chunked(n0):
        a0 = identity("add", f32)                       a0 = identity("add", f32)
        for i1 in vector(n1):                           for i1 in unrolled(3):
            t0 = x0[i0, i1]               become            t0 = x0[i0, i1]
            t1 = t0 * t0                                    t1 = t0 * t0
            a0 = a0 + t1                                    a0 = a0 + t1
        y0[i0] = a0                                     y0[i0] = a0

The choice is by a small model of the work (`kernel_work`), never by timing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fusegrad.compiler.codegen.kernel_parts import (
    functions_written,
    lane_bytes,
    lanes_of,
    outer_accumulators,
    parts,
)
from fusegrad.compiler.codegen.lane_rows import packed_row, turning_work
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.kernel.ir import (
    Buffer,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    known_step,
    times_written,
    walk,
)
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.transform.kernel_work import each_read, kernel_work
from fusegrad.tracer.ir.symbolic_sizes import likely

# So many times what is short is written out at most, and so many statements and elementary functions come
# of it: LLVM takes a third of a millisecond for each. What is more goes around in a loop, mostly as fast.
MOST_COPIES, MOST_STATEMENTS, MOST_FUNCTIONS = 64, 384, 100
# Another axis has to save so much of the work, which the model knows no better than this.
WORTH = 0.8
# A kernel of fewer cycles than this stays as it is, the same for all sizes.
SOME_WORK = 2000
# Vectors along an axis of rows want so many of those.
FEWEST_ROWS = 8
# Rows are turned over in registers where that is less work than to fetch the lanes of so short a vector.
FEWEST_LANES = 8


def least_work(kernels: Iterable[BoundKernel], target: Target) -> BoundKernel:
    """The kernel with its vectors along the axis for which there is least work to do.

    kernels: ways to compute the same, of which the first is preferred.
    """
    return _fitted(_least_work(kernels, target), target)


def _least_work(kernels: Iterable[BoundKernel], target: Target) -> BoundKernel:
    best, *others = kernels
    least = kernel_work(best, target)
    if least < SOME_WORK:
        return best
    ways = [*_candidates(best, target)]
    for other in others:
        ways += [other, *_candidates(other, target)]
    least *= WORTH
    for way in ways:
        work = kernel_work(way, target)
        if work < least:
            least, best = work, way
    return best


def _fitted(bound: BoundKernel, target: Target) -> BoundKernel:
    """The kernel with no more vectors side by side than its elements fill.

    The others would be computed for nothing, and each is as much work for LLVM as the first.
    """
    kernel = bound.kernel
    sizes = dict(zip(kernel.axes, bound.sizes, strict=True))
    along = [sizes[loop.axes[0]] for loop in kernel.loops() if loop.kind in ("chunked", "vector")]
    if not along or not all(isinstance(n, int) for n in along):
        return bound
    one = max(2, target.lanes(lane_bytes(kernel)))
    filled = 1 << (max(1, -(-max(along) // one)) - 1).bit_length()
    if filled * one >= lanes_of(kernel, target):
        return bound
    return replace(bound, kernel=replace(kernel, beside=filled))


def _candidates(bound: BoundKernel, target: Target) -> Iterator[BoundKernel]:
    """The kernel with vectors along each axis of rows."""
    before, loop, after = parts(bound.kernel)
    if loop is None or loop.kind != "parallel":
        return
    sizes = dict(zip(bound.kernel.axes, bound.sizes, strict=True))
    inner = list(dict.fromkeys(a for s in walk(loop.body) if isinstance(s, Loop) for a in s.axes))
    for axis in loop.axes:
        if likely(sizes[axis]) < FEWEST_ROWS:
            continue
        rows = [a for a in loop.axes if a != axis]
        # A row is written out, or a loop; all rows in each lane only written out.
        for inside in dict.fromkeys(((), tuple(rows))):
            for is_written_out in (True,) if inside else (True, False):
                body = _for_lanes(loop.body, inside, inner, sizes, is_written_out)
                if body is None:
                    continue
                nest = _nest(axis, [a for a in rows if a not in inside], body)
                candidate = _rewritten(bound, axis, (*before, nest, *after))
                if _is_possible(candidate.kernel):
                    yield candidate
                    break


def _for_lanes(
    body: tuple[Statement, ...],
    rows: tuple[str, ...],
    inner: list[str],
    sizes: Mapping[str, Any],
    is_written_out: bool,
) -> tuple[Statement, ...] | None:
    """What each lane does: `body`, for every index of `rows`, in loops that are written out or not. None
    where that is too much.
    """
    counts = {axis: sizes[axis] for axis in (*rows, *inner)}
    numbers = all(isinstance(n, int) for n in counts.values())
    if is_written_out and not (numbers and math.prod(counts.values()) <= MOST_COPIES):
        return None

    def along(statement: Statement) -> Statement:
        if not isinstance(statement, Loop):
            return statement
        (axis,) = statement.axes
        return _loop(axis, tuple(map(along, statement.body)), counts[axis] if is_written_out else None)

    found = tuple(map(along, body))
    for axis in reversed(rows):
        found = (_loop(axis, found, counts[axis]),)
    return found


def _loop(axis: str, body: tuple[Statement, ...], count: int | None) -> Loop:
    return Loop((axis,), "serial" if count is None else "unrolled", body, count)


def _nest(axis: str, rows: list[str], body: tuple[Statement, ...]) -> Loop:
    if not rows:
        return Loop((axis,), "chunked", body)
    return Loop(tuple(rows), "parallel", (Loop((axis,), "vector", body),))


def _is_possible(kernel: Kernel) -> bool:
    """Whether the arrays that it accumulates are a few numbers, and what is unrolled is not too much."""
    _, loop, _ = parts(kernel)
    assert loop is not None
    unrolled = {s.axes[0] for s in walk(loop.body) if isinstance(s, Loop) and s.count is not None}
    by_element = all(unrolled.issuperset(a.axes) for a in outer_accumulators(kernel))
    few = times_written(loop.body) <= MOST_STATEMENTS and functions_written(kernel) <= MOST_FUNCTIONS
    return by_element and few


# The kernel's arguments, with the steps that are known now.


def _rewritten(bound: BoundKernel, axis: str, body: tuple[Statement, ...]) -> BoundKernel:
    """The kernel with another body, in which vectors run along `axis`."""
    kernel = bound.kernel
    loops = (s for s in walk(body) if isinstance(s, Loop))
    counts = {loop.axes[0]: loop.count for loop in loops if loop.count is not None}
    pairs = zip((*kernel.inputs, *kernel.outputs), (*bound.inputs, *bound.outputs), strict=True)
    now = {buffer.name: _with_steps(buffer, argument, axis, counts) for buffer, argument in pairs}

    def renewed(statement: Statement) -> Statement:
        match statement:
            case Load(buffer=buffer) | Store(buffer=buffer):
                return replace(statement, buffer=now[buffer.name])
            case Loop():
                return replace(statement, body=tuple(map(renewed, statement.body)))
        return statement

    inputs, outputs = (tuple(now[b.name] for b in those) for those in (kernel.inputs, kernel.outputs))
    changed = replace(kernel, inputs=inputs, outputs=outputs, body=tuple(map(renewed, body)))
    return replace(bound, kernel=changed)


def _with_steps(buffer: Buffer, argument: Argument, axis: str, counts: Mapping[str, int]) -> Buffer:
    """A buffer with its step along the axis of vectors, if kernels are compiled for it; and with those of
    rows that are short, if they are without gaps and it pays to read and write them so.
    """
    steps = [step if isinstance(step, int) else None for step in argument.strides]
    names = [a if a in counts or a == axis else None for a in buffer.axes]
    rows = tuple(step if a else None for a, step in zip(names, steps, strict=True))
    turned = replace(buffer, steps=rows)
    row = packed_row(turned, axis, counts)
    if row > 1 and turning_work(row) < each_read(FEWEST_LANES) * row:
        return turned
    return replace(
        buffer, steps=tuple(known_step(s) if a == axis else None for a, s in zip(names, steps, strict=True))
    )
