"""Scatters: an equation goes in; a nest that copies, then writes where an index says, comes out.

Each task owns its part of the result and goes through the index in order, so that the result does
not depend on the number of threads, and the last of several values at one place is the one that stays.

    v0: f32[40] = scatter(x, s, i, dim=0, accumulate=True)

adds the elements of s to a copy of x, at the places in i:

    for i0 in vector(n0):
        t0 = x2[i0]
        y1[i0] = t0
    for i1 in serial(n1):
        t1 = x1[i1]
        t2 = x0[i1]
        t3 = t1 >= 0
        t4 = t1 < k0
        t5 = t3 & t4
        if t5: y0[t1] = y0[t1] + t2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.loop_nests import Index, Nest
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.ir import PLACE, Operand
from fusegrad.compiler.kernel.scalar import identity, short_name
from fusegrad.tracer.ir.graph import Equation, Value

# From this many values on, a scatter of rows is divided among tasks by columns.
DIVIDED = 1 << 16
COLUMNS = 32

COMBINERS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def scatter_kernel(equation: Equation, constant: Operand | None, sources: Sources) -> BoundKernel:
    """The kernel of `put`, `scatter` or `scatter_reduce`.

    constant: the number that all elements of the tensor are, if that is known; it is not read then.
    """
    writer = _Scatter(Nest(sources), equation, constant)
    return writer.slices() if equation.op.name == "put" else writer.elements()


class _Scatter:
    def __init__(self, nest: Nest, equation: Equation, constant: Operand | None) -> None:
        self.nest, self.params, self.constant = nest, equation.params, constant
        self.x, self.source, self.index = equation.inputs
        self.result = equation.output
        self.dtype = short_name(self.result.dtype)
        self.dim: int = equation.params["dim"]
        self.combine: str | None = None
        if "reduce" in equation.params:
            self.combine = COMBINERS[equation.params["reduce"]]
        elif equation.params["accumulate"]:
            self.combine = "add"

    def slices(self) -> BoundKernel:
        """Whole slices along one dimension: index [J...], values [A..., J..., C...]."""
        nest, dim = self.nest, self.dim
        before, (n, *after) = self.x.shape[:dim], self.x.shape[dim:]
        parallel: list[Index] = [nest.axis(size) for size in before]
        rows, numbers = nest.axis(n), [nest.axis(size) for size in self.index.shape]
        outer: list[Index] = [nest.axis(size) for size in after[:-1]]
        tasks = [*parallel, *outer]
        last: list[Index] = []
        if after and not tasks and after[-1] % (2 * COLUMNS) == 0 and self._values() >= DIVIDED:
            # Each task takes some columns of every row.
            parts = 4 if after[-1] % (4 * COLUMNS) == 0 else 2
            part, column = nest.axis(parts), nest.axis(after[-1] // parts)
            tasks, last = [part], [(part, column)]
        elif after:
            last = [nest.axis(after[-1])]
        vector = [last[0][1] if isinstance(last[0], tuple) else last[0]] if last else []
        result = nest.output(self.result, [*parallel, PLACE, *outer, *last])
        values = nest.input(self.source, [*parallel, *numbers, *outer, *last])
        index = nest.input(self.index, numbers)
        with nest.loop(_names(tasks), "parallel"):
            self._copy([*parallel, rows, *outer, *last], [rows], _names(vector))

            def visit(start: Operand | None, combine: str | None) -> None:
                with nest.loop(numbers, "serial"):
                    place = nest.builder.cast(nest.load(index), "i64")
                    inside = nest.within(place, n)
                    with nest.loop(_names(vector), "vector"):
                        value = nest.load(values) if start is None else start
                        nest.store(result, value, [place], inside, combine)

            self._visits(visit)
        return nest.bound()

    def elements(self) -> BoundKernel:
        """Element by element along one dimension: index and values of one shape, not larger than x's."""
        nest, dim = self.nest, self.dim
        shape, given = self.x.shape, self.index.shape
        rank = len(shape)
        tasks: list[str] = []
        vector: list[str] = []
        copied: list[Index] = []
        walked: list[Index] = []
        for d in range(rank):
            if d != dim and shape[d] == given[d]:
                axis = nest.axis(shape[d])
                (vector if d == rank - 1 else tasks).append(axis)
                copied.append(axis)
                walked.append(axis)
            else:
                copied.append(nest.axis(shape[d]))
                walked.append(nest.axis(given[d]))
        written = [PLACE if d == dim else axis for d, axis in enumerate(walked)]
        result = nest.output(self.result, written)
        values, index = nest.input(self.source, walked), nest.input(self.index, walked)
        with nest.loop(tasks, "parallel"):
            rest = [a for a in copied if a not in tasks and a not in vector]
            self._copy(copied, _names(rest), vector)

            def visit(start: Operand | None, combine: str | None) -> None:
                # The dimension itself last but the vectors: values for one place come in its order.
                order = [a for a in walked if a not in tasks and a not in vector]
                with nest.loop(_names(order), "serial"), nest.loop(vector, "vector"):
                    place = nest.builder.cast(nest.load(index), "i64")
                    value = nest.load(values) if start is None else start
                    nest.store(result, value, [place], nest.within(place, shape[dim]), combine)

            self._visits(visit)
        return nest.bound()

    def _values(self) -> int:
        total = 1
        for size in self.source.shape:
            total *= size
        return total

    def _visits(self, visit: Callable[[Operand | None, str | None], None]) -> None:
        """Go through the index; twice where what was there before does not count."""
        if not self.params.get("include_self", True):
            assert self.combine is not None
            visit(identity(self.combine, self.dtype), None)
        visit(None, self.combine)

    def _copy(self, indices: Sequence[Index], rest: Sequence[str], vector: Sequence[str]) -> None:
        """Start with the tensor as it is: loops over `rest` and `vector` inside the tasks."""
        nest = self.nest
        if not vector:
            rest, vector = rest[:-1], rest[-1:]
        target = nest.output(self.result, indices)
        source = None if self.constant is not None else nest.input(self.x, indices)
        with nest.loop(rest, "serial"), nest.loop(vector, "vector"):
            value = nest.number(self.constant, self.dtype) if source is None else nest.load(source)
            nest.store(target, value)


def _names(axes: Sequence[Index]) -> list[str]:
    return [a for a in axes if isinstance(a, str)]


def scattered_from(equation: Equation) -> list[Value]:
    """The values that a scatter reads besides the tensor that it starts with."""
    return [v for v in equation.inputs[1:] if isinstance(v, Value)]
