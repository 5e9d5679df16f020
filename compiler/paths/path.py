"""A captured path: its forward and its backward, optimised together."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler.fuse.isomorphic_groups import Plans
from fusegrad.compiler.lower.short_axes import with_short_axes_apart
from fusegrad.compiler.paths.kept_by_eager import EagerKept, kept_by_eager, layouts_of, roots_of
from fusegrad.eager.core.families import layout_of
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.lazy import cached_property
from fusegrad.tracer.capture.captured import Capture
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

    known: the array that it had when it was last looked at; arrays never change their type.
    """

    __slots__ = ("expected", "known", "layout", "needs_grad", "reference")

    def __init__(self, tensor: Tensor) -> None:
        array = tensor.array
        self.reference = weakref.ref(tensor)
        self.layout = layout_of(array)
        self.expected = (array.shape, array.dtype, array.strides)
        self.needs_grad = tensor.needs_grad
        self.known = weakref.ref(array)

    def facts(self) -> tuple[Any, ...]:
        """What it must still be."""
        return (*self.expected, self.needs_grad)

    def array(self) -> np.ndarray | None:
        """The tensor's memory, or None if it is gone or of another type."""
        tensor = self.reference()
        return None if tensor is None or tensor.needs_grad is not self.needs_grad else self.memory()

    def memory(self) -> np.ndarray | None:
        """The tensor's memory, whether it requires grad still or not, or None."""
        tensor = self.reference()
        if tensor is None:
            return None
        array = tensor.array
        if self.known() is array:
            return array
        if not has_values(array) or (array.shape, array.dtype, array.strides) != self.expected:
            return None
        self.known = weakref.ref(array)
        return array


@dataclass(eq=False)
class Derivative:
    """The backward of a path; of one without gradients there is nothing `wanted`.

    equations: behind the path's. seeds: the gradients of the results at `seeded`; gradients: of `wanted`,
    whose tensors are at `wanted_from`: a leaf of the call, or captured. saved: the results that backward
    reads, which the user must not have written over by then. alone: whether one scalar is derived, so that
    backward most likely starts with 1. reached_from: for each gradient the seeds that it depends on: without
    any of them there is none. names, types: of the nodes and results at `seeded`.
    """

    equations: tuple[Equation, ...]
    seeds: tuple[Value, ...]
    seeded: tuple[int, ...]
    wanted: tuple[Value, ...]
    wanted_from: tuple[int | Captured, ...]
    gradients: tuple[Any, ...]
    saved: set[int]
    alone: bool
    reached_from: tuple[frozenset[Value], ...]
    names: tuple[str, ...]
    types: tuple[tuple[tuple[int, ...], np.dtype], ...]
    kept: EagerKept


@dataclass(eq=False)
class Path:
    """One captured path, with its backward derived and both optimised together.

    constants: the arrays that it reads and nobody writes. hosts: the inputs that Python gives; `asks` finds
    them among the equations, which are those of the forward. obliged: values that nobody needs, but whose ops
    may refuse their input, as eager would. results: the returned values, in the order of the capture's
    outputs that are values; left: what `capture.left` names. argument_leaves: for arguments their numbers
    among the leaves of a call. plans: what is known of the groups of equations that kernels are made of. met:
    tensors from outside that nothing was computed of, which must be what they were, too.
    """

    capture: Capture
    inputs: tuple[Value, ...]
    captured: dict[Value, Captured]
    constants: dict[Value, np.ndarray]
    hosts: list[Host]
    forward: tuple[Equation, ...]
    obliged: frozenset[Value]
    results: tuple[Value, ...]
    left: tuple[Value, ...]
    argument_leaves: dict[Value, int]
    derivative: Derivative
    plans: Plans
    met: list[Captured]
    calls: int = 0

    def outside(self) -> Iterator[Captured]:
        """All tensors that the run has found outside."""
        yield from self.captured.values()
        yield from self.met

    @cached_property
    def own_results(self) -> dict[int, Value]:
        """The results by number, each value once."""
        found: dict[Value, int] = {}
        values = [o.value for o in self.capture.outputs if o.value is not None]
        for number, value in enumerate(values):
            found.setdefault(value, number)
        return {number: value for value, number in found.items()}

    @cached_property
    def written(self) -> dict[Value, Value]:
        """What the run has written into its inputs, off the graph, and to which: it lies in their memory."""
        tensors, tracked = {*self.argument_leaves, *self.captured}, self.capture.tracked
        writes = self.capture.left.writes
        return {final: target for target, final in writes if target in tensors and final not in tracked}

    @cached_property
    def kept_writes(self) -> dict[Value, Value]:
        """Those of what is `written` that eager's nodes keep, or compute again of."""
        kept = self.derivative.kept
        return {v: target for v, target in self.written.items() if v in kept.values or v in kept.again}

    def read_results(self, read: Collection[Value]) -> set[int]:
        """The results, by number, that lie in the memory of values which the path has made."""
        roots = roots_of(self.forward, layouts_of(self.capture.outputs))
        memory = {roots.get(v, v) for v in read} - {*self.inputs}
        return {n for n, v in enumerate(self.results) if v in read or roots.get(v, v) in memory}


def found_outside(capture: Capture) -> tuple[dict[Value, Captured], list[Captured]]:
    """The tensors that a run has found outside, held weakly: what it has computed with, what it has met."""
    flags = {id(place()): needs for place, needs in capture.left.flags if not isinstance(place, int)}

    def as_found(tensor: Tensor) -> Captured:
        made = Captured(tensor)
        if id(tensor) in flags:  # which the run has set
            made.needs_grad = not flags[id(tensor)]
        return made

    captured = {v: as_found(t) for v, t in capture.captured.items()}
    return captured, [as_found(t) for t in capture.met if has_values(t.array)]


def let_go(capture: Capture) -> tuple[dict[Value, Captured], list[Captured]]:
    """`found_outside`. A path lives as long as the function; the tensors must not, so that the capture has
    them no more.
    """
    found = found_outside(capture)
    capture.captured, capture.met, capture.tensors = {}, [], {}
    return found


def make_path(
    capture: Capture,
    argument_leaves: dict[Value, int],
    found: tuple[dict[Value, Captured], list[Captured]],
    numbers: Collection[Value] = (),
    contracted: bool = False,
) -> Path:
    """Derive the backward of a capture and optimise both together.

    argument_leaves: for each argument of the graph its number among the leaves of the call. found: what
    the capture has let go. numbers: the arguments that stand for Python numbers. contracted: whether its
    kernels are.
    """
    plans = Plans(contracted)
    captured, met = found
    graph = capture.graph
    values = [o for o in capture.outputs if o.value is not None]
    outputs = [o.value for o in values if o.value is not None]
    first = {value: i for i, value in reversed(list(enumerate(outputs)))}  # a tensor may be returned twice
    seeded = tuple(
        i for i, o in enumerate(values) if o.requires_grad and not o.freed and first[outputs[i]] == i
    )
    outside = (*capture.arguments, *captured)  # leaves that the run has made are nobody else's
    wanted = tuple(v for v in outside if v in capture.tracked) if seeded else ()
    backward, constants = Graph((), (), ()), dict(capture.constants)
    if wanted:
        backward, extra, wanted = differentiate(graph, capture.tracked, [outputs[i] for i in seeded], wanted)
        constants.update(extra)
    seeds = backward.inputs[: len(seeded)] if wanted else ()
    inputs = tuple(dict.fromkeys((*graph.inputs, *constants)))
    equations = (*_with_hosts(graph.equations, capture.hosts), _BOUNDARY, *backward.equations)
    left = capture.left.values()
    whole = Graph((*inputs, *seeds), equations, (*outputs, *left, *backward.outputs))
    for run in (
        passes.decompose,
        passes.simplify,
        passes.common_subexpressions,
        passes.written_once,
    ):
        whole = run(whole)
    if not graph.guards():  # the beginning that paths share has to be the same for all of them
        whole = with_short_axes_apart(whole, kept_between=True)
    middle = whole.equations.index(_BOUNDARY)
    count = len(outputs) + len(left)
    derived = [outputs[i] for i in seeded]
    derivative = Derivative(
        equations=whole.equations[middle + 1 :],
        seeds=seeds,
        seeded=seeded,
        wanted=wanted,
        wanted_from=tuple(argument_leaves[v] if v in argument_leaves else captured[v] for v in wanted),
        gradients=tuple(whole.outputs[count:]),
        saved={i for i, v in enumerate(outputs) if v in backward.inputs},
        alone=bool(wanted) and len(seeds) == 1 and all(n == 1 for n in seeds[0].shape),
        reached_from=_reached_from(graph, capture.tracked, derived if wanted else (), seeds, wanted),
        names=tuple(values[i].grad_name for i in seeded),
        types=tuple((value.shape, value.dtype) for value in derived),
        kept=kept_by_eager(capture, derived, {*numbers, *capture.numbers}, layouts_of(values)),
    )
    return Path(
        capture=capture,
        inputs=inputs,
        captured=captured,
        constants=constants,
        hosts=[host for host, _ in capture.hosts],
        forward=whole.equations[:middle],
        obliged=_obliged(whole.equations[:middle], whole.outputs[:count]),
        results=tuple(whole.outputs[: len(outputs)]),
        left=tuple(whole.outputs[len(outputs) : count]),
        argument_leaves=argument_leaves,
        derivative=derivative,
        plans=plans,
        met=met,
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
        op = equation.op
        found = {
            index: behind[value]
            for index, value in enumerate(equation.inputs)
            if value in behind and value in tracked and op.rule(index) is not None
        }
        leads = None if op.leads is None else op.leads(dict(equation.params))
        for output, value in enumerate(equation.outputs):
            reached = nothing.union(*(v for i, v in found.items() if leads is None or i in leads[output]))
            if reached and value in tracked:
                behind[value] = reached
    ways = [(seed, behind.get(value, nothing)) for seed, value in zip(seeds, seeded, strict=True)]
    return tuple(frozenset(seed for seed, reached in ways if value in reached) for value in wanted)
