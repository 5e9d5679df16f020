"""A program's steps in memory: where values lie, the blocks of its kernels, and running it.

What does not depend on sizes is worked out once, in a `Blueprint`; with the sizes put in it becomes a
`Placed`, which runs. Values that leave (results, what backward reads) and what NumPy must see get
arrays of their own; the rest lies in an arena, planned by the lifetimes of the values, and re-used
by every call.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler import calling, native, products
from fusegrad.compiler.blocks import Cut, KernelForm, kernel_form
from fusegrad.compiler.domain import Sources
from fusegrad.compiler.fusion import Step
from fusegrad.compiler.memory import SMALLEST_POOLED, aligned, aligned_bytes, pool
from fusegrad.compiler.sizes import Values
from fusegrad.eager.families import Layout, contiguous_layout
from fusegrad.eager.op import REGISTRY, wrap
from fusegrad.eager.sizes import has_symbols
from fusegrad.tracer.graph import Equation, Value

NOTHING = np.empty(0)
_RESHAPE = REGISTRY["reshape"]
# By a name of its own, so that the fault drills can let it fail.
small_array = np.empty


class Plain:
    """Stands for the sizes of a program in which none was left open."""

    @staticmethod
    def of(value: Any) -> Any:
        return value


PLAIN = Plain()


def copied(thing: Any) -> Any:
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
        if equation.op is _RESHAPE:
            array = array.reshape(equation.params["shape"])
        else:
            array = equation.op.evaluate((wrap(array),), dict(equation.params))
    return array


# What is known without sizes.


class _Room(NamedTuple):
    """Something that needs room in the arena: a value of so many bytes, or the scratch of a kernel.

    until: the last step that reads it.
    """

    key: Any
    size: Any
    form: KernelForm | None
    until: int


class _Fresh(NamedTuple):
    """A value with an array of its own: its place among the arrays; strides, in bytes, if not row-major."""

    place: int
    shape: tuple[Any, ...]
    dtype: np.dtype
    strides: tuple[Any, ...] | None


@dataclass(frozen=True)
class _Native:
    """A stretch of kernels and products that run in one native call."""

    calls: calling.Calls


@dataclass(frozen=True)
class _Opaque:
    """An op that NumPy runs: operands (array index and views, or numbers), and the results' indices and
    strides in bytes (None: row-major).
    """

    equation: Equation
    operands: tuple[Any, ...]
    results: tuple[tuple[int, tuple[int, ...] | None], ...]


class Blueprint:
    """What is known of a program's way into memory without its sizes.

    steps: of the program, in order. needed: the values that must have arrays of their own. into: those
    that are put into the memory of an input. arrays: the values that have one, with their index; the
    inputs come first.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        steps: Sequence[Step],
        sources: Sources,
        needed: Sequence[Value],
        into: Mapping[Value, Value],
    ) -> None:
        self.inputs, self.sources = len(inputs), sources
        arrays = dict.fromkeys(inputs)
        for value in needed:
            arrays.setdefault(sources.base(value))
        opaque: set[Value] = set()
        self.inside = self._joined_in_place(steps, {*arrays, *into}, into)
        joined = {whole for whole, _ in self.inside.values()}
        self.steps = steps = [s for s in steps if s.kind != "loops" or s.equations[0].output not in joined]
        for step in steps:
            if step.kind == "opaque":
                opaque.update(step.made)
                for value in (*step.equations[0].values(), *step.made):
                    arrays.setdefault(sources.base(value))
        self.arrays = {v: i for i, v in enumerate(v for v in arrays if v not in into)}
        self.arrays.update({v: self.arrays[target] for v, target in into.items()})
        self.fresh = [
            _Fresh(index, value.shape, value.dtype, self._byte_strides(value))
            for value, index in self.arrays.items()
            if index >= self.inputs and value not in opaque
        ]
        cuts: dict[int, Cut] = {}  # by the id of a kernel
        self.forms = [None if s.kernel is None else kernel_form(s.kernel, cuts) for s in steps]
        self.rooms = self._rooms()
        # For all sizes: memory for the arena, and room for the addresses of all arrays.
        self.arenas: list[tuple[np.ndarray, np.ndarray]] = []
        self.layouts = [self._operands(s) if s.kind == "product" else None for s in steps]
        self.opaque = {v: (self.arrays[v], self._byte_strides(v)) for v in opaque}

    def _joined_in_place(
        self, steps: Sequence[Step], fixed: Collection[Value], into: Collection[Value]
    ) -> dict[Value, tuple[Value, Any]]:
        """For each value that lies in the memory of the `cat` that it is a part of, that, and from which
        element on.

        fixed: the values that lie elsewhere.
        """
        kinds = {v: step.kind for step in steps for v in step.made}
        read = {self.sources.base(v) for s in steps if s.kind == "opaque" for v in s.equations[0].values()}

        def moves(part: Any) -> bool:
            made = isinstance(part, Value) and kinds.get(part) in ("kernel", "product", "loops")
            return made and part not in fixed and part not in read and self._byte_strides(part) is None

        inside: dict[Value, tuple[Value, Any]] = {}
        for step in steps:
            equation = step.equations[0]
            if step.kind != "loops" or equation.op.name != "cat" or equation.params["dim"] != 0:
                continue
            parts, whole = equation.inputs, equation.output
            known = whole in into or self._byte_strides(whole) is not None or len({*parts}) < len(parts)
            if known or not all(moves(part) and part not in inside for part in parts):
                continue
            start: Any = 0
            for part in parts:
                inside[part] = whole, start
                start += math.prod(part.shape)
        return inside

    def outermost(self, value: Value) -> Value:
        """The value in whose memory another lies: itself, if it is no part of anything."""
        while value in self.inside:
            value, _ = self.inside[value]
        return value

    def _byte_strides(self, value: Value) -> tuple[Any, ...] | None:
        """The strides in bytes of a value in memory; None if it is row-major."""
        layout = self.sources.layouts.get(value)
        if layout is None or layout == contiguous_layout(value.shape):
            return None
        return tuple([s * value.dtype.itemsize for s in layout.strides])

    def _operands(self, step: Step) -> tuple[Layout, Layout]:
        """How the operands of a product lie."""
        x, y = (self.sources.layout(v) for v in step.equations[0].inputs)
        assert x is not None and y is not None and products.foldable(x, y), (
            "products that BLAS cannot read are copied or opaque"
        )
        return x, y

    def _rooms(self) -> list[list[_Room]]:
        """What each step needs room for in the arena."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            for equation in step.equations:
                for value in equation.values():
                    last[self.outermost(self.sources.base(value))] = number
        rooms: list[list[_Room]] = []
        roomed: set[Value] = set()
        for number, (step, form) in enumerate(zip(self.steps, self.forms, strict=True)):
            made = [a.value for a in step.kernel.outputs] if step.kernel is not None else []
            if step.kind == "product":
                made = [step.equations[0].output]
            made = [v for v in dict.fromkeys(map(self.outermost, made)) if v not in self.arrays]
            here = [
                _Room(v, math.prod(v.shape) * v.dtype.itemsize, None, last.get(v, number))
                for v in made
                if v not in roomed
            ]
            roomed.update(made)
            rooms.append([*here, _Room(step, 0, form, number)] if form is not None else here)
        return rooms


# With sizes.


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
        self._rest = [NOTHING] * (len(blueprint.arrays) - blueprint.inputs)
        self._place_arena()
        self._build_calls()

    # Memory.

    def _place_arena(self) -> None:
        """Offsets in the arena for values and scratch, by first fit over lifetimes."""
        self.offsets: dict[Any, int] = {}
        self.arena_bytes = 0
        live: list[tuple[int, int, int]] = []  # start, end, last step; in the order of the starts
        for number, rooms in enumerate(self.blueprint.rooms):
            live = [entry for entry in live if entry[2] >= number]
            for key, bytes_, form, until in rooms:
                size = aligned(self.sizes.of(bytes_)) if form is None else form.scratch_bytes(self.sizes)
                if size:
                    start = _first_fit(live, size)
                    bisect.insort(live, (start, start + size, until))
                    self.offsets[key] = start
                    self.arena_bytes = max(self.arena_bytes, start + size)

    def _place(self, value: Value) -> tuple[int, int]:
        """Slot and byte offset of a value in memory."""
        start = 0
        while value in self.blueprint.inside:
            value, elements = self.blueprint.inside[value]
            start += self.sizes.of(elements) * value.dtype.itemsize
        index = self.arrays.get(value)
        if index is None:
            return len(self.arrays) + 1, self.offsets.get(value, 0) + start
        return index + 1, start

    # Code.

    def _build_calls(self) -> None:
        """The steps as native stretches with NumPy's ops in between."""
        self.stages: list[_Native | _Opaque] = []
        pending: list[tuple[int, list[int]]] = []

        def flush() -> None:
            if pending:
                self.stages.append(_Native(calling.Calls(list(pending))))
                pending.clear()

        blueprint = self.blueprint
        for step, form, layouts in zip(blueprint.steps, blueprint.forms, blueprint.layouts, strict=True):
            if form is not None:
                # Over no elements there may still be sums to store.
                if any(self.sizes.of(n) for n in form.counts):
                    scratch = (len(self.arrays) + 1, self.offsets.get(step, 0))
                    block = form.block(self.sizes, self._place, scratch)
                    pending.append((native.kernel_address(form.kernel), block))
            elif layouts is not None:
                pending.append(self._product_call(step, layouts))
            else:
                flush()
                self.stages.append(self._opaque_call(step))
        flush()

    def _product_call(self, step: Step, layouts: tuple[Layout, Layout]) -> tuple[int, list[int]]:
        (equation,) = step.equations
        x, y = (self._place(self.blueprint.sources.base(v)) for v in equation.inputs)
        dtype = equation.output.dtype
        places = x, y, self._place(self.blueprint.sources.base(equation.output))
        left, right = (self.sizes.of(layout) for layout in layouts)
        block = products.product_block(left, right, dtype.itemsize, places)
        assert block is not None
        return products.product_address(dtype, block), block

    def _opaque_call(self, step: Step) -> _Opaque:
        (equation,) = with_sizes(step.equations, self.sizes)
        operands: list[Any] = []
        for operand in equation.inputs:
            if isinstance(operand, Value):
                base, chain = self.blueprint.sources.resolve(operand)
                operands.append((self.arrays[base], with_sizes(chain, self.sizes)))
            else:
                operands.append(operand)
        results = tuple([self.sizes.of(self.blueprint.opaque[v]) for v in equation.outputs])
        return _Opaque(equation, tuple(operands), results)

    # Running.

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Program.run`."""
        arrays: list[Any] = [*inputs, *self._rest]
        for index, shape, dtype in self.small:
            arrays[index] = small_array(shape, dtype)
        for index, shape, dtype, strides in self.large:
            arrays[index] = pool.array(shape, dtype, strides)
        arena = self.take_arena()
        for stage in self.stages:
            if isinstance(stage, _Native):
                stage.calls.run(*arrays, *arena)
            else:
                _run_opaque(stage, arrays)
        self.arenas.append(arena)
        return arrays

    def take_arena(self) -> tuple[np.ndarray, np.ndarray]:
        """Memory for temporaries and room for addresses, of its own for each run at a time."""
        try:
            arena = self.arenas.pop()
            if len(arena[0]) >= self.arena_bytes:
                return arena
        except IndexError:
            pass
        return aligned_bytes(self.arena_bytes), calling.new_room(len(self.arrays) + 1)

    @property
    def calls(self) -> calling.Calls | None:
        """The native call that is all there is to run; None where there is more, or nothing."""
        stage = self.stages[0] if len(self.stages) == 1 else None
        return stage.calls if isinstance(stage, _Native) else None

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results of one call."""
        made = [v for v, i in self.arrays.items() if i >= self.blueprint.inputs]
        bytes_ = (math.prod(self.sizes.of(v.shape)) * v.dtype.itemsize for v in made)
        return self.arena_bytes + sum(map(aligned, bytes_))


def _run_opaque(stage: _Opaque, arrays: list[Any]) -> None:
    """Let NumPy evaluate an op and put its results in their places."""
    equation = stage.equation
    args = [wrap(viewed(arrays[o[0]], o[1])) if isinstance(o, tuple) else o for o in stage.operands]
    result = equation.op.evaluate(args, dict(equation.params))
    made = result if type(result) is tuple else (result,)
    for (index, strides), array in zip(stage.results, made, strict=True):
        if strides is None:
            arrays[index] = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        else:
            arrays[index] = pool.array(array.shape, array.dtype, strides)
            arrays[index][...] = array


def _first_fit(live: list[tuple[int, int, int]], size: int) -> int:
    """The lowest offset where `size` bytes overlap nothing that lives (in order)."""
    start = 0
    for begin, end, _ in live:
        if start + size <= begin:
            break
        start = max(start, end)
    return start
