"""Matrix products on the loops' own thread pool.

What has a right operand that the caches hold is computed by our own kernel
(`compiler/gemm/matmul_kernel.py`), the rest by BLAS.

The threads of a library's own pool spin after a product, and on few cores starve those of ours
(DESIGN.md, "One thread pool"). So BLAS is called single-threaded (`blas.py`), on parts of the result that the
threads of the one pool take.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.gemm import matmul_kernel
from fusegrad.compiler.gemm.blas import routines
from fusegrad.compiler.gemm.matmul_kernel import Tile
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.scalar import short_name
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.ir_writer import Writer
from fusegrad.compiler.llvm.target import Target, host
from fusegrad.compiler.llvm.tasks import function, module, run_tasks, task_name
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import Layout
from fusegrad.eager.core.sizes import broadcast_shapes, has_symbols
from fusegrad.tracer.ir.symbolic_sizes import likely

# Multiplications below which a product is not divided: sharing costs more than it saves.
SMALL_PRODUCT = 1 << 19
# Products are cut into two parts, and into more (one for each core at most) above this many
# multiplications a part. Each part packs an operand whole, so more parts than cores take longer.
PART_PRODUCT = 1 << 24

# What goes to the tiled kernel: right operands of so many elements at most, of more columns than one.
TILED = 1 << 20
# Of these, so many multiplications at most, or a short inner dimension: where few registers make small tiles
# (AVX2), and of operands that lie transposed. From there on BLAS, which packs both operands, is faster by a
# tenth.
SMALL_TILES, FEW_REGISTERS, ACROSS, SHORT = 1 << 24, 16, 1 << 27, 64
# Right operands that lie transposed are turned over if they have no more elements than this.
TURNED = 1 << 17
# Products of few rows with one that lies transposed, as a layer's weights do, are cut into columns: where
# there are 512-bit vectors, BLAS reads operands where they lie for results of so many elements, by so many
# multiplications at most. For larger ones it packs both, which takes as long as the product of twenty rows.
UNPACKED, UNPACKED_PRODUCT, FEW_ROWS, FEWEST_COLUMNS = 1 << 10, 1_000_000, 64, 8

# A product's block, in 8-byte places: sizes, then for each operand slot, byte offset, leading
# dimension, whether it is transposed, and byte steps of the two batch dimensions.
M, N, K, BATCH0, BATCH1, PARTS, PART, BY_ROWS, A, B, C = 0, 1, 2, 3, 4, 5, 6, 7, 8, 14, 20
LENGTH = 26


# Rows, columns and inner dimension, or the addresses of both operands and the result.
_Three = tuple[str, str, str]


@llvm_jit.remembered
def _code(dtype: str, tiles: tuple[Tile, ...]) -> llvm_jit.Module:
    """The entry and the task of a product kernel: of these tiles, or without any by BLAS."""
    routine = DTYPES[dtype].product
    names = (f"{tile.vectors}x{tile.rows}" for tile in tiles)
    symbol = "_".join(["tiled", routine, *names]) if tiles else f"product_{routine}"
    if not tiles:
        llvm_jit.add_symbols({f"fusegrad_{routine}": routines()[routine]})
    write = partial(_module, routine, dtype, symbol, tiles)
    return llvm_jit.Module(
        write, [symbol, task_name(symbol)], said=("product", routine, dtype, symbol, tiles)
    )


# By dtype (short name), the tiles of the kernels that there are.
_tiled: dict[str, list[tuple[Tile, ...]]] = {}


def _with_tiles(dtype: str, tiles: set[Tile]) -> llvm_jit.Module:
    """A kernel that has these tiles: one that is there, or a new one.

    The first has no others, since compiling takes time for each; the second has all, and serves from then on.
    """
    known = _tiled.setdefault(dtype, [])
    found = next((other for other in known if tiles <= {*other}), None)
    if found is None:
        found = matmul_kernel.all_tiles(host()) if known else tuple(sorted(tiles))
        known.append(found)
    return _code(dtype, found)


def product_addresses(dtype: np.dtype, block: Sequence[int]) -> tuple[int, int]:
    """The entry and the task of the kernel for a product.

    The entry is a function of (slots, block), for blocks of `product_block`; the task is the function
    that computes a part of it.
    """
    with compiling:
        if not _is_tiled(block):
            code = _code(short_name(dtype), ())
        else:
            tiles, known = _tiles(dtype, block), _tiled.get(short_name(dtype), [])
            if not any(tiles <= {*other} for other in known):
                # A program with other products may have settled for shorter ones.
                tiles = next(({*other} for other in known if matmul_kernel.serves(other, tiles)), tiles)
            code = _with_tiles(short_name(dtype), tiles)
    entry, task = code.addresses().values()
    return entry, task


def compile_together(blocks: Iterable[tuple[np.dtype, Sequence[int]]]) -> None:
    """Begin to compile what several products (their dtypes and blocks) need; tiles as one, which takes less
    time.
    """
    needed: dict[str, set[Tile]] = {}
    for dtype, block in blocks:
        if _is_tiled(block):
            needed.setdefault(short_name(dtype), set()).update(_tiles(dtype, block))
        else:
            _code(short_name(dtype), ())
    with compiling:
        for name, tiles in needed.items():
            _with_tiles(name, matmul_kernel.short(tiles))


def own_text(symbol: str, dtype: np.dtype, blocks: Iterable[Sequence[int]]) -> str:
    """LLVM IR of a kernel of our own for the products of these blocks, though BLAS may be faster for some."""
    tiles = sorted({tile for block in blocks for tile in _tiles(dtype, block)})
    short = short_name(dtype)
    return _module(DTYPES[short].product, short, symbol, tuple(tiles))


def _tiles(dtype: np.dtype, block: Sequence[Any]) -> set[Tile]:
    """The tiles of a product, in any of its parts; of open sizes all that there are."""
    if has_symbols((block[M], block[N], block[PART])):
        return {*matmul_kernel.all_tiles(host())}
    parts = [block[PART], block[M if block[BY_ROWS] else N] - block[PART] * (block[PARTS] - 1)]
    sizes = {(part, block[N]) if block[BY_ROWS] else (block[M], part) for part in parts}
    return {tile for m, n in sizes for tile in matmul_kernel.tiles_for(m, n, short_name(dtype), host())}


def is_shared(block: Sequence[int]) -> bool:
    """Whether a product has several tasks."""
    return block[BATCH0] * block[BATCH1] * block[PARTS] > 1


def _is_tiled(block: Sequence[int]) -> bool:
    """Whether the nearer caches hold enough of the right operand, which few rows should not turn over."""
    m, n, k = block[M], block[N], block[K]
    most = work = m * n * k
    if host().vector_registers <= FEW_REGISTERS:
        most = SMALL_TILES
    elif block[A + 3] or block[B + 3]:
        most = ACROSS
    pays = k < SHORT or work <= most
    fits = n > 1 and n * k <= TILED and host().multiplies_by_tiles
    return fits and pays and (not block[B + 3] or m >= matmul_kernel.PACKED_ROWS)


def _module(name: str, dtype: str, symbol: str, tiles: tuple[Tile, ...]) -> str:
    """LLVM IR of one product kernel: tasks (a batch entry and a part of it) on the pool."""
    declared: set[str] = set()
    one = []
    if tiles:
        one = matmul_kernel.product_functions(f"{symbol}.one", dtype, host(), tiles, declared)
    else:
        declared.add(f"declare void @fusegrad_{name}({', '.join(['ptr'] * 13)})")
    w = Writer(declared)
    batch = w.index("mul", w.load_index("%block", BATCH0), w.load_index("%block", BATCH1))
    run_tasks(w, symbol, w.index("mul", batch, w.load_index("%block", PARTS)))
    entry = function(f"void @{symbol}(ptr %slots, ptr %block)", w)
    real = DTYPES[dtype].register
    call = partial(_call_tiled, f"{symbol}.one") if tiles else partial(_call_blas, f"fusegrad_{name}", real)
    return module(declared, [*one, entry, _task(symbol, real, call)])


def _task(symbol: str, real: str, call: Callable[[Writer, _Three, _Three], None]) -> str:
    """`SYMBOL.task(number, slots, block)`: the product of one part of the rows or columns, by `call`."""
    w = Writer(set())
    parts, part, by_rows = (w.load_index("%block", p) for p in (PARTS, PART, BY_ROWS))
    entry, share = w.index("udiv", "%number", parts), w.index("urem", "%number", parts)
    batch1 = w.load_index("%block", BATCH1)
    first, second = w.index("udiv", entry, batch1), w.index("urem", entry, batch1)
    m, n, k = (w.load_index("%block", p) for p in (M, N, K))
    start = w.index("mul", share, part)
    rows = w.name()
    w.line(f"{rows} = icmp ne i64 {by_rows}, 0")
    m, m_start = _range(w, rows, start, part, m, "0")
    n, n_start = _range(w, rows, start, part, n, "1")
    a, b, c = (_operand(w, place, first, second) for place in (A, B, C))
    a = _moved(w, a, A, m_start, rows_of=True, size=real)
    b = _moved(w, b, B, n_start, rows_of=False, size=real)
    c = _moved(w, c, C, m_start, rows_of=True, size=real)
    c = w.offset(c, n_start, real)
    call(w, (m, n, k), (a, b, c))
    signature = f"void @{task_name(symbol)}(i64 %number, ptr %slots, ptr %block)"
    return function(signature, w, "noinline nounwind")


def _call_blas(routine: str, real: str, w: Writer, sizes: _Three, memory: _Three) -> None:
    """BLAS counts columns first, so the row-major C = A B is asked for as C' = B' A'."""
    (m, n, k), (a, b, c) = sizes, memory
    one, zero = w.stack(real), w.stack(real)
    w.line(f"store {real} 1.0, ptr {one}")
    w.line(f"store {real} 0.0, ptr {zero}")
    arguments = [
        _letter(w, B), _letter(w, A), _int32(w, n), _int32(w, m), _int32(w, k), one,
        b, _int32(w, w.load_index("%block", B + 2)), a, _int32(w, w.load_index("%block", A + 2)), zero,
        c, _int32(w, w.load_index("%block", C + 2)),
    ]  # fmt: skip
    w.line(f"call void @{routine}({', '.join('ptr ' + x for x in arguments)})")


def _call_tiled(kernel: str, w: Writer, sizes: _Three, memory: _Three) -> None:
    """The kernel of `tiled_products` takes the steps of A and B along rows and columns."""
    given = [f"i64 {size}" for size in sizes]
    for place, address in zip((A, B), memory, strict=False):
        steps = [f"i64 {_step_of(w, place, rows_of)}" for rows_of in (True, False)]
        given += [f"ptr {address}", *steps]
    given += [f"ptr {memory[2]}", f"i64 {w.load_index('%block', C + 2)}"]
    w.line(f"call void @{kernel}({', '.join(given)})")


def _range(w: Writer, rows: str, start: str, part: str, total: str, dimension: str) -> tuple[str, str]:
    """Length and start of this task's share of a dimension: all of it unless it is the divided one."""
    left, less, length, mine = w.index("sub", total, start), w.name(), w.name(), w.name()
    w.line(f"{less} = icmp slt i64 {left}, {part}")
    w.line(f"{length} = select i1 {less}, i64 {left}, i64 {part}")
    divided = rows
    if dimension == "1":
        divided = w.name()
        w.line(f"{divided} = xor i1 {rows}, true")
    origin = w.name()
    w.line(f"{mine} = select i1 {divided}, i64 {length}, i64 {total}")
    w.line(f"{origin} = select i1 {divided}, i64 {start}, i64 0")
    return mine, origin


def _operand(w: Writer, place: int, first: str, second: str) -> str:
    """The address of an operand's matrix for this batch entry."""
    slot, offset = w.load_index("%block", place), w.load_index("%block", place + 1)
    entry, base = w.name("p"), w.name("p")
    w.line(f"{entry} = getelementptr ptr, ptr %slots, i64 {slot}")
    w.line(f"{base} = load ptr, ptr {entry}")
    for index, step in ((first, place + 4), (second, place + 5)):
        offset = w.index("add", offset, w.index("mul", index, w.load_index("%block", step)))
    return w.offset(base, offset)


def _moved(w: Writer, base: str, place: int, start: str, rows_of: bool, size: str) -> str:
    """`base` moved to row (or column) `start`."""
    return w.offset(base, w.index("mul", start, _step_of(w, place, rows_of)), size)


def _step_of(w: Writer, place: int, rows_of: bool) -> str:
    """From one row (or column) of an operand to the next: the leading dimension, or one if transposed."""
    leading, flag, transposed = w.load_index("%block", place + 2), w.load_index("%block", place + 3), w.name()
    w.line(f"{transposed} = icmp ne i64 {flag}, 0")
    step = w.name()
    plain, other = (leading, "1") if rows_of else ("1", leading)
    w.line(f"{step} = select i1 {transposed}, i64 {other}, i64 {plain}")
    return step


def _letter(w: Writer, place: int) -> str:
    """ "T" or "N" in memory."""
    flag, transposed, letter, room = w.load_index("%block", place + 3), w.name(), w.name(), w.stack("i8")
    w.line(f"{transposed} = icmp ne i64 {flag}, 0")
    w.line(f"{letter} = select i1 {transposed}, i8 {ord('T')}, i8 {ord('N')}")
    w.line(f"store i8 {letter}, ptr {room}")
    return room


def _int32(w: Writer, value: str) -> str:
    """A 32-bit integer in memory, as the Fortran interface takes it."""
    room, narrow = w.stack("i32"), w.name()
    w.line(f"{narrow} = trunc i64 {value} to i32")
    w.line(f"store i32 {narrow}, ptr {room}")
    return room


# From a matmul to a block.


def _matrix(layout: Layout, itemsize: int) -> tuple[int, int, tuple[int, ...]] | None:
    """Leading dimension, whether transposed, and byte steps of the batch; None where BLAS cannot read it."""
    (rows, columns), (row_step, column_step) = layout.shape[-2:], layout.strides[-2:]
    batch = tuple(s * itemsize for s in layout.strides[:-2])
    if column_step == 1 or columns == 1:
        leading = row_step if rows > 1 else max(columns, 1)
        if leading >= max(columns, 1):
            return leading, 0, batch
    if row_step == 1 or rows == 1:
        leading = column_step if columns > 1 else max(rows, 1)
        if leading >= max(rows, 1):
            return leading, 1, batch
    return None


def readable(layout: Layout) -> bool:
    """Whether BLAS can read a matrix (or stack of them) that lies so."""
    return _matrix(as_matrix(layout, True), 4) is not None


def as_matrix(layout: Layout, left: bool) -> Layout:
    """A vector as the one-row (left) or one-column matrix that `matmul` takes it for."""
    if len(layout.shape) > 1:
        return layout
    (n,), (step,) = layout.shape, layout.strides
    return Layout((1, n), (0, step), layout.offset) if left else Layout((n, 1), (step, 0), layout.offset)


def divide_rows(block: list[int], parts: int) -> None:
    """Let the tasks of a product compute so many blocks of rows."""
    block[PARTS : BY_ROWS + 1] = parts, block[M] // parts, 1


def _rows_together(x: Layout, y: Layout) -> tuple[Layout, Layout]:
    """Both operands; the rows of a batch that one matrix is multiplied with as rows of one product, if they
    lie so.
    """
    while len(x.shape) > 2 == len(y.shape):
        (*batch, entries, rows, columns), (*steps, entry, row, column) = x.shape, x.strides
        if entries == 1:
            step = row
        elif rows == 1 or entry == rows * row:
            step = entry if rows == 1 else row
        else:
            break
        x = Layout((*batch, entries * rows, columns), (*steps, step, column), x.offset)
    return x, y


def product_block(
    x: Layout, y: Layout, itemsize: int, places: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
) -> list[int] | None:
    """The block of `x @ y` into a contiguous result; None where this kernel cannot do it.

    places: slot and byte offset of the memory of x, y and the result.
    """
    found = _unplaced_block(x, y, itemsize, host(), threads.cores())
    if found is None:
        return None
    block = [*found]
    for at, (slot, start) in zip((A, B, C), places, strict=True):
        block[at], block[at + 1] = slot, block[at + 1] + start
    return block


@functools.lru_cache(maxsize=1 << 12)
def _unplaced_block(x: Layout, y: Layout, itemsize: int, target: Target, cores: int) -> list[int] | None:
    """See `product_block`, for memory that begins at 0. Layers have the same products, and most of them are
    the same for all sizes of a program. target, cores: of this machine, which decide with the sizes.
    """
    block = _block_of_parts(x, y, itemsize, _division)
    if block is not None and block[PARTS] > 1 and block[B + 3] and not _is_tiled(block):
        _divide_unpacked(block)
    return block


def _block_of_parts(
    x: Layout, y: Layout, itemsize: int, division: Callable[..., tuple[Any, Any, int]]
) -> list[Any] | None:
    """See `product_block`, for memory that begins at 0, and parts as `division` says."""
    x, y = _rows_together(as_matrix(x, True), as_matrix(y, False))
    left, right = _matrix(x, itemsize), _matrix(y, itemsize)
    if left is None or right is None:
        return None
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    folded = _folded_batch(x, left[2], y, right[2], m * n * itemsize)
    if folded is None:
        return None
    counts, folded_steps = folded
    block = [m, n, k, *counts, *division(m, n, k, counts[0] * counts[1], bool(right[1]))]
    for layout, (leading, transposed, _), (s0, s1) in zip(
        (x, y), (left, right), folded_steps[:2], strict=True
    ):
        block += [0, layout.offset * itemsize, leading, transposed, s0, s1]
    return [*block, 0, 0, n, 0, *folded_steps[2]]


def whole_block(x: Layout, y: Layout, itemsize: int, places: Sequence[tuple[int, Any]]) -> list[Any]:
    """The same for sizes that may be open, as one task, whatever the size."""
    found = _block_of_parts(x, y, itemsize, lambda m, n, k, batch, transposed: (1, m, 1))
    assert found is not None, "products that BLAS cannot read are copied or opaque"
    for at, (slot, start) in zip((A, B, C), places, strict=True):
        found[at], found[at + 1] = slot, found[at + 1] + start
    return found


def _divide_unpacked(block: list[int]) -> None:
    """Let the tasks of a product of few rows compute so many columns as BLAS need not pack anything for."""
    m, n, k = block[M], block[N], block[K]
    columns = min(UNPACKED // m, UNPACKED_PRODUCT // (m * k)) // 8 * 8
    if columns >= FEWEST_COLUMNS and 1 < m <= FEW_ROWS and host().vector_registers > FEW_REGISTERS:
        block[PARTS : BY_ROWS + 1] = -(-n // columns), columns, 0


def multiplications(block: Sequence[int]) -> int:
    """How many a product takes."""
    m, n, k, *counts = block[:5]
    return m * n * k * math.prod(counts)


def rows_of(x: Layout, y: Layout) -> Any:
    """How many rows the products of `x @ y` have."""
    return _rows_together(as_matrix(x, True), as_matrix(y, False))[0].shape[-2]


def can_be_turned(y: Layout) -> bool:
    """Whether a right operand is one matrix that lies transposed, and so small that it may be turned over."""
    if len(y.shape) != 2 or likely(y.shape[0] * y.shape[1]) > TURNED:
        return False
    found = _matrix(y, 1)
    return found is not None and found[1] == 1


def foldable(x: Layout, y: Layout) -> bool:
    """Whether the batch of a product of readable operands has at most the two dimensions of a block."""
    x, y = _rows_together(as_matrix(x, True), as_matrix(y, False))
    return _folded_batch(x, x.strides[:-2], y, y.strides[:-2], x.shape[-2] * y.shape[-1]) is not None


def _folded_batch(
    x: Layout, x_steps: tuple[int, ...], y: Layout, y_steps: tuple[int, ...], size: int
) -> tuple[list[int], list[list[int]]] | None:
    """The batch dimensions of a product as two, and the steps of x, y and the result along them."""
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    steps = [batch_steps(batch, layout.shape[:-2], s) for layout, s in ((x, x_steps), (y, y_steps))]
    return folded(batch, [*steps, _contiguous_steps(batch, size)])


def batch_steps(batch: tuple[int, ...], given: tuple[int, ...], steps: tuple[int, ...]) -> list[int]:
    """Byte steps of an operand along the broadcast batch dimensions."""
    extra = len(batch) - len(given)
    return [0] * extra + [s if n == b else 0 for n, s, b in zip(given, steps, batch[extra:], strict=True)]


def _contiguous_steps(batch: tuple[int, ...], size: int) -> list[int]:
    steps = []
    for n in reversed(batch):
        steps.append(size)
        size *= n
    return steps[::-1]


def folded(batch: tuple[int, ...], steps: list[list[int]]) -> tuple[list[int], list[list[int]]] | None:
    """The batch as two dimensions, neighbours merged where all operands allow it; None for more."""
    dims: list[tuple[int, list[int]]] = []
    for i, n in enumerate(batch):
        here = [s[i] for s in steps]
        if n == 1:
            continue
        if dims and all(a == b * n for a, b in zip(dims[-1][1], here, strict=True)):
            dims[-1] = (dims[-1][0] * n, here)
        else:
            dims.append((n, here))
    if len(dims) > 2:
        return None
    dims = [(1, [0] * len(steps))] * (2 - len(dims)) + dims
    return [n for n, _ in dims], [[d[1][j] for d in dims] for j in range(len(steps))]


def _division(m: int, n: int, k: int, batch: int, transposed: bool) -> tuple[int, int, int]:
    """Into how many parts the result is cut, their length, and whether along the rows.

    transposed: the right operand is, and packing all of it takes longest. By sizes and the machine's cores
    only: the parts, and so the results, are the same for any number of threads.
    """
    if batch > 1 or m * n * k < SMALL_PRODUCT:
        return 1, max(m, n), 1
    by_rows = m > n if transposed else m >= n // 2
    length = m if by_rows else n
    parts = min(max(2, threads.cores()), max(2, m * n * k // PART_PRODUCT), max(1, length // 8))
    step = -(-length // parts)
    step = -(-step // 8) * 8
    return -(-length // step), step, int(by_rows)
