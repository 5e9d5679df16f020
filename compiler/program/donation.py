"""Donation: a program goes in; which results may be computed in the memory of which inputs comes out.

                                         for i0 in chunked(n0):
                                             t0 = x0[i0]
    v0: f32[1000] = mul(g, 0.1)              t1 = t0 * k0            {'v1': 'w'}
    v1: f32[1000] = sub(w, v0)               t2 = x1[i0]
                                             t3 = t2 - t1
                                             y0[i0] = t3

The kernel, in which w is x1 and v1 is y0, reads of w what it is about to write, and nobody reads w after it:
a parameter of an optimizer is stepped where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.kernel.bound_kernel import reads_where_it_writes
from fusegrad.tracer.ir.graph import Value


def in_place(program: Any, pairs: Sequence[tuple[Value, Value]]) -> dict[Value, Value]:
    """Which of `pairs` (output, input) the program may compute in the memory of the input.

    Only if nothing can fail once it has begun; if no later step reads the input; and if the kernel that
    makes the output reads the input nowhere else than where it writes.

    program: a `Program`, whose module is made of this one, too.
    """
    steps = program.steps
    if not pairs or program.checks or any(step.kind == "opaque" for step in steps):
        return {}
    bases = [{program.sources.base(v) for e in step.equations for v in e.values()} for step in steps]
    found = {}
    for output, target in pairs:
        at = next((i for i, step in enumerate(steps) if output in step.made), None)
        if at is None or target not in program.graph.inputs:
            continue
        if any(target in read for read in bases[at + 1 :]):
            continue
        kernel = steps[at].kernel
        if kernel is not None and reads_where_it_writes(kernel, output, target):
            found[output] = target
    return found
