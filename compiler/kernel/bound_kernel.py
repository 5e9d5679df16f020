"""A kernel and what it is called with in one program: sizes, numbers, and the memory of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.kernel.ir import PLACE, Buffer, Kernel, Load, Store, walk
from fusegrad.tracer.ir.graph import Value


@dataclass(frozen=True)
class Argument:
    """What a buffer of a kernel is bound to: a value's memory, from `offset`, with its steps."""

    value: Value
    offset: int
    strides: tuple[int, ...]  # in elements, one per axis of the buffer


@dataclass
class BoundKernel:
    """A kernel and what it is called with in one program.

    sizes: of the kernel's axes. numbers: the values of its number arguments.
    """

    kernel: Kernel
    sizes: tuple[int, ...]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    numbers: tuple[Any, ...]


def reads_where_it_writes(bound: BoundKernel, output: Value, target: Value) -> bool:
    """Whether a kernel goes through the memory of `target` just as it does through `output`'s, and reads
    each element before it writes it: both may then lie in the same memory.
    """
    kernel = bound.kernel
    arguments = list(zip((*kernel.inputs, *kernel.outputs), (*bound.inputs, *bound.outputs), strict=True))
    read, written = (frozenset([b for b, a in arguments if a.value == value]) for value in (target, output))
    picked = _picked_before_writing(kernel, read, written)
    if picked is None:
        return False
    ways = {(b.axes, a.offset, a.strides) for b, a in arguments if b in read | written and b not in picked}
    return len(ways) == 1 and PLACE not in next(iter(ways))[0] and not (picked and read == picked)


def _picked_before_writing(
    kernel: Kernel, read: frozenset[Buffer], written: frozenset[Buffer]
) -> frozenset[Buffer] | None:
    """See `_looked_for`; looked for once for all uses of the kernel."""
    known, key = kernel.notes, (read, written)
    if key not in known:
        known[key] = _looked_for(kernel, read, written)
    found: frozenset[Buffer] | None = known[key]
    return found


def _looked_for(
    kernel: Kernel, read: frozenset[Buffer], written: frozenset[Buffer]
) -> frozenset[Buffer] | None:
    """Those of the buffers `read` that are picked from in a loop behind which `written` is stored; None where
    that is not stored once, behind all reads, in loops that run along all that it is stored along.
    """
    statements = kernel.statements
    loads = [(i, s) for i, s in enumerate(statements) if isinstance(s, Load) and s.buffer in read]
    stores = [(i, s) for i, s in enumerate(statements) if isinstance(s, Store) and s.buffer in written]
    if len(stores) != 1 or stores[0][1].combine is not None or stores[0][1].when is not None:
        return None
    place, store = stores[0]
    around = {axis for loop in kernel.loops() if store in walk(loop.body) for axis in loop.axes}
    if not (around <= {*store.buffer.axes} and all(i < place for i, _ in loads)):
        return None
    # What a loop picks is all read when it is behind: a store after it does not meet that any more.
    (top,) = (i for i, statement in enumerate(kernel.body) if store in walk((statement,)))
    behind = len(list(walk(kernel.body[:top])))
    late = {load.buffer for i, load in loads if i >= behind}
    return frozenset(b for b in read if PLACE in b.axes and b not in late)
