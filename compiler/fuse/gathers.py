"""Gathers within a kernel: a `fetch` goes in, the statements that find and read one element come out.

    l4: f32[6, 1] = fetch(x, 0, i, shape=(6, 1), where=((6, 0, 0, 1, None), (40, None, 0, 1, 0)))

of a column for each row, which the index i says, becomes in the loop over rows

    t0 = x0[i0]
    t1 = t0 >= k0
    t2 = t0 < k1
    t3 = t1 & t2
    t4 = x1[t0, i0] if t3 else f32(0)

where x0 is i and x1 is x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusegrad.compiler.base.gather_op import Along, indexed
from fusegrad.tracer.ir.graph import Equation

if TYPE_CHECKING:
    from fusegrad.compiler.fuse.build_kernel import Context, Steps


def write_fetch(context: Context, equation: Equation, index: int) -> Steps:
    """The statements that fetch one element; gives its name."""
    builder, where, shape = context.builder, equation.params["where"], equation.params["shape"]
    uses, dims = context.kernel.domain.uses, context.kernel.domain.members[equation.output]
    names: dict[int, str] = {}
    for _, k in indexed(where):
        name = yield context.operand(uses[index, 2 + k])
        names[k] = builder.cast(name, "i64")
    readable: str | None = None  # whether there is memory to read
    inside: str | None = None  # whether the element is what was asked for
    for along in where:
        before, behind = along.tests(shape)
        if not (before or behind):
            continue
        place = _place(context, along, dims, names)
        tests = [builder.ge(place, context.size(0))] if before else []
        tests += [builder.lt(place, context.size(along.size))] if behind else []
        for test in tests:
            inside = test if inside is None else builder.and_(inside, test)
            # One element has one place, which is read wherever it is asked for.
            if along.size != 1 or along.by is not None:
                readable = test if readable is None else builder.and_(readable, test)
    buffer = context.kernel.load_buffer(uses[index, 0])
    target = context.load(buffer, tuple(names[k] for _, k in indexed(where)), readable)
    other = equation.inputs[1]
    if inside is None or (inside == readable and other == 0 and isinstance(other, (int, float))):
        return target
    filler = (yield context.operand(uses[index, 1])) if (index, 1) in uses else other
    return builder.select(inside, target, filler)


def _place(context: Context, along: Along, dims: Sequence[Any], names: dict[int, str]) -> str:
    """The scalar (i64) that is the place along one dimension of x."""
    builder = context.builder
    if along.by is not None:
        return names[along.by]
    start = context.size(along.start)
    axis = None if along.dim is None else dims[along.dim]
    if axis is None:
        return start
    count = builder.progression(context.kernel.axis_names[axis], 0, 1, "int64")
    moved = count if along.step == 1 else builder.mul(count, context.size(along.step))
    return moved if along.start == 0 else builder.add(moved, start)
