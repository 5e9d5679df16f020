"""Steps between processes: a graph and how it is to lie go in; its steps come out, if an earlier process has
left them.

To find out which equations share a nest, and to write the nests, takes most of what a first call does in
Python. What came of it depends on the graph, on how its values lie, and on the machine: that is the key, with
the source of all of fusegrad. What is found is what would have been worked out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fusegrad.compiler.artefacts import folder, versions
from fusegrad.compiler.artefacts.capture_data import graph_text
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.artefacts.objects import Again, Kind, Table, Told, kind_of
from fusegrad.compiler.artefacts.world import Unsayable
from fusegrad.compiler.base import (
    assemble_op,
    complex_ops,
    debug,
    gather_op,
    solver_ops,
    window_ops,
    write_op,
)
from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.kernel import ir
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.compiler.llvm.target import host, host_facts
from fusegrad.compiler.lower.complex_scalars import OfPairs, of_pairs
from fusegrad.compiler.lower.lowering import EXP_NONPOSITIVE
from fusegrad.compiler.program.pipeline import Division
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import Layout
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.op import Op, TensorType
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Graph, Source, Subgraph, Value

KIND = "steps"
FORM = 1
FEWEST = 2  # equations; what has fewer is planned faster than read

_STATEMENTS = (
    ir.Compute, ir.Load, ir.Store, ir.Progression, ir.Accumulator, ir.Accumulate, ir.Read, ir.Variable,
    ir.Recall, ir.Assign, ir.Loop,
)  # fmt: skip
# Ops that eager does not know, and so the registry does not.
_ROOMS = assemble_op, complex_ops, gather_op, solver_ops, window_ops, write_op
_OPS = {op.name: op for room in _ROOMS for op in vars(room).values() if isinstance(op, Op)}
_OPS[EXP_NONPOSITIVE.name] = EXP_NONPOSITIVE
_CLASSES = (
    gather_op.Along,
    TensorType,
    Layout,
    Slice,
    Graph,
    ir.Buffer,
    *_STATEMENTS,
    ir.Kernel,
    Argument,
    BoundKernel,
    Step,
)


def _bodies(graph: Graph) -> list[Subgraph]:
    """The rounds of a graph's loops, each once."""
    found = (p for e in graph.equations for p in e.params.values() if isinstance(p, Subgraph))
    return [*{id(body): body for body in found}.values()]


def _table(graph: Graph) -> Table:
    """The classes of what the steps of a graph are made of. Lines of equations are told by the number of one
    in the graph, and rounds, which have steps of their own, by theirs.
    """
    sources: list[Source | None] = [equation.source for equation in graph.equations]
    numbers = {source: number for number, source in reversed([*enumerate(sources)])}

    def fields(e: Equation) -> Sequence[Any]:
        if e.source not in numbers and e.source is not None:
            raise Unsayable("has an equation of a line that the graph has not")
        return e.op, e.inputs, dict(e.params), e.outputs, numbers.get(e.source, -1)

    def equation(op: Any, inputs: Any, params: Any, outputs: Any, number: int) -> Equation:
        return Equation(op, inputs, params, outputs, sources[number] if number >= 0 else None)

    kinds: dict[type, Kind] = {
        Value: Kind(lambda v: (v.name, v.type.shape, v.type.dtype), _value),
        OfPairs: Kind(lambda op: (op.op, op.place, op.kinds_of_operands), of_pairs),
    }
    kinds[Equation] = Kind(fields, equation)
    kinds.update((cls, kind_of(cls)) for cls in _CLASSES)
    return Table(kinds, {**_OPS, **{f"round {n}": body for n, body in enumerate(_bodies(graph))}})


def _value(name: str, shape: tuple[int, ...], dtype: Any) -> Value:
    return Value(name, TensorType(shape, dtype))


class Asked(NamedTuple):
    """All that decides how a graph is divided, beside the machine and the source of fusegrad.

    known, results, seen, apart: see `Given`. contracted: see `Plans`.
    """

    graph: Graph
    known: Mapping[Value, Layout]
    results: Mapping[Value, Layout]
    seen: Mapping[Value, tuple[int, ...]]
    apart: Collection[Value]
    contracted: bool


def _facts(asked: Asked, table: Table) -> list[Any]:
    """All that steps depend on. Raises Unsayable for what has no words."""
    apart = sorted(value.name for value in asked.apart)
    said = []
    for part in (asked.graph, *map(dict, asked[1:4]), apart, asked.contracted):
        told = Told(table)
        said.append([told.value(part), told.rows])
    rounds = [[type(body).__name__, graph_text(body.graph)] for body in _bodies(asked.graph)]
    machine = host_facts(), repr(host()), threads.cores(), threads.pool_size()
    return [FORM, versions.known(), *machine, rounds, *said]


class KeptSteps:
    """The entry of a graph that is to be divided; of one that has no words there is none."""

    def __init__(self, asked: Asked, is_wanted: bool) -> None:
        self._key = ""
        if not is_wanted or len(asked.graph.equations) < FEWEST or not folder.place():
            return
        self._table = _table(asked.graph)
        try:
            facts = json.dumps(_facts(asked, self._table))
            self._key = hashlib.sha256(facts.encode()).hexdigest()
        except Unsayable as error:
            debug.show(1, "steps are not kept", partial(str, error))

    def find(self) -> Division | None:
        """What an earlier process has left."""
        artefact = folder.find(self._key) if self._key else None
        if artefact is None or artefact.kind != KIND:
            return None
        try:
            again = Again(artefact.facts["rows"], self._table)
            graph, of, producer, layouts, steps, checks = map(again.value, artefact.facts["said"])
        except Exception as error:
            if handler_raised():
                raise
            debug.show(1, "steps cannot be read", partial(repr, error))
            return None
        sources = Sources(of, layouts)
        sources.producer = producer
        return Division(graph, sources, steps, checks)

    def keep(self, made: Division) -> None:
        """Leave a divided graph for later processes."""
        if not self._key:
            return
        told, of = Told(self._table), made.sources
        try:
            parts = made.graph, of.graph, of.producer, of.layouts, made.steps, made.checks
            said = [told.value(part) for part in parts]
        except Unsayable as error:
            debug.show(1, "steps are not kept", partial(str, error))
            return
        folder.keep([self._key], Artefact(KIND, {"rows": told.rows, "said": said}))
