"""Runs that differ in how many places of their masks are true, as one path for any of these numbers."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from fusegrad.compiler.base import debug
from fusegrad.compiler.paths.path import Path
from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.open_counts import Refused, opened

# How many more multiplications (or other steps) a path may take for rows that are not chosen: about a
# millisecond of products, which is what it takes to run a body and find what is compiled of it.
MOST_MORE = 1 << 26


def for_all_counts(made: Capture, paths: Sequence[Path]) -> Capture:
    """A run that was recorded, for all counts if one of the paths is of a run that differs in these alone."""
    if not any(guard.params.get("size") for guard in made.graph.guards()):
        return made
    for path in reversed(paths):
        if path.capture.is_open or not _begins_alike(made, path):
            continue
        try:
            return _opened(made, path)
        except Refused as refusal:
            debug.show(1, "a path for each count of a mask", functools.partial(str, refusal))
        except Exception:
            if debug.faults_are_raised():
                raise
    return made


def _begins_alike(made: Capture, path: Path) -> bool:
    """Whether two runs take the same from outside, and give the same as far as that is no tensor."""
    other = path.capture
    if made.graph.inputs != other.graph.inputs or made.recomputed or other.recomputed:
        return False
    captured = made.captured.keys() == path.captured.keys() and all(
        path.captured[value].reference() is tensor for value, tensor in made.captured.items()
    )
    constants = made.constants.keys() == other.constants.keys() and all(
        array.tobytes() == other.constants[value].tobytes() for value, array in made.constants.items()
    )
    hosts = [[(h.key(), h.value, n) for h, n in capture.hosts] for capture in (made, other)]
    given = [[(o.kind, repr(o.item) if o.kind == "object" else "") for o in c.outputs] for c in (made, other)]
    return captured and constants and hosts[0] == hosts[1] and given[0] == given[1]


def _opened(made: Capture, path: Path) -> Capture:
    values: list[Value] = [*made.left.values(), *made.left.made, *made.numbers]
    values += [o.value for o in made.outputs if o.value is not None]
    values += [value for o in made.outputs for _, value in o.held]
    values += [o.item for o in made.outputs if o.kind == "number"]
    found = opened(made.graph, path.capture.graph, made.tracked, values, [place for _, place in made.hosts])
    of_runs = max(_work(made.graph), _work(path.capture.graph))
    if _work(found.graph) > of_runs + MOST_MORE:
        raise Refused("computing with all rows would take longer than running the body")
    return dataclasses.replace(
        made,
        graph=found.graph,
        tracked=found.tracked,
        constants=made.constants | found.constants,
        hosts=[(host, place) for (host, _), place in zip(made.hosts, found.hosts, strict=True)],
        is_open=True,
    )


def _work(graph: Graph) -> int:
    """About how many multiplications and additions a graph takes, or other steps for an element."""
    return sum(map(_work_of, graph.equations))


def _work_of(equation: Equation) -> int:
    results = sum(math.prod(value.shape) for value in equation.outputs)
    factor = {"matmul": 0, "linear": 0, "addmm": 1}.get(equation.op.name)
    return results if factor is None else results * equation.inputs[factor].shape[-1]
