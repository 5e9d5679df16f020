"""How an emitter reads and writes where every lane of a vector goes through a row of its own.

In a loop over vectors of rows whose inner loop is unrolled, the lanes read the same place of rows that follow
each other. Where such rows are short and without gaps, vectors of neighbours are read, and turned over in
registers: three vectors of rows (x, y, z) become the vectors of all x, of all y, and of all z. What was read
or written before in the same round is known, and not read again.

    x0: "f32[i0:3, i1:1]", 4 lanes, i1 in unrolled(3)

    a0 b0 c0 a1                                         a0 a1 a2 a3     x0[i0, 0]
    b1 c1 a2 b2       three neighbours      become      b0 b1 b2 b3     x0[i0, 1]
    c2 a3 b3 c3                                         c0 c1 c2 c3     x0[i0, 2]
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fusegrad.compiler.codegen.access import Access
from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import PLACE, Buffer, Load, Operand, Statement, Store
from fusegrad.compiler.llvm.ir_writer import Val, vector_type

# A buffer by name, the indices along its axes, and those that are scalars.
_Key = tuple[str, tuple[str, ...], tuple[Operand, ...]]


class _Pending(NamedTuple):
    """A store that is put off until the round ends."""

    buffer: Buffer
    places: tuple[Operand, ...]
    indices: dict[str, str]
    value: Val


class LaneRows(Access):
    """The part of `Emitter` that knows rows in lanes.

    counts: the axes of unrolled loops, and how many indices each has. seen: in a round of a loop over such
    vectors, what is known to be where; None elsewhere. pending: what is to be stored when the round ends.
    """

    counts: dict[str, int]
    seen: dict[_Key, Val] | None
    pending: dict[_Key, _Pending]

    @contextlib.contextmanager
    def one_round(self) -> Iterator[None]:
        """Statements written inside are a round of a loop over vectors with loops in it."""
        self.seen, self.pending = {}, {}
        yield
        self.settle()
        self.seen = None

    @contextlib.contextmanager
    def inner_round(self) -> Iterator[None]:
        """The same for a round of a serial loop inside of that, after which nothing of it is known."""
        assert self.seen is not None
        self.settle()
        before, self.seen = self.seen, {}
        yield
        self.settle()
        self.seen = before

    def _key(self, buffer: Buffer, places: tuple[Operand, ...]) -> _Key:
        return buffer.name, tuple(self.indices.get(a, a) for a in buffer.axes), places

    def load(self, buffer: Buffer, places: tuple[Operand, ...] = (), when: str | None = None) -> Val:
        """See `Access.load`."""
        if self.seen is None or when is not None:
            return super().load(buffer, places, when)
        key = self._key(buffer, places)
        if key not in self.seen:
            if self._is_packed(buffer):
                self._load_rows(buffer)
            else:
                self.seen[key] = super().load(buffer, places)
        return self.seen[key]

    def store(
        self, buffer: Buffer, value: Val, places: tuple[Operand, ...] = (), when: str | None = None
    ) -> None:
        """See `Access.store`; done when the round ends, but for what is stored there again before."""
        if self.seen is None or when is not None or (places and not self._is_packed(buffer)):
            super().store(buffer, value, places, when)
            return
        key = self._key(buffer, places)
        # As it comes back from there.
        self.seen[key] = self.w.convert(self.w.convert(value, DTYPES[value.dtype].memory), buffer.dtype)
        self.pending[key] = _Pending(buffer, places, dict(self.indices), value)

    def settle(self) -> None:
        """Do what is put off."""
        pending, self.pending = self.pending, {}
        before = self.indices
        for key, store in pending.items():
            if key in self.pending:
                continue
            self.indices = store.indices
            rows = list(self._row_keys(store.buffer)) if self._is_packed(store.buffer) else []
            if rows and all(row in pending for row in rows):
                self._store_rows(store.buffer, [pending[row].value for row in rows])
                self.pending.update((row, store) for row in rows)
            else:
                super().store(store.buffer, store.value, store.places)
        self.indices, self.pending = before, {}

    # Packed rows.

    def _is_packed(self, buffer: Buffer) -> bool:
        """Whether the lanes' rows of a buffer follow each other without gaps."""
        return self.vector_axis in buffer.axes and packed_row(buffer, self.vector_axis or "", self.counts) > 1

    def _places(self, buffer: Buffer) -> Iterator[tuple[int, dict[str, str]]]:
        """For each way through the unrolled axes the place in a row, and the indices."""
        axes = [(a, step) for a, step in zip(buffer.axes, buffer.steps, strict=True) if a in self.counts]
        for indices in itertools.product(*(range(self.counts[a]) for a, _ in axes)):
            place = sum(i * (step or 0) for i, (_, step) in zip(indices, axes, strict=True))
            yield place, {a: str(i) for i, (a, _) in zip(indices, axes, strict=True)}

    def _row_keys(self, buffer: Buffer) -> Iterator[_Key]:
        """The keys of all places of a row, in the order in which they lie."""
        if PLACE in buffer.axes:
            for place in range(packed_row(buffer, self.vector_axis or "", self.counts)):
                yield self._key(buffer, (place,))
            return
        for _, indices in sorted(self._places(buffer), key=lambda found: found[0]):
            yield buffer.name, tuple({**self.indices, **indices}[a] for a in buffer.axes), ()

    def _rows_address(self, buffer: Buffer) -> str:
        """Where the row of the first lane begins."""
        before = self.indices
        self.indices = {**before, **dict.fromkeys(self.counts, "0")}
        address = self.row_address(buffer, (0,) if PLACE in buffer.axes else ())
        self.indices = before
        return address

    def _load_rows(self, buffer: Buffer) -> None:
        """Read the rows of all lanes."""
        assert self.seen is not None
        dtype, keys = DTYPES[buffer.dtype].memory, list(self._row_keys(buffer))
        parts = []
        for number, address in enumerate(self._parts(buffer, len(keys))):
            mask = self._part_mask(number, len(keys))
            if mask is None:
                vector = vector_type(memory_type(buffer.dtype), self.lanes)
                place = f"ptr {address}, align {DTYPES[buffer.dtype].size}"
                parts.append(self.w.emit(f"load {vector}, {place}", dtype, self.lanes))
            else:
                parts.append(self._masked_vector("load", f"ptr {address}", "p0", buffer.dtype, mask))
        for key, value in zip(keys, self._taken_apart(parts), strict=True):
            self.seen[key] = self.w.convert(value, buffer.dtype)

    def _store_rows(self, buffer: Buffer, values: Sequence[Val]) -> None:
        """Write the rows of all lanes; values: by place in a row."""
        memory = [self.w.splat(self.w.convert(v, DTYPES[v.dtype].memory), self.lanes) for v in values]
        parts = self._put_together(memory)
        for number, address in enumerate(self._parts(buffer, len(values))):
            self._store_neighbours(buffer, address, parts[number], self._part_mask(number, len(values)))

    def _parts(self, buffer: Buffer, row: int) -> list[str]:
        """The addresses of the vectors that rows of so many elements fill."""
        address = self._rows_address(buffer)
        memory = memory_type(buffer.dtype)
        return [self.w.offset(address, str(number * self.lanes), memory) for number in range(row)]

    def _part_mask(self, number: int, row: int) -> Val | None:
        """The lanes of such a vector that belong to rows of lanes that take part."""
        if self.left is None:
            return None
        count = self.w.index("sub", self.w.index("mul", self.left, str(row)), str(number * self.lanes))
        return self.w.first_lanes(count, self.lanes)

    def _taken_apart(self, parts: list[Val]) -> list[Val]:
        """Of elements that lie one after the other in `parts` the vectors of every so many-th of them."""
        count = len(parts)
        factor = _smallest_factor(count)
        if count == 1:
            return parts
        # First every `factor`-th element: of each `factor` neighbours of the parts one vector.
        spread: list[list[Val]] = [[] for _ in range(factor)]
        for start in range(0, count, factor):
            for first in range(factor):
                spread[first].append(self._every(parts[start : start + factor], first))
        found: list[Val | None] = [None] * count
        for first, those in enumerate(spread):
            for number, value in enumerate(self._taken_apart(those)):
                found[first + factor * number] = value
        return [value for value in found if value is not None]

    def _every(self, parts: Sequence[Val], first: int) -> Val:
        """Every so many-th element of as many parts."""
        wanted = [first + len(parts) * lane for lane in range(self.lanes)]
        found = parts[0]
        for number, part in enumerate(parts[1:], 1):
            # Lanes that come from an earlier part stay where they are; the first time they are put there.
            places = []
            for lane, place in enumerate(wanted):
                source, element = divmod(place, self.lanes)
                if source == number:
                    places.append(self.lanes + element)
                else:
                    places.append(element if number == 1 and source == 0 else lane)
            found = self.w.shuffled(found, part, places)
        return found

    def _put_together(self, values: list[Val]) -> list[Val]:
        """The other way round: neighbours, from the vectors of every so many-th of them."""
        count = len(values)
        factor = _smallest_factor(count)
        if count == 1:
            return values
        spread = [self._put_together(values[first::factor]) for first in range(factor)]
        found = []
        for those in zip(*spread, strict=True):
            found += [self._woven(those, number) for number in range(factor)]
        return found

    def _woven(self, parts: Sequence[Val], number: int) -> Val:
        """Of the elements of all parts in turn, one from each at a time, the vector with this number."""
        factor = len(parts)
        wanted = [divmod(number * self.lanes + lane, factor) for lane in range(self.lanes)]
        found = parts[0]
        for source, part in enumerate(parts[1:], 1):
            places = []
            for lane, (element, of) in enumerate(wanted):
                if of == source:
                    places.append(self.lanes + element)
                else:
                    places.append(element if source == 1 and of == 0 else lane)
            found = self.w.shuffled(found, part, places)
        return found


def has_pieces(body: Iterable[Statement]) -> bool:
    """Whether statements read or write pieces of rows."""
    return any(isinstance(s, (Load, Store)) and is_of_pieces(s.buffer) for s in body)


def is_of_pieces(buffer: Buffer) -> bool:
    """Whether the first index of a buffer is the column of a row without gaps."""
    return buffer.axes[:1] == (PLACE,) and buffer.steps[0] == 1


def packed_row(buffer: Buffer, vector_axis: str, counts: Mapping[str, int]) -> int:
    """How many elements the row of a lane has, if rows follow each other without gaps; else 0."""
    known = dict(zip(buffer.axes, buffer.steps, strict=True))
    if PLACE in buffer.axes:
        # Of pieces of rows the place is the column; others have steps that are not known.
        return known.get(vector_axis) or 0 if known[PLACE] == 1 else 0
    inner = [(counts[a], known[a]) for a in buffer.axes if a in counts]
    if any(step is None for _, step in inner) or known.get(vector_axis) is None:
        return 0
    length = 1
    for count, step in sorted(inner, key=lambda found: found[1] or 0):
        if step != length:
            return 0
        length *= count
    return length if known[vector_axis] == length else 0


def turning_work(row: int) -> int:
    """How many instructions it takes to turn rows of so many elements over in registers."""
    if row == 1:
        return 0
    factor = _smallest_factor(row)
    return row * (factor - 1) + factor * turning_work(row // factor)


def _smallest_factor(number: int) -> int:
    return next((f for f in range(2, number + 1) if number % f == 0), 1)
