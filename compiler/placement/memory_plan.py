"""The memory plan: a program and its sizes go in; where values lie, and the native calls, come out.

What does not depend on sizes is worked out once, in a `Blueprint`; with the sizes put in it becomes a
`Placed`, which runs. Values that leave (results, what backward reads) and what NumPy must see get
arrays of their own; the rest lies in an arena, planned by the lifetimes of the values, and re-used
by every call.

    v0: f32[64, 64] = matmul(x, w)        arena[0:16384]
    v1: f32[64, 64] = tanh(v0)            arena[0:16384]
    v2: f32[64, 64] = matmul(v1, w)       arena[16384:32768]
    v3: f32[64, 64] = matmul(v2, w)       arena[0:16384]
    v4: f32[64, 64] = exp(v3)             array 2

v1 is written over v0, which its step reads for the last time, and v3 where v1 was; v4 is the result. Arrays 0
and 1 are x and w.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fusegrad.compiler.base.window_ops import WindowProduct
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.gemm import matmul, solvers, window_products
from fusegrad.compiler.gemm.native_call import NativeCall
from fusegrad.compiler.native.calls import Call, Calls, Slot
from fusegrad.compiler.native.making import MOST_WORK
from fusegrad.compiler.placement.batch_tiling import (
    Batch,
    batch_address,
    batches,
    code as batch_code,
    product_blocks,
)
from fusegrad.compiler.placement.nontemporal_stores import streaming_kernels
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint
from fusegrad.compiler.runtime import red_zones, thread_pool, threads
from fusegrad.compiler.runtime.allocator import (
    SMALLEST_POOLED,
    FirstFit,
    aligned,
    aligned_bytes,
    data_address,
    pool,
)
from fusegrad.eager.core.op import REGISTRY, Params, wrap
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.rolled import ROLLED
from fusegrad.tracer.ir.symbolic_sizes import Values

NOTHING = np.empty(0)
RESHAPE = REGISTRY["reshape"]
# By a name of its own, so that the fault drills can let it fail.
small_array = red_zones.empty if red_zones.is_on else np.empty


class Plain:
    """Stands for the sizes of a program in which none was left open."""

    @staticmethod
    def of(value: Any) -> Any:
        return value


PLAIN = Plain()
T = TypeVar("T")


def copied(thing: T) -> T:
    """A shallow copy of a plain object; `copy.copy` takes ten times as long."""
    made = object.__new__(type(thing))
    made.__dict__.update(thing.__dict__)
    return made


def with_sizes(equations: Sequence[Equation], sizes: Any) -> tuple[Equation, ...]:
    """Equations with numbers for the sizes in them; the names of values stay."""
    return tuple([e if sizes is PLAIN or not _has_sizes(e) else _with_sizes(e, sizes) for e in equations])


def _has_sizes(equation: Equation) -> bool:
    return has_symbols((*equation.inputs, *equation.params.values()))


def _with_sizes(equation: Equation, sizes: Any) -> Equation:
    inputs = tuple([sizes.of(v) for v in equation.inputs])
    params = {k: sizes.of(v) for k, v in equation.params.items()}
    return Equation(equation.op, inputs, params, equation.outputs, equation.source)


def viewed(array: np.ndarray, chain: Sequence[Any]) -> np.ndarray:
    """`array` through a chain of view equations."""
    for equation in chain:
        if equation.op is RESHAPE:
            array = array.reshape(equation.params["shape"])
        else:
            array = equation.op.evaluate((wrap(array),), dict(equation.params))
    return array


@dataclass(frozen=True)
class _Native:
    """A stretch of kernels and products that run in one native call."""

    calls: Calls


class _Use(NamedTuple):
    """A native function that is called with a block. shared: whether several threads can share its tasks;
    addresses: gives those of its entry and its task.
    """

    block: list[int]
    shared: bool
    addresses: Callable[[], tuple[int, int]]


@dataclass(frozen=True)
class _Opaque:
    """An op that NumPy runs: operands (array index and views, or numbers), the results' indices and strides
    in bytes (None: row-major), and the shapes and dtypes that they have where the op keeps to its rule.
    """

    equation: Equation
    operands: tuple[Any, ...]
    results: tuple[tuple[int, tuple[int, ...] | None], ...]
    types: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


@dataclass(frozen=True)
class _Loop:
    """The rounds of a rolled loop: its operands (array index and views), and the results' indices."""

    repeat: Callable[[Sequence[np.ndarray], Params], Sequence[np.ndarray]]
    params: Params
    operands: tuple[tuple[int, tuple[Equation, ...]], ...]
    results: tuple[int, ...]

    def run(self, arrays: list[Any]) -> None:
        """They give arrays of their own, in rows."""
        given = [viewed(arrays[i], chain) if chain else arrays[i] for i, chain in self.operands]
        for index, array in zip(self.results, self.repeat(given, self.params), strict=True):
            arrays[index] = array


class Placed:
    """A program with its sizes, in memory. sizes: says what the sizes in the blueprint are."""

    def __init__(self, blueprint: Blueprint, sizes: Values | Plain) -> None:
        self.blueprint, self.sizes = blueprint, sizes
        self.arrays, self.arenas = blueprint.arrays, blueprint.arenas
        self.fresh = [(f.place, sizes.of(f.shape), f.dtype, sizes.of(f.strides)) for f in blueprint.fresh]
        # Small row-major arrays come straight from NumPy.
        self.small = [
            f[:3] for f in self.fresh if not f[3] and math.prod(f[1]) * f[2].itemsize < SMALLEST_POOLED
        ]
        places = {place for place, _, _ in self.small}
        self.large = [f for f in self.fresh if f[0] not in places]
        self.rest = [NOTHING] * (len(blueprint.arrays) - blueprint.inputs)
        blocks = product_blocks(blueprint, sizes)
        self.batches = batches(blueprint, sizes, blocks)
        matmul.compile_together(
            (step.equations[0].output.dtype, block)
            for step, block in zip(blueprint.steps, blocks, strict=True)
            if block is not None
        )
        solved = [self._solver_use(n, placed=False) for n, s in enumerate(blueprint.solved) if s is not None]
        for use in solved:
            use.begin()
        if self.batches:
            batch_code()
        shared = self._has_shared_tasks(blocks) or any(use.is_shared for use in solved)
        if threads.pool_size() > 1 and shared:
            thread_pool.code()
        self.work = self._work(blocks) + sum(use.work for use in solved)
        self.streaming = streaming_kernels(blueprint, sizes)
        kernel_cache.compile_kernels(list(self.streaming.values()))
        self._place_arena()
        self._build_calls()

    def _has_shared_tasks(self, blocks: Sequence[list[int] | None]) -> bool:
        """Whether a step has tasks that several threads can share. blocks: of the products."""
        kernels = any(form.is_shared(self.sizes) for form in self.blueprint.forms if form is not None)
        return kernels or any(matmul.is_shared(block) for block in blocks if block is not None)

    def _work(self, blocks: Sequence[list[int] | None]) -> int:
        """How many elements the kernels go over, with several multiplications of products for one."""
        forms = [form for form in self.blueprint.forms if form is not None]
        elements: int = sum(self.sizes.of(n) for form in forms for n in form.counts)
        return elements + sum(matmul.multiplications(block) for block in blocks if block is not None) // 8

    # Memory.

    def _place_arena(self) -> None:
        """Offsets in the arena for values and scratch, by first fit over lifetimes.

        The steps of a batch run at one time.
        """
        self.offsets: dict[Any, int] = {}
        self.arena_bytes = 0
        arena = FirstFit()
        within = {number: b for b in self.batches for number in range(b.first, b.last)}
        for number, rooms in enumerate(self.blueprint.rooms):
            batch = within.get(number)
            if batch is None or batch.first == number:
                arena.come_to(number)
            needed: list[tuple[Any, int, int, Value | None]] = []
            if batch is not None and batch.first == number:
                needed.append((batch, batch.bytes(), number, None))
            for key, bytes_, form, until, over in rooms:
                if batch is None or key not in batch.own:
                    size = self.sizes.of(bytes_) if form is None else form.scratch_bytes(self.sizes)
                    needed.append((key, size, until, over if batch is None else None))
            for key, size, until, over in needed:
                if size:
                    until = within[until].last - 1 if until in within else until
                    if over in self.offsets:
                        self.offsets[key] = start = arena.take_over(self.offsets[over], until)
                    else:
                        self.offsets[key] = start = arena.place(aligned(size), until)
                    self.arena_bytes = max(self.arena_bytes, start + aligned(size))

    def _place(self, value: Value, batch: Batch | None = None) -> tuple[int, int]:
        """Slot and byte offset of a value in memory; in a batch it may be one of its own."""
        if batch is not None and value in batch.own:
            return self._slots() + batch.slots[value], 0
        start = 0
        while value in self.blueprint.inside:
            value, elements = self.blueprint.inside[value]
            start += self.sizes.of(elements) * value.dtype.itemsize
        index = self.arrays.get(value)
        if index is None:
            return len(self.arrays) + 1, self.offsets.get(value, 0) + start
        return index + 1, start

    def _slots(self) -> int:
        """How many slots there are: the number of threads, the arrays, and the arena."""
        return len(self.arrays) + 2

    def _slots_of_calls(self) -> list[Slot | None]:
        """What the arrays of the native calls must be like, as they were compiled for; None for those that
        others make meanwhile.
        """
        written = {self.arrays[value] for value in self.blueprint.into}
        slots: dict[int, Slot | None] = {index: None for index, _ in self.blueprint.opaque.values()}
        for value, index in self.arrays.items():
            if index not in slots:
                layout = self.sizes.of(self.blueprint.sources.layout(value))
                given = layout is not None and index < self.blueprint.inputs
                strides = tuple([s * value.dtype.itemsize for s in layout.strides]) if given else None
                is_written = index in written or index >= self.blueprint.inputs
                slots[index] = Slot(value.name, self.sizes.of(value.shape), value.dtype, strides, is_written)
        return [slots[index] for index in sorted(slots)]

    # Code.

    def _build_calls(self) -> None:
        """The steps as native stretches with NumPy's ops in between."""
        self.stages: list[_Native | _Opaque | _Loop] = []
        self._blocks: list[np.ndarray] = []  # of the steps of batches, whose blocks have their addresses
        pending: list[Call] = []

        def flush() -> None:
            if pending:
                self.stages.append(_Native(Calls(list(pending), self._slots_of_calls)))
                pending.clear()

        starts = {batch.first: batch for batch in self.batches}
        within = {number: b for b in self.batches for number in range(b.first, b.last)}
        # All blocks before the first address, for which one may have to wait.
        uses = [
            [] if step.kind == "opaque" else self._uses(number, within.get(number))
            for number, step in enumerate(self.blueprint.steps)
        ]
        for number, step in enumerate(self.blueprint.steps):
            if number in starts:
                batch = starts[number]
                pending.append(self._batch_call(batch, [*chain(*uses[number : batch.last])]))
            elif step.kind == "opaque":
                flush()
                self.stages.append(self._opaque_call(step))
            elif number not in within:
                pending += [Call(use.addresses()[0], use.block, use.shared, step) for use in uses[number]]
        flush()

    def _batch_call(self, batch: Batch, uses: Sequence[_Use]) -> Call:
        """The call that runs the steps of a batch, entry by entry."""
        calls = []
        for use in uses:
            self._blocks.append(np.array(use.block, np.int64))
            calls.append((use.addresses()[1], data_address(self._blocks[-1])))
        room = len(self.arrays) + 1, self.offsets[batch]
        of = "; ".join(map(str, self.blueprint.steps[batch.first : batch.last]))
        return Call(batch_address(), batch.block(room, self._slots(), calls), batch.entries > 1, of)

    def _uses(self, number: int, batch: Batch | None) -> list[_Use]:
        """The use of a native function that is a step; none where there is nothing to compute."""
        step, form = self.blueprint.steps[number], self.blueprint.forms[number]
        if step.kind == "solver":
            use = self._solver_use(number)
            return [_Use(use.block, use.is_shared, lambda: (use.address(), 0))]
        if form is None:
            return [self._product_use(number, batch)]
        # Over no elements there may still be sums to store.
        if not any(self.sizes.of(n) for n in form.counts):
            return []
        scratch = (len(self.arrays) + 1, self.offsets.get(step, 0))
        entries = batch.entries if batch is not None else 0
        block = form.block(self.sizes, lambda value: self._place(value, batch), scratch, entries)
        kernel = self.streaming.get(number, form.kernel)
        return [_Use(block, form.is_shared(self.sizes), partial(kernel_cache.kernel_addresses, kernel))]

    def _product_use(self, number: int, batch: Batch | None) -> _Use:
        layouts, (equation,) = self.blueprint.layouts[number], self.blueprint.steps[number].equations
        assert layouts is not None
        x, y, made = map(self.blueprint.sources.base, (*equation.values(), equation.output))
        places = self._place(x, batch), self._place(y, batch), self._place(made, batch)
        dtype = equation.output.dtype
        left, right = (self.sizes.of(layout) for layout in layouts)
        block = matmul.product_block(left, right, dtype.itemsize, places)
        assert block is not None
        if batch is not None and batch.rows:
            matmul.divide_rows(block, batch.entries)
        return _Use(block, matmul.is_shared(block), partial(matmul.product_addresses, dtype, block))

    def _solver_use(self, number: int, placed: bool = True) -> NativeCall:
        """The native call for linear algebra; placed: whether it is known where all lies."""
        (equation,), layouts = self.blueprint.steps[number].equations, self.blueprint.solved[number]
        assert layouts is not None
        values = *map(self.blueprint.sources.base, equation.values()), *equation.outputs
        places = [self._place(v) if placed else (0, 0) for v in values]
        given, made = ([self.sizes.of(layout) for layout in group] for group in layouts)
        if isinstance(equation.op, WindowProduct):
            return window_products.use(equation, given, places)
        return solvers.solver_use(equation, given, made, places)

    def _opaque_call(self, step: Step) -> _Opaque | _Loop:
        (equation,) = with_sizes(step.equations, self.sizes)
        operands: list[Any] = []
        for operand in equation.inputs:
            if isinstance(operand, Value):
                base, chain = self.blueprint.sources.resolve(operand)
                operands.append((self.arrays[base], with_sizes(chain, self.sizes)))
            else:
                operands.append(operand)
        results = tuple([self.sizes.of(self.blueprint.opaque[v]) for v in equation.outputs])
        in_rows = all(strides is None for _, strides in results)
        if equation.op is ROLLED and equation.params["body"].is_compiled and in_rows:
            indices = tuple([index for index, _ in results])
            return _Loop(equation.params["body"].repeat_on, dict(equation.params), tuple(operands), indices)
        types = tuple([(self.sizes.of(v.shape), v.dtype) for v in equation.outputs])
        return _Opaque(equation, tuple(operands), results, types)

    # Running.

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Program.run`."""
        arrays: list[Any] = [*inputs, *self.rest]
        for index, shape, dtype in self.small:
            arrays[index] = small_array(shape, dtype)
        for index, shape, dtype, strides in self.large:
            arrays[index] = pool.array(shape, dtype, strides)
        arena = self.take_arena() if self.arena_bytes else NOTHING
        for stage in self.stages:
            if isinstance(stage, _Native):
                stage.calls.run(*arrays, arena)
            elif isinstance(stage, _Loop):
                stage.run(arrays)
            else:
                _run_opaque(stage, arrays)
        if self.arena_bytes:
            self.arenas.append(arena)
        return arrays

    def take_arena(self) -> np.ndarray:
        """Memory for temporaries, of its own for each run at a time."""
        try:
            arena = self.arenas.pop()
            if len(arena) >= self.arena_bytes:
                return arena
        except IndexError:
            pass
        return aligned_bytes(self.arena_bytes)

    @property
    def calls(self) -> Calls | None:
        """The native call that is all there is to run; None where there is more, or nothing."""
        stage = self.stages[0] if len(self.stages) == 1 else None
        return stage.calls if isinstance(stage, _Native) else None

    @property
    def is_small(self) -> bool:
        """Whether it is one native call that `making.Making` may do."""
        calls = self.calls
        return calls is not None and not calls.shared and self.work <= MOST_WORK

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results of one call."""
        made = [v for v, i in self.arrays.items() if i >= self.blueprint.inputs]
        bytes_ = (math.prod(self.sizes.of(v.shape)) * v.dtype.itemsize for v in made)
        return self.arena_bytes + sum(map(aligned, bytes_))


def _check_types(equation: Equation, types: Sequence[Any], made: Sequence[Any]) -> None:
    """Raises RuntimeError, a refusal, where an op gives other types than what follows is compiled for.

    Those of a user's function may depend on values; native code would read beyond the end of what it gave.
    """
    found = [(np.shape(array), array.dtype) for array in made]
    if found != [*types]:
        raise RuntimeError(f"{equation.op.name} gave {found}, and is compiled for {[*types]}")


def _run_opaque(stage: _Opaque, arrays: list[Any]) -> None:
    """Let NumPy evaluate an op and put its results in their places.

    What it gives as a view (of other types, say) is copied: in a graph each value has memory of its own, and
    that of an operand may be the user's, or be written once this is over.
    """
    equation = stage.equation
    args = [wrap(viewed(arrays[o[0]], o[1])) if isinstance(o, tuple) else o for o in stage.operands]
    result = equation.op.evaluate(args, dict(equation.params))
    made = result if type(result) is tuple else (result,)
    _check_types(equation, stage.types, made)
    # Loops give arrays of their own, in rows.
    loop = equation.op.family == "rolled"
    for (index, strides), array in zip(stage.results, made, strict=True):
        if strides is not None:
            arrays[index] = pool.array(array.shape, array.dtype, strides)
            arrays[index][...] = array
        elif loop:
            arrays[index] = array
        else:
            own = np.asarray(array, order="C")
            read = (arrays[o[0]] for o in stage.operands if isinstance(o, tuple))
            arrays[index] = np.array(own) if any(np.may_share_memory(own, x) for x in read) else own
