"""Programs: a graph goes in; native code comes out that takes its inputs and gives its outputs.

It may have been made with sizes left open (`tracer/ir/symbolic_sizes.py`); then `at` gives programs with
sizes, which share everything but their places in memory (`compiler/placement/memory_plan.py`).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.solver_ops import Solver, note_doubt
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.fuse.isomorphic_groups import Plans
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.gemm import eager_products
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.lower.complex_pairs import with_complex_as_pairs
from fusegrad.compiler.lower.short_axes import with_short_axes_apart
from fusegrad.compiler.placement.memory_plan import PLAIN, Placed, Plain, copied, viewed as viewed, with_sizes
from fusegrad.compiler.placement.nontemporal_stores import streaming_kernels
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint
from fusegrad.compiler.program.kept_steps import Asked, KeptSteps
from fusegrad.compiler.program.loop_bodies import CompiledBody, with_compiled_loops
from fusegrad.compiler.program.pipeline import Division, Given, divided
from fusegrad.compiler.transform.kernel_work import nest_text
from fusegrad.compiler.transform.pieces_of_rows import with_whole_rows
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.eager.core.op import REGISTRY, Params
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Graph, Value
from fusegrad.tracer.ir.rolled import ROLLED, Body, have_rounds_compiled
from fusegrad.tracer.ir.symbolic_sizes import OPEN_TEXT, Fixed, Values

clone_op, detach_op = REGISTRY["clone"], REGISTRY["detach"]


class Program:
    """Runs a graph on arrays.

    graph: optimised, without composite ops. layouts: how the inputs lie. results: the layouts (in
    elements) that outputs must have where they are not row-major. seen: the strides that eager's outputs
    have. apart: outputs that are views with gaps in the memory of something else, and stay that. into:
    outputs that are put into the memory of an input, whose values nobody else needs. plans: what is known of
    other graphs. streams: whether results lie where lines of memory begin, so that they may be stored past
    the caches: the rows that rounds of a loop give do not. The constructor divides the graph into steps;
    `begin` has them compiled, and `complete` places them in memory.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[Value, Layout] | None = None,
        results: dict[Value, Layout] | None = None,
        into: dict[Value, Value] | None = None,
        seen: Mapping[Value, tuple[int, ...]] | None = None,
        apart: Collection[Value] = (),
        plans: Plans | None = None,
        streams: bool = True,
        is_kept: bool = False,
    ) -> None:
        self.into = into or {}
        plans = plans or Plans()
        self.streams = streams
        graph = with_compiled_loops(
            graph, functools.partial(Program, plans=plans, streams=False, is_kept=is_kept)
        )
        self.given = {v for e in graph.equations for v in e.outputs}
        given = layouts or {}, results or {}, seen or {}, apart
        kept = KeptSteps(Asked(graph, *given, plans.contracted), is_kept)
        division = kept.find()
        if division is None:
            division = _divided(graph, *given, plans)
            kept.keep(division)
        self.graph, self.sources, self.steps, self.checks = division
        self.outputs = [v for v in dict.fromkeys(self.graph.outputs) if isinstance(v, Value)]
        self.kernels = [s.kernel for s in self.steps if s.kernel is not None]
        self._sizes: Values | Plain = PLAIN
        self._placed: Placed | None = None
        self.is_begun = False

    def stored(self) -> list[Value]:
        """The values that the steps put in memory, whether they are asked for or not."""
        return [v for v in self._in_memory() if v in self.given]

    def _in_memory(self) -> dict[Value, None]:
        """What the steps put in memory, of the graph that was given or of the lowered one."""
        values = dict.fromkeys(self.sources.base(v) for v in self.outputs)
        for step in self.steps:
            if step.kernel is not None:
                values.update(dict.fromkeys(a.value for a in step.kernel.outputs))
            else:
                values.update(dict.fromkeys(step.made))
        return values

    def lowered(self, outputs: Sequence[Any]) -> dict[Value, tuple[Value, Layout]]:
        """What stands for outputs of the graph that was given, where it lies in memory that no value of that
        graph has, and how. What takes kernels alone is computed again, as parts of others.
        """
        dear: set[Step] = set()
        for step in self.steps:
            if step.kernel is None or not dear.isdisjoint(step.needs):
                dear.add(step)
        made = self._in_memory().keys() & {v for step in dear for v in step.made}
        found: dict[Value, tuple[Value, Layout]] = {}
        for value, now in zip(outputs, self.graph.outputs, strict=True):
            if not isinstance(now, Value):
                continue
            base = self.sources.base(now)
            maker, layout = self.sources.producer.get(base), self.sources.layout(now)
            own = base in made and base not in self.given and base not in self.graph.inputs
            # What is copied for a result is the user's to write.
            if own and layout is not None and maker is not None and maker.op is not clone_op:
                found[value] = now, layout._replace(offset=0)
        return found

    def inputs_behind(self, values: Iterable[Value]) -> set[Value]:
        """The inputs that `values` depend on, and those that decide whether a run is refused."""
        pending = [*values, *self.checks]
        pending += [
            v for step in self.steps if step.kind == "opaque" for e in step.equations for v in e.values()
        ]
        found: set[Value] = set()
        while pending:
            value = pending.pop()
            if value not in found:
                found.add(value)
                maker = self.sources.producer.get(value)
                pending += maker.values() if maker is not None else ()
        return found.intersection(self.graph.inputs)

    @property
    def bodies(self) -> list[Program]:
        """What runs the rounds of its loops; see `loop_bodies.py`."""
        loops = (e.params["body"] for e in self.graph.equations if e.op is ROLLED)
        return [body.program for body in dict.fromkeys(loops)]

    def begin(self, extra: Iterable[Value] = (), unread: Collection[Value] = ()) -> Program:
        """Begin to compile. extra: stored values that later stretches read; unread: outputs nobody reads."""
        return self.arrange(extra, unread).compile()

    def arrange(self, extra: Iterable[Value] = (), unread: Collection[Value] = ()) -> Program:
        """Say where all lies, as `begin` does; kernels are compiled when the program is first to run."""
        for value, target in self.into.items():
            assert value.type == target.type, f"{value.type} is no more put into memory of {target.type}"
        needed = [*(v for v in self.outputs if v not in unread), *self.checks, *extra]
        given = self.graph.inputs, self.steps, self.sources
        self.blueprint = Blueprint(*given, needed, self.into, self.streams)
        self.arrays = self.blueprint.arrays
        # What is computed in its place in a whole is not put there by another step.
        self.steps = self.blueprint.steps
        self.kernels = [s.kernel for s in self.steps if s.kernel is not None]
        return self

    def compile(self) -> Program:
        """Have LLVM begin with the kernels."""
        eager_products.share_pool()
        streaming = {} if self._has_open_sizes() else streaming_kernels(self.blueprint, PLAIN)
        kernels = [
            streaming.get(number, step.kernel.kernel)
            for number, step in enumerate(self.steps)
            if step.kernel is not None
        ]
        if any(OPEN_TEXT in kernel.text for kernel in kernels):
            raise Fixed("a kernel has a size in its text")
        kernel_cache.compile_kernels(kernels)
        # Not before: another thread, told that it has begun, asks for the kernels' addresses.
        self.is_begun = True
        return self

    def complete(self) -> Program:
        """Wait for what was begun, and place it in memory. Raises what LLVM has against a kernel."""
        if self._has_open_sizes():
            for bound in self.kernels:
                kernel_cache.kernel_addresses(bound.kernel)
        else:
            self.placed()
        for body in self.bodies:
            body.complete()
        debug.show(2, "graph", lambda: str(self.graph))
        return self

    def finish(self) -> Program:
        """Compile."""
        return self.begin().complete()

    def _has_open_sizes(self) -> bool:
        values = [*self.graph.inputs, *(v for e in self.graph.equations for v in e.outputs)]
        params = [p for e in self.graph.equations for p in e.params.values()]
        return any(has_symbols(v.shape) for v in values) or has_symbols(tuple(params))

    def at(self, sizes: Values) -> Program:
        """The program with its open sizes put in."""
        made = copied(self)
        made._sizes, made._placed = sizes, None
        return made

    # Running.

    def placed(self) -> Placed:
        """The program in memory, where it is put when it is first asked for."""
        if self._placed is None:
            if not self.is_begun:
                self.compile()
            self._placed = Placed(self.blueprint, self._sizes)
        return self._placed

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays of all values that have one, in the order of `arrays`; inputs come first.

        Raises IndexError where an index lies outside of what it indexes or a matrix may be singular, and what
        NumPy's ops raise.
        """
        arrays = (self._placed or self.placed()).run(inputs)
        for check in self.checks:
            if not arrays[self.arrays[check]]:
                self._note_doubt(check)
                raise IndexError("an index is out of range, or a matrix singular; eager says which")
        return arrays

    def _note_doubt(self, check: Value) -> None:
        """What it was about, if linear algebra has refused to answer."""
        for equation in self.graph.equations:
            if isinstance(equation.op, Solver) and check in equation.outputs:
                note_doubt(equation)

    def locate(self, value: Value) -> tuple[int, tuple[Any, ...]]:
        """Where `run`'s arrays hold a value: an index, and the views to apply."""
        base, chain = self.sources.resolve(value)
        # For an array, `detach` is nothing.
        views = [equation for equation in chain if equation.op is not detach_op]
        return self.arrays[base], with_sizes(views, self._sizes)

    # Telling.

    def describe(self, kernels: bool = False) -> list[str]:
        """One line per step: what it computes and how large it is. kernels: also how its loops run, and how
        much work that is about.
        """
        batches = self._placed.batches if self._placed is not None else []
        apart = {number for batch in batches for number in range(batch.first, batch.last)}
        lines = []
        for number, step in enumerate(self.steps):
            equation = step.equations[0]
            if equation.op is ROLLED:
                lines.append(f"{step.title}, {equation.params['rounds']} times:")
                lines += [f"  {line}" for line in equation.params["body"].program.describe(kernels)]
                continue
            ops = step.ops
            names = ", ".join(ops[:8]) + (f" and {len(ops) - 8} more" if len(ops) > 8 else "")
            # What linear algebra says of its soundness comes last.
            # And of loops the count of rounds, and what they keep.
            first = step.kind == "solver" or equation.op.family == "rolled"
            shown = step.made[:1] if first else step.made[-1:]
            sizes = ", ".join(str(list(self._sizes.of(v.shape))) for v in shown)
            lines.append(f"{step.title}: {names} -> {sizes}{', entry by entry' if number in apart else ''}")
            if kernels and step.kernel is not None:
                lines.append(f"  {nest_text(step.kernel, host())}")
        return lines

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results of one call."""
        return self.placed().memory_bytes() + sum(body.placed().arena_bytes for body in self.bodies)


def _divided(
    graph: Graph,
    layouts: Mapping[Value, Layout],
    results: Mapping[Value, Layout],
    seen: Mapping[Value, tuple[int, ...]],
    apart: Collection[Value],
    plans: Plans,
) -> Division:
    """The steps of a graph, worked out."""
    graph = with_short_axes_apart(with_complex_as_pairs(graph))
    known = {v: layouts.get(v) or contiguous_layout(v.shape) for v in graph.inputs}
    division = divided(graph, Given(known, results, seen, apart, plans))
    for step in division.steps:
        if step.kernel is not None:
            step.kernel = with_whole_rows(step.kernel, division.sources.layouts, host())
    if plans.contracted:
        _contract(division.steps)
    return division


def _contract(steps: Iterable[Step]) -> None:
    """Have the kernels of steps round a product and the sum that it goes into once."""
    for step in steps:
        if step.kernel is not None:
            step.kernel = replace(step.kernel, kernel=replace(step.kernel.kernel, contracted=True))


def run_rounds(body: Body, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
    """What the rounds of a loop give, compiled.

    Where values are needed before a run has been recorded, rounds that were left out have to be made up for.
    """
    compiled = (
        body if isinstance(body, CompiledBody) else _compiled(body, params["carried"], "most" in params)
    )
    return compiled.repeat(tensors, params)


def _compiled(body: Body, carried: int, keeps_inputs: bool) -> CompiledBody:
    try:
        known = _bodies[body]  # `setdefault` takes longer
    except KeyError:
        known = _bodies.setdefault(body, {})
    key = carried, keeps_inputs
    if key not in known:
        round_ = functools.partial(Program, streams=False)
        known[key] = CompiledBody(body.graph, carried, round_, keeps_inputs)
    return known[key]


# By the body, as long as there is somebody who has that, and by how it is used.
_bodies: weakref.WeakKeyDictionary[Body, dict[tuple[int, bool], CompiledBody]] = weakref.WeakKeyDictionary()
have_rounds_compiled(run_rounds)
