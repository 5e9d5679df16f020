"""A captured path: its forward and its backward, optimised together."""

from __future__ import annotations

import functools
import struct
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler.fuse.isomorphic_groups import Plans
from fusegrad.compiler.program.loop_bodies import with_compiled_loops
from fusegrad.eager.core.families import Layout, View, contiguous_layout, layout_of
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.api import Capture, Output
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.differentiate import differentiate
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.observe.hosts import Host

# Stands between the forward and the backward equations while passes run over both.
_BOUNDARY = Equation(GUARD, (0,), {"expected": 0, "kind": "boundary"}, ())


def guard_key(value: Any) -> Any:
    """What a guard compares: the value by type and bits."""
    return struct.pack("<d", value) if isinstance(value, float) else (type(value), value)


class Captured:
    """A tensor found outside by a captured run: held weakly, with what it must still be.

    known: the array that it had when it was last looked at; arrays never change their type. changes: how
    often it had another one.
    """

    __slots__ = ("changes", "expected", "known", "layout", "needs_grad", "reference")

    def __init__(self, tensor: Tensor) -> None:
        array = tensor.array
        self.reference = weakref.ref(tensor)
        self.layout = layout_of(array)
        self.expected = (array.shape, array.dtype, array.strides)
        self.needs_grad = tensor.needs_grad
        self.known, self.changes = weakref.ref(array), 0

    def array(self) -> np.ndarray | None:
        """The tensor's memory, or None if it is gone or of another type."""
        tensor = self.reference()
        if tensor is None or tensor.needs_grad is not self.needs_grad:
            return None
        array = tensor.array
        if self.known() is array:
            return array
        if not has_values(array) or (array.shape, array.dtype, array.strides) != self.expected:
            return None
        self.known, self.changes = weakref.ref(array), self.changes + 1
        return array


@dataclass(eq=False)
class Path:
    """One captured path, with its backward derived and both optimised together.

    hosts: the inputs that Python gives; `asks` finds them among the forward's equations. obliged: values that
    nobody needs, but whose ops may refuse their input, as eager would.
    forward, backward: equations. results: the returned values, in the order of the capture's
    outputs that are values; left: what `capture.left` names; seeds: the gradients of those at `seeded`;
    gradients: of `wanted`.
    saved: the results that backward reads, which the user must not have written over by then.
    derives_alone: whether one scalar is derived, so that backward most likely starts with 1.
    reached_from: for each gradient the seeds that it depends on: without any of them there is none.
    wanted_from: where the tensors of `wanted` are: a leaf of the call, or captured. grad_names,
    output_types: of the results at `seeded`. kept_by_eager: the values that eager's nodes keep for backward,
    so that a write into them is an error, and whether it is one for the backward of every result.
    kept_behind: for each result at `seeded` the equations on its way back whose eager nodes keep
    something, which one backward frees; values_behind: what they keep. plans: what is known of the groups of
    equations that kernels are made of.
    """

    capture: Capture
    inputs: tuple[Value, ...]
    captured: dict[Value, Captured]
    constants: dict[Value, np.ndarray]
    hosts: list[Host]
    forward: tuple[Equation, ...]
    backward: tuple[Equation, ...]
    obliged: frozenset[Value]
    results: tuple[Value, ...]
    left: tuple[Value, ...]
    seeds: tuple[Value, ...]
    seeded: tuple[int, ...]
    wanted: tuple[Value, ...]
    gradients: tuple[Any, ...]
    argument_leaves: dict[Value, int]
    saved: set[int]
    derives_alone: bool
    reached_from: tuple[frozenset[Value], ...]
    wanted_from: tuple[int | Captured, ...]
    grad_names: tuple[str, ...]
    output_types: tuple[tuple[tuple[int, ...], np.dtype], ...]
    kept_by_eager: dict[Value, bool]
    kept_behind: tuple[frozenset[int], ...]
    values_behind: tuple[frozenset[Value], ...]
    plans: Plans
    calls: int = 0

    @functools.cached_property
    def own_results(self) -> dict[int, Value]:
        """The results by number, each value once."""
        found: dict[Value, int] = {}
        values = [o.value for o in self.capture.outputs if o.value is not None]
        for number, value in enumerate(values):
            found.setdefault(value, number)
        return {number: value for value, number in found.items()}

    @functools.cached_property
    def behind(self) -> frozenset[int]:
        """What a backward from all results frees."""
        return united(self.kept_behind)

    @functools.cached_property
    def plain(self) -> bool:
        """Whether each result is a value of its own, and off the graph."""
        outputs = self.capture.outputs
        values = {o.value for o in outputs}
        return not self.wanted and len(values - {None}) == len(outputs) and not any(o.freed for o in outputs)


def united(sets: Sequence[frozenset[Any]]) -> frozenset[Any]:
    """What is in any of the sets; the set itself, if there is one."""
    return sets[0] if len(sets) == 1 else frozenset().union(*sets)


def make_path(capture: Capture, argument_leaves: dict[Value, int], numbers: Collection[Value] = ()) -> Path:
    """Derive the backward of a capture and optimise both together.

    argument_leaves: for each argument of the graph its number among the leaves of the call. numbers: the
    arguments that stand for Python numbers.
    """
    plans = Plans()
    graph = with_compiled_loops(capture.graph, plans)
    values = [o for o in capture.outputs if o.value is not None]
    outputs = [o.value for o in values if o.value is not None]
    first = {value: i for i, value in reversed(list(enumerate(outputs)))}  # a tensor may be returned twice
    seeded = tuple(
        i for i, o in enumerate(values) if o.requires_grad and not o.freed and first[outputs[i]] == i
    )
    wanted = tuple(v for v in graph.inputs if v in capture.tracked) if seeded else ()
    backward, constants = Graph((), (), ()), dict(capture.constants)
    if wanted:
        backward, extra, wanted = differentiate(graph, capture.tracked, [outputs[i] for i in seeded], wanted)
        constants.update(extra)
    seeds = backward.inputs[: len(seeded)] if wanted else ()
    inputs = tuple(dict.fromkeys((*graph.inputs, *constants)))
    equations = (*_with_hosts(graph.equations, capture.hosts), _BOUNDARY, *backward.equations)
    left = capture.left.values()
    whole = Graph((*inputs, *seeds), equations, (*outputs, *left, *backward.outputs))
    for run in (passes.decompose, passes.simplify, passes.common_subexpressions):
        whole = run(whole)
    middle = whole.equations.index(_BOUNDARY)
    captured = {v: Captured(t) for v, t in capture.captured.items()}
    # The path lives as long as the function; the tensors must not.
    capture.captured, capture.tensors = {}, {}
    return Path(
        capture,
        inputs,
        captured,
        constants,
        [host for host, _ in capture.hosts],
        whole.equations[:middle],
        whole.equations[middle + 1 :],
        _obliged(whole.equations[:middle], whole.outputs[: len(outputs) + len(left)]),
        tuple(whole.outputs[: len(outputs)]),
        tuple(whole.outputs[len(outputs) :][: len(left)]),
        seeds,
        seeded,
        wanted,
        tuple(whole.outputs[len(outputs) + len(left) :]),
        argument_leaves,
        {i for i, v in enumerate(outputs) if v in backward.inputs},
        bool(wanted) and len(seeds) == 1 and all(n == 1 for n in seeds[0].shape),
        _reached_from(graph, capture.tracked, [outputs[i] for i in seeded] if wanted else (), seeds, wanted),
        tuple(argument_leaves[v] if v in argument_leaves else captured[v] for v in wanted),
        tuple(values[i].grad_name for i in seeded),
        tuple((outputs[i].shape, outputs[i].dtype) for i in seeded),
        *_kept_by_eager(graph, capture.tracked, [outputs[i] for i in seeded], numbers, _layouts(values)),
        plans,
    )


def _with_hosts(equations: Sequence[Equation], hosts: list[tuple[Host, int]]) -> Iterator[Equation]:
    """The equations, with a mark wherever Python is asked for something."""
    pending = list(enumerate(place for _, place in hosts))
    for number, equation in enumerate((*equations, None)):
        while pending and pending[0][1] == number:
            params = {"expected": pending.pop(0)[0], "kind": "host"}
            yield Equation(GUARD, (0,), params, ())
        if equation is not None:
            yield equation


def asks(equation: Equation) -> int | None:
    """The number of the host that Python is asked for at this place, if it is one."""
    here = equation.op is GUARD and equation.params["kind"] == "host"
    return equation.params["expected"] if here else None


def _obliged(equations: Sequence[Equation], targets: Collection[Any]) -> frozenset[Value]:
    """The results of ops that may refuse their input, where neither `targets` nor guards need them."""
    needed = set(targets)
    found = set()
    for equation in reversed(equations):
        used = equation.op is GUARD or any(v in needed for v in equation.outputs)
        if not used and equation.output.dtype.kind in equation.op.refuses:
            found.add(equation.output)
            used = True
        if used:
            needed.update(equation.values())
    return frozenset(found)


def _kept_by_eager(
    graph: Graph,
    tracked: Collection[Value],
    seeded: Sequence[Value],
    numbers: Collection[Value],
    layouts: Mapping[Value, Layout],
) -> tuple[dict[Value, bool], tuple[frozenset[int], ...], tuple[frozenset[Value], ...]]:
    """The values that eager's nodes keep, and whether behind all of `seeded`; for each of these the nodes
    behind it that keep any, and what those keep. A Python number is in a node for good, whatever a backward
    frees. layouts: of the results.
    """
    if not seeded:
        return {}, (), ()
    kept: dict[int, set[Value]] = {}
    ways: dict[Value, tuple[int, list[Value]]] = {}  # from a result back: the equation, and where it leads
    origins = _origins(graph, layouts)
    for number, equation in enumerate(graph.equations):
        keeps: set[Value] = set()
        leads: list[Value] = []
        for index, value in enumerate(equation.inputs):
            rule = equation.op.rule(index) if value in tracked else None
            if rule is None:
                continue
            leads.append(value)
            saved = (equation.inputs[i] for i in rule.saves)
            keeps.update(v for v in saved if isinstance(v, Value) and v not in numbers)
            keeps.update(equation.outputs if rule.needs_output else ())
        # What is kept of a view is the memory that it lies in.
        keeps.update([origins[v] for v in keeps if v in origins])
        if keeps:
            kept[number] = keeps
        ways.update(dict.fromkeys(equation.outputs, (number, leads)))
    nodes = tuple(frozenset(_behind(v, ways) & kept.keys()) for v in seeded)
    values = tuple(frozenset().union(*(kept[n] for n in found)) for found in nodes)
    return {v: all(v in k for k in values) for v in frozenset().union(*values)}, nodes, values


def _behind(value: Value, ways: Mapping[Value, tuple[int, list[Value]]]) -> set[int]:
    """The equations, by number, on the way back from a value."""
    pending, found = [value], set[int]()
    while pending:
        way = ways.get(pending.pop())
        if way is not None and way[0] not in found:
            found.add(way[0])
            pending += way[1]
    return found


def _layouts(results: Sequence[Output]) -> dict[Value, Layout]:
    """How results lie in memory."""
    return {
        o.value: Layout(o.value.shape, tuple([s // o.value.dtype.itemsize for s in o.strides]))
        for o in results
        if o.value is not None
    }


def _origins(graph: Graph, results: Mapping[Value, Layout]) -> dict[Value, Value]:
    """For each view of an input or a result, directly or not, that one, whose memory it shares."""
    origins: dict[Value, Value] = {v: v for v in (*graph.inputs, *results)}
    layouts = dict(results)
    for equation in graph.equations:
        op = equation.op
        if not isinstance(op, View) or equation.inputs[0] not in origins:
            continue
        source = equation.inputs[0]
        open_sizes = has_symbols((source.shape, *equation.params.values()))
        layout = layouts.get(source) or contiguous_layout(source.shape)
        seen = layout if open_sizes else op.layout(layout, **equation.params)
        if seen is not None:  # a reshape may have to copy
            origins[equation.output] = origins[source]
            layouts[equation.output] = seen
    return {v: origin for v, origin in origins.items() if v is not origin}


def _reached_from(
    graph: Graph,
    tracked: Collection[Value],
    seeded: Sequence[Value],
    seeds: Sequence[Value],
    wanted: Sequence[Value],
) -> tuple[frozenset[Value], ...]:
    """For each of `wanted` the gradients that lead to it, from which eager's backward would come there.

    What counts is the graph: the gradient of `x ** 0` is there, although it is zeros whatever comes.
    """
    if not wanted:
        return ()
    behind: dict[Any, frozenset[Value]] = {value: frozenset((value,)) for value in wanted}
    nothing: frozenset[Value] = frozenset()
    for equation in graph.equations:
        found = nothing
        for index, value in enumerate(equation.inputs):
            if value in behind and value in tracked and equation.op.rule(index) is not None:
                found |= behind[value]
        behind.update((v, found) for v in equation.outputs if found and v in tracked)
    ways = [(seed, behind.get(value, nothing)) for seed, value in zip(seeds, seeded, strict=True)]
    return tuple(frozenset(seed for seed, reached in ways if value in reached) for value in wanted)
