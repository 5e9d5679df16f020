"""What eager's nodes would keep of a call: who writes that before backward has to get an error, whatever the
compiled backward reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad.eager.core.families import Layout, View, contiguous_layout
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.lazy import cached_property
from fusegrad.tracer.capture.captured import Capture, Output
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.rolled import ROLLED
from fusegrad.tracer.ir.tested import TESTED


@dataclass(eq=False)
class EagerKept:
    """What the nodes keep that eager would have put on the graph, whatever the compiled backward reads.

    values: the values that are kept, so that a write into them is an error, and whether it is one for the
    backward of every result. nodes: for each result that can be derived the equations on its way back whose
    nodes keep something, which one backward frees; behind: what those keep. again: what checkpointed calls
    read, which compute it again in backward of what then lies there. ways: for each value the equation that
    makes it, and the values to which gradients go from there, in order.
    """

    values: dict[Value, bool]
    nodes: tuple[frozenset[int], ...]
    behind: tuple[frozenset[Value], ...]
    again: frozenset[Value] = frozenset()
    ways: Mapping[Value, tuple[int, list[Value]]] = field(default_factory=dict)

    @cached_property
    def all_nodes(self) -> frozenset[int]:
        """What a backward from all results frees."""
        return united(self.nodes)

    def toward(self, inputs: Collection[Value]) -> frozenset[int]:
        """The equations through which gradients go to any of these inputs."""
        reached, found = {*inputs}, set[int]()
        for value, (number, leads) in self.ways.items():
            if number in found or not reached.isdisjoint(leads):
                found.add(number)
                reached.add(value)
        return frozenset(found)


def united(sets: Sequence[frozenset[Any]]) -> frozenset[Any]:
    """What is in any of the sets; the set itself, if there is one."""
    return sets[0] if len(sets) == 1 else frozenset().union(*sets)


def kept_by_eager(
    capture: Capture,
    seeded: Sequence[Value],
    numbers: Collection[Value],
    layouts: Mapping[Value, Layout],
) -> EagerKept:
    """What eager's nodes keep behind the results `seeded`, whose layouts are given. A Python number is in a
    node for good, whatever a backward frees.
    """
    if not seeded:
        return EagerKept({}, (), ())
    graph, tracked = capture.graph, capture.tracked
    kept: dict[int, set[Value]] = {}
    ways: dict[Value, tuple[int, list[Value]]] = {}  # from a result back: the equation, and where it leads
    roots = roots_of(graph.equations, layouts)
    written = [final for _, final in capture.left.writes]
    seen = [(v, roots.get(v, v)) for v in (*graph.inputs, *written, *layouts)]
    again = {v: part for part in capture.recomputed for v in part.values}
    read = set[Value]()
    for number, equation in enumerate(graph.equations):
        keeps, leads = _keeps(equation, tracked)
        part = again.get(equation.outputs[0]) if again and equation.outputs else None
        if part is not None:
            read.update(v for v in equation.values() if v not in part.values)
            keeps = {*part.arguments} if keeps else keeps
        if keeps is not None and (not keeps or keeps - {*numbers}):
            keeps -= {*numbers}
            # What is kept of a view is the memory that it lies in, which others may be views of.
            memory = {roots.get(v, v) for v in keeps}
            kept[number] = keeps.union([v for v, root in seen if root in memory])
        ways.update(dict.fromkeys(equation.outputs, (number, leads)))
    nodes = tuple(frozenset(_behind(v, ways) & kept.keys()) for v in seeded)
    values = tuple(frozenset().union(*(kept[n] for n in found)) for found in nodes)
    kept_by = {v: all(v in k for k in values) for v in frozenset().union(*values)}
    memory = {roots.get(v, v) for v in read}
    again_of = frozenset(read).union([v for v, root in seen if root in memory])
    return EagerKept(kept_by, nodes, values, again_of, ways)


def _keeps(equation: Equation, tracked: Collection[Value]) -> tuple[set[Value] | None, list[Value]]:
    """What an equation's nodes keep of the values that it takes and gives (None: they keep nothing at all),
    and which of those that it takes gradients go to.
    """
    keeps: set[Value] = set()
    leads: list[Value] = []
    for index, value in enumerate(equation.inputs):
        rule = equation.op.rule(index) if value in tracked else None
        if rule is None:
            continue
        leads.append(value)
        then = equation.params["then"] if equation.op is TESTED else ()
        saved = (equation.inputs[i] for i in rule.saved(len(equation.inputs)) if i not in then)
        keeps.update(v for v in saved if isinstance(v, Value))
        keeps.update(equation.outputs[i] for i in rule.saved_outputs(len(equation.outputs)))
    if equation.op is ROLLED and leads:
        return _kept_by_rounds(equation, tracked), leads
    return keeps or None, leads


def _kept_by_rounds(loop: Equation, tracked: Collection[Value]) -> set[Value] | None:
    """What the nodes of a loop's rounds keep of what it takes and gives; None where they keep nothing."""
    body, carried = loop.params["body"].graph, loop.params["carried"]
    needing = {inner for inner, value in zip(body.inputs, loop.inputs, strict=True) if value in tracked}
    needing.update(v for v, made in zip(body.inputs[:carried], loop.outputs, strict=False) if made in tracked)
    roots, any_kept = roots_of(body.equations, {}), False
    memory: set[Value] = set()
    for equation in body.equations:
        keeps, leads = _keeps(equation, needing)
        if leads:
            needing.update(v for v in equation.outputs if v.dtype.kind in "fcV")
        if keeps is not None:
            any_kept = True
            memory.update(roots.get(v, v) for v in keeps)
    if not any_kept:
        return None
    pairs = zip((*body.inputs, *body.outputs), (*loop.inputs, *loop.outputs), strict=True)
    return {value for inner, value in pairs if roots.get(inner, inner) in memory and isinstance(value, Value)}


def _behind(value: Value, ways: Mapping[Value, tuple[int, list[Value]]]) -> set[int]:
    """The equations, by number, on the way back from a value."""
    pending, found = [value], set[int]()
    while pending:
        way = ways.get(pending.pop())
        if way is not None and way[0] not in found:
            found.add(way[0])
            pending += way[1]
    return found


def layouts_of(results: Sequence[Output]) -> dict[Value, Layout]:
    """How results lie in memory."""
    return {
        o.value: Layout(o.value.shape, tuple([s // o.value.dtype.itemsize for s in o.strides]))
        for o in results
        if o.value is not None
    }


def roots_of(equations: Sequence[Equation], results: Mapping[Value, Layout]) -> dict[Value, Value]:
    """For each view what it shows, directly or not: the value whose memory it shares."""
    roots: dict[Value, Value] = {}
    layouts = dict(results)
    for equation in equations:
        op = equation.op
        if not isinstance(op, View):
            continue
        source = equation.inputs[0]
        open_sizes = has_symbols((source.shape, *equation.params.values()))
        layout = layouts.get(source) or contiguous_layout(source.shape)
        seen = layout if open_sizes else op.layout(layout, **equation.params)
        if seen is not None:  # a reshape may have to copy
            roots[equation.output] = roots.get(source) or source
            layouts[equation.output] = seen
    return roots
