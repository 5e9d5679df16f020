"""The program of a leaf that writes memory: in place, where nothing can stop it any more once it has begun.

    cache[position] = key                     asked    -512 <= number0 < 512
    return cache.sum()             becomes    program  write(cache, key, number0), in the memory of cache; sum

What a program checks (that indices are within bounds) is a program of its own then, which runs before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from fusegrad.compiler.lower.partial_writes import with_parts_written
from fusegrad.compiler.paths.path import Path
from fusegrad.compiler.program.donation import checks_apart, in_place, writes_parts
from fusegrad.compiler.program.program import Program
from fusegrad.tracer.ir.graph import Graph, Value


class Writing(NamedTuple):
    """A program; the numbers of the writes that it does itself; and what has to be asked before it runs."""

    program: Program
    written: set[int]
    asked: Program | None = None


def writing(
    path: Path,
    graph: Graph,
    make: Callable[[Graph], Program],
    turned: Collection[int],
    guards: Collection[Value],
) -> Writing:
    """A program for a graph at whose end a path is over, which writes in place what it can.

    make: gives the program of a graph. turned: the numbers of what does not lie in row-major order. guards:
    outputs that must be true.
    """
    writes = list(zip(path.left, (t for t, _ in path.capture.left.writes), strict=False))
    # Numbers are taken out of memory that nobody writes.
    kept = {*path.results, *path.left[len(writes) :]}
    times = Counter(v for v, _ in writes)  # what two tensors get is copied
    outputs = Counter(graph.outputs)
    alone = [
        (v, t)
        for i, (v, t) in enumerate(writes)
        if i not in turned and outputs[v] == times[v] == 1 and v not in kept
    ]
    parts = alone
    while True:
        program = make(with_parts_written(graph, parts))
        now = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        program.into = in_place(program, [(now[v], t) for v, t in alone])
        if all(value in program.into for value in writes_parts(program)):
            break
        parts = [(v, t) for v, t in parts if now[v] in program.into]
    asked = None
    if program.into and (program.checks or guards):
        checks = checks_apart(program, [now[v] for v in guards])
        if checks is None:
            return Writing(make(graph), set())  # it might stop when it has begun
        layouts = {v: program.sources.layouts[v] for v in checks.inputs}
        asked = Program(checks, layouts, plans=path.plans)
        assert not asked.checks, "a check that has to be checked"
    return Writing(program, {i for i, (v, _) in enumerate(writes) if now[v] in program.into}, asked)
