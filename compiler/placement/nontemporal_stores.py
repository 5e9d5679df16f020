"""Non-temporal stores: kernels whose results no cache holds go in; ones that store past it come out.

Before a processor writes to a line of memory it reads the line, unless it is told that all of it will be
written and that nobody reads it soon (x86's non-temporal stores). Where a kernel goes over more memory than
the last cache holds, what it wrote first is gone from there before anybody could read it, and a third of the
traffic of one array read and one written is such reads. glibc's memcpy does the same from some size on.

Whether it pays depends on sizes, of which a kernel knows nothing; the instruction is another one. So it is
another kernel, which is compiled for the sizes that ask for it.

    def kernel(n0, k0: f32, x0: "f32[i0:1]", y0: "f32[i0:1]"):
        for i0 in chunked(n0):
            t0 = x0[i0]
            t1 = t0 * k0
            y0[i0] = t1

becomes, for half a gigabyte of x and y on a machine with a cache of 32 megabytes,

    def kernel(n0, k0: f32, x0: "f32[i0:1]", y0: "f32[i0:1]"):  # y0: past the caches

with the same statements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fusegrad.compiler.codegen.index_set_splitting import interior
from fusegrad.compiler.codegen.kernel_parts import parts
from fusegrad.compiler.kernel.bound_kernel import Argument
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.ir import Buffer, Kernel, Load, Loop, Store, is_nested, walk
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.placement.batch_tiling import batches, product_blocks
from fusegrad.compiler.placement.kernel_arguments import KernelForm
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint
from fusegrad.compiler.runtime.allocator import ALIGNMENT, SMALLEST_POOLED
from fusegrad.tracer.ir.graph import Value

# Of smaller elements a vector is not a line of memory, and parts of lines are written one by one.
SMALLEST_ELEMENT = 4
# A processor gathers so many lines at a time on their way past the caches.
MOST_RESULTS = 8


def streaming_kernels(blueprint: Blueprint, sizes: Any) -> dict[int, Kernel]:
    """By number of a step, the kernel to take instead of its own."""
    if not blueprint.streams:
        return {}
    pooled = {value for value, bytes_ in _results(blueprint, sizes) if bytes_ >= SMALLEST_POOLED}
    if not pooled:
        return {}
    found = {}
    for number, form in enumerate(blueprint.forms):
        if form is None or _traffic(form, sizes) <= host().cache_bytes:
            continue
        names = tuple(
            buffer.name
            for buffer, argument in streamable(form)
            if argument.value in pooled and _starts_on_lines(argument, sizes)
        )
        if 0 < len(names) <= MOST_RESULTS:
            found[number] = replace(form.kernel, streamed=names)
    if found:
        # What goes entry by entry through several steps stays in the caches.
        for batch in batches(blueprint, sizes, product_blocks(blueprint, sizes)):
            for number in range(batch.first, batch.last):
                found.pop(number, None)
    return found


def _results(blueprint: Blueprint, sizes: Any) -> Iterator[tuple[Any, int]]:
    """The values that have arrays of their own, and their bytes."""
    made = {fresh.place for fresh in blueprint.fresh}
    return ((v, _bytes(v, sizes)) for v, place in blueprint.arrays.items() if place in made)


def _bytes(value: Value, sizes: Any) -> int:
    shape: tuple[int, ...] = sizes.of(value.shape)
    return math.prod(shape) * value.dtype.itemsize


def _traffic(form: KernelForm, sizes: Any) -> int:
    """The bytes of all that a kernel may touch."""
    values = dict.fromkeys(a.value for a in (*form.bound.inputs, *form.bound.outputs))
    return sum(_bytes(value, sizes) for value in values)


def _starts_on_lines(argument: Argument, sizes: Any) -> bool:
    """Whether each row of a buffer starts where a line of memory does, if the array does."""
    places = sizes.of((argument.offset, *argument.strides[:-1]))
    return all(place * argument.value.dtype.itemsize % ALIGNMENT == 0 for place in places)


def streamable(form: KernelForm) -> Iterator[tuple[Buffer, Argument]]:
    """The results that a kernel stores once, in whole vectors, and does not read, with their places.

    Those vectors begin with the first element of a row, or at a chunk, whose length is a multiple of theirs.
    """
    kernel, bound = form.kernel, form.bound
    statements = kernel.statements
    stores = Counter(s.buffer for s in statements if isinstance(s, Store))
    read = {s.buffer for s in statements if isinstance(s, Load)}
    places = Counter(a.value for a in (*bound.inputs, *bound.outputs))
    whole = _stored_in_whole_vectors(kernel)
    for buffer, argument in zip(kernel.outputs, bound.outputs, strict=True):
        once = stores[buffer] == 1 and places[argument.value] == 1 and buffer not in read
        if once and buffer in whole and DTYPES[buffer.dtype].size >= SMALLEST_ELEMENT:
            yield buffer, argument


def _stored_in_whole_vectors(kernel: Kernel) -> set[Buffer]:
    """The buffers that the vector loops of the tasks store without conditions."""
    _, tasks, _ = parts(kernel)
    found: set[Buffer] = set()
    for loop in walk((tasks,)) if tasks is not None else ():
        if not isinstance(loop, Loop) or loop.kind not in ("vector", "chunked") or is_nested(loop.body):
            continue
        stores = [s for s in loop.body if isinstance(s, Store) and s.buffer.axes[-1:] == loop.axes]
        if stores and interior(loop.axes[0], loop.body) is None:
            plain = (s for s in stores if not (s.when or s.places or s.combine) and s.buffer.unit)
            found.update(s.buffer for s in plain)
    return found
