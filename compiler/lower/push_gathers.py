"""Pushing gathers: elements fetched of `f(a, b)` go in, `f` of those fetched of a and b comes out.

So what is fetched from needs not be in memory, and need not be computed where nobody looks: the
score of each row's label, a slice that is written once.

    v0: f32[6, 40] = exp(x)                          l4: f32[6, 1] = fetch(x, 0, i, ...)
    v1: f32[6, 1] = gather(v0, i, dim=1)   becomes   l5: f32[6, 1] = exp(l4)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.fuse.schedule import is_cheap
from fusegrad.eager.core.families import Elementwise, View
from fusegrad.tracer.ir.graph import Equation, Operand, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

if TYPE_CHECKING:
    from fusegrad.compiler.lower.rewriter import Rewriter

Where = tuple[Along, ...]

# Fewer elements than one in so many of all are computed anew, whoever else reads the others.
FEW = 8
# More elements than all are computed (where there is none, for nothing) up to so many times as many: of
# what is dear, and of what is cheap.
TIMES_DEAR, TIMES_CHEAP = 2, 12
# Most equations that one fetch is pushed through.
MOST_EQUATIONS = 40
# So many of these others need as well: with fewer, gradients of images (`image_gradients`) take 10 %
# longer; with more, rounds of a loop make again what all those before them have added.
MOST_AGAIN = 2

_ALONE = Along(1)


def pushed(
    b: Rewriter, x: Value, other: Operand, indices: Sequence[Value], shape: Sequence[int], where: Where
) -> Value | None:
    """A fetch from `x` through what computes it; None where that would not pay."""
    if not shape or not isinstance(_producer(b, x), Equation):
        return None
    wanted, all_of = likely(math.prod(shape)), likely(math.prod(x.shape))
    few = wanted * FEW <= all_of
    if not few and wanted > (TIMES_CHEAP * all_of if _once(where) else all_of):
        return None
    through = _cone(b, x, few, dear=wanted <= TIMES_DEAR * all_of)
    if not through:
        return None
    body = _Pushing(b, through, indices, tuple(shape)).at(x, where)
    inside = b.inside(indices, shape, where)
    if inside is not None:
        body = b.op("where", inside, body, b.operand(other, x.dtype))
    return b.expand(body, shape)


def _producer(b: Rewriter, value: Value) -> Equation | None:
    """The elementwise equation that computes a value, or gives it or takes from it dimensions of size 1."""
    equation = b.producer.get(value)
    if equation is None or isinstance(equation.op, Elementwise):
        return equation
    if equation.op.name == "reshape":
        before, after = ([n for n in v.shape if n != 1] for v in (equation.inputs[0], value))
        return equation if before == after else None
    return None


def _once(where: Where) -> bool:
    """Whether no element is fetched twice."""
    dims = [a.dim for a in where if a.size != 1]
    return all(a.by is None for a in where) and None not in dims and len(set(dims)) == len(dims)


def _cone(b: Rewriter, x: Value, few: bool, dear: bool) -> set[Value]:
    """The elementwise values behind `x` that only it needs, and cheap ones that others do; all, for few
    elements.

    dear: whether what is not cheap may be among them.
    """
    found: set[Value] = set()
    if not few and b.readers(x) > 1:
        return found
    # Each equation is behind those that it reads, so readers are seen first.
    inside: dict[Value, int] = {x: b.readers(x)}
    pending, again = [x], 0
    while pending and len(found) < MOST_EQUATIONS:
        pending.sort(key=b.position)
        value = pending.pop()
        equation = _producer(b, value)
        if equation is None:
            continue
        cheap = isinstance(equation.op, View) or is_cheap(equation)
        own = inside[value] >= b.readers(value)
        if not (few or (own and dear) or (cheap and (own or again < MOST_AGAIN))):
            continue
        again += not own
        found.add(value)
        for operand in dict.fromkeys(equation.values()):
            if operand not in inside:
                pending.append(operand)
            inside[operand] = inside.get(operand, 0) + 1
    return found


class _Pushing:
    """One fetch on its way to what is in memory."""

    def __init__(
        self, b: Rewriter, through: set[Value], indices: Sequence[Value], shape: tuple[int, ...]
    ) -> None:
        self.b, self.through, self.indices, self.shape = b, through, indices, shape
        self.known: dict[tuple[Value, Where], Value] = {}

    def at(self, value: Value, where: Where) -> Value:
        """The elements of `value` at the places; of a shape that broadcasts to the result's."""
        key = value, where
        if key not in self.known:
            self.known[key] = self._at(value, where)
        return self.known[key]

    def _at(self, value: Value, where: Where) -> Value:
        equation = _producer(self.b, value)
        if value in self.through and equation is not None and isinstance(equation.op, View):
            (source,) = equation.inputs
            places = iter(a for n, a in zip(value.shape, where, strict=True) if n != 1)
            return self.at(source, tuple(_ALONE if n == 1 else next(places) for n in source.shape))
        if value in self.through and equation is not None:
            operands = [
                self.at(o, _aligned(o, value, where)) if isinstance(o, Value) and o.shape else o
                for o in equation.inputs
            ]
            made = self.b.equation(equation.op, operands, equation.params)
            if made.dtype == value.dtype:
                return made
        return self._leaf(value, where)

    def _leaf(self, value: Value, where: Where) -> Value:
        b, rank = self.b, len(self.shape)
        origin = b.origin(value)
        if origin is not None and origin.op.name == "full":
            return b.full((1,) * rank, origin.params["value"], value.dtype)
        kept = [(d, a) for d, a in enumerate(where) if a != _ALONE]
        dims = [-1 if a.dim is None else a.dim for _, a in kept]
        if all(
            a.by is None and a.dim is not None and not a.start and a.step == 1
            and a.size == self.shape[a.dim]
            for _, a in kept
        ) and dims == sorted(dims):  # fmt: skip
            # All of it, in order.
            shape = [1] * rank
            for _, along in kept:
                shape[along.dim or 0] = along.size
            return b.reshape(value, shape)
        return b.fetch_memory(value, 0, self.indices, self.shape, where)


def _aligned(operand: Value, value: Value, where: Where) -> Where:
    """The places in an operand that broadcasts to `value`."""
    extra = len(value.shape) - len(operand.shape)
    return tuple(
        where[extra + d] if n == value.shape[extra + d] else _ALONE for d, n in enumerate(operand.shape)
    )
