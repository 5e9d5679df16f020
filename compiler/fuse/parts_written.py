"""Parts that are written: an equation `write` goes in, a nest that stores the part where it lies comes out.

    v0: f32[512, 64] = write(cache, rows, place, where=((512, 0, 0, 1, 0), (64, 1, 0, 1, None)))

writes each of a few rows where an index says:

    for i0 in serial(n0):
        t0 = x1[i0]
        ...
        for i1 in vector(n1):
            t5 = x0[i0, i1]
            if t4: y0[t2, i1] = t5

Nothing else of the memory, in which `cache` lies too, is touched.
"""

from __future__ import annotations

import math

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.loop_nests import Index, Nest
from fusegrad.compiler.fuse.scatters import COLUMNS, DIVIDED
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.ir import PLACE
from fusegrad.tracer.ir.graph import Equation


def write_kernel(equation: Equation, sources: Sources) -> BoundKernel:
    """The kernel of `write`. Where an index names a place twice, what comes later stays."""
    nest, where, source = Nest(sources), equation.params["where"], equation.inputs[1]
    shape = source.shape
    by = next((along for along in where if along.by is not None), None)
    rows = None if by is None else by.dim
    alone = by is not None and len(shape) == 2 and rows == 0
    is_divided = alone and shape[1] % (2 * COLUMNS) == 0 and math.prod(shape) >= DIVIDED
    indices: list[Index] = [nest.axis(n) for n in shape]
    if is_divided:
        # Each task takes some columns of every row.
        indices[1] = nest.axis(2), nest.axis(shape[1] // 2)
    last = indices[-1] if shape and rows != len(shape) - 1 else None
    vector = [last[1] if isinstance(last, tuple) else last] if last is not None else []
    tasks = [last[0]] if isinstance(last, tuple) else []
    tasks += [a for d, a in enumerate(indices) if d != rows and isinstance(a, str) and a != last]
    places = [None if a.dim is None else PLACE if a.by is not None else indices[a.dim] for a in where]
    steps = [(dim, a.start, a.step) for dim, a in enumerate(where)]
    result = nest.output(equation.output, places, steps)
    values = nest.input(source, indices)
    with nest.loop(tasks, "parallel"):
        if by is None or rows is None:
            with nest.loop(vector, "vector"):
                nest.store(result, nest.load(values))
        else:
            row = indices[rows]
            assert isinstance(row, str)
            index = nest.input(equation.inputs[2], [row])
            with nest.loop([row], "serial"):
                place = nest.builder.cast(nest.load(index), "i64")
                inside = nest.within(place, by.size)
                with nest.loop(vector, "vector"):
                    nest.store(result, nest.load(values), [place], inside)
    return nest.bound()
