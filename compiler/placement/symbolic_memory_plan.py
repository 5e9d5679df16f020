"""The memory plan for any sizes: a program goes in; what is known of it without numbers comes out.

    v0: f32[n, 16] = matmul(x, w)         64*n bytes, to step 1
    v1: f32[n, 16] = tanh(v0)             64*n bytes, to step 2, over v0
    v2: f32[n, 16] = matmul(v1, w)        64*n bytes, to step 3
    v3: f32[n, 16] = matmul(v2, w)        64*n bytes, to step 4
    v4: f32[n, 16] = exp(v3)

v4 is the result and has an array. With n known, `memory_plan.py` says where in the arena the others lie.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.gemm import matmul
from fusegrad.compiler.kernel.bound_kernel import reads_where_it_writes
from fusegrad.compiler.placement.kernel_arguments import Cut, KernelForm, kernel_form
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.tracer.ir.graph import Value


class Room(NamedTuple):
    """Something that needs room in the arena: a value of so many bytes, or the scratch of a kernel.

    until: the last step that reads it. over: a value that is read for the last time by the step that makes
    this one, which may be written over it.
    """

    key: Any
    size: Any
    form: KernelForm | None
    until: int
    over: Value | None = None


class _Fresh(NamedTuple):
    """A value with an array of its own: its place among the arrays; strides, in bytes, if not row-major."""

    place: int
    shape: tuple[Any, ...]
    dtype: np.dtype
    strides: tuple[Any, ...] | None


class Blueprint:
    """What is known of a program's way into memory without its sizes.

    steps: of the program, in order. needed: the values that must have arrays of their own. into: those
    that are put into the memory of an input. streams: whether results may be stored past the caches, which
    wants memory that begins where a line does. arrays: the values that have one, with their index; the
    inputs come first.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        steps: Sequence[Step],
        sources: Sources,
        needed: Sequence[Value],
        into: Mapping[Value, Value],
        streams: bool = True,
    ) -> None:
        self.inputs, self.sources, self.streams, self.into = len(inputs), sources, streams, into
        arrays = dict.fromkeys(inputs)
        for value in needed:
            arrays.setdefault(sources.base(value))
        opaque: set[Value] = set()
        self.inside = self._joined_in_place(steps, {*arrays, *into}, into)
        self.wholes = {whole for whole, _ in self.inside.values()}
        self.steps = steps = [
            s for s in steps if s.kind != "loops" or s.equations[0].output not in self.wholes
        ]
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
        self.arenas: list[np.ndarray] = []  # memory for temporaries, for all sizes
        self.layouts = [self._operands(s) if s.kind == "product" else None for s in steps]
        self.solved = [self._solver_layouts(s) if s.kind == "solver" else None for s in steps]
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
            made = isinstance(part, Value) and kinds.get(part) in ("kernel", "product", "solver", "loops")
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

    def around(self, value: Value) -> list[Value]:
        """The values that a value is a part of, the smallest first."""
        found: list[Value] = []
        while value in self.inside:
            value, _ = self.inside[value]
            found.append(value)
        return found

    def outermost(self, value: Value) -> Value:
        """The value in whose memory another lies: itself, if it is no part of anything."""
        return [value, *self.around(value)][-1]

    def _byte_strides(self, value: Value) -> tuple[Any, ...] | None:
        """The strides in bytes of a value in memory; None if it is row-major."""
        layout = self.sources.layouts.get(value)
        if layout is None or layout == contiguous_layout(value.shape):
            return None
        return tuple([s * value.dtype.itemsize for s in layout.strides])

    def _operands(self, step: Step) -> tuple[Layout, Layout]:
        """How the operands of a product lie."""
        x, y = (self.sources.layout(v) for v in step.equations[0].inputs)
        assert x is not None and y is not None and matmul.foldable(x, y), (
            "products that BLAS cannot read are copied or opaque"
        )
        return x, y

    def _solver_layouts(self, step: Step) -> tuple[list[Layout], list[Layout]]:
        """How the operands and the results of linear algebra lie."""
        (equation,) = step.equations
        given = [self.sources.layout(v) for v in equation.values()]
        assert None not in given, "copies are put in before fusion"
        return given, [contiguous_layout(v.shape) for v in equation.outputs]  # type: ignore[return-value]

    def _rooms(self) -> list[list[Room]]:
        """What each step needs room for in the arena."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            for equation in step.equations:
                for value in equation.values():
                    last[self.outermost(self.sources.base(value))] = number
        rooms: list[list[Room]] = []
        roomed: set[Value] = set()
        ending: dict[int, list[Value]] = {}  # by number of a step, the values that it is the last to read
        for number, (step, form) in enumerate(zip(self.steps, self.forms, strict=True)):
            made = [a.value for a in step.kernel.outputs] if step.kernel is not None else []
            if step.kind in ("product", "solver"):
                made = step.made
            here = []
            for v in dict.fromkeys(map(self.outermost, made)):
                if v not in self.arrays and v not in roomed:
                    over = self._written_over(v, step, ending.get(number, []))
                    until = last.get(v, number)
                    here.append(Room(v, math.prod(v.shape) * v.dtype.itemsize, None, until, over))
                    roomed.add(v)
            for room in here:
                ending.setdefault(room.until, []).append(room.key)
            rooms.append([*here, Room(step, 0, form, number)] if form is not None else here)
        return rooms

    def _written_over(self, made: Value, step: Step, ending: list[Value]) -> Value | None:
        """Which of the values that a kernel reads for the last time it may write `made` over.

        It is taken off `ending`.
        """
        if step.kernel is None or made in self.wholes:
            return None
        for number, value in enumerate(ending):
            alike = (value.shape, value.dtype.itemsize) == (made.shape, made.dtype.itemsize)
            if alike and value not in self.wholes and reads_where_it_writes(step.kernel, made, value):
                return ending.pop(number)
        return None
