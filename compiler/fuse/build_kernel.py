"""Building kernels: a schedule goes in; its loop nest, with loads, passes and stores, comes out.

v0: f32[6, 40] = mul(x, 2)                  for i0 in parallel(n0):
v1: f32[6] = sum(v0, dim=(1,))                  a0 = identity("add", f32)
                                  becomes       for i1 in vector(n1):
                                                    t0 = x0[i0, i1]
                                                    t1 = t0 * k0
                                                    a0 = a0 + t1
                                                y0[i0] = a0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

from fusegrad.compiler.base.assemble_op import ASSEMBLE, places as places_of
from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.collapsed_axes import CollapsedAxes
from fusegrad.compiler.fuse.gathers import write_fetch
from fusegrad.compiler.fuse.iteration_domain import Axis, Sources, Use
from fusegrad.compiler.fuse.schedule import Schedule, needed_in_pass, saved_between_passes
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float
from fusegrad.compiler.kernel.ir import (
    PLACE,
    Accumulate,
    Accumulator,
    Buffer,
    Kernel,
    Load,
    Loop,
    Read,
    Statement,
    Store,
    known_step,
)
from fusegrad.compiler.kernel.scalar import NotLowered, ScalarBuilder, short_name
from fusegrad.eager.core.families import Elementwise, Reduction
from fusegrad.eager.ops.create.creation import Creation
from fusegrad.tracer.ir.graph import Equation, Value

# As many numbers as NumPy's pairwise sums do not take apart.
SHORT_ROW = 128


class KernelBuilder:
    """Writes the kernel of one schedule."""

    def __init__(self, plan: Schedule, outputs: Sequence[Value], sources: Sources) -> None:
        self.plan, self.domain, self.sources = plan, plan.domain, sources
        self.output_values = frozenset(outputs)
        stores = {v: self._store_strides(v) for v in outputs}
        if plan.count <= 1 and not any(self._belongs_to_rows(i, k) for i, k in plan.reductions.items()):
            # One pass over everything: all axes but the last are rows.
            order = plan.outer + plan.inner
            merged = Schedule(plan.domain, [], order, plan.placing)
            collapsed = CollapsedAxes(merged, stores)
            axes = collapsed.outer + collapsed.inner
            self.outer, self.inner = axes[:-1], axes[-1:]
        else:
            collapsed = CollapsedAxes(plan, stores)
            self.outer, self.inner = collapsed.outer, collapsed.inner
        self.sizes = collapsed.sizes
        self.axis_names = {a: f"i{n}" for n, a in enumerate(self.outer + self.inner)}
        self.stores = stores
        self.index = {e.output: i for i, e in enumerate(self.domain.equations)}
        self.names = itertools.count()
        self.inputs: dict[tuple[Any, ...], tuple[Buffer, Argument]] = {}
        self.outputs: dict[Value, tuple[Buffer, Argument]] = {}
        self.numbers: dict[tuple[Any, ...], tuple[str, str, Any]] = {}
        self.accumulators: dict[int, Accumulator] = {}
        self.saved = saved_between_passes(plan, outputs)

    def _belongs_to_rows(self, index: int, kind: str) -> bool:
        """Whether a reduction counts on the rows being those of the schedule."""
        reduces_inner = self.domain.axes(self.domain.uses[index, 0].dims) & set(self.plan.inner)
        return kind in ("row", "column") or not reduces_inner

    def _store_strides(self, value: Value) -> dict[Axis, int]:
        layout = self.sources.layout(value)
        assert layout is not None
        dims = self.domain.members[value]
        return {a: s for a, s in zip(dims, layout.strides, strict=True) if a is not None}

    # Arguments.

    def buffer(
        self, strides: Mapping[Axis, int], dtype: str, prefix: str, places: tuple[int, ...] = ()
    ) -> tuple[Buffer, tuple[int, ...]]:
        """A buffer indexed by scalars, then by the axes in `strides`, and its steps."""
        axes = [a for a in self.outer + self.inner if a in strides]
        last = (self.inner or self.outer)[-1:]
        steps = (*[None] * len(places), *(known_step(strides[a]) if [a] == last else None for a in axes))
        names = (PLACE,) * len(places) + tuple(self.axis_names[a] for a in axes)
        return Buffer(prefix, dtype, names, steps), (*places, *(strides[a] for a in axes))

    def load_buffer(self, use: Use) -> Buffer:
        """The input buffer for a load (the same access gives the same buffer)."""
        dtype = short_name(use.value.dtype)
        key = (use.base, use.offset, tuple(sorted(use.strides.items())), use.places)
        if key not in self.inputs:
            buffer, strides = self.buffer(use.strides, dtype, f"x{len(self.inputs)}", use.places)
            self.inputs[key] = buffer, Argument(use.base, use.offset, strides)
        return self.inputs[key][0]

    def store_buffer(self, value: Value) -> Buffer:
        """The output buffer of a member."""
        if value not in self.outputs:
            dtype, apart = short_name(value.dtype), self._apart(value)
            layout = self.sources.layout(value)
            assert layout is not None
            steps = tuple([layout.strides[d] for d in apart])
            buffer, strides = self.buffer(self.stores[value], dtype, f"y{len(self.outputs)}", steps)
            self.outputs[value] = buffer, Argument(value, 0, strides)
        return self.outputs[value][0]

    def _apart(self, value: Value) -> tuple[int, ...]:
        """The dimensions along which the pieces of a result are stored one after the other."""
        equation = self.domain.equations[self.index[value]]
        return equation.params["dims"] if equation.op is ASSEMBLE else ()

    def store(self, context: Context, value: Value) -> None:
        """Store a result, or all its pieces, where a context is."""
        buffer, apart = self.store_buffer(value), self._apart(value)
        if not apart:
            context.statements.append(Store(buffer, context.value(value)))
            return
        number = self.index[value]
        names = [
            context.taken(self.domain.uses[number, j])
            for j in range(len(self.domain.equations[number].inputs))
        ]
        stores = zip(names, places_of(value.shape, apart), strict=True)
        context.statements.extend(Store(buffer, name, place) for name, place in stores)

    def number(self, value: Any, dtype: str) -> str:
        """The argument that carries a Python number: constants are arguments, so kernels are shared."""
        key = (type(value), repr(value), dtype)
        if key not in self.numbers:
            name = f"k{len(self.numbers)}"
            self.numbers[key] = (name, dtype, value)
        return self.numbers[key][0]

    # The nest.

    def build(self) -> BoundKernel:
        """The whole kernel. Raises NotLowered for what the kernel IR cannot say."""
        pre = Context(self, None, "pre")
        self._store_members(pre, lambda e: self.plan.levels[e.output] == "pre")
        rows = self._row_body(pre)
        declared = [self.accumulators[i] for i, k in self.plan.reductions.items() if k != "row"]
        if self.outer:
            rows = [Loop(self._named(self.outer), "parallel", tuple(rows))]
        elif len(rows) == 1 and isinstance(rows[0], Loop):
            rows = [Loop(rows[0].axes, "chunked", rows[0].body)]
        after = self._epilogue(pre)
        return self._finish([*pre.take(), *declared, *rows, *after])

    def _named(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        return tuple(self.axis_names[a] for a in axes)

    def accumulator(self, index: int) -> Accumulator:
        """The accumulator of a reduction, by equation index."""
        if index not in self.accumulators:
            equation = self.domain.equations[index]
            assert isinstance(equation.op, Reduction) and equation.op.combine is not None
            axes = self._named(self.inner) if self.plan.reductions[index] == "column" else ()
            short, combine = short_name(equation.output.dtype), equation.op.combine
            dtype = DTYPES[short].compute
            total = dtype if combine != "add" or self._is_short(index) else DTYPES[short].accumulate
            self.accumulators[index] = Accumulator(f"a{len(self.accumulators)}", combine, dtype, total, axes)
        return self.accumulators[index]

    def _is_short(self, index: int) -> bool:
        """Whether a reduction combines so few numbers in each row that they are one block."""
        if self.plan.reductions[index] != "row":
            return False
        return bool(math.prod(self.sizes[a] for a in self.inner) <= SHORT_ROW)

    def _row_body(self, pre: Context) -> list[Statement]:
        """What happens in one row: passes over the inner axes, row scalars between them."""
        row = Context(self, pre, "row")
        statements: list[Statement] = []
        for number in range(self.plan.count + 1):
            self._row_scalars(row, number)
            loop = self._pass(row, number)
            statements += row.take()
            if loop is not None:
                statements.append(loop)
        return statements

    def _reductions_at(self, number: int, row_level: bool) -> list[int]:
        """The reductions whose operand is there in pass `number`, once a row or all along it."""
        found = []
        for index in self.plan.reductions:
            use = self.domain.uses[index, 0]
            when = self.plan.passes[use.base] if use.member else 0
            if when == number and (self.level(use) != "inner") == row_level:
                found.append(index)
        return found

    def _row_scalars(self, row: Context, number: int) -> None:
        """Row values that are known once the passes before `number` have ended."""
        for index, kind in self.plan.reductions.items():
            value = self.domain.equations[index].output
            if kind == "row" and self.plan.passes[value] == number:
                row.adopt(value, self.accumulator(index))
        self._store_members(
            row, lambda e: self.plan.levels[e.output] == "row" and self.plan.passes[e.output] == number
        )
        for index in self._reductions_at(number, row_level=True):
            row.accumulate(index)

    def _pass(self, row: Context, number: int) -> Loop | None:
        """One pass over the inner axes: what it stores and reduces, and what these need."""
        inner = Context(self, row, "inner")
        for saved in self.saved:
            if number in saved.again:
                # Before anything else is stored there.
                inner.known[saved.value] = inner.load(self.store_buffer(saved.home))
        # In the program's order, in which little waits for what reads it.
        needed = needed_in_pass(self.plan, self.output_values, number, self.saved)
        for equation in self.domain.equations:
            value = equation.output
            if value in needed:
                if value in self.output_values and self.plan.passes[value] == number:
                    self.store(inner, value)
                else:
                    inner.value(value)
        for index in self._reductions_at(number, row_level=False):
            if self.plan.reductions[index] == "row":
                row.statements.append(self.accumulator(index))
            inner.accumulate(index)
        for saved in self.saved:
            if number == saved.first and saved.value != saved.home:
                inner.statements.append(Store(self.store_buffer(saved.home), inner.value(saved.value)))
        return self._inner_loop(inner.take())

    def _inner_loop(self, body: list[Statement]) -> Loop | None:
        if not body:
            return None
        loop = Loop(self._named(self.inner[-1:]), "vector", tuple(body))
        for axis in reversed(self.inner[:-1]):
            loop = Loop(self._named([axis]), "serial", (loop,))
        return loop

    def _store_members(self, context: Context, chosen: Callable[[Equation], bool]) -> None:
        for equation in self.domain.equations:
            if equation.output in self.output_values and chosen(equation):
                self.store(context, equation.output)

    def _epilogue(self, pre: Context) -> list[Statement]:
        """After the loops: scalars from totals, then a loop over what was reduced over all rows."""
        totals = Context(self, pre, "post")
        wide = Context(self, totals, "wide")
        for index, kind in self.plan.reductions.items():
            value = self.domain.equations[index].output
            if kind == "total":
                totals.adopt(value, self.accumulator(index))
            elif kind == "column":
                accumulator = self.accumulator(index)
                name = wide.builder.fresh(accumulator.total)
                wide.statements.append(Read(name, accumulator))
                wide.known[value] = wide.builder.cast(name, short_name(value.dtype))
        reads = len(wide.statements)
        is_post = {e.output for e in self.domain.equations if self.plan.levels[e.output] == "post"}
        narrow = {v for v in is_post if not self.domain.axes(self.domain.members[v])}
        self._store_members(totals, lambda e: e.output in narrow)
        self._store_members(wide, lambda e: e.output in is_post - narrow)
        loop = self._inner_loop(wide.take()) if len(wide.statements) > reads else None
        return [*totals.take(), *([loop] if loop else [])]

    def level(self, use: Use) -> str:
        """Where an operand is at hand: "pre", "row", "inner", or "post" and "wide" after the loops."""
        axes = self.domain.axes(use.dims)
        if use.member:
            level = self.plan.levels[use.base]
            return "wide" if level == "post" and self.domain.axes(self.domain.members[use.base]) else level
        return "inner" if axes & set(self.plan.inner) else "row" if axes else "pre"

    def _finish(self, body: list[Statement]) -> BoundKernel:
        inputs, outputs = list(self.inputs.values()), list(self.outputs.values())
        kernel = Kernel(
            self._named(self.outer + self.inner),
            tuple(b for b, _ in inputs),
            tuple(b for b, _ in outputs),
            tuple((name, dtype) for name, dtype, _ in self.numbers.values()),
            tuple(body),
        )
        return BoundKernel(
            kernel,
            tuple(self.sizes[a] for a in self.outer + self.inner),
            tuple(a for _, a in inputs),
            tuple(a for _, a in outputs),
            tuple(v for _, _, v in self.numbers.values()),
        )


# What computes a scalar: gives what has to be taken before, gets the scalar of that, returns its own.
Steps: TypeAlias = Generator["Steps", Any, str]


def _taken(steps: Steps) -> str:
    """The scalar that steps compute. A kernel is as deep as it is long: Python's stack, of which the user may
    have taken a part, need not hold all of it.
    """
    pending, name = [steps], ""
    while pending:
        try:
            pending.append(pending[-1].send(name or None))
            name = ""  # another one begins
        except StopIteration as end:
            pending.pop()
            name = str(end.value)
    return name


_DEPTH = {"pre": 0, "row": 1, "post": 1, "inner": 2, "wide": 2}


class Context:
    """A place in the nest where scalars are computed; what belongs further out is computed there."""

    def __init__(self, kernel: KernelBuilder, outer: Context | None, level: str) -> None:
        self.kernel, self.outer, self.level = kernel, outer, level
        self.builder = ScalarBuilder(kernel.names)
        if outer is not None:
            # Names of outer scalars are good here too.
            self.builder.dtypes = outer.builder.dtypes
        self.known: dict[Value, str] = {}
        self._loads: dict[tuple[Any, ...], str] = {}

    @property
    def statements(self) -> list[Statement]:
        return self.builder.statements

    def take(self) -> list[Statement]:
        """The statements so far, which the caller puts in their place."""
        taken = self.builder.statements
        self.builder.statements = []
        return taken

    def adopt(self, value: Value, accumulator: Accumulator) -> None:
        """What an accumulator holds, which is done, is the scalar of `value` from here on."""
        self.builder.dtypes[accumulator.target] = accumulator.total
        self.known[value] = self.builder.cast(accumulator.target, short_name(value.dtype))

    def place(self, level: str) -> Context:
        """The context where something of `level` is computed: this one or one further out."""
        context = self
        while context.outer is not None and _DEPTH[level] < _DEPTH[context.level]:
            context = context.outer
        return context

    def value(self, value: Value) -> str:
        """The scalar of a member value, computed where it belongs."""
        return _taken(self._value(value))

    def _value(self, value: Value) -> Steps:
        kernel = self.kernel
        index = kernel.index[value]
        equation = kernel.domain.equations[index]
        level = kernel.plan.levels[value]
        if level == "post" and kernel.domain.axes(kernel.domain.members[value]):
            level = "wide"
        context = self.place(level)
        if value not in context.known:
            if isinstance(equation.op, Reduction):
                # A reduction over dimensions of size 1; real ones were adopted from accumulators.
                name = yield context.operand(kernel.domain.uses[index, 0])
                name = context.builder.cast(name, short_name(value.dtype))
                if equation.op.combine == "add" and is_float(short_name(value.dtype)):
                    name = context.builder.add(name, 0.0)  # which -0 does not survive, as in longer sums
                context.known[value] = name
            else:
                context.known[value] = yield context._applied(equation, index)
        return context.known[value]

    def operand(self, use: Use) -> Steps:
        """The scalar of an operand: a member, or a load."""
        if use.member:
            name: str = yield self._value(use.base)
            return name
        context = self.place(self.kernel.level(use))
        return context.load(self.kernel.load_buffer(use))

    def taken(self, use: Use) -> str:
        """The same, at once."""
        return _taken(self.operand(use))

    def load(self, buffer: Buffer, places: tuple[str, ...] = (), when: str | None = None) -> str:
        """The scalar of a load in this place; the same load is written once."""
        key = buffer, places, when
        if key not in self._loads:
            name = self._loads[key] = self.builder.fresh(buffer.dtype)
            self.statements.append(Load(name, buffer, places, when))
        return self._loads[key]

    def _applied(self, equation: Equation, index: int) -> Steps:
        """The scalar of an elementwise or creation equation, through its declaration."""
        op, builder, params = equation.op, self.builder, dict(equation.params)
        name: str
        if isinstance(op, Creation):
            dims = self.kernel.domain.members[equation.output]
            place = [None if a is None else self.kernel.axis_names[a] for a in dims]
            name = op.scalar(builder, place, **params)
            return name
        if op is FETCH:
            name = yield write_fetch(self, equation, index)
            return name
        if not isinstance(op, Elementwise):
            raise NotLowered(op.name)
        compute = compute_dtype(equation)
        operands = []
        for j, operand in enumerate(equation.inputs):
            if not isinstance(operand, Value):
                operands.append(self._number(operand, compute))
                continue
            name = yield self.operand(self.kernel.domain.uses[index, j])
            if j < op.data:
                operands.append(builder.truth(name))
            else:
                operands.append(name if compute is None else builder.cast(name, compute))
        if isinstance(op.scalar, str):
            result = getattr(builder, op.scalar)(*operands)
        else:
            result = op.scalar(builder, *operands, **params)
        return builder.cast(result, short_name(equation.output.dtype))

    def _number(self, value: Any, compute: str | None) -> str:
        assert compute is not None
        if isinstance(value, float) and not is_float(compute):
            raise NotLowered(f"a fraction in {compute}")
        name = self.kernel.number(value, compute)
        self.builder.dtypes[name] = compute
        return name

    def size(self, value: int) -> str:
        """A size or offset, which each use of the kernel brings along."""
        name = self.kernel.number(value, "i64")
        self.builder.dtypes[name] = "i64"
        return name

    def accumulate(self, index: int) -> None:
        """Put a reduction's operand into its accumulator, in the dtype of that."""
        accumulator = self.kernel.accumulator(index)
        given = _taken(self.operand(self.kernel.domain.uses[index, 0]))
        name = self.builder.cast(given, accumulator.dtype)
        self.statements.append(Accumulate(accumulator, name))


def compute_dtype(equation: Equation) -> str | None:
    """The dtype that an elementwise equation's operands are converted to; None: each as it is."""
    op = equation.op
    assert isinstance(op, Elementwise)
    if op.name == "cast":
        return None
    if op.rule_of_dtype.result is None:
        return DTYPES[short_name(equation.output.dtype)].compute
    types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
    return DTYPES[short_name(op.compute_dtype(types))].compute


def build_kernel(plan: Schedule, outputs: Sequence[Value], sources: Sources) -> BoundKernel:
    """The kernel of a schedule; `outputs` are the members that are stored."""
    return KernelBuilder(plan, outputs, sources).build()
