"""Products with the windows of images: an op of `window_ops.py` goes in, a function and its block come out.

They are made of the tiles of `matmul_kernel.py`. What those read of the right operand is a strip of columns
that is packed; here it is packed from the images. A strip's windows lie in pieces of rows, each a vector at
most; a row of the strip is these pieces, moved by the kernel's place and the channel that the row stands for.

    images of 4 x 4, kernels of 2 x 2: windows 0 to 8, in strips of 8

    row 0 of the strip: x[0:3] x[4:7] x[8:10]        the place 0, 0 of the kernel
    row 1:              x[1:4] x[5:8] x[9:11]        0, 1

For the gradient of kernels the strip has the windows in its rows: pieces are put one behind the other, as
columns that are then turned over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fusegrad.compiler.base.window_ops import CORRELATED_BIAS, KERNEL_GRADIENT
from fusegrad.compiler.gemm import matmul_kernel
from fusegrad.compiler.gemm.matmul_kernel import Tile, Tiles, go_over_tiles, least
from fusegrad.compiler.gemm.native_call import TASKS, NativeCall
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.scalar import short_name
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.ir_writer import Val, Writer, vector_type
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.llvm.tasks import function, module, run_tasks, task_name
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import Layout
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.ir.graph import Equation

# A block, in 8-byte places: tasks; the parts of the columns of an image, and the columns of each; rows,
# columns and inner dimension of a product; windows in a row, and elements in one of the images; images, and
# elements of each; slots and byte offsets of operands, result and bias; then for each row of columns where it
# begins.
PARTS, PART, M, N, K, ROW, STEP, IMAGES, IMAGE, A, B, C, BIAS, OFFSETS = *range(TASKS + 1, 11), 12, 14, 16, 18
# A part has whole strips of columns, of which the widest tile has so many for any dtype; or whole vectors of
# them where there are few strips, of which one thread would have most.
STRIP, FEW_STRIPS, VECTOR = 64, 8, 16

# In so many pieces at most vectors are read where they lie: with more it pays to pack them once.
MOST_PIECES = 2

_PARAMETERS = (
    "i64 %m, i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_column, ptr %b, ptr %offsets, "
    "i64 %row, i64 %step, i64 %start, i64 %before, ptr %c, i64 %c_row, ptr %bias"
)

Place = tuple[int, int]


def use(equation: Equation, layouts: Sequence[Layout], places: Sequence[Place]) -> NativeCall:
    """The native call of an op. layouts: how its operands lie; places: slots and byte offsets of these and of
    the result. Where sizes are open, columns are not divided.
    """
    shapes = [layout.shape for layout in layouts]
    cores = 1 if has_symbols(tuple(shapes)) else threads.cores()
    (entries, channels, *planes), taps = shapes[1], equation.params["taps"]
    size, dtype = equation.output.dtype.itemsize, short_name(equation.output.dtype)
    area = math.prod(planes)
    rows = [channel * area + tap for channel in range(channels) for tap in taps]
    forward = equation.op is not KERNEL_GRADIENT
    windows: tuple[Any, ...] = equation.params["count"]
    m = shapes[0][0] if forward else shapes[0][1]
    n, k = len(rows), math.prod(windows)
    if forward:
        n, k = k, n
    # Images are tasks of their own; where they are few, and where they are added up, columns are divided.
    wanted = -(-cores // entries) if forward and cores > 1 else cores
    # Each part has a strip, and what is left over counts.
    is_few = cores > 1 and wanted * STRIP <= n <= FEW_STRIPS * STRIP
    whole = VECTOR if wanted > 1 and is_few else STRIP
    part = -(-n // (wanted * whole)) * whole
    parts = -(-n // part) if cores > 1 else 1
    block = [parts * entries if forward else parts, parts, part, m, n, k, windows[-1], planes[-1]]
    block += [entries, channels * area]
    offsets = [*(layout.offset for layout in layouts), 0]
    lies = [(slot, start + offset * size) for (slot, start), offset in zip(places, offsets, strict=True)]
    for slot, start in (*lies[:2], lies[-1], lies[2]):
        block += [slot, start]
    block += rows
    tiles = {*matmul_kernel.all_tiles(host())}
    if not has_symbols((m, n)):
        sizes = {min(part, n), n - part * (parts - 1)}
        tiles = {tile for count in sizes for tile in matmul_kernel.tiles_for(m, count, dtype, host())}
    in_place = forward and not has_symbols((windows[-1],))
    pieces = _pieces(windows[-1], host().lanes(size)) if in_place else 0
    kind = equation.op.name, dtype, tuple(sorted(tiles)), pieces
    work = math.prod(block[M : K + 1]) * block[IMAGES] // 8
    return NativeCall(partial(_code, *kind), block, work, partial(_written, *kind))


def _pieces(row: int, lanes: int) -> int:
    """In how many pieces vectors of windows are read where they lie; 0 where strips of them are packed."""
    pieces = lanes // math.gcd(row, lanes)
    return pieces if pieces <= MOST_PIECES else 0


# Code.


@llvm_jit.remembered
def _code(op: str, dtype: str, tiles: tuple[Tile, ...], pieces: int) -> llvm_jit.Module:
    symbol, text = _written(op, dtype, tiles, pieces)
    return llvm_jit.Module(text, [symbol])


def _written(op: str, dtype: str, tiles: tuple[Tile, ...], pieces: int) -> tuple[str, str]:
    """The function's symbol and its LLVM IR."""
    symbol = "_".join([op, dtype, *(f"{tile.vectors}x{tile.rows}" for tile in tiles), f"in{pieces}"])
    declared: set[str] = set()
    forward = op != KERNEL_GRADIENT.name
    w = Writer(declared)
    run_tasks(w, symbol, w.load_index("%block", TASKS))
    entry = function(f"void @{symbol}(ptr %slots, ptr %block)", w)
    turn = [] if forward else [matmul_kernel.turn_function(f"{symbol}.turn", dtype, host(), declared)]
    one = _product(symbol, op, dtype, tiles, pieces, declared)
    return symbol, module(declared, [*turn, one, entry, _task(symbol, dtype, forward)])


def _task(symbol: str, dtype: str, forward: bool) -> str:
    """`SYMBOL.task(number, slots, block)`: a part of the columns, of one image or added up over all."""
    w = Writer(set())
    element = DTYPES[dtype].register
    parts, part, m, n, k, row, step, images, image = (
        w.load_index("%block", place) for place in (PARTS, PART, M, N, K, ROW, STEP, IMAGES, IMAGE)
    )
    a, b, c, bias = (_operand(w, place) for place in (A, B, C, BIAS))
    start = w.index("mul", w.index("urem", "%number", parts), part)
    columns = least(w, w.index("sub", n, start), part)
    offsets = w.offset("%block", str(OFFSETS), "i64")

    def call(number: str, left: str, result: str, before: str) -> None:
        images_at = w.offset(b, w.index("mul", number, image), element)
        given = [f"i64 {m}", f"i64 {columns}", f"i64 {k}", f"ptr {left}", f"i64 {k}", "i64 1"]
        given += [f"ptr {images_at}", f"ptr {offsets}", f"i64 {row}", f"i64 {step}", f"i64 {start}"]
        given += [f"i64 {before}", f"ptr {w.offset(result, start, element)}", f"i64 {n}", f"ptr {bias}"]
        w.line(f"call void @{symbol}.one({', '.join(given)})")

    if forward:
        number = w.index("udiv", "%number", parts)
        size = w.index("mul", m, n)
        call(number, a, w.offset(c, w.index("mul", number, size), element), "0")
    else:
        size = w.index("mul", m, k)
        with w.loop("0", images) as number:
            call(number, w.offset(a, w.index("mul", number, size), element), c, number)
    signature = f"void @{task_name(symbol)}(i64 %number, ptr %slots, ptr %block)"
    return function(signature, w, "noinline nounwind")


def _operand(w: Writer, place: int) -> str:
    """The address of an operand."""
    slot, base = w.offset("%slots", w.load_index("%block", place), "ptr"), w.name("p")
    w.line(f"{base} = load ptr, ptr {slot}")
    return w.offset(base, w.load_index("%block", place + 1))


def _product(symbol: str, op: str, dtype: str, tiles: Sequence[Tile], pieces: int, declared: set[str]) -> str:
    """LLVM IR of `SYMBOL.one`: C = A B, B the windows of an image; or C += A B, if others came before."""
    w, target = Writer(declared), host()
    kind: type[Tiles] = _WindowsAcross
    if op != KERNEL_GRADIENT.name:
        has_bias = op == CORRELATED_BIAS.name
        packed, read = (_WindowsAndBias, _WindowsInPlaceAndBias) if has_bias else (_Windows, _WindowsInPlace)
        kind = read if pieces else packed

    def written(tile: Tile) -> Tiles:
        made = kind(w, dtype, target, tile, f"{symbol}.turn")
        if isinstance(made, _WindowsInPlace):
            made.pieces = pieces
        return made

    go_over_tiles(w, dtype, target, tiles, written)
    return function(f"internal void @{symbol}.one({_PARAMETERS})", w, "noinline nounwind")


class _Windows(Tiles):
    """Strips of columns are windows."""

    def strip(
        self, part: tuple[str, str], column: str, columns: str, masks: list[Val], full: Val
    ) -> tuple[str, str]:
        w = self.w
        room = w.stack(f"[{self.depth * self.width + self.lanes} x {self.element}]")
        pieces = _Pieces(self, w.index("add", column, "%start"), columns, self.width)
        with w.loop(*part) as number:
            pieces.copy(_offset(w, number), w.counter(room, str(self.width), self.element))
        packed = w.offset(room, w.index("mul", part[0], str(-self.width)), self.element)
        return packed, str(self.width)


class _WindowsInPlace(Tiles):
    """Vectors of columns, or pieces of them, are windows of one row, which are read where they lie: nothing
    is packed.
    """

    pieces = 1

    def strip(
        self, part: tuple[str, str], column: str, columns: str, masks: list[Val], full: Val
    ) -> list[str]:
        """Where in an image the pieces begin; those behind the last one are that one again."""
        w, lanes = self.w, self.lanes // self.pieces
        first = w.index("add", column, "%start")
        last = w.index("sub", w.index("add", first, columns), str(lanes))
        found = []
        for j in range(self.vectors * self.pieces):
            place = least(w, w.index("add", first, str(j * lanes)), last)
            row, behind = w.index("sdiv", place, "%row"), w.index("srem", place, "%row")
            source = w.index("add", w.index("mul", row, "%step"), behind)
            found.append(w.offset("%b", source, self.element))
        return found

    def reader(self, strip: Any, part: tuple[str, str]) -> Callable[[str], list[Val]]:
        w, lanes = self.w, self.lanes // self.pieces

        def row(inner: str) -> list[Val]:
            offset, type_ = _offset(w, inner), vector_type(self.element, lanes)
            places = [f"ptr {w.offset(base, offset, self.element)}, align {self.size}" for base in strip]
            found = [w.emit(f"load {type_}, {place}", self.dtype, lanes) for place in places]
            while len(found) > self.vectors:
                both = [*range(2 * found[0].lanes)]
                pairs = zip(found[::2], found[1::2], strict=True)
                found = [w.shuffled(a, b, both) for a, b in pairs]
            return found

        return row


class _Bias(Tiles):
    """With the last part the bias of a row comes to its sums."""

    def finished(self, totals: list[Val], rows: list[str], part: tuple[str, str]) -> list[Val]:
        w = self.w
        last = w.compare("eq", Val(part[1], "i64"), Val("%k", "i64"))
        zero = w.constant(0, self.dtype)
        found = []
        for i, row in enumerate(rows):
            place = f"ptr {w.offset('%bias', row, self.element)}, align {self.size}"
            bias = w.select(last, w.emit(f"load {self.element}, {place}", self.dtype), zero)
            spread = w.splat(bias, self.lanes)
            line = totals[i * self.vectors : (i + 1) * self.vectors]
            found += [w.binary("fadd", total, spread) for total in line]
        return found


class _WindowsAndBias(_Bias, _Windows):
    """Both."""


class _WindowsInPlaceAndBias(_Bias, _WindowsInPlace):
    """Both."""


class _WindowsAcross(Tiles):
    """The rows of strips are windows, their columns the rows of columns of a convolution."""

    def later(self, part: tuple[str, str]) -> Val:
        seen = self.w.index("or", part[0], "%before")
        return self.w.compare("gt", Val(seen, "i64"), self.w.constant(0, "i64"))

    def strip(
        self, part: tuple[str, str], column: str, columns: str, masks: list[Val], full: Val
    ) -> tuple[str, str]:
        w = self.w
        behind = w.stack(f"[{self.depth * self.width + self.lanes} x {self.element}]")
        room = w.stack(f"[{(self.depth + self.lanes) * self.width} x {self.element}]")
        depth = w.index("sub", part[1], part[0])
        pieces = _Pieces(self, part[0], depth, self.depth)
        first = w.index("add", column, "%start")
        with w.loop("0", columns) as number:
            place = w.counter(behind, str(self.depth), self.element)
            pieces.copy(_offset(w, w.index("add", number, first)), place)
        given = f"ptr {room}, i64 {self.width}, ptr {behind}, i64 {self.depth}, i64 {depth}, i64 {columns}"
        w.line(f"call void @{self.turn}({given})")
        packed = w.offset(room, w.index("mul", part[0], str(-self.width)), self.element)
        return packed, str(self.width)


def _offset(w: Writer, number: str) -> str:
    """Where a row of columns begins in an image."""
    return w.load_index(w.offset("%offsets", number, "i64"), 0)


class _Pieces:
    """The pieces of rows, of a vector at most, that so many windows from one on lie in."""

    def __init__(self, tiles: Tiles, start: str, count: str, most: int) -> None:
        self.tiles, w = tiles, tiles.w
        self.w, lanes = w, tiles.lanes
        self.number, self.bits = w.stack("i64"), f"i{lanes}"
        self.sources, self.places, self.masks = (
            w.stack(f"[{most} x {type_}]") for type_ in ("i64", "i64", self.bits)
        )
        w.line(f"store i64 0, ptr {self.number}")
        end = w.index("add", start, count)
        last = w.index("sdiv", w.index("sub", end, "1"), "%row")
        with w.loop(w.index("sdiv", start, "%row"), w.index("add", last, "1")) as row:
            begin = w.index("mul", row, "%row")
            first = _most(w, w.index("sub", start, begin), "0")
            behind = least(w, w.index("sub", end, begin), "%row")
            with w.loop(first, behind, str(lanes)) as column:
                piece = w.load_index(self.number, 0)
                source = w.index("add", w.index("mul", row, "%step"), column)
                place = w.index("sub", w.index("add", begin, column), start)
                for room, value in ((self.sources, source), (self.places, place)):
                    w.line(f"store i64 {value}, ptr {w.offset(room, piece, 'i64')}")
                # Kept as one number, which is a mask again in one instruction.
                mask, bits = w.first_lanes(w.index("sub", behind, column), lanes), w.name()
                w.line(f"{bits} = bitcast {mask} to {self.bits}")
                w.line(f"store {self.bits} {bits}, ptr {w.offset(self.masks, piece, self.bits)}")
                w.line(f"store i64 {w.index('add', piece, '1')}, ptr {self.number}")

    def copy(self, offset: str, target: str) -> None:
        """Put the pieces, moved by an offset, side by side from `target` on; the last one's vector reaches
        over what is behind it.
        """
        w, tiles = self.w, self.tiles
        images = w.offset("%b", offset, tiles.element)
        with w.loop("0", w.load_index(self.number, 0)) as piece:
            source, place = (
                w.load_index(w.offset(room, piece, "i64"), 0) for room in (self.sources, self.places)
            )
            bits, mask = w.name(), w.name()
            w.line(f"{bits} = load {self.bits}, ptr {w.offset(self.masks, piece, self.bits)}")
            w.line(f"{mask} = bitcast {self.bits} {bits} to <{tiles.lanes} x i1>")
            seen = Val(mask, "bool", tiles.lanes)
            value = tiles.read(w.offset(images, source, tiles.element), 0, seen)
            tiles.write(value, w.offset(target, place, tiles.element), 0)


def _most(w: Writer, a: str, b: str) -> str:
    """The larger of two whole numbers."""
    x, y = Val(a, "i64"), Val(b, "i64")
    return w.select(w.compare("gt", x, y), x, y).text
