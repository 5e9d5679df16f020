"""How an emitter reads and writes buffers: one element, neighbours, or lanes far apart.

In a vector loop an access is a vector if the buffer runs along the loop's axis, if the index in
one of its places is a vector, or if the condition is. Lanes that the condition or the end of
the loop leaves out touch no memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import PLACE, Buffer, Operand
from fusegrad.compiler.llvm.ir_writer import LINE, Val, Writer, vector_type


class Access:
    """The part of `Emitter` that knows addresses.

    values: the scalars so far. pointers, steps: of the buffers, steps by buffer and dimension.
    indices: of the loops around. vector_axis: set inside a vector loop. mask, left: set in its tail, the
    lanes that take part and how many they are (or more than there are). streamed: the names of the buffers
    that are stored past the caches.
    """

    w: Writer
    lanes: int
    values: dict[str, Val]
    pointers: dict[str, str]
    steps: dict[tuple[str, int], str]
    indices: dict[str, str]
    vector_axis: str | None
    mask: Val | None
    left: str | None
    streamed: frozenset[str]

    # Addresses.

    def _address(self, buffer: Buffer, places: tuple[Operand, ...] = ()) -> tuple[str, Val | None]:
        """Where the element is: that of lane 0, and how many elements vector indices add to it."""
        w, moves, spread = self.w, [], None
        given = iter(places)
        for i, axis in enumerate(buffer.axes):
            step = self.steps[buffer.name, i]
            index = self._place(next(given)) if axis == PLACE else Val(self.indices[axis], "i64")
            if index.lanes:
                steps = w.splat(Val(step, "i64"), self.lanes)
                moved = index if step == "1" else w.binary("mul", index, steps)
                spread = moved if spread is None else w.binary("add", spread, moved)
                continue
            moves.append(w.index("mul", index.text, step))
        address = self.pointers[buffer.name]
        # The address of a row, say, before that of an element: it is known before the loop along the row.
        for move in sorted(moves, key=w.depth):
            address = w.offset(address, move, memory_type(buffer.dtype))
        return address, spread

    def _place(self, place: Operand) -> Val:
        return Val(str(place), "i64") if isinstance(place, int) else self.values[place]

    def row_address(self, buffer: Buffer, places: tuple[Operand, ...] = ()) -> str:
        """Where the element at the current indices is."""
        return self._address(buffer, places)[0]

    def _varies(self, buffer: Buffer) -> bool:
        return self.vector_axis is not None and self.vector_axis in buffer.axes

    def _step(self, buffer: Buffer) -> str:
        """How far apart the lanes of a buffer lie that varies."""
        return self.steps[buffer.name, buffer.axes.index(self.vector_axis or "")]

    def _lane_addresses(self, buffer: Buffer, address: str, spread: Val | None) -> str:
        """The addresses of the elements of all lanes, of which the first one lies at `address`."""
        w, offsets = self.w, spread
        if self._varies(buffer):
            step = self._step(buffer)
            moved = w.binary("mul", w.splat(Val(step, "i64"), self.lanes), w.lane_numbers(self.lanes))
            offsets = moved if offsets is None else w.binary("add", offsets, moved)
        if offsets is None:
            offsets = w.constant(0, "i64", self.lanes)
        addresses = w.name("p")
        w.line(f"{addresses} = getelementptr {memory_type(buffer.dtype)}, ptr {address}, {offsets}")
        return addresses

    # Conditions.

    def _mask(self, when: Val | None) -> Val:
        """The lanes that take part."""
        if when is None:
            return self.mask if self.mask is not None else self.w.constant(True, "bool", self.lanes)
        lanes = self.w.splat(when, self.lanes)
        return lanes if self.mask is None else self.w.binary("and", lanes, self.mask)

    @contextlib.contextmanager
    def _in_some_lane(self, when: Val | None) -> Iterator[None]:
        """What follows where `when` is true in a lane.

        Where it is true in none an address may be anywhere. A masked access to memory that is not there is
        right, but takes hundreds of cycles: the processor begins a fault, and takes it back.
        """
        if when is None:
            yield
            return
        some = when.text
        if when.lanes:
            bits = self.w.emit(f"bitcast {when} to i{self.lanes}", "i64").text
            some = self.w.emit(f"icmp ne i{self.lanes} {bits}, 0", "bool").text
        with self.w.when(some):
            yield

    # Reading.

    def load(self, buffer: Buffer, places: tuple[Operand, ...] = (), when: str | None = None) -> Val:
        """The buffer's element; a vector of them where lanes differ. 0 where `when` is false."""
        w, memory = self.w, memory_type(buffer.dtype)
        dtype = DTYPES[buffer.dtype].memory
        condition = None if when is None else self.values[when]
        address, spread = self._address(buffer, places)
        align = DTYPES[buffer.dtype].size
        varies = self._varies(buffer)
        if not varies and spread is None and not (condition and condition.lanes):
            value = self._load_one(buffer, address, condition)
        elif varies and spread is None and self._step(buffer) == "1":
            if self.mask is None and condition is None:
                vector = vector_type(memory, self.lanes)
                value = w.emit(f"load {vector}, ptr {address}, align {align}", dtype, self.lanes)
            else:
                value = self._load_neighbours(buffer, address, condition)
        elif varies and spread is None and self._step(buffer) == "2" and condition is None:
            value = self._every_other(buffer, address)
        else:
            addresses = f"<{self.lanes} x ptr> {self._lane_addresses(buffer, address, spread)}"
            value = self._masked_load("gather", addresses, f"v{self.lanes}p0", buffer.dtype, condition)
        return w.convert(value, buffer.dtype)

    def _every_other(self, buffer: Buffer, first: str) -> Val:
        """Lanes two elements apart, from two vectors: one that begins with the first, one that ends with the
        last. Nothing that lies beyond is read; a gather takes several times as long.
        """
        w, lanes, memory, align = self.w, self.lanes, memory_type(buffer.dtype), DTYPES[buffer.dtype].size
        dtype, parts = DTYPES[buffer.dtype].memory, []
        for start in (0, lanes - 1):
            address = w.offset(first, str(start), memory)
            if self.left is None:
                place = f"ptr {address}, align {align}"
                parts.append(w.emit(f"load {vector_type(memory, lanes)}, {place}", dtype, lanes))
            else:
                count = w.index("sub", w.index("shl", self.left, "1"), str(1 + start))
                mask = w.first_lanes(count, lanes)
                parts.append(self._masked_vector("load", f"ptr {address}", "p0", buffer.dtype, mask))
        places = [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)]
        return w.shuffled(parts[0], parts[1], places)

    def _load_one(self, buffer: Buffer, address: str, condition: Val | None) -> Val:
        w, memory, align = self.w, memory_type(buffer.dtype), DTYPES[buffer.dtype].size
        dtype = DTYPES[buffer.dtype].memory
        if condition is None:
            return w.emit(f"load {memory}, ptr {address}, align {align}", dtype)
        room = w.stack(memory)
        w.line(f"store {w.constant(0, dtype)}, ptr {room}")
        with w.when(condition.text):
            value = w.emit(f"load {memory}, ptr {address}, align {align}", dtype)
            w.line(f"store {value}, ptr {room}")
        return w.emit(f"load {memory}, ptr {room}", dtype)

    def _load_neighbours(self, buffer: Buffer, address: str, condition: Val | None) -> Val:
        """A vector from `address` on, of which not all lanes take part."""
        place = f"ptr {address}"
        if condition is None:
            return self._masked_load("load", place, "p0", buffer.dtype, None)
        vector = vector_type(memory_type(buffer.dtype), self.lanes)
        room = self.w.stack(vector)
        self.w.line(f"store {vector} zeroinitializer, ptr {room}")
        with self._in_some_lane(condition):
            value = self._masked_load("load", place, "p0", buffer.dtype, condition)
            self.w.line(f"store {value}, ptr {room}")
        return self.w.emit(f"load {vector}, ptr {room}", DTYPES[buffer.dtype].memory, self.lanes)

    def _masked_load(self, kind: str, address: str, suffix: str, dtype: str, condition: Val | None) -> Val:
        return self._masked_vector(kind, address, suffix, dtype, self._mask(condition))

    def _masked_vector(self, kind: str, address: str, suffix: str, dtype: str, mask: Val) -> Val:
        w, loaded = self.w, DTYPES[dtype].memory
        vector = vector_type(memory_type(dtype), self.lanes)
        symbol = f"llvm.masked.{kind}.v{self.lanes}{DTYPES[dtype].mangled}.{suffix}"
        kinds = address.rsplit(" ", 1)[0]
        w.declared.add(f"declare {vector} @{symbol}({kinds}, i32, <{self.lanes} x i1>, {vector})")
        return w.emit(
            f"call {vector} @{symbol}({address}, i32 {DTYPES[dtype].size}, {mask}, {vector} zeroinitializer)",
            loaded,
            self.lanes,
        )

    # Writing.

    def store(
        self, buffer: Buffer, value: Val, places: tuple[Operand, ...] = (), when: str | None = None
    ) -> None:
        """Put `value` at the current indices, where `when` is true."""
        w, align = self.w, DTYPES[buffer.dtype].size
        value = w.convert(value, DTYPES[value.dtype].memory)
        condition = None if when is None else self.values[when]
        address, spread = self._address(buffer, places)
        varies = self._varies(buffer)
        if not varies and spread is None:
            self._store_one(buffer, address, value, condition)
            return
        value = w.splat(value, self.lanes)
        if varies and spread is None and self._step(buffer) == "1":
            whole = self.mask is None and condition is None
            with self._in_some_lane(condition):
                self._store_neighbours(buffer, address, value, None if whole else self._mask(condition))
            return
        addresses = self._lane_addresses(buffer, address, spread)
        symbol = f"llvm.masked.scatter.v{self.lanes}{DTYPES[value.dtype].mangled}.v{self.lanes}p0"
        self._store_masked(symbol, value, f"<{self.lanes} x ptr>", addresses, align, self._mask(condition))

    def _store_neighbours(self, buffer: Buffer, address: str, value: Val, mask: Val | None) -> None:
        """A vector, or the lanes of it that take part, from `address` on."""
        align = DTYPES[buffer.dtype].size
        if mask is not None:
            symbol = f"llvm.masked.store.v{self.lanes}{DTYPES[value.dtype].mangled}.p0"
            self._store_masked(symbol, value, "ptr", address, align, mask)
            return
        how = f"align {align}"
        if buffer.name in self.streamed:
            how = f"align {min(LINE, self.lanes * align)}, !nontemporal !{{i32 1}}"
        self.w.line(f"store {value}, ptr {address}, {how}")

    def _store_masked(self, symbol: str, value: Val, kind: str, where: str, align: int, mask: Val) -> None:
        self.w.declared.add(f"declare void @{symbol}({value.type}, {kind}, i32, {mask.type})")
        self.w.line(f"call void @{symbol}({value}, {kind} {where}, i32 {align}, {mask})")

    def _store_one(self, buffer: Buffer, address: str, value: Val, condition: Val | None) -> None:
        w, align = self.w, DTYPES[buffer.dtype].size
        assert not (condition and condition.lanes), "a condition of lanes for one element"
        if condition is None:
            w.line(f"store {value}, ptr {address}, align {align}")
            return
        with w.when(condition.text):
            w.line(f"store {value}, ptr {address}, align {align}")
