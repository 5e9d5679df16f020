"""The functions of a kernel's module: the chunk, and the entry that runs and combines chunks."""

from __future__ import annotations

from fusegrad.compiler.emit import (
    PARALLEL_FOR,
    Emitter,
    _in_vector_loop,
    outer_accumulators,
)
from fusegrad.compiler.kernel import Accumulator, Kernel, Loop, Statement, Store
from fusegrad.compiler.scalar import identity
from fusegrad.compiler.writer import LLVM_TYPES, Val

ATTRIBUTES = '"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" nounwind'


def _parts(kernel: Kernel) -> tuple[list[Statement], Loop | None, list[Statement]]:
    """Statements before the parallel loop, the loop itself, and those after it."""
    for place, statement in enumerate(kernel.body):
        if isinstance(statement, Loop) and statement.kind in ("parallel", "chunked"):
            return list(kernel.body[:place]), statement, list(kernel.body[place + 1 :])
    return list(kernel.body), None, []


def _header(emitter: Emitter, before: list[Statement]) -> None:
    """What every function of the kernel starts with: arguments and the scalars before the loop."""
    emitter.arguments()
    emitter.statements([s for s in before if not isinstance(s, (Accumulator, Store))])


def chunk_function(kernel: Kernel, name: str, lanes: int, declared: set[str], attributes: str) -> str:
    """`NAME.chunk(number, slots, block)`: a range of rows, or of the vector axis."""
    before, loop, _ = _parts(kernel)
    assert loop is not None
    emitter = Emitter(kernel, lanes, declared)
    w, block = emitter.w, emitter.block
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
            emitter.declare(accumulator, lanes if _in_vector_loop(accumulator, kernel.body) else 0)
    if loop.kind == "chunked":
        emitter.vector_loop(loop.axes[0], loop.body, start, stop)
    else:
        with w.loop(start, stop) as index:
            _unflatten(emitter, loop.axes, index)
            emitter.statements(loop.body)
    for accumulator in outer_accumulators(kernel):
        if not accumulator.axes:
            value = emitter.settled(accumulator)
            place = w.offset(scratch, w.load_index("%block", block.accumulators[accumulator.target]))
            _store_number(emitter, value, place)
    return _function(f"define internal void @{name}.chunk(i64 %number, ptr %slots, ptr %block)", w, attributes)


def _store_number(emitter: Emitter, value: Val, place: str) -> None:
    if value.dtype == "bool":
        value = emitter.w.convert(value, "u8")
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
    base = emitter._address(place + 2)
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
    dtype = "u8" if accumulator.dtype == "bool" else accumulator.dtype
    start = w.constant(identity(accumulator.combine, accumulator.dtype), dtype)
    with w.loop("0", _array_length(emitter, accumulator)) as index:
        w.line(f"store {start}, ptr {w.offset(address, index, LLVM_TYPES[dtype])}")


def entry_function(kernel: Kernel, name: str, lanes: int, declared: set[str], attributes: str) -> str:
    """`NAME(slots, block)`: runs the chunks, combines what they left, and finishes."""
    before, loop, after = _parts(kernel)
    emitter = Emitter(kernel, lanes, declared)
    w, block = emitter.w, emitter.block
    _header(emitter, before)
    if loop is not None:
        chunks = w.load_index("%block", block.chunk + 1)
        _run_chunks(emitter, name, chunks)
        for accumulator in outer_accumulators(kernel):
            _combine_chunks(emitter, accumulator, chunks)
    emitter.statements([s for s in before if isinstance(s, Store)])
    emitter.statements(after)
    return _function(f"define void @{name}(ptr noalias %slots, ptr noalias %block)", w, attributes)


def _run_chunks(emitter: Emitter, name: str, chunks: str) -> None:
    """One chunk is called here; more go to the pool, if slot 0 says that there is one."""
    w = emitter.w
    w.declared.add(PARALLEL_FOR)
    threads, several, pool = w.load_index("%slots", 0), w.name(), w.name()
    w.line(f"{several} = icmp sgt i64 {chunks}, 1")
    w.line(f"{pool} = icmp sgt i64 {threads}, 1")
    spread, alone = w.name(), w.name()
    w.line(f"{spread} = and i1 {several}, {pool}")
    w.line(f"{alone} = xor i1 {spread}, true")
    with w.when(spread):
        # The pool takes arrays of addresses to step through; the one given here steps from 0 by
        # 1, so that the "address" a worker sees is the number of its chunk.
        room = w.stack("[6 x i64]")
        for place, value in enumerate(("0", chunks, "1")):
            w.line(f"store i64 {value}, ptr {w.offset(room, str(place), 'i64')}")
        w.line(f"store ptr %slots, ptr {w.offset(room, '3', 'i64')}")
        w.line(f"store ptr %block, ptr {w.offset(room, '4', 'i64')}")
        count = w.name()
        w.line(f"{count} = trunc i64 {threads} to i32")
        sizes, steps, data = (w.offset(room, str(i), "i64") for i in (1, 2, 3))
        w.line(
            f"call void @numba_parallel_for(ptr @{name}.worker, ptr {room}, ptr {sizes}, ptr {steps}, "
            f"ptr {data}, i64 0, i64 1, i32 {count})"
        )
    with w.when(alone), w.loop("0", chunks) as index:
        w.line(f"call void @{name}.chunk(i64 {index}, ptr %slots, ptr %block)")


def worker_function(name: str) -> str:
    """`NAME.worker`: the form in which Numba's pool calls a chunk."""
    return f"""define internal void @{name}.worker(ptr %args, ptr %sizes, ptr %steps, ptr %data) {{
  %number = load i64, ptr %args
  %slots = load ptr, ptr %data
  %second = getelementptr ptr, ptr %data, i64 1
  %block = load ptr, ptr %second
  call void @{name}.chunk(i64 %number, ptr %slots, ptr %block)
  ret void
}}"""


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
        memory = "u8" if accumulator.dtype == "bool" else accumulator.dtype
        part = w.convert(w.emit(f"load {LLVM_TYPES[memory]}, ptr {place}", memory), accumulator.dtype)
        known = w.emit(f"load {LLVM_TYPES[accumulator.dtype]}, ptr {room}", accumulator.dtype)
        w.line(f"store {emitter.combine(accumulator, known, part)}, ptr {room}")
    emitter.values[accumulator.target] = emitter.settled(accumulator)


def _combine_arrays(emitter: Emitter, accumulator: Accumulator, chunks: str, first: str) -> None:
    """Add the arrays of the other chunks to the first one's."""
    w = emitter.w
    result = _array_at(emitter, accumulator, first)
    length = _array_length(emitter, accumulator)
    axis = accumulator.axes[-1]
    with w.loop("1", chunks) as number:
        other = _array_at(emitter, accumulator, _scratch(emitter, number))
        body_axis = emitter.indices.get(axis)
        emitter.vector_axis = axis
        full = w.index("and", length, str(-emitter.lanes))

        def combine(index: str) -> None:
            element = "i8" if accumulator.dtype == "bool" else LLVM_TYPES[accumulator.dtype]
            emitter.indices[axis] = "0"
            left, right = w.offset(result, index, element), w.offset(other, index, element)
            both = emitter.combine(
                accumulator, emitter.load_array(accumulator, left), emitter.load_array(accumulator, right)
            )
            emitter.store_array(accumulator, left, both)

        with w.loop("0", full, str(emitter.lanes)) as index:
            combine(index)
        emitter.vector_axis = None
        with w.loop(full, length) as index:
            combine(index)
        if body_axis is not None:
            emitter.indices[axis] = body_axis
    emitter.partials[accumulator.target] = result


def _function(signature: str, w, attributes: str) -> str:  # type: ignore[no-untyped-def]
    return "\n".join([f"{signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module_text(kernel: Kernel, name: str, vector_bytes: int, lanes: int) -> str:
    """The LLVM module of a kernel."""
    declared: set[str] = set()
    attributes = ATTRIBUTES.format(bits=vector_bytes * 8)
    functions = [entry_function(kernel, name, lanes, declared, attributes)]
    if _parts(kernel)[1] is not None:
        functions += [chunk_function(kernel, name, lanes, declared, attributes), worker_function(name)]
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
