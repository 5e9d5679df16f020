"""Products of matrices by tiles: a part of the result stays in registers while the inner dimension runs by.

A library packs both operands first, which for matrices that the nearer caches hold takes a good part of the
time of the product. Here an element of the left operand, wherever it lies, is spread over a vector and
multiplied with a row of the right one, of which a strip is packed where many rows of the left one meet it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.ir_writer import LINE, Val, Writer, vector_type
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.llvm.tasks import function


class Tile(NamedTuple):
    """How many vectors of columns a tile has, and how many rows.

    A sum waits for the one before; eight at a time fill the gaps. The largest leave registers for a row of
    the right operand and an element of the left one.
    """

    vectors: int
    rows: int


# Of the columns a tile has the smallest number of vectors that takes them. Where there are two of that width
# the taller one, which reads less of the right operand, is for products of so many rows: fewer leave much of
# it idle.
TALL = 128
TILES = Tile(1, 8), Tile(2, 6), Tile(3, 4)
TILES_OF_MANY = Tile(1, 8), Tile(2, 8), Tile(4, 4), Tile(4, 6)  # of 32 registers, not 16
# The inner dimension runs by in parts, so that what a tile reads of both operands is still near for the next:
# of the right one a column of vectors of so many bytes. Four of them fit into a first cache of 48 KB.
COLUMN_BYTES = 8192
# From so many rows on the columns of the right operand are laid side by side first: rows that lie a power of
# two apart take each other's place in the cache.
PACKED_ROWS = 32
# Columns are turned over in blocks of such vectors: in wider ones it is no faster, and LLVM takes three times
# as long for their shuffles.
TURNED_BYTES = 32
_PARAMETERS = (
    "i64 %m, i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_column, "
    "ptr %b, i64 %b_row, i64 %b_column, ptr %c, i64 %c_row"
)
_TURN_PARAMETERS = "ptr %room, i64 %width, ptr %b, i64 %b_column, i64 %depth, i64 %columns"


def all_tiles(target: Target) -> tuple[Tile, ...]:
    """The tiles that there are."""
    return TILES_OF_MANY if target.vector_registers > 16 else TILES


def depth(target: Target) -> int:
    """How many rows of the right operand are a part."""
    return COLUMN_BYTES // target.vector_bytes


def _widths(target: Target) -> list[int]:
    """How many vectors tiles may have."""
    return sorted({tile.vectors for tile in all_tiles(target)})


@functools.lru_cache(maxsize=1 << 12)
def tiles_for(rows: int, columns: int, dtype: str, target: Target) -> frozenset[Tile]:
    """The tiles of a product with so many rows and columns: for whole strips of columns, and for the rest."""
    widths, lanes = _widths(target), target.lanes(DTYPES[dtype].size)
    narrow, wide = (vectors * lanes for vectors in widths[-2:])
    width = narrow if -(-columns // wide) * narrow >= columns else wide
    strips = {min(columns, width), columns % width or width} if columns > width else {columns}
    found = set()
    for strip in strips:
        vectors = next(v for v in widths if v * lanes >= strip)
        alike = [tile for tile in all_tiles(target) if tile.vectors == vectors]
        found.add(alike[-1] if rows >= TALL else alike[0])
    return frozenset(found)


def short(tiles: Collection[Tile]) -> set[Tile]:
    """The tiles without the taller of two of one width."""
    return {t for t in tiles if not any(o.vectors == t.vectors and o.rows < t.rows for o in tiles)}


def serves(known: Collection[Tile], tiles: Collection[Tile]) -> bool:
    """Whether `known` has the tiles, or shorter ones for tall ones."""
    return all(any(k.vectors == t.vectors and k.rows <= t.rows for k in known) for t in tiles)


def product_functions(
    name: str, dtype: str, target: Target, tiles: Collection[Tile], declared: set[str]
) -> list[str]:
    """LLVM IR of `NAME(m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row)`: C = A B.

    Steps are in elements. The rows of C are contiguous, and the rows or the columns of B; A may lie in any
    way. No size is 0. Each element is summed in the order of the inner dimension, part by part.

    tiles: what it is made of; there must be one of each width that n needs.
    """
    turn = turn_function(f"{name}.turn", dtype, target, declared)
    return [turn, _product_function(name, dtype, target, tiles, declared)]


def _product_function(
    name: str, dtype: str, target: Target, tiles: Collection[Tile], declared: set[str]
) -> str:
    w = Writer(declared)
    go_over_tiles(w, dtype, target, tiles, lambda tile: Tiles(w, dtype, target, tile, f"{name}.turn"))
    return function(f"internal void @{name}({_PARAMETERS})", w, "noinline nounwind")


def go_over_tiles(
    w: Writer, dtype: str, target: Target, tiles: Collection[Tile], written: Callable[[Tile], Tiles]
) -> None:
    """The loops over parts of the inner dimension and strips of columns, and what is done with each."""
    lanes, widths = target.lanes(DTYPES[dtype].size), _widths(target)
    width = _strip_width(w, *(vectors * lanes for vectors in widths[-2:]))
    tall = w.compare("ge", Val("%m", "i64"), w.constant(TALL, "i64"))
    with w.loop("0", "%k", str(depth(target))) as start, w.loop("0", "%n", width) as column:
        columns = least(w, w.index("sub", "%n", column), width)
        for less, vectors in zip((0, *widths), widths, strict=False):
            alike = sorted(tile for tile in tiles if tile.vectors == vectors)
            most = vectors * lanes if vectors < widths[-1] else 0
            for tile in alike:
                chosen = _between(w, columns, less * lanes, most)
                if len(alike) > 1:
                    chosen = w.binary("and", chosen, tall if tile is alike[-1] else w.negated(tall))
                with w.when(chosen.text):
                    written(tile).tiles(start, column, columns)


def _strip_width(w: Writer, narrow: int, wide: int) -> str:
    """The columns of a strip: the fewer, where as many strips take all columns, so that none has few.

    `tiles_for` says the same.
    """
    strips = w.index("sdiv", w.index("add", "%n", str(wide - 1)), str(wide))
    enough = w.compare("ge", Val(w.index("mul", strips, str(narrow)), "i64"), Val("%n", "i64"))
    return w.select(enough, w.constant(narrow, "i64"), w.constant(wide, "i64")).text


def _between(w: Writer, number: str, above: int, most: int) -> Val:
    """Whether a number is larger than `above`, and not larger than `most` (0: no matter)."""
    found = w.compare("gt", Val(number, "i64"), w.constant(above, "i64"))
    if most:
        found = w.binary("and", found, w.compare("le", Val(number, "i64"), w.constant(most, "i64")))
    return found


def turn_function(name: str, dtype: str, target: Target, declared: set[str]) -> str:
    """`NAME(room, width, b, b_column, depth, columns)`: the columns of a matrix, each contiguous, put side by
    side into rows of `width` elements, a multiple of the lanes. Behind the last column is that one again.
    """
    w = Writer(declared)
    lanes = min(target.vector_bytes, TURNED_BYTES) // DTYPES[dtype].size
    vectors = _Vectors(w, dtype, lanes)
    last = w.index("sub", "%columns", "1")
    with w.loop("0", "%width", str(lanes)) as column, w.loop("0", "%depth", str(lanes)) as start:
        mask = w.first_lanes(w.index("sub", "%depth", start), lanes)
        lines = []
        for i in range(lanes):
            place = w.index("mul", least(w, w.index("add", column, str(i)), last), "%b_column")
            lines.append(vectors.read(vectors.line("%b", place, start), 0, mask))
        for i, line in enumerate(_transposed(w, lines)):
            row = w.index("mul", w.index("add", start, str(i)), "%width")
            w.line(f"store {line}, ptr {vectors.line('%room', row, column)}, align {DTYPES[dtype].size}")
    return function(f"internal void @{name}({_TURN_PARAMETERS})", w, "noinline nounwind")


def _transposed(w: Writer, lines: list[Val]) -> list[Val]:
    """As many vectors as each has lanes, transposed: ever smaller blocks off the diagonal change places."""
    lanes, size = len(lines), len(lines) // 2
    while size:
        made = list(lines)
        for i in (i for i in range(lanes) if not i & size):
            a, b = lines[i], lines[i + size]
            low = [e if not e & size else lanes + e - size for e in range(lanes)]
            high = [e + size if not e & size else lanes + e for e in range(lanes)]
            made[i], made[i + size] = w.shuffled(a, b, low), w.shuffled(a, b, high)
        lines, size = made, size // 2
    return lines


def least(w: Writer, a: str, b: str) -> str:
    """The smaller of two whole numbers."""
    x, y = Val(a, "i64"), Val(b, "i64")
    return w.select(w.compare("lt", x, y), x, y).text


class _Vectors:
    """Reads and writes vectors whose last lanes may have no place in memory."""

    def __init__(self, w: Writer, dtype: str, lanes: int) -> None:
        self.w, self.dtype, self.lanes, self.size = w, dtype, lanes, DTYPES[dtype].size
        self.element, self.vector = DTYPES[dtype].register, vector_type(DTYPES[dtype].register, lanes)
        suffix, mask = f"v{lanes}{dtype}.p0", f"<{lanes} x i1>"
        self.masked_load, self.masked_store = f"llvm.masked.load.{suffix}", f"llvm.masked.store.{suffix}"
        w.declared |= {
            f"declare {self.vector} @{self.masked_load}(ptr, i32, {mask}, {self.vector})",
            f"declare void @{self.masked_store}({self.vector}, ptr, i32, {mask})",
        }

    def line(self, base: str, start: str, column: str) -> str:
        return self.w.offset(self.w.offset(base, start, self.element), column, self.element)

    def at(self, line: str, j: int) -> str:
        return self.w.offset(line, str(j * self.lanes), self.element) if j else line

    def read(self, line: str, j: int, mask: Val | None = None) -> Val:
        """The j-th vector of a line, 0 where the mask is false."""
        if mask is None:
            place = f"ptr {self.at(line, j)}, align {self.size}"
            return self.w.emit(f"load {self.vector}, {place}", self.dtype, self.lanes)
        given = f"ptr {self.at(line, j)}, i32 {self.size}, {mask}, {self.vector} zeroinitializer"
        return self.w.emit(f"call {self.vector} @{self.masked_load}({given})", self.dtype, self.lanes)

    def write(self, value: Val, line: str, j: int, mask: Val | None = None) -> None:
        """Store the j-th vector of a line, where the mask is true."""
        if mask is None:
            self.w.line(f"store {value}, ptr {self.at(line, j)}, align {self.size}")
        else:
            given = f"{value}, ptr {self.at(line, j)}, i32 {self.size}, {mask}"
            self.w.line(f"call void @{self.masked_store}({given})")


class Tiles(_Vectors):
    """Writes the loop over tiles of one kind. turn: the function that turns columns over."""

    def __init__(self, w: Writer, dtype: str, target: Target, tile: Tile, turn: str) -> None:
        super().__init__(w, dtype, target.lanes(DTYPES[dtype].size))
        self.turn = turn
        self.vectors, self.rows = tile
        self.width = self.vectors * self.lanes
        self.depth = depth(target)

    def tiles(self, start: str, column: str, columns: str) -> None:
        """All rows of the result, from `column` on, for the part of the inner dimension from `start` on."""
        w = self.w
        part = start, least(w, w.index("add", start, str(self.depth)), "%k")
        before = (str(j * self.lanes) for j in range(self.vectors))
        masks = [w.first_lanes(w.index("sub", columns, count), self.lanes) for count in before]
        full = w.compare("ge", Val(columns, "i64"), w.constant(self.width, "i64"))
        strip = self.strip(part, column, columns, masks, full)
        last = w.index("sub", "%m", "1")
        first = w.compare("eq", Val(column, "i64"), w.constant(0, "i64"))
        with w.loop("0", "%m", str(self.rows)) as row:
            # Rows behind the last one are that one again.
            rows = [least(w, w.index("add", row, str(i)), last) for i in range(self.rows)]
            targets = [self.line("%c", w.index("mul", row, "%c_row"), column) for row in rows]
            self._tile(rows, targets, strip, part, masks, full, first)

    def later(self, part: tuple[str, str]) -> Val:
        """Whether an earlier part of the inner dimension has left something in the result."""
        return self.w.compare("gt", Val(part[0], "i64"), self.w.constant(0, "i64"))

    def strip(self, part: tuple[str, str], column: str, columns: str, masks: list[Val], full: Val) -> Any:
        """The columns of the right operand that tiles read: where they lie, and the step between rows."""
        w, width = self.w, self.width
        room = w.stack(f"[{self.depth * width} x {self.element}]")
        packed = w.offset(room, w.index("mul", part[0], str(-width)), self.element)
        turned = w.compare("ne", Val("%b_column", "i64"), w.constant(1, "i64"))
        many = w.compare("ge", Val("%m", "i64"), w.constant(PACKED_ROWS, "i64"))
        # Behind columns that do not fill a tile's vectors the packed strip has others: tiles need no masks.
        moved = w.binary("or", many, w.negated(full))
        straight = w.binary("and", moved, w.negated(turned))
        source = self.line("%b", w.index("mul", part[0], "%b_row"), column)
        with w.when(straight.text), w.loop(*part):
            source = w.counter(source, "%b_row", self.element)
            target = w.counter(room, str(width), self.element)
            for j, mask in enumerate(masks):
                if j * self.lanes * self.size % LINE == 0:
                    # The next strip is on its way while tiles read this one.
                    w.prefetch(self.at(source, j + self.vectors))
                self.write(self.read(source, j, mask), target, j)
        with w.when(turned.text):
            source = self.line("%b", w.index("mul", column, "%b_column"), part[0])
            depth = w.index("sub", part[1], part[0])
            given = f"ptr {room}, i64 {width}, ptr {source}, i64 %b_column, i64 {depth}, i64 {columns}"
            w.line(f"call void @{self.turn}({given})")
        moved, strip = w.binary("or", moved, turned), w.name("p")
        w.line(f"{strip} = select {moved}, ptr {packed}, ptr {w.offset('%b', column, self.element)}")
        step = w.select(moved, w.constant(width, "i64"), Val("%b_row", "i64"))
        return strip, step.text

    def reader(self, strip: Any, part: tuple[str, str]) -> Callable[[str], list[Val]]:
        """What gives the vectors of a row of a strip by its number, called in a loop over the part."""
        w = self.w
        first = w.offset(strip[0], w.index("mul", part[0], strip[1]), self.element)

        def row(inner: str) -> list[Val]:
            line = w.counter(first, strip[1], self.element)
            return [self.read(line, j) for j in range(self.vectors)]

        return row

    def _tile(
        self,
        rows: list[str],
        targets: list[str],
        strip: Any,
        part: tuple[str, str],
        masks: list[Val],
        full: Val,
        first: Val,
    ) -> None:
        """One tile, added to what an earlier part of the inner dimension left in the lines `targets`.

        first: whether the left operand is read for the first time.
        """
        w = self.w
        rooms = [[w.stack(self.vector) for _ in masks] for _ in rows]
        places = [
            (target, j, room)
            for target, line in zip(targets, rooms, strict=True)
            for j, room in enumerate(line)
        ]
        for _, _, room in places:
            w.line(f"store {self.vector} zeroinitializer, ptr {room}")
        later = self.later(part).text
        with w.when(later):
            # What is there arrives while the tile is computed.
            for target, j, _ in places:
                if j * self.lanes * self.size % LINE == 0:
                    w.prefetch(self.at(target, j))
        lefts = [w.offset("%a", w.index("mul", row, "%a_row"), self.element) for row in rows]
        with w.when(first.text):
            self._fetch_next_rows(lefts, part)
        row_of_right = self.reader(strip, part)
        step = w.index("mul", part[0], "%a_column")
        with w.loop(*part) as inner:
            right = row_of_right(inner)
            step = w.counter(step, "%a_column")
            for left, line_rooms in zip(lefts, rooms, strict=True):
                address = w.offset(left, step, self.element)
                value = w.emit(f"load {self.element}, ptr {address}, align {self.size}", self.dtype)
                spread = w.splat(value, self.lanes)
                for vector, room in zip(right, line_rooms, strict=True):
                    total = w.emit(f"load {self.vector}, ptr {room}", self.dtype, self.lanes)
                    w.line(f"store {w.call('llvm.fma', [spread, vector, total])}, ptr {room}")
        with w.when(later):
            for target, j, room in places:
                total = w.emit(f"load {self.vector}, ptr {room}", self.dtype, self.lanes)
                before = self.read(target, j, masks[j])
                w.line(f"store {w.binary('fadd', before, total)}, ptr {room}")
        totals = [w.emit(f"load {self.vector}, ptr {room}", self.dtype, self.lanes) for _, _, room in places]
        totals = self.finished(totals, rows, part)
        # A masked store takes many times as long on a machine without registers for masks.
        for whole, condition in ((True, full), (False, w.negated(full))):
            with w.when(condition.text):
                for (target, j, _), total in zip(places, totals, strict=True):
                    self.write(total, target, j, None if whole else masks[j])

    def finished(self, totals: list[Val], rows: list[str], part: tuple[str, str]) -> list[Val]:
        """What is stored of a tile in place of its sums, row after row."""
        return totals

    def _fetch_next_rows(self, lefts: list[str], part: tuple[str, str]) -> None:
        """Have the rows of the left operand that the next tile reads on their way."""
        w = self.w
        ahead = w.index("mul", "%a_row", str(self.rows))
        with w.loop(*part, str(LINE // self.size)) as inner:
            step = w.index("add", w.index("mul", inner, "%a_column"), ahead)
            for left in lefts:
                w.prefetch(w.offset(left, step, self.element))
