"""Scans: an equation that hands something on along a dimension goes in, its loop nest comes out.

v0: f32[6, 40] = cumsum(x, dim=0)          for i1 in chunked(n1):
                                               v0 = f64(0.0)
                                 becomes       for i0 in serial(n0):
                                                   t0 = i64(0 + 1 * i0)
                                                   t1 = x0[i0, i1]
                                                   t2 = v0
                                                   t3 = f64(t1)
                                                   t4 = t2 + t3
                                                   v0 = t4
                                                   t5 = f32(t4)
                                                   y0[i0, i1] = t5
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.loop_nests import Nest
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import DTYPES, is_float
from fusegrad.compiler.kernel.scalar import identity, short_name
from fusegrad.tracer.ir.graph import Equation, Value


def scan_kernel(equation: Equation, sources: Sources) -> BoundKernel:
    """The kernel of a scan: serial along `dim`, vectors and tasks across it."""
    nest, dim = Nest(sources), equation.params["dim"]
    shape = equation.output.shape
    assert 0 <= dim < len(shape), "dimensions of graphs count from 0"
    axes = [nest.axis(n) for n in shape]
    vector = axes[-1:] if dim != len(shape) - 1 else []
    tasks = [a for d, a in enumerate(axes) if d != dim and a not in vector]
    inputs = [nest.input(v, axes) for v in equation.inputs if isinstance(v, Value)]
    outputs = [nest.output(v, axes) for v in equation.outputs]
    with nest.loop(tasks, "parallel"), nest.loop(vector, "vector" if tasks else "chunked"):
        step = SCANS[equation.op.name](nest, short_name(equation.output.dtype))
        with nest.loop([axes[dim]], "serial"):
            results = step(nest.position(axes[dim]), *(nest.load(b) for b in inputs))
            for buffer, result in zip(outputs, results, strict=True):
                nest.store(buffer, result)
    return nest.bound()


# Each rule declares its variables, and gives what happens at an element: from its position and the
# operands there to the results there.
Step = Callable[..., list[str]]


def _running(combine: str) -> Callable[[Nest, str], Step]:
    def rule(nest: Nest, dtype: str) -> Step:
        wide = DTYPES[dtype].wider
        total = nest.variable(identity(combine, wide), wide)

        def step(position: str, x: str) -> list[str]:
            b = nest.builder
            now = getattr(b, combine)(nest.recall(total), b.cast(x, wide))
            nest.assign(total, now)
            return [b.cast(now, dtype)]

        return step

    return rule


def _extreme(test: str, combine: str) -> Callable[[Nest, str], Step]:
    """The last of equal ones counts, and of NaNs; nothing is larger or smaller than a NaN."""

    def rule(nest: Nest, dtype: str) -> Step:
        best, place = nest.variable(identity(combine, dtype), dtype), nest.variable(0, "i64")

        def step(position: str, x: str) -> list[str]:
            b = nest.builder
            known = nest.recall(best)
            hit = getattr(b, test)(x, known)
            if is_float(dtype):
                hit = b.or_(hit, b.ne(x, x))
            value, where = b.select(hit, x, known), b.select(hit, position, nest.recall(place))
            nest.assign(best, value)
            nest.assign(place, where)
            return [value, where]

        return step

    return rule


def _logsumexp(nest: Nest, dtype: str) -> Step:
    wide = DTYPES[dtype].wider
    total = nest.variable(-math.inf, wide)

    def step(position: str, x: str) -> list[str]:
        b = nest.builder
        known, x = nest.recall(total), b.cast(x, wide)
        larger = b.maximum(known, x)
        both = b.add(larger, b.log1p(b.exp(b.neg(b.abs(b.sub(known, x))))))
        # Two infinities are equal, and have no difference.
        now = b.select(b.eq(known, x), b.add(x, math.log(2)), both)
        nest.assign(total, now)
        return [b.cast(now, dtype)]

    return step


def _recurrence(nest: Nest, dtype: str) -> Step:
    last = nest.variable(0.0, dtype)

    def step(position: str, a: str, x: str) -> list[str]:
        b = nest.builder
        # The first factor has nothing to multiply, not even 0: it may be infinite.
        now = b.select(b.eq(position, 0), x, b.add(x, b.mul(a, nest.recall(last))))
        nest.assign(last, now)
        return [now]

    return step


SCANS: dict[str, Callable[[Nest, str], Step]] = {
    "cumsum": _running("add"),
    "cumprod": _running("mul"),
    "cummax": _extreme("ge", "max"),
    "cummin": _extreme("le", "min"),
    "logcumsumexp": _logsumexp,
    "linear_recurrence": _recurrence,
}
