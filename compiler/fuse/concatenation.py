"""Concatenation: an equation `cat` goes in, a nest that copies each tensor to its part comes out."""

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
