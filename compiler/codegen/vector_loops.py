"""How an emitter goes along the axis of vectors: whole vectors, the rest of one, several at a time, parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fusegrad.compiler.codegen.accumulation import Accumulation, Places
from fusegrad.compiler.codegen.index_set_splitting import Interior, interior
from fusegrad.compiler.codegen.kernel_parts import lane_bytes
from fusegrad.compiler.codegen.lane_rows import has_pieces
from fusegrad.compiler.codegen.prefetch import Ahead
from fusegrad.compiler.codegen.primitives import extreme
from fusegrad.compiler.codegen.tiles import Division, divided
from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import (
    ELEMENTARY,
    Accumulate,
    Buffer,
    Compute,
    Kernel,
    Statement,
    is_nested,
    times_written,
)
from fusegrad.compiler.llvm.ir_writer import LINE, Val
from fusegrad.compiler.llvm.target import Target

# A body with loops in it of more statements than this, written out, is there once, for vectors that may not
# be full: LLVM takes as long for it as for a hundred short ones.
LONGEST_TWICE = 128
# A short loop that does little but accumulate waits for each result before it can go on: so many vectors
# are taken at a time, unless there is other work to do meanwhile.
COPIES = 4
SHORT_BODY = 8


class VectorLoops(Accumulation):
    """The part of `Emitter` that writes loops over vectors.

    certain: booleans that are true in the loop's interior. ahead: what is fetched of the next row. divisions:
    of long bodies, by axis and the id of the body.
    """

    kernel: Kernel
    target: Target
    divisions: dict[tuple[str, int], Division | None]

    certain: frozenset[str]
    ahead: Ahead | None

    def statements(self, body: Sequence[Statement]) -> None:
        """Write statements, in order."""
        raise NotImplementedError

    def numbers_of(self, body: Sequence[Statement]) -> None:
        """Take the numbers that statements need from the kernel's arguments."""
        raise NotImplementedError

    def vector_loop(self, axis: str, body: tuple[Statement, ...], start: str, stop: str) -> None:
        """Full vectors first, several at a time where that helps, then one masked vector for the rest."""
        w = self.w
        found = None if is_nested(body) else interior(axis, body)
        if found is not None:
            self.split_loop(axis, body, start, stop, found)
            return
        self.vector_axis = axis
        room = w.index("sub", stop, start)
        full = w.index("and", room, str(-self.lanes))
        end = w.index("add", start, full)
        if waits_for_itself(body):
            many = w.index("and", room, str(-self.lanes * COPIES))
            start, first = w.index("add", start, many), start
            some = w.name()
            w.line(f"{some} = icmp sgt i64 {many}, 0")
            with w.when(some):
                self.copied(axis, body, first, start)
        if self.division(axis, body) is not None or times_written(body) > LONGEST_TWICE:
            self.along(axis, body, start, stop)
            self.take_in(body)
            self.vector_axis = None
            return
        lines = self.next_row(axis) if self.ahead is not None and self.ahead.body is body else {}
        with self.in_blocks(body, start, end, self.lanes) as index:
            self.indices[axis] = index
            for buffer, line in lines.items():
                vector = w.offset(line, index, memory_type(buffer.dtype))
                for place in range(0, self.lanes * DTYPES[buffer.dtype].size, LINE):
                    w.prefetch(w.offset(vector, str(place)))
            self.vector_round(body)
        rest = w.index("sub", stop, end)
        some = w.name()
        w.line(f"{some} = icmp sgt i64 {rest}, 0")
        with w.when(some):
            self.one_vector(axis, body, end, stop)
        self.take_in(body)
        self.vector_axis = None

    def along(self, axis: str, body: Sequence[Statement], start: str, stop: str, whole: bool = False) -> None:
        """The body for each vector of a range. whole: whether that is whole vectors."""
        division = self.division(axis, body)
        if division is not None:
            self.in_tiles(axis, body, division, start, stop, whole)
            return
        with self.in_blocks(body, start, stop, self.lanes) as index:
            self.one_vector(axis, body, index, None if whole else stop)

    def division(self, axis: str, body: Sequence[Statement]) -> Division | None:
        """The parts of a body; None if it is not divided."""
        key = axis, id(body)  # a part of the kernel, which lives as long
        if key not in self.divisions:
            self.divisions[key] = divided(axis, body)
        return self.divisions[key]

    def in_tiles(
        self, axis: str, body: Sequence[Statement], division: Division, start: str, stop: str, whole: bool
    ) -> None:
        """A long body, part after part on each tile of a range; what is summed is taken in after each."""
        w, outside = self.w, dict(self.values)
        self.statements(division.before)
        vectors = division.vectors(self.lanes * lane_bytes(self.kernel), self.target.vector_bytes)
        rooms: dict[str, str] = {}
        free: dict[str, list[str]] = {}
        handed: dict[str, Val] = {}
        with self.blocks(start, stop, vectors * self.lanes) as (first, last, more):
            for part in division.parts:
                self.numbers_of(part.body)
                count = w.index("add", w.index("sub", last, first), str(self.lanes - 1))
                with w.loop("0", w.index("udiv", count, str(self.lanes))) as vector:
                    index = w.index("add", first, w.index("mul", vector, str(self.lanes)))
                    for name in part.takes:
                        self.values[name] = self._taken(handed[name], rooms.get(name), vector)
                    self.one_vector(axis, part.body, index, None if whole else last)
                    for name in part.spent:
                        # Taken before anything is left at this vector's place.
                        if name in rooms:
                            free[handed[name].type].append(rooms[name])
                    for name in part.leaves:
                        value = handed[name] = w.splat(self.values[name], self.lanes)
                        if value.text.startswith("%"):
                            spare = free.setdefault(value.type, [])
                            rooms[name] = spare.pop() if spare else w.stack(f"[{vectors} x {value.type}]")
                            w.line(f"store {value}, ptr {w.offset(rooms[name], vector, value.type)}")
            with w.when(more):
                self.take_in(body)
        self.values = outside

    def _taken(self, value: Val, room: str | None, vector: str) -> Val:
        """What an earlier part has left; a constant, which some know at certain places, was not."""
        if room is None:
            return value
        place = self.w.offset(room, vector, value.type)
        return self.w.emit(f"load {value.type}, ptr {place}", value.dtype, value.lanes)

    def next_row(self, axis: str) -> dict[Buffer, str]:
        """Where what is fetched ahead begins."""
        assert self.ahead is not None
        before = dict(self.indices)
        self.indices[axis] = "0"
        self.indices[self.ahead.row] = self.w.index("add", self.indices[self.ahead.row], "1")
        found = {buffer: self.row_address(buffer) for buffer in self.ahead.buffers}
        self.indices = before
        return found

    def one_vector(self, axis: str, body: Sequence[Statement], index: str, stop: str | None) -> None:
        """The body for the vector at `index`, of which lanes from `stop` on take no part."""
        self.indices[axis] = index
        if stop is None:
            self.vector_round(body)
            return
        with self.first_lanes_only(self.w.index("sub", stop, index)):
            self.vector_round(body)

    def vector_round(self, body: Sequence[Statement]) -> None:
        """The body for one vector."""
        with self.one_round() if is_nested(body) or has_pieces(body) else contextlib.nullcontext():
            self.statements(body)

    @contextlib.contextmanager
    def first_lanes_only(self, count: str) -> Iterator[None]:
        """Of vectors so many lanes take part, or all."""
        self.left, self.mask = count, self.w.first_lanes(count, self.lanes)
        yield
        self.mask = self.left = None

    def split_loop(
        self, axis: str, body: tuple[Statement, ...], start: str, stop: str, found: Interior
    ) -> None:
        """Whole vectors of the interior without its conditions; before and behind it one vector at a time,
        with all of them. Both are in one loop that runs twice, so that there is one copy of its code.
        """
        w = self.w
        first, last = self.interior_range(axis, start, stop, found)
        self.vector_axis = axis
        with w.loop("0", "2") as turn:
            before = Val(w.name(), "bool")
            w.line(f"{before.text} = icmp eq i64 {turn}, 0")
            begin = w.select(before, Val(start, "i64"), Val(last, "i64"))
            end = w.select(before, Val(first, "i64"), Val(stop, "i64"))
            self.along(axis, body, begin.text, end.text)
            self.take_in(body)
            with w.when(before.text):
                self.certain = found.names
                self.along(axis, body, first, last, whole=True)
                self.take_in(body)
                self.certain = frozenset()
        self.vector_axis = None

    def interior_range(self, axis: str, start: str, stop: str, found: Interior) -> tuple[str, str]:
        """First and last index of the interior's whole vectors, counted from `start`; both are `stop` if
        there is none.
        """
        w = self.w
        self.indices[axis] = "0"
        self.statements(found.before)
        first, last = Val(start, "i64"), Val(stop, "i64")
        for bound in found.bounds:
            limit = w.binary("sub", self.operand(bound.limit, "i64"), self.values[bound.index])
            if bound.op in ("gt", "le"):
                limit = w.binary("add", limit, w.constant(1, "i64"))
            if bound.op in ("ge", "gt"):
                first = extreme(w, "maximum", first, limit)
            else:
                last = extreme(w, "minimum", last, limit)
        for fact in found.facts:
            last = w.select(self.values[fact], last, first)
        ahead = w.index("add", w.index("sub", first.text, start), str(self.lanes - 1))
        begin = w.index("add", start, w.index("and", ahead, str(-self.lanes)))
        end = w.index("add", start, w.index("and", w.index("sub", last.text, start), str(-self.lanes)))
        some = w.compare("lt", Val(begin, "i64"), Val(end, "i64"))
        nothing = Val(stop, "i64")
        begin, end = (w.select(some, Val(x, "i64"), nothing).text for x in (begin, end))
        return begin, end

    def unless_certain(self, when: str | None) -> str | None:
        """A condition of a load or store, where it has to be tested."""
        return None if when in self.certain else when

    def copied(self, axis: str, body: tuple[Statement, ...], start: str, stop: str) -> None:
        """The body for several vectors at a time, each with accumulators of its own, combined at the end."""
        w = self.w
        accumulators = {s.accumulator.target: s.accumulator for s in body if isinstance(s, Accumulate)}
        own = {target: self.stacks[target] for target in accumulators}
        rooms: list[Places] = [own]
        for _ in range(COPIES - 1):
            rooms.append({target: self.copy_of(a) for target, a in accumulators.items()})
        with self.in_blocks(body, start, stop, self.lanes * COPIES, rooms) as index, self.in_pairs():
            for copy, places in enumerate(rooms):
                self.indices[axis] = w.index("add", index, str(self.lanes * copy))
                self.stacks.update(places)
                self.vector_round(body)
        self.stacks.update(own)
        for target, accumulator in accumulators.items():
            for places in rooms[1:]:
                united = self.combine(accumulator, self.held(own[target]), self.held(places[target]))
                w.line(f"store {united}, ptr {own[target].room}")


def waits_for_itself(body: tuple[Statement, ...]) -> bool:
    """Whether a vector loop has little to do between two steps of an accumulator."""
    accumulates = [s for s in body if isinstance(s, Accumulate)]
    return (
        bool(accumulates)
        and not is_nested(body)
        and len(body) <= SHORT_BODY
        and not any(s.accumulator.axes for s in accumulates)
        and not any(isinstance(s, Compute) and s.op in ELEMENTARY for s in body)
    )
