"""Loop nests for single ops, where no schedule can say them: statements go in, a kernel comes out.

nest = Nest(sources)
rows, columns = nest.axis(6), nest.axis(40)
source = nest.input(x, [rows, columns])
target = nest.output(y, [columns, rows])
with nest.loop([rows], "parallel"), nest.loop([columns], "vector"):
    nest.store(target, nest.load(source))

gives, as `nest.bound().kernel`,

def kernel(n0, n1, x0: "f32[i0, i1:1]", y0: "f32[i1, i0:1]"):
    for i0 in parallel(n0):
        for i1 in vector(n1):
            t0 = x0[i0, i1]
            y0[i1, i0] = t0
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.kernel.ir import (
    PLACE,
    Assign,
    Buffer,
    Kernel,
    Load,
    Loop,
    Operand,
    Recall,
    Store,
    Variable,
    known_step,
)
from fusegrad.compiler.kernel.scalar import ScalarBuilder, short_name
from fusegrad.tracer.ir.graph import Value

# What a dimension of an array is indexed by: an axis, a scalar (`PLACE`), or two axes of which the second
# runs through neighbours; None for a dimension of one element.
Index = str | tuple[str, str] | None


class Nest:
    """A kernel that is being written: statements go into the innermost loop that is open."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.names = itertools.count()
        self.builder = ScalarBuilder(self.names)
        self.sizes: dict[str, int] = {}
        self.inputs: list[tuple[Buffer, Argument]] = []
        self.outputs: list[tuple[Buffer, Argument]] = []
        self.numbers: dict[tuple[Any, str], str] = {}
        self.values: list[Any] = []  # of the numbers
        self.variables = 0

    # Arguments.

    def axis(self, size: int) -> str:
        """A new axis."""
        name = f"i{len(self.sizes)}"
        self.sizes[name] = size
        return name

    def input(self, value: Value, indices: Sequence[Index]) -> Buffer:
        """The memory of a value, each dimension indexed as `indices` says."""
        buffer = self._buffer(value, indices, f"x{len(self.inputs)}")
        self.inputs.append(buffer)
        return buffer[0]

    def output(
        self, value: Value, indices: Sequence[Index], steps: Sequence[tuple[int, int, int]] = ()
    ) -> Buffer:
        """The same for a value that the kernel makes.

        steps: (dimension, start, step) where the indices do not run from 0 by 1.
        """
        buffer = self._buffer(value, indices, f"y{len(self.outputs)}", steps)
        self.outputs.append(buffer)
        return buffer[0]

    def _buffer(
        self,
        value: Value,
        indices: Sequence[Index],
        name: str,
        steps: Sequence[tuple[int, int, int]] = (),
    ) -> tuple[Buffer, Argument]:
        layout = self.sources.layout(value)
        assert layout is not None, "copies are put in before fusion"
        axes: list[str] = []
        strides: list[int] = []
        offset, lengths = layout.offset, list(layout.strides)
        for dim, start, step in steps:
            offset += layout.strides[dim] * start
            lengths[dim] *= step
        for index, stride in zip(indices, lengths, strict=True):
            if isinstance(index, tuple):
                axes += index
                strides += [stride * self.sizes[index[1]], stride]
            elif index is not None:
                axes.append(index)
                strides.append(stride)
        last = known_step(strides[-1]) if axes and axes[-1] != PLACE else None
        base = self.sources.base(value)
        known = (*[None] * len(axes[:-1]), *[last] * len(axes[-1:]))
        buffer = Buffer(name, short_name(value.dtype), tuple(axes), known)
        return buffer, Argument(base, offset, tuple(strides))

    def number(self, value: Any, dtype: str) -> str:
        """A number that each use of the kernel brings along."""
        key = repr(value), dtype
        if key not in self.numbers:
            self.numbers[key] = f"k{len(self.numbers)}"
            self.values.append(value)
            self.builder.dtypes[self.numbers[key]] = dtype
        return self.numbers[key]

    # Statements.

    @contextlib.contextmanager
    def loop(self, axes: Sequence[str], kind: str) -> Iterator[None]:
        """Statements written inside go into a loop over `axes`; into none, where there are no axes."""
        if not axes:
            yield
            return
        outer = self.builder
        self.builder = ScalarBuilder(self.names)
        # Scalars of the loops around are at hand; those made in here end with the loop.
        self.builder.dtypes, self.builder._known = outer.dtypes, dict(outer._known)
        yield
        body = tuple(self.builder.statements)
        self.builder = outer
        if kind == "serial":
            for axis in reversed(axes):
                body = (Loop((axis,), kind, body),)
            outer.statements += body
        else:
            outer.statements.append(Loop(tuple(axes), kind, body))

    def load(self, buffer: Buffer, places: Sequence[str] = (), when: str | None = None) -> str:
        """The element at the current indices."""
        name = self.builder.fresh(buffer.dtype)
        self.builder.statements.append(Load(name, buffer, tuple(places), when))
        return name

    def store(
        self,
        buffer: Buffer,
        value: Operand,
        places: Sequence[str] = (),
        when: str | None = None,
        combine: str | None = None,
    ) -> None:
        """Put a value at the current indices, or combine it with what is there."""
        self.builder.statements.append(Store(buffer, value, tuple(places), when, combine))

    def variable(self, value: Operand, dtype: str) -> Variable:
        """A new variable."""
        made = Variable(f"v{self.variables}", value, dtype)
        self.variables += 1
        self.builder.statements.append(made)
        return made

    def recall(self, variable: Variable) -> str:
        """What a variable holds."""
        name = self.builder.fresh(variable.dtype)
        self.builder.statements.append(Recall(name, variable))
        return name

    def assign(self, variable: Variable, value: Operand) -> None:
        """Change a variable."""
        self.builder.statements.append(Assign(variable, value))

    def position(self, axis: str) -> str:
        """The index of an axis as a scalar."""
        return self.builder.progression(axis, 0, 1, "int64")

    def within(self, place: str, size: int) -> str:
        """Whether a place lies in 0..size-1."""
        b = self.builder
        test: str = b.and_(b.ge(place, 0), b.lt(place, self.number(size, "i64")))
        return test

    def bound(self) -> BoundKernel:
        """The kernel, with what it is called with."""
        kernel = Kernel(
            tuple(self.sizes),
            tuple(b for b, _ in self.inputs),
            tuple(b for b, _ in self.outputs),
            tuple((name, dtype) for (_, dtype), name in self.numbers.items()),
            tuple(self.builder.statements),
        )
        return BoundKernel(
            kernel,
            tuple(self.sizes.values()),
            tuple(a for _, a in self.inputs),
            tuple(a for _, a in self.outputs),
            tuple(self.values),
        )
