"""The op `fetch`: a tensor of elements found elsewhere in another, by arithmetic or by index tensors.

Gathers, shifted reads, pads and concatenations all come down to it (`lowering` says how), so that
they are index arithmetic in the kernel of whatever reads them. It exists in the compiler only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.tracer.ir.graph import Equation

if TYPE_CHECKING:
    from fusegrad.compiler.fuse.build_kernel import Context


class Along(NamedTuple):
    """Where the elements are along one dimension of what is fetched from.

    size: of that dimension. by: the number of the index tensor that says where; without one it is
    `start + step * i`, i running along the dimension `dim` of the result (None: `start` everywhere).
    """

    size: int
    dim: int | None = None
    start: int = 0
    step: int = 1
    by: int | None = None

    def tests(self, shape: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether a place may lie before the first element, and behind the last."""
        if self.by is not None:
            return True, True
        last = self.start if self.dim is None else self.start + self.step * (shape[self.dim] - 1)
        return self.start < 0, last >= self.size


class Fetch(Op):
    """`x` at the places that `where` says, `other` (a number or tensor) where there is no such place.

    Inputs: x, other, then the index tensors, which broadcast to the result. Params: `shape` of the
    result, `where`: an `Along` for each dimension of x.
    """

    family = "fetch"

    def __init__(self) -> None:
        # Not in the registry of ops: eager does not know it.
        self.name, self.arguments, self.variadic = "fetch", ("operands",), True
        self.rules, self.saves, self._grad_name = None, False, "FetchBackward0"

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        return TensorType(params["shape"], types[0].dtype)

    def evaluate(self, args: Sequence[Any], params: Params) -> np.ndarray:
        x, other, *indices = (getattr(a, "array", a) for a in args)
        shape, where = params["shape"], params["where"]
        inside = np.ones(shape, bool)
        places = []
        for along in where:
            place: Any
            if along.by is not None:
                place = np.asarray(indices[along.by], np.int64)
            elif along.dim is None:
                place = np.int64(along.start)
            else:
                trailing = (1,) * (len(shape) - along.dim - 1)
                counted = np.arange(shape[along.dim]).reshape(-1, *trailing)
                place = along.start + along.step * counted
            inside = inside & (place >= 0) & (place < along.size)
            places.append(place)
        result = np.broadcast_to(np.asarray(other, x.dtype), shape).copy()
        chosen = tuple(np.broadcast_to(p, shape)[inside] for p in places)
        result[inside] = x[chosen] if chosen else x
        return result


FETCH = Fetch()


def affine(where: Sequence[Along]) -> list[tuple[int, Along]]:
    """The dimensions (by number) whose places are reached by steps; not those of one element."""
    return [(d, a) for d, a in enumerate(where) if a.by is None and a.size != 1]


def indexed(where: Sequence[Along]) -> list[tuple[int, int]]:
    """The dimensions (by number) whose places index tensors say, and the numbers of these."""
    return [(d, a.by) for d, a in enumerate(where) if a.by is not None]


def tested_dims(equation: Equation) -> set[int]:
    """The dimensions of the result along which the kernel has to see where it is."""
    shape = equation.params["shape"]
    return {a.dim for a in equation.params["where"] if a.dim is not None and any(a.tests(shape))}


def write_fetch(context: Context, equation: Equation, index: int) -> str:
    """The statements that fetch one element; gives its name."""
    builder, where, shape = context.builder, equation.params["where"], equation.params["shape"]
    uses, dims = context.kernel.domain.uses, context.kernel.domain.members[equation.output]
    names = {k: builder.cast(context.operand(uses[index, 2 + k]), "i64") for _, k in indexed(where)}
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
    filler = context.operand(uses[index, 1]) if (index, 1) in uses else other
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
