"""A kernel and what it is called with in one program: sizes, numbers, and the memory of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fusegrad.compiler.kernel.ir import PLACE, Buffer, Kernel, Load, Store, noted, with_axes
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


@noted
def _picked_before_writing(
    kernel: Kernel, read: frozenset[Buffer], written: frozenset[Buffer]
) -> frozenset[Buffer] | None:
    """Those of the buffers `read` that are picked from in a loop behind which `written` is stored; None where
    that is not stored once, behind all reads, in loops that run along all that it is stored along.
    """
    loads, stores = _uses(kernel)
    found = [use for buffer in written for use in stores.get(buffer, ())]
    if len(found) != 1 or found[0].store.combine is not None or found[0].store.when is not None:
        return None
    ((place, begin, around, store),) = found
    if not (around <= {*store.buffer.axes} and all(i < place for b in read for i in loads.get(b, ()))):
        return None
    # What a loop picks is all read when it is behind: a store after it does not meet that any more.
    late = {b for b in read if any(i >= begin for i in loads.get(b, ()))}
    return frozenset(b for b in read if PLACE in b.axes and b not in late)


class _Stored(NamedTuple):
    """A store: its place among the statements, that of the outermost loop around it, and the axes of all."""

    place: int
    begin: int
    around: frozenset[str]
    store: Store


@noted
def _uses(kernel: Kernel) -> tuple[dict[Buffer, list[int]], dict[Buffer, list[_Stored]]]:
    """By their buffers the places of loads, and the stores."""
    loads: dict[Buffer, list[int]] = {}
    stores: dict[Buffer, list[_Stored]] = {}
    place = 0
    for top in kernel.body:
        begin = place
        for statement, around in with_axes((top,)):
            if isinstance(statement, Load):
                loads.setdefault(statement.buffer, []).append(place)
            elif isinstance(statement, Store):
                stored = _Stored(place, begin, around, statement)
                stores.setdefault(statement.buffer, []).append(stored)
            place += 1
    return loads, stores
