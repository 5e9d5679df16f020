"""Pieces of rows: loads and stores of single columns go in; whole rows, turned over in registers, come out.

What is computed for each coordinate apart reads and writes every third element, three times. Where these are
all that lies there, rows that follow each other without gaps, they are one buffer, with the number of the
column for an index: a loop over vectors reads and writes neighbours then (`codegen/lane_rows.py`).

    t0 = x0[i0]      x0: x from 0 by 3                 t0 = x0[0, i0]      x0: "f32[_:1, i0:3]"
    t1 = x1[i0]      x1: x from 1 by 3      become     t1 = x0[1, i0]
    t2 = x2[i0]      x2: x from 2 by 3                 t2 = x0[2, i0]

Lanes that are few of long rows are fetched one by one as before, which is less work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fusegrad.compiler.base.complex_ops import is_complex
from fusegrad.compiler.codegen.kernel_parts import lanes_of
from fusegrad.compiler.codegen.lane_rows import turning_work
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.kernel.ir import PLACE, Buffer, Load, Loop, Statement, Store, is_nested, walk
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.transform.kernel_work import PIECE, each_read
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.tracer.ir.graph import Value

# Rows of more elements than this fill lines of memory by themselves.
LONGEST = 16


class _Row(NamedTuple):
    """Rows that follow each other: the buffer's argument if it began with a row, and their length."""

    argument: Argument
    axes: tuple[str, ...]
    length: int
    is_stored: bool


def with_whole_rows(bound: BoundKernel, layouts: Mapping[Value, Layout], target: Target) -> BoundKernel:
    """The kernel reading and writing rows as they lie, where that is less work.

    layouts: of the values that do not lie in row-major order.
    """
    strides = {s for a in (*bound.inputs, *bound.outputs) for s in a.strides if type(s) is int}
    if not any(2 <= s <= LONGEST for s in strides):
        return bound
    found = _Rows(bound, layouts)
    chosen = {
        row for row, columns in found.columns.items() if _pays(row, columns, lanes_of(bound.kernel, target))
    }
    return found.rewritten(chosen) if chosen else bound


def _pays(row: _Row, columns: set[int], lanes: int) -> bool:
    if row.is_stored:
        return len(columns) == row.length
    return PIECE * row.length + turning_work(row.length) < each_read(lanes) * len(columns)


class _Rows:
    """The rows of which a kernel's vector loops read and write columns. columns: the numbers of these.

    places: for a buffer and the place that a statement gives, the row and the column.
    """

    def __init__(self, bound: BoundKernel, layouts: Mapping[Value, Layout]) -> None:
        self.bound, self.layouts = bound, layouts
        kernel = bound.kernel
        buffers = zip((*kernel.inputs, *kernel.outputs), (*bound.inputs, *bound.outputs), strict=True)
        self._arguments = {buffer.name: argument for buffer, argument in buffers}
        self._stored = {b.name for b in kernel.outputs}
        self.columns: dict[_Row, set[int]] = {}
        self.places: dict[tuple[str, tuple[Any, ...]], tuple[_Row, int]] = {}
        elsewhere: set[tuple[str, tuple[Any, ...]]] = set()
        inside: set[int] = set()
        for loop in kernel.loops():
            if loop.kind in ("chunked", "vector") and not is_nested(loop.body):
                for statement in loop.body:
                    inside.add(id(statement))
                    self._note(statement, loop.axes[-1])
        for statement in kernel.statements:
            if isinstance(statement, (Load, Store)) and (
                id(statement) not in inside or not _is_plain(statement)
            ):
                elsewhere.add((statement.buffer.name, statement.places))
        for key in elsewhere & self.places.keys():
            row, _ = self.places[key]
            self.columns.pop(row, None)

    def _note(self, statement: Statement, axis: str) -> None:
        if not isinstance(statement, (Load, Store)) or not _is_plain(statement):
            return
        key = statement.buffer.name, statement.places
        if (
            key not in self.places
            and (found := self._row(statement.buffer, statement.places, axis)) is not None
        ):
            self.places[key] = found
            row, column = found
            self.columns.setdefault(row, set()).add(column)

    def _row(self, buffer: Buffer, places: tuple[Any, ...], axis: str) -> tuple[_Row, int] | None:
        """The row and the column that a buffer is a part of."""
        argument = self._arguments[buffer.name]
        steps = dict(zip(buffer.axes[len(places) :], argument.strides[len(places) :], strict=True))
        length = steps.get(axis, 0)
        numbers = (argument.offset, *argument.strides)
        if not all(type(n) is int and n >= 0 for n in numbers) or not 2 <= length <= LONGEST:
            return None
        at = argument.offset + sum(p * s for p, s in zip(places, argument.strides, strict=False))
        sizes = argument.value.shape
        known = self.layouts.get(argument.value)
        parts = 2 if is_complex(argument.value) else 1
        full = parts * math.prod(n for n in sizes if type(n) is int) % length == 0
        if not full or any(step % length for step in steps.values()):
            return None
        if known is not None and known != contiguous_layout(sizes):
            return None
        first = Argument(argument.value, at - at % length, tuple(steps.values()))
        return _Row(first, tuple(steps), length, buffer.name in self._stored), at % length

    def rewritten(self, chosen: set[_Row]) -> BoundKernel:
        """The kernel with the chosen rows in place of their columns."""
        kernel, bound = self.bound.kernel, self.bound
        buffers = {b.name: b for b in (*kernel.inputs, *kernel.outputs)}
        now: dict[_Row, Buffer] = {}
        for (name, _), (row, _) in self.places.items():
            if row in chosen and row not in now:
                axis = next(a for a, s in zip(row.axes, row.argument.strides, strict=True) if s == row.length)
                steps = (1, *(row.length if a == axis else None for a in row.axes))
                # Of one buffer's columns there may be several rows.
                own = f"{name[0]}{len(buffers) + len(now)}"
                now[row] = Buffer(own, buffers[name].dtype, (PLACE, *row.axes), steps)
        body = tuple(self._renewed(kernel.body, now))
        used = {s.buffer.name for s in walk(body) if isinstance(s, (Load, Store))}
        rows = [
            (b, Argument(r.argument.value, r.argument.offset, (1, *r.argument.strides)), r.is_stored)
            for r, b in now.items()
        ]
        kept = [
            (b, self._arguments[b.name], b.name in self._stored) for b in buffers.values() if b.name in used
        ]
        inputs, outputs = ([(b, a) for b, a, of in (*kept, *rows) if of is out] for out in (False, True))
        changed = replace(
            kernel, inputs=tuple(b for b, _ in inputs), outputs=tuple(b for b, _ in outputs), body=body
        )
        return replace(
            bound, kernel=changed, inputs=tuple(a for _, a in inputs), outputs=tuple(a for _, a in outputs)
        )

    def _renewed(self, body: Iterable[Statement], now: Mapping[_Row, Buffer]) -> Iterator[Statement]:
        """Statements, those that read one row one behind the other."""
        late: dict[_Row, list[Load]] = {}
        statements = [*body]
        for statement in statements:
            found = self._found(statement, now)
            if found is not None and isinstance(statement, Load):
                row, column = found
                late.setdefault(row, []).append(replace(statement, buffer=now[row], places=(column,)))
        for statement in statements:
            found = self._found(statement, now)
            if isinstance(statement, Loop):
                yield replace(statement, body=tuple(self._renewed(statement.body, now)))
            elif found is None:
                yield statement
            elif isinstance(statement, Load):
                yield from late.pop(found[0], ())
            elif isinstance(statement, Store):
                yield replace(statement, buffer=now[found[0]], places=(found[1],))

    def _found(self, statement: Statement, now: Mapping[_Row, Buffer]) -> tuple[_Row, int] | None:
        if not isinstance(statement, (Load, Store)):
            return None
        found = self.places.get((statement.buffer.name, statement.places))
        return found if found is not None and found[0] in now else None


def _is_plain(statement: Load | Store) -> bool:
    """Whether it is at a place that is known, without a condition."""
    numbers = all(type(p) is int for p in statement.places)
    return numbers and statement.when is None and getattr(statement, "combine", None) is None
