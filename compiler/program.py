"""An executable graph: its kernels, their memory, and one native call that runs them.

Values that leave (results, what backward reads) and what NumPy must see get arrays of their
own; the rest lies in an arena, planned once by the lifetimes of the values, and re-used by
every call.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler import debug, native, products
from fusegrad.compiler.domain import Sources, is_creation
from fusegrad.compiler.emit import block_of, outer_accumulators
from fusegrad.compiler.fusion import Fusion, Step, with_copies
from fusegrad.compiler.kernel import ELEMENTARY, Compute
from fusegrad.compiler.loops import Argument, BoundKernel
from fusegrad.compiler.memory import aligned, aligned_bytes, data_address, pool
from fusegrad.compiler.writer import SIZES
from fusegrad.eager.dtypes import FROM_SHORT
from fusegrad.eager.families import Contraction, Layout, View, contiguous_layout
from fusegrad.eager.op import REGISTRY, wrap
from fusegrad.tracer.graph import Equation, Graph, Value

# How many elements one chunk of a loop has at least, for cheap work; a chunk that computes
# exponentials is shorter. Chunks are what threads share.
CHUNK_WORK = 1 << 15
MOST_CHUNKS = 64


@dataclass(frozen=True)
class _Native:
    """A stretch of kernels and products that run in one native call."""

    calls: native.Calls


@dataclass(frozen=True)
class _Opaque:
    """An op that NumPy runs: operands (array index and views, or numbers) and result indices."""

    step: Step
    operands: tuple[Any, ...]
    results: tuple[int, ...]


class Program:
    """Runs a graph on arrays.

    graph: optimised, without composite ops. layouts: how the inputs lie. results: the layouts (in
    elements) that outputs must have where they are not row-major. The constructor divides the
    graph into steps; `finish` places them in memory and compiles.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[Value, Layout] | None = None,
        results: dict[Value, Layout] | None = None,
    ) -> None:
        known = {v: (layouts or {}).get(v) or contiguous_layout(v.shape) for v in graph.inputs}
        results = dict(results or {})
        graph = with_result_copies(graph, Sources(graph, known), results)
        graph = with_copies(_separate_creations(graph), Sources(graph, known))
        graph = _readable_products(graph, Sources(graph, known))
        self.graph = graph
        self.sources = Sources(graph, {**known, **results})
        self.outputs = [v for v in dict.fromkeys(graph.outputs) if isinstance(v, Value)]
        self.steps = Fusion(graph, self.sources, self.outputs).run()
        self.kernels = [s.kernel for s in self.steps if s.kernel is not None]

    def stored(self) -> list[Value]:
        """The values that the steps put in memory, whether they are asked for or not."""
        values = dict.fromkeys(self.sources.base(v) for v in self.outputs)
        for step in self.steps:
            if step.kernel is not None:
                values.update(dict.fromkeys(a.value for a in step.kernel.outputs))
            else:
                values.update(dict.fromkeys(step.made))
        return [v for v in values if v not in self.graph.inputs]

    def finish(self, extra: Iterable[Value] = ()) -> Program:
        """Place everything in memory and compile. extra: stored values that later stretches read."""
        self._place_arrays([*self.outputs, *extra])
        self._place_arena()
        products.share_pool()
        native.compile_kernels([k.kernel for k in self.kernels])
        self._build_calls()
        self._arenas: list[tuple[np.ndarray, np.ndarray, int]] = []
        debug.show(2, "graph", lambda: str(self.graph))
        return self

    # Memory.

    def _place_arrays(self, needed: Sequence[Value]) -> None:
        """The values with arrays of their own: inputs, then results and whatever NumPy touches."""
        arrays = dict.fromkeys(self.graph.inputs)
        for value in needed:
            arrays.setdefault(self.sources.base(value))
        for step in self.steps:
            if step.kind == "opaque":
                for value in (*step.equations[0].values(), *step.made):
                    arrays.setdefault(self.sources.base(value))
        self.arrays = {v: i for i, v in enumerate(arrays)}
        self.fresh: list[tuple[int, tuple[int, ...], np.dtype, tuple[int, ...] | None]] = []
        opaque = {v for s in self.steps if s.kind == "opaque" for v in s.made}
        for value, index in self.arrays.items():
            if index >= len(self.graph.inputs) and value not in opaque:
                layout = self.sources.layouts.get(value)
                strides = None
                if layout is not None and layout != contiguous_layout(value.shape):
                    strides = tuple(s * value.dtype.itemsize for s in layout.strides)
                self.fresh.append((index, value.shape, value.dtype, strides))

    def _place_arena(self) -> None:
        """Offsets in the arena for the other values and for scratch, by first fit over lifetimes."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            for equation in step.equations:
                for value in equation.values():
                    last[self.sources.base(value)] = number
        self.offsets: dict[Value | Step, int] = {}
        self.arena_bytes = 0
        live: list[tuple[int, int, int]] = []  # last step, start, end
        for number, step in enumerate(self.steps):
            live = [entry for entry in live if entry[0] >= number]
            wanted: list[tuple[Any, int, int]] = []
            if step.kernel is not None:
                wanted = [(a.value, _bytes(a.value), last.get(a.value, number)) for a in step.kernel.outputs]
                wanted.append((step, _scratch_bytes(step.kernel), number))
            elif step.kind == "product":
                value = step.equations[0].output
                wanted = [(value, _bytes(value), last.get(value, number))]
            for key, size, until in wanted:
                if size and not (isinstance(key, Value) and key in self.arrays):
                    start = _first_fit(live, size)
                    live.append((until, start, start + size))
                    self.offsets[key] = start
                    self.arena_bytes = max(self.arena_bytes, start + size)

    def _place(self, value: Value) -> tuple[int, int]:
        """Slot and byte offset of a value in memory."""
        if value in self.arrays:
            return self.arrays[value] + 1, 0
        return len(self.arrays) + 1, self.offsets.get(value, 0)

    # Code.

    def _build_calls(self) -> None:
        """The steps as native stretches with NumPy's ops in between."""
        self.stages: list[_Native | _Opaque] = []
        pending: list[tuple[int, list[int]]] = []

        def flush() -> None:
            if pending:
                self.stages.append(_Native(native.Calls(list(pending))))
                pending.clear()

        for step in self.steps:
            if step.kernel is not None:
                # Over no elements there may still be sums to store.
                if any(math.prod(a.value.shape) for a in step.kernel.outputs):
                    scratch = (len(self.arrays) + 1, self.offsets.get(step, 0))
                    block = kernel_block(step.kernel, self._place, scratch)
                    pending.append((native.kernel_address(step.kernel.kernel), block))
            elif step.kind == "product":
                pending.append(self._product_call(step))
            else:
                flush()
                self.stages.append(self._opaque_call(step))
        flush()

    def _product_call(self, step: Step) -> tuple[int, list[int]]:
        (equation,) = step.equations
        x, y = equation.inputs
        places = tuple(self._place(self.sources.base(v)) for v in (x, y, equation.output))
        layouts = [self.sources.layout(v) for v in (x, y)]
        assert layouts[0] is not None and layouts[1] is not None
        block = products.product_block(layouts[0], layouts[1], equation.output.dtype.itemsize, places)  # type: ignore[arg-type]
        assert block is not None, "products that BLAS cannot read are copied or opaque"
        return products.product_address(equation.output.dtype), block

    def _opaque_call(self, step: Step) -> _Opaque:
        (equation,) = step.equations
        operands: list[Any] = []
        for operand in equation.inputs:
            if isinstance(operand, Value):
                base, chain = self.sources.resolve(operand)
                operands.append((self.arrays[base], chain))
            else:
                operands.append(operand)
        return _Opaque(step, tuple(operands), tuple(self.arrays[v] for v in equation.outputs))

    # Running.

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays of all values that have one, in the order of `arrays`; inputs come first."""
        arrays: list[Any] = [*inputs, *([_NOTHING] * (len(self.arrays) - len(inputs)))]
        for index, shape, dtype, strides in self.fresh:
            arrays[index] = pool.array(shape, dtype, strides)
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = self._new_arena()
        if arena[1][0] != native.threads():
            arena[1][0] = native.threads()
        for stage in self.stages:
            if isinstance(stage, _Native):
                stage.calls.run_at(tuple(arrays), arena[2])
            else:
                _run_opaque(stage, arrays)
        self._arenas.append(arena)
        return arrays

    def _new_arena(self) -> tuple[np.ndarray, np.ndarray, int]:
        memory = aligned_bytes(self.arena_bytes)
        slots = native.new_slots(len(self.arrays) + 1)
        slots[len(self.arrays) + 1] = data_address(memory)
        return memory, slots, data_address(slots)

    def locate(self, value: Value) -> tuple[int, tuple[Any, ...]]:
        """Where `run`'s arrays hold a value: an index, and the views to apply."""
        base, chain = self.sources.resolve(value)
        return self.arrays[base], chain

    # Telling.

    def describe(self) -> list[str]:
        """One line per step: what it computes and how large it is."""
        lines = []
        for step in self.steps:
            ops = [e.op.name for e in step.equations]
            names = ", ".join(ops[:8]) + (f" and {len(ops) - 8} more" if len(ops) > 8 else "")
            title = {"kernel": "fused kernel", "product": "matrix product", "opaque": "NumPy"}[step.kind]
            lines.append(f"{title}: {names} -> {', '.join(str(list(v.shape)) for v in step.made[-1:])}")
        return lines

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results of one call."""
        return self.arena_bytes + sum(
            _bytes(v) for v, i in self.arrays.items() if i >= len(self.graph.inputs)
        )


_NOTHING = np.empty(0)
clone_op = REGISTRY["clone"]


def viewed(array: np.ndarray, chain: Sequence[Any]) -> np.ndarray:
    """`array` through a chain of view equations."""
    for equation in chain:
        array = equation.op.evaluate((wrap(array),), dict(equation.params))
    return array


def _run_opaque(stage: _Opaque, arrays: list[Any]) -> None:
    """Let NumPy evaluate an op and put its results in their places."""
    (equation,) = stage.step.equations
    args = [wrap(viewed(arrays[o[0]], o[1])) if isinstance(o, tuple) else o for o in stage.operands]
    result = equation.op.evaluate(args, dict(equation.params))
    for index, array in zip(stage.results, result if type(result) is tuple else (result,), strict=True):
        arrays[index] = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)


def with_result_copies(graph: Graph, sources: Sources, results: dict[Value, Layout]) -> Graph:
    """Results get memory of their own: what lies in an input, or in another result, is copied."""
    bases = [sources.base(v) for v in graph.outputs if isinstance(v, Value)]
    equations = list(graph.equations)
    outputs: list[Any] = []
    for value in graph.outputs:
        if isinstance(value, Value):
            base = sources.base(value)
            if base in graph.inputs or (base != value and bases.count(base) > 1):
                copy = Value(f"{value.name}_result", value.type)
                equations.append(Equation(clone_op, (value,), {}, (copy,)))
                if value in results:
                    results[copy] = results.pop(value)
                value = copy
        outputs.append(value)
    return Graph(graph.inputs, tuple(equations), tuple(outputs))


def _separate_creations(graph: Graph) -> Graph:
    """Each view of a constant or range gets one of its own, so that it can run along other axes.

    `arange(n) - arange(n)[:, None]` reads one range along both axes of the result.
    """
    made = {e.output: e for e in graph.equations if is_creation(e)}
    equations: list[Equation] = []
    for equation in graph.equations:
        source = equation.inputs[0] if equation.inputs else None
        if isinstance(equation.op, View) and source in made:
            own = Value(f"{equation.output.name}_source", source.type)
            equations.append(Equation(made[source].op, (), made[source].params, (own,), equation.source))
            equation = Equation(equation.op, (own,), equation.params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _readable_products(graph: Graph, sources: Sources) -> Graph:
    """A copy in front of matrix operands that BLAS cannot read as they lie."""
    equations = []
    for equation in graph.equations:
        if isinstance(equation.op, Contraction):
            inputs = list(equation.inputs)
            for i, operand in enumerate(inputs):
                layout = sources.layout(operand)
                if layout is not None and not products.readable(layout):
                    copy = Value(f"{equation.output.name}_operand{i}", operand.type)
                    equations.append(Equation(clone_op, (operand,), {}, (copy,), equation.source))
                    inputs[i] = copy
            equation = Equation(
                equation.op, tuple(inputs), equation.params, equation.outputs, equation.source
            )
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _bytes(value: Value) -> int:
    return aligned(math.prod(value.shape) * value.dtype.itemsize)


def _first_fit(live: list[tuple[int, int, int]], size: int) -> int:
    """The lowest offset where `size` bytes overlap nothing that lives."""
    start = 0
    for _, begin, end in sorted(live, key=lambda entry: entry[1]):
        if start + size <= begin:
            break
        start = max(start, end)
    return start


# Blocks.


def _chunks(kernel: BoundKernel) -> tuple[int, int]:
    """Chunk length and number of chunks of the parallel loop, from sizes alone."""
    loop = next((s for s in kernel.kernel.loops() if s.kind in ("parallel", "chunked")), None)
    if loop is None:
        return 0, 0
    sizes = dict(zip(kernel.kernel.axes, kernel.sizes, strict=True))
    total = math.prod(sizes[a] for a in loop.axes)
    heavy = sum(isinstance(s, Compute) and s.op in ELEMENTARY for s in kernel.kernel.statements())
    work = math.prod(kernel.sizes) * (1 + 2 * heavy)
    count = max(1, min(MOST_CHUNKS, work // CHUNK_WORK, total))
    length = -(-total // count)
    if loop.kind == "chunked":
        length = -(-length // 64) * 64
    return length, -(-total // length) if total else 1


def _accumulator_places(kernel: BoundKernel) -> tuple[list[int], int]:
    """Offsets of the outer accumulators in a chunk's scratch, and the size of it."""
    sizes = dict(zip(kernel.kernel.axes, kernel.sizes, strict=True))
    places, end = [], 0
    for accumulator in outer_accumulators(kernel.kernel):
        places.append(end)
        end += aligned(SIZES[accumulator.dtype] * math.prod(sizes[a] for a in accumulator.axes))
    return places, end


def _scratch_bytes(kernel: BoundKernel) -> int:
    return _accumulator_places(kernel)[1] * max(1, _chunks(kernel)[1])


def _number_bits(value: Any, dtype: str) -> int:
    """A number as the low bytes of an 8-byte place."""
    packed = np.array(value).astype(FROM_SHORT[dtype].numpy).tobytes()
    return struct.unpack("<q", packed.ljust(8, b"\0"))[0]


def kernel_block(kernel: BoundKernel, place: Any, scratch: tuple[int, int]) -> list[int]:
    """The block of one use of a kernel; see `emit.Block`."""
    layout = block_of(kernel.kernel)
    block = list(kernel.sizes)
    block += [_number_bits(v, d) for v, (_, d) in zip(kernel.numbers, kernel.kernel.numbers, strict=True)]
    arguments: list[Argument] = [*kernel.inputs, *kernel.outputs]
    for argument in arguments:
        slot, start = place(argument.value)
        block += [slot, start + argument.offset * argument.value.dtype.itemsize, *argument.strides]
    places, size = _accumulator_places(kernel)
    block += [*_chunks(kernel), *scratch, size, *places]
    assert len(block) == layout.length
    return block
