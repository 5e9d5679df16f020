"""What a kernel over rows fetches ahead: while it goes over a row for the last time, the next row.

The processor foresees reads of neighbours, but not across a page of memory, and rows of a thousand elements
are one. Each row began with waiting for memory, where the caches did not hold it.
"""

from __future__ import annotations

from typing import NamedTuple

from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.ir import Buffer, Load, Loop, Statement
from fusegrad.compiler.llvm.ir_writer import LINE


class Ahead(NamedTuple):
    """The loop (by its body) that fetches, and what: `buffers` at the next index of `row`."""

    body: tuple[Statement, ...]
    row: str
    buffers: tuple[Buffer, ...]


def ahead_of(rows: Loop, lanes: int) -> Ahead | None:
    """What to fetch ahead in a loop over rows; None where they are gone over once, or nothing is worth it."""
    passes = [s for s in rows.body if isinstance(s, Loop) and s.kind == "vector"]
    if len(passes) < 2:
        return None
    axis, row = passes[-1].axes[0], rows.axes[-1]
    loads = (s for s in passes[0].body if isinstance(s, Load))
    read = dict.fromkeys(s.buffer for s in loads if not (s.when or s.places))
    buffers = tuple(
        buffer
        for buffer in read
        if buffer.unit
        and buffer.axes[-1] == axis
        and row in buffer.axes
        # Fetched with each vector: of several to a line, all but one would be in vain.
        and lanes * DTYPES[buffer.dtype].size >= LINE
    )
    return Ahead(passes[-1].body, row, buffers) if buffers else None
