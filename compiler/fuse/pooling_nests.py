"""Gradients of pools: an equation goes in; a nest that adds values to the windows they are of comes out.

    v0: f32[2, 8] = avg_pool_spread(g, size=(8,), window=((2, 1, 0, 1),), include=True, divisor=1)

sends each value to the two elements of its window; one place of all windows is gone over after the other:

    for i0 in parallel(n0):
        for i1 in vector(n1):
            y0[i0, i1] = k0
        for i2 in vector(n2):
            t0 = i64(0 + 1 * i2)
            t1 = t0 * k1
            t2 = t1 + k2
            t3 = t2 >= 0
            t4 = t2 < k3
            t5 = t3 & t4
            t6 = x0[i0, i2]
            if t5: y1[i0, i2] = y1[i0, i2] + t6
        for i2 in vector(n2):
            t7 = i64(0 + 1 * i2)
            t8 = t7 * k1
            t9 = t8 + k1
            t10 = t9 >= 0
            t11 = t9 < k3
            t12 = t10 & t11
            t13 = x0[i0, i2]
            if t12: y2[i0, i2] = y2[i0, i2] + t13

y0, y1 and y2 are one memory; y2 begins one element later.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.loop_nests import Nest
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.scalar import short_name
from fusegrad.eager.ops.shape.windows import Sizes, elements_of, places_of
from fusegrad.tracer.ir.graph import Equation

# Windows of more elements than this are left to NumPy: each element is a read of its own.
LARGEST_WINDOW = 32

# What sends values back to the windows that they belong to.
SPREADS = frozenset({"max_pool_put", "avg_pool_spread"})


def spreads(equation: Equation) -> bool:
    """Whether a nest sends the values of this equation back: not those that are still to be divided."""
    params = equation.params
    return elements_of(params["window"]) <= LARGEST_WINDOW and params.get("divisor", 1) == 1


def spread_kernel(equation: Equation, sources: Sources) -> BoundKernel:
    """The kernel of `max_pool_put` and `avg_pool_spread`: a task for each plane, one place of the windows
    after the other, so that no two values meet at once.
    """
    nest, window = Nest(sources), equation.params["window"]
    result, dtype = equation.output, short_name(equation.output.dtype)
    rank = len(window)
    lead = [nest.axis(n) for n in result.shape[: len(result.shape) - rank]]
    size, count = result.shape[len(lead) :], equation.inputs[0].shape[len(lead) :]
    whole, windows = [nest.axis(n) for n in size], [nest.axis(n) for n in count]
    filled = nest.output(result, [*lead, *whole])
    values = nest.input(equation.inputs[0], [*lead, *windows])
    chosen = nest.input(equation.inputs[1], [*lead, *windows]) if len(equation.inputs) > 1 else None
    # Where no two windows meet, what is there is 0 still, to which -0.0 is added as well.
    apart = all(s > (k - 1) * dilation for k, s, _, dilation in window)
    with nest.loop(lead, "parallel"):
        with nest.loop(whole[:-1], "serial"), nest.loop(whole[-1:], "vector"):
            nest.store(filled, nest.number(0, dtype))
        for number, place in enumerate(places_of(window)):
            starts = [(d, o * w[3] - w[2], w[1]) for d, (o, w) in enumerate(zip(place, window, strict=True))]
            target = nest.output(
                result, [*lead, *windows], steps=[(len(lead) + d, f, s) for d, f, s in starts]
            )
            with nest.loop(windows[:-1], "serial"), nest.loop(windows[-1:], "vector"):
                inside = _inside(nest, windows, size, starts)
                if chosen is not None:
                    hit = nest.builder.eq(nest.load(chosen), nest.number(number, chosen.dtype))
                    inside = nest.builder.and_(inside, hit)
                value = nest.load(values)
                if apart:
                    nest.store(target, nest.builder.add(value, nest.number(0, dtype)), when=inside)
                else:
                    nest.store(target, value, when=inside, combine="add")
    return nest.bound()


def _inside(nest: Nest, windows: Sequence[str], size: Sizes, starts: Sequence[tuple[int, int, int]]) -> str:
    """Whether a place of a window lies within the input."""
    b = nest.builder
    inside: str | None = None
    for axis, n, (_, first, step) in zip(windows, size, starts, strict=True):
        moved = b.mul(nest.position(axis), nest.number(step, "i64"))
        test = nest.within(b.add(moved, nest.number(first, "i64")), n)
        inside = test if inside is None else b.and_(inside, test)
    assert inside is not None
    return inside
