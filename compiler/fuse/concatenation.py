"""Concatenation: an equation `cat` goes in, a nest that copies each tensor to its part comes out.

                                                  for i0 in parallel(n0):
                                                      for i1 in vector(n1):
                                                          t0 = x0[i0, i1]
    v0: f32[6, 7] = cat(x, y, dim=1)   becomes            y0[i0, i1] = t0
                                                      for i2 in vector(n2):
                                                          t1 = x1[i0, i2]
                                                          y1[i0, i2] = t1

y0 and y1 are one memory, the second from the fourth element of each row on. Few tensors are joined by whoever
reads them, with a `fetch` for each (`lower/lowering.py`).
"""

from __future__ import annotations

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.loop_nests import Nest
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.tracer.ir.graph import Equation


def join_kernel(equation: Equation, sources: Sources) -> BoundKernel:
    """The kernel of `cat`: tasks over the dimensions before the one that they are joined along."""
    nest, dim = Nest(sources), equation.params["dim"]
    shape = equation.output.shape
    tasks = [nest.axis(n) for n in shape[:dim]]
    inner = [nest.axis(n) for n in shape[dim + 1 :]]
    start = 0
    with nest.loop(tasks, "parallel"):
        for part in equation.inputs:
            along = nest.axis(part.shape[dim])
            indices = [*tasks, along, *inner]
            source = nest.input(part, indices)
            target = nest.output(equation.output, indices, [(dim, start, 1)])
            rows = [along, *inner]
            with nest.loop(rows[:-1], "serial"), nest.loop(rows[-1:], "vector"):
                nest.store(target, nest.load(source))
            start += part.shape[dim]
    return nest.bound()
