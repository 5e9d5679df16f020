"""The functions of a kernel's module: the chunk, and the entry that runs and combines chunks."""

from __future__ import annotations

from collections.abc import Callable

from fusegrad.compiler.codegen.accumulation import BLOCK, is_array_of_blocks, rooms_of
from fusegrad.compiler.codegen.emit import Emitter, filled_in_vectors
from fusegrad.compiler.codegen.kernel_parts import outer_accumulators, parts
from fusegrad.compiler.codegen.prefetch import ahead_of
from fusegrad.compiler.kernel.dtypes import DTYPES, memory_type
from fusegrad.compiler.kernel.ir import Accumulator, Kernel, Loop, Statement, Store
from fusegrad.compiler.kernel.scalar import identity
from fusegrad.compiler.llvm.ir_writer import Val
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.llvm.tasks import function, module, run_tasks, task_name


def _header(emitter: Emitter, before: tuple[Statement, ...]) -> None:
    """What every function of the kernel starts with: arguments and the scalars before the loop."""
    emitter.arguments()
    emitter.statements([s for s in before if not isinstance(s, (Accumulator, Store))])


def chunk_function(name: str, emitter: Emitter, attributes: str) -> str:
    """`NAME.task(number, slots, block)`: one chunk, a range of rows, or of the vector axis."""
    kernel, w, block = emitter.kernel, emitter.w, emitter.block
    before, loop, _ = parts(kernel)
    assert loop is not None
    _header(emitter, before)
    length, total = w.load_index("%block", block.chunk), _product(emitter, loop)
    start = w.index("mul", "%number", length)
    end = w.index("add", start, length)
    less, stop = w.name(), w.name()
    w.line(f"{less} = icmp slt i64 {end}, {total}")
    w.line(f"{stop} = select i1 {less}, i64 {end}, i64 {total}")
    scratch = _scratch(emitter, "%number") if outer_accumulators(kernel) else ""
    for accumulator in outer_accumulators(kernel):
        if accumulator.axes and not emitter.is_by_element(accumulator):
            _clear_array(emitter, accumulator, scratch)
            continue
        lanes = emitter.lanes if filled_in_vectors(accumulator, kernel.body) else 0
        for single in emitter.elements(accumulator) if accumulator.axes else [accumulator]:
            emitter.declare(single, lanes)
    if loop.kind == "chunked":
        emitter.vector_loop(loop.axes[0], loop.body, start, stop)
    else:
        emitter.ahead = ahead_of(loop, emitter.lanes)
        _rows(emitter, loop, start, stop)
    for accumulator in outer_accumulators(kernel):
        if not accumulator.axes:
            _store_number(
                emitter, emitter.settled(accumulator), _array_at(emitter, accumulator.target, scratch)
            )
        elif emitter.is_by_element(accumulator):
            first, memory = _array_at(emitter, accumulator.target, scratch), memory_type(accumulator.total)
            for number, single in enumerate(emitter.elements(accumulator)):
                _store_number(emitter, emitter.settled(single), w.offset(first, str(number), memory))
    if kernel.streamed:
        # What x86 stores past the caches is seen later than what is stored after it, unless one waits.
        w.line("fence seq_cst")
    signature = f"void @{task_name(name)}(i64 %number, ptr %slots, ptr %block)"
    return function(signature, w, f"noinline {attributes}")


def _rows(emitter: Emitter, loop: Loop, start: str, stop: str) -> None:
    """The loop over rows; where they are summed into arrays, a block at a time."""
    w = emitter.w
    outer = outer_accumulators(emitter.kernel)
    in_blocks = [a for a in outer if is_array_of_blocks(a) and not emitter.is_by_element(a)]

    def go_over(first: str, last: str) -> None:
        with w.loop(first, last) as index:
            _unflatten(emitter, loop.axes, index)
            emitter.statements(loop.body)

    if not in_blocks:
        go_over(start, stop)
        return
    with emitter.blocks(start, stop, BLOCK) as (first, last, _):
        go_over(first, last)
        for accumulator in in_blocks:
            _take_in_array(emitter, accumulator)


def _store_number(emitter: Emitter, value: Val, place: str) -> None:
    value = emitter.w.convert(value, DTYPES[value.dtype].memory)
    emitter.w.line(f"store {value}, ptr {place}")


def _product(emitter: Emitter, loop: Loop) -> str:
    """The number of iterations of the (flattened) loop."""
    total = emitter.sizes[loop.axes[0]]
    for axis in loop.axes[1:]:
        total = emitter.w.index("mul", total, emitter.sizes[axis])
    return total


def _unflatten(emitter: Emitter, axes: tuple[str, ...], index: str) -> None:
    """The indices of all axes from the one that runs through them."""
    w = emitter.w
    for axis in reversed(axes[1:]):
        emitter.indices[axis] = w.index("urem", index, emitter.sizes[axis])
        index = w.index("udiv", index, emitter.sizes[axis])
    emitter.indices[axes[0]] = index


def _scratch(emitter: Emitter, number: str) -> str:
    """Where chunk `number` leaves what it accumulated."""
    w, place = emitter.w, emitter.block.chunk
    base = emitter.address(place + 2)
    return w.offset(base, w.index("mul", number, w.load_index("%block", place + 4)))


def _array_at(emitter: Emitter, name: str, scratch: str) -> str:
    return emitter.w.offset(scratch, emitter.w.load_index("%block", emitter.block.accumulators[name]))


def _array_length(emitter: Emitter, accumulator: Accumulator) -> str:
    total = emitter.sizes[accumulator.axes[0]]
    for axis in accumulator.axes[1:]:
        total = emitter.w.index("mul", total, emitter.sizes[axis])
    return total


def _along_array(emitter: Emitter, accumulator: Accumulator, visit: Callable[[str], None]) -> None:
    """`visit` of each vector of an array; of the last one not all lanes may take part."""
    w, length = emitter.w, _array_length(emitter, accumulator)
    full = w.index("and", length, str(-emitter.lanes))
    emitter.vector_axis = accumulator.axes[-1]
    with w.loop("0", full, str(emitter.lanes)) as index:
        visit(index)
    rest = w.index("sub", length, full)
    with w.when(w.compare("gt", Val(rest, "i64"), Val("0", "i64")).text), emitter.first_lanes_only(rest):
        visit(full)
    emitter.vector_axis = None


def _clear_array(emitter: Emitter, accumulator: Accumulator, scratch: str) -> None:
    """Set an array of accumulators to the identity, and the one of its block."""
    w = emitter.w
    places = [(_array_at(emitter, name, scratch), dtype) for name, dtype in rooms_of(accumulator).items()]
    emitter.arrays[accumulator.target] = places[-1]
    emitter.whole_arrays[accumulator.target] = places[0][0]

    def clear(index: str) -> None:
        for address, dtype in places:
            start = w.constant(identity(accumulator.combine, dtype), dtype, emitter.lanes)
            emitter.store_elements(w.offset(address, index, memory_type(dtype)), start)

    _along_array(emitter, accumulator, clear)


def _take_in_array(emitter: Emitter, accumulator: Accumulator) -> None:
    """Add an array's block to its whole, and begin the next one."""
    w, total = emitter.w, accumulator.total
    (block, dtype), whole = emitter.arrays[accumulator.target], emitter.whole_arrays[accumulator.target]

    def take_in(index: str) -> None:
        place = w.offset(block, index, memory_type(dtype))
        part = emitter.load_elements(dtype, place)
        emitter.store_elements(place, w.constant(identity(accumulator.combine, dtype), dtype, part.lanes))
        place = w.offset(whole, index, memory_type(total))
        known = emitter.load_elements(total, place)
        emitter.store_elements(place, emitter.combine(accumulator, known, w.convert(part, total)))

    _along_array(emitter, accumulator, take_in)


def entry_function(name: str, emitter: Emitter, attributes: str) -> str:
    """`NAME(slots, block)`: runs the chunks, combines what they left, and finishes."""
    kernel, w, block = emitter.kernel, emitter.w, emitter.block
    before, loop, after = parts(kernel)
    stores: list[Statement] = [s for s in before if isinstance(s, Store)]
    if loop is None or stores or after or outer_accumulators(kernel):
        _header(emitter, before)
    if loop is not None:
        chunks = w.load_index("%block", block.chunk + 1)
        run_tasks(w, name, chunks)
        for accumulator in outer_accumulators(kernel):
            _combine_chunks(emitter, accumulator, chunks)
    emitter.statements(stores)
    emitter.statements(after)
    return function(f"void @{name}(ptr noalias %slots, ptr noalias %block)", w, attributes)


def _combine_chunks(emitter: Emitter, accumulator: Accumulator, chunks: str) -> None:
    """What the chunks accumulated, combined in order, where the statements after the loop find it."""
    w = emitter.w
    first = _scratch(emitter, "0")
    if accumulator.axes:
        _combine_arrays(emitter, accumulator, chunks, first)
        return
    offset = w.load_index("%block", emitter.block.accumulators[accumulator.target])
    emitter.declare(accumulator, 0)
    room = emitter.stacks[accumulator.target].room
    with w.loop("0", chunks) as index:
        place = w.offset(_scratch(emitter, index), offset)
        memory = DTYPES[accumulator.total].memory
        part = w.convert(w.emit(f"load {DTYPES[memory].register}, ptr {place}", memory), accumulator.total)
        known = w.emit(f"load {DTYPES[accumulator.total].register}, ptr {room}", accumulator.total)
        w.line(f"store {emitter.combine(accumulator, known, part)}, ptr {room}")
    emitter.values[accumulator.target] = emitter.settled(accumulator)


def _combine_arrays(emitter: Emitter, accumulator: Accumulator, chunks: str, first: str) -> None:
    """Add the arrays of the other chunks to the first one's."""
    w, total = emitter.w, accumulator.total
    result = _array_at(emitter, accumulator.target, first)
    with w.loop("1", chunks) as number:
        other = _array_at(emitter, accumulator.target, _scratch(emitter, number))

        def combine(index: str) -> None:
            left, right = (w.offset(array, index, memory_type(total)) for array in (result, other))
            parts = emitter.load_elements(total, left), emitter.load_elements(total, right)
            emitter.store_elements(left, emitter.combine(accumulator, *parts))

        _along_array(emitter, accumulator, combine)
    emitter.arrays[accumulator.target] = result, total


def module_text(kernel: Kernel, name: str, target: Target) -> str:
    """The LLVM module of a kernel for a machine."""
    declared: set[str] = set()
    attributes = target.function_attributes
    functions = [entry_function(name, Emitter(kernel, declared, target), attributes)]
    if parts(kernel)[1] is not None:
        functions.append(chunk_function(name, Emitter(kernel, declared, target), attributes))
    return module(declared, functions)
