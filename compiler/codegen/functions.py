"""The functions of a kernel's module: the chunk, and the entry that runs and combines chunks."""

from __future__ import annotations

from fusegrad.compiler.codegen.emit import Emitter, filled_in_vectors, outer_accumulators, parts
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
        if accumulator.axes:
            _clear_array(emitter, accumulator, scratch)
        else:
            emitter.declare(accumulator, emitter.lanes if filled_in_vectors(accumulator, kernel.body) else 0)
    if loop.kind == "chunked":
        emitter.vector_loop(loop.axes[0], loop.body, start, stop)
    else:
        emitter.ahead = ahead_of(loop, emitter.lanes)
        with w.loop(start, stop) as index:
            _unflatten(emitter, loop.axes, index)
            emitter.statements(loop.body)
    for accumulator in outer_accumulators(kernel):
        if not accumulator.axes:
            value = emitter.settled(accumulator)
            place = w.offset(scratch, w.load_index("%block", block.accumulators[accumulator.target]))
            _store_number(emitter, value, place)
    if kernel.streamed:
        # What x86 stores past the caches is seen later than what is stored after it, unless one waits.
        w.line("fence seq_cst")
    signature = f"void @{task_name(name)}(i64 %number, ptr %slots, ptr %block)"
    return function(signature, w, f"noinline {attributes}")


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


def _array_at(emitter: Emitter, accumulator: Accumulator, scratch: str) -> str:
    place = emitter.w.load_index("%block", emitter.block.accumulators[accumulator.target])
    return emitter.w.offset(scratch, place)


def _array_length(emitter: Emitter, accumulator: Accumulator) -> str:
    total = emitter.sizes[accumulator.axes[0]]
    for axis in accumulator.axes[1:]:
        total = emitter.w.index("mul", total, emitter.sizes[axis])
    return total


def _clear_array(emitter: Emitter, accumulator: Accumulator, scratch: str) -> None:
    """Set all elements of an array of accumulators to the identity."""
    w = emitter.w
    address = emitter.partials[accumulator.target] = _array_at(emitter, accumulator, scratch)
    dtype = DTYPES[accumulator.dtype].memory
    start = w.constant(identity(accumulator.combine, accumulator.dtype), dtype)
    with w.loop("0", _array_length(emitter, accumulator)) as index:
        w.line(f"store {start}, ptr {w.offset(address, index, DTYPES[dtype].register)}")


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
    room, _ = emitter.stacks[accumulator.target]
    with w.loop("0", chunks) as index:
        place = w.offset(_scratch(emitter, index), offset)
        memory = DTYPES[accumulator.dtype].memory
        part = w.convert(w.emit(f"load {DTYPES[memory].register}, ptr {place}", memory), accumulator.dtype)
        known = w.emit(f"load {DTYPES[accumulator.dtype].register}, ptr {room}", accumulator.dtype)
        w.line(f"store {emitter.combine(accumulator, known, part)}, ptr {room}")
    emitter.values[accumulator.target] = emitter.settled(accumulator)


def _combine_arrays(emitter: Emitter, accumulator: Accumulator, chunks: str, first: str) -> None:
    """Add the arrays of the other chunks to the first one's."""
    w = emitter.w
    result = _array_at(emitter, accumulator, first)
    length = _array_length(emitter, accumulator)
    element = memory_type(accumulator.dtype)

    def combine(index: str, other: str) -> None:
        left, right = w.offset(result, index, element), w.offset(other, index, element)
        parts = emitter.load_array(accumulator, left), emitter.load_array(accumulator, right)
        emitter.store_array(accumulator, left, emitter.combine(accumulator, *parts))

    with w.loop("1", chunks) as number:
        other = _array_at(emitter, accumulator, _scratch(emitter, number))
        full = w.index("and", length, str(-emitter.lanes))
        emitter.vector_axis = accumulator.axes[-1]
        with w.loop("0", full, str(emitter.lanes)) as index:
            combine(index, other)
        emitter.vector_axis = None
        with w.loop(full, length) as index:
            combine(index, other)
    emitter.partials[accumulator.target] = result


def module_text(kernel: Kernel, name: str, target: Target) -> str:
    """The LLVM module of a kernel for a machine."""
    declared: set[str] = set()
    attributes = target.function_attributes
    functions = [entry_function(name, Emitter(kernel, declared, target), attributes)]
    if parts(kernel)[1] is not None:
        functions.append(chunk_function(name, Emitter(kernel, declared, target), attributes))
    return module(declared, functions)
