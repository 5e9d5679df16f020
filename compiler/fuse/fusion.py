"""Fusion: the equations of a graph go in, groups of them that share a kernel come out.

Equations are taken in order; each joins the groups that make its operands where one loop nest
can compute both (`schedule` says so) and no other step would have to run in between. Matrix
products and ops that only NumPy can run are steps of their own; views are none, their readers
see through them.

    v0 = mul(x, 2)                          t0 = x0[i0]
    v1 = relu(v0)           is one loop:    t1 = t0 * k0
    v2 = sum(v1)                            t2 = maximum(0.0, t1)
                                            a0 = a0 + t2
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.build_kernel import build_kernel
from fusegrad.compiler.fuse.concatenation import join_kernel
from fusegrad.compiler.fuse.isomorphic_groups import Alike, Plans
from fusegrad.compiler.fuse.iteration_domain import Sources, analyse, is_creation
from fusegrad.compiler.fuse.pooling_nests import SPREADS, spread_kernel, spreads
from fusegrad.compiler.fuse.recompute import early_totals, with_repeats
from fusegrad.compiler.fuse.scans import SCANS, scan_kernel
from fusegrad.compiler.fuse.scatters import COMBINERS, scatter_kernel, scattered_from
from fusegrad.compiler.fuse.schedule import Schedule, schedule
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import has_kernels, product_dtype
from fusegrad.compiler.kernel.scalar import NotLowered
from fusegrad.eager.core.families import Contraction, View
from fusegrad.eager.ops.pointwise.elementwise import _clone
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value

# A group that has grown to this many equations takes no more: planning is quadratic in it.
LARGEST_GROUP = 160
# Of the groups that read one array, each is tried with so many that come after it.
NEAR = 8
SCATTERS = frozenset({"put", "scatter", "scatter_reduce"})


@dataclass(eq=False)
class Step:
    """What runs as one. kind: "kernel" (a fused group), "loops" (a nest written for one op), "product" (of
    matrices) or "opaque" (by NumPy, or rounds of a loop, see `loop_bodies.py`).

    needs: the steps that must run before; users: those that need it. apart: whether it stays as it is.
    fetched: the equations (by id) that make what is fetched from, which has to be in memory by then.
    """

    kind: str
    equations: list[Equation]
    position: int = 0
    needs: set[Step] = field(default_factory=set)
    users: set[Step] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    kernel: BoundKernel | None = None
    apart: bool = False

    @property
    def made(self) -> list[Value]:
        return [v for e in self.equations for v in e.outputs]

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.equations[0].op.family == "rolled":
            return "rounds of a loop"
        return _TITLES[self.kind]


_TITLES = {"kernel": "fused kernel", "loops": "loop nest", "product": "matrix product", "opaque": "NumPy"}


def with_copies(graph: Graph, layouts: Sources) -> Graph:
    """A copy in front of every reshape that strides cannot say (of a transposed array, say)."""
    equations: list[Equation] = []
    copies: dict[Value, Value] = {}
    for equation in graph.equations:
        if isinstance(equation.op, View) and layouts.layout(equation.output) is None:
            operand = equation.inputs[0]
            if layouts.layout(operand) is not None:
                if operand not in copies:
                    copies[operand] = Value(f"{equation.output.name}_copy", operand.type)
                    copying = Equation(_clone, (operand,), {}, (copies[operand],), equation.source)
                    equations.append(copying)
                inputs = (copies[operand],)
                equation = Equation(equation.op, inputs, equation.params, equation.outputs, equation.source)
        equations.append(equation)
    if not copies:
        return graph
    following = Graph(graph.inputs, tuple(equations), graph.outputs)
    return with_copies(following, Sources(following, layouts.layouts))


class Fusion:
    """Divides one graph into steps.

    needed: the values that must be in memory at the end (results, guards, what backward reads). plans: what
    is known of groups of other graphs.
    """

    def __init__(self, graph: Graph, sources: Sources, needed: Iterable[Value], plans: Plans) -> None:
        self.needed = {sources.base(v) for v in needed}
        graph, self.early = early_totals(with_repeats(graph, self.needed))
        self.graph, self.sources = graph, Sources(graph, sources.layouts)
        self.steps: dict[Step, None] = {}  # in order
        self.step_of: dict[Value, Step] = {}
        self.creations: dict[Value, Equation] = {}
        self.order = {id(e): i for i, e in enumerate(graph.equations)}
        self._bases = {id(e): self._read_memory(e) for e in graph.equations}
        self._readers = self._readers_of_results()
        self._makers = {v: id(e) for e in graph.equations for v in e.outputs}
        self._plans, self._alike = plans, Alike(self.sources, plans.kinds)
        self._refused: set[tuple[int, int, int, int]] = set()  # pairs of steps that no nest can hold

    def _read_memory(self, equation: Equation) -> list[Value]:
        """The values in memory that an equation reads, maybe through views; a view reads none."""
        return [] if isinstance(equation.op, View) else [self.sources.base(v) for v in equation.values()]

    def _readers_of_results(self) -> dict[int, set[int]]:
        """For each equation those (all by id) that read its results in memory. What is made from nothing has
        none: they can make it.
        """
        readers: dict[Value, set[int]] = {}
        for equation in self.graph.equations:
            for base in self._bases[id(equation)]:
                readers.setdefault(base, set()).add(id(equation))
        found = {id(e): set[int]() for e in self.graph.equations}
        for equation in self.graph.equations:
            if not is_creation(equation):
                found[id(equation)].update(*(readers.get(v, ()) for v in equation.outputs))
        return found

    def run(self) -> list[Step]:
        """The steps in an order in which they can run, kernels built."""
        computing = [e for e in self.graph.equations if not isinstance(e.op, View) and e.op is not GUARD]
        self.creations = {e.output: e for e in computing if is_creation(e) and self._lowerable([e])}
        single = {id(e): self._single(e) for e in computing if e.outputs[0] not in self.creations}
        for step in single.values():
            if step.kind != "kernel":
                # Only kernels make constants and ranges for themselves; others read them from memory.
                equation = step.equations[0]
                values = (
                    scattered_from(equation) if self._constant(equation) is not None else equation.values()
                )
                self.needed |= {self.sources.base(v) for v in values} & self.creations.keys()
        apart = {id(e) for group in self.early.values() for e in group}
        for equation in computing:
            if equation.output in self.early:
                group = [e for e in self.early[equation.output] if not isinstance(e.op, View)]
                self._add(Step("kernel", group, apart=True))
            elif id(equation) in apart:
                continue
            elif id(equation) in single:
                self._add(single[id(equation)])
            elif equation.output in self.needed:
                self._add(Step("kernel", [equation]))
        self._merge_pairs()
        steps = self._ordered()
        for step in steps:
            if step.kind == "kernel":
                step.kernel = self._kernel(step.equations)
            elif step.kind == "loops":
                (equation,) = step.equations
                step.kernel = self._nest(equation)
        return steps

    def _kernel(self, equations: Sequence[Equation]) -> BoundKernel:
        """The kernel of a group, which is built once for all groups like it."""
        outputs = self._outputs(equations)
        group = self._alike.group(equations, outputs)
        if group.key in self._plans.built:
            return group.kernel_like(*self._plans.built[group.key])
        plan = self._plan(equations)
        assert plan is not None
        kernel = build_kernel(plan, outputs, self.sources)
        self._plans.built[group.key] = kernel, group
        return kernel

    def _nest(self, equation: Equation) -> BoundKernel:
        """The kernel that is written for the equation's op."""
        if equation.op.name in SCANS:
            return scan_kernel(equation, self.sources)
        if equation.op.name in SCATTERS:
            return scatter_kernel(equation, self._constant(equation), self.sources)
        if equation.op.name in SPREADS:
            return spread_kernel(equation, self.sources)
        return join_kernel(equation, self.sources)

    # One equation.

    def _single(self, equation: Equation) -> Step:
        if isinstance(equation.op, Contraction) and product_dtype(equation.output.dtype) is not None:
            if all(n for v in equation.values() for n in v.shape):
                return Step("product", [equation])
        elif equation.op.family in ("elementwise", "reduction", "fetch") and self._is_kernel(equation):
            return Step("kernel", [equation])
        elif self._is_nest(equation):
            return Step("loops", [equation])
        return Step("opaque", [equation])

    @staticmethod
    def _is_nest(equation: Equation) -> bool:
        """Whether a nest is written for the op, and its dtypes are those of kernels."""
        name = equation.op.name
        if name in SCANS or name in SCATTERS or name in SPREADS or name == "cat":
            values = (*equation.values(), *equation.outputs)
            known = equation.params.get("reduce", "sum") in COMBINERS
            if name in SPREADS:
                known = spreads(equation)
            elif name == "cat":
                known = all(v.dtype == equation.output.dtype for v in values)
            return known and all(has_kernels(v.dtype) for v in values)
        return False

    def _constant(self, equation: Equation) -> Any:
        """The number that the tensor which a scatter starts with is full of; None if it is not."""
        if equation.op.name not in SCATTERS or not self._is_nest(equation):
            return None
        made = self.creations.get(self.sources.base(equation.inputs[0]))
        return made.params["value"] if made is not None and made.op.name == "full" else None

    def _is_kernel(self, equation: Equation) -> bool:
        """Whether an equation can be a kernel; notes what must be in memory for it, and not made inside."""
        if self._lowerable(self._with_creations([equation])):
            return True
        # A part of what is made from nothing cannot be read where it is made.
        made = self.creations.keys() & {*self._bases[id(equation)]}
        if not made or not self._lowerable([equation]):
            return False
        self.needed |= made
        return True

    def _lowerable(self, equations: list[Equation]) -> bool:
        """Whether the kernel IR can say the group whose last result is needed; the same for all like it."""
        key = self._alike.group(equations, [equations[-1].output]).key
        if key not in self._plans.said:
            self._plans.said[key] = self._builds(equations)
        return self._plans.said[key]

    def _builds(self, equations: list[Equation]) -> bool:
        """Whether there is a nest of the equations, and the kernel IR can say it."""
        plan = self._plan(equations)
        if plan is None:
            return False
        try:
            build_kernel(plan, [equations[-1].output], self.sources)
        except NotLowered:
            return False
        return True

    def _with_creations(self, equations: Sequence[Equation]) -> list[Equation]:
        """The group with the constants and ranges that it reads made inside it."""
        made = {v for e in equations for v in e.outputs}
        extra = []
        for equation in equations:
            for base in self._bases[id(equation)]:
                if base in self.creations and base not in made and base not in self.step_of:
                    extra.append(self.creations[base])
                    made.add(base)
        return sorted([*extra, *equations], key=lambda e: self.order[id(e)])

    def _plan(self, equations: Sequence[Equation]) -> Schedule | None:
        domain = analyse(equations, self.sources)
        return None if domain is None else schedule(domain, self._outputs(equations), self.sources)

    def _fits(self, equations: Sequence[Equation]) -> bool:
        """Whether one nest can hold the equations; the same for all groups like it."""
        key = self._alike.group(equations, self._outputs(equations)).key
        if key not in self._plans.fit:
            self._plans.fit[key] = self._plan(equations) is not None
        return self._plans.fit[key]

    def _outputs(self, equations: Sequence[Equation]) -> list[Value]:
        """The members that are read outside the group or needed at the end."""
        inside = {id(e) for e in equations}
        return [e.output for e in equations if e.output in self.needed or not self._readers[id(e)] <= inside]

    # Joining.

    def _add(self, step: Step) -> None:
        """Put a step in, joined with the groups before it where that works."""
        if step.kind == "kernel":
            step.equations = self._with_creations(step.equations)
            sources = [self._bases[id(e)][0] for e in step.equations if e.op is FETCH]
            step.fetched = {self._makers[v] for v in sources if v in self._makers}
        step.needs = self._producers(step)
        for need in step.needs:
            need.users.add(step)
        step.position = len(self.steps)
        if step.kind == "kernel" and not step.apart:
            # Positions may be equal; sets have no order that comes again.
            for producer in sorted(step.needs, key=lambda s: (-s.position, self.order[id(s.equations[0])])):
                if producer.kind == "kernel" and producer in step.needs:
                    step = self._joined(producer, step) or step
        self.steps.setdefault(step)
        for value in step.made:
            if value not in self.creations or value in self.needed:
                self.step_of[value] = step

    def _producers(self, step: Step) -> set[Step]:
        found = (self.step_of.get(b) for e in step.equations for b in self._bases[id(e)])
        return {s for s in found if s is not None}

    def _come_between(self, first: Step, second: Step) -> bool:
        """Whether one of the steps needs the other through a third one, which then has to run in between."""
        searches = [self._search(first, second), self._search(second, first)]
        while searches:
            # In turn: where one way there is a path, the other way there is none to be found.
            for search in (*searches,):
                found = next(search)
                if found:
                    return True
                if found is False:
                    searches.remove(search)
        return False

    @staticmethod
    def _search(start: Step, target: Step) -> Iterator[bool | None]:
        """Whether `start` needs `target` through some other step; None as long as that is not known.

        Asked from both ends: in a long program one of them mostly has little behind it.
        """
        behind = [s for s in start.needs if s is not target]
        ahead = [s for s in target.users if s is not start]
        needed: set[Step] = set()
        using: set[Step] = set()
        while behind and ahead:
            yield None
            step = behind.pop()
            if step is target:
                yield True
            if step not in needed:
                needed.add(step)
                behind += step.needs
            step = ahead.pop()
            if step is start:
                yield True
            if step not in using:
                using.add(step)
                ahead += step.users
        yield False

    def _fetches(self, reader: Step, maker: Step) -> bool:
        """Whether one fetches from what the other makes: that has to be in memory by then."""
        return bool(reader.fetched) and not reader.fetched.isdisjoint([id(e) for e in maker.equations])

    def _joined(self, first: Step, second: Step) -> Step | None:
        """`second` merged into `first`, or None where one nest cannot hold both."""
        if first.apart or second.apart or len(first.equations) + len(second.equations) > LARGEST_GROUP:
            return None
        tried = (id(first), len(first.equations), id(second), len(second.equations))
        if tried in self._refused:
            return None
        if self._come_between(first, second) or self._fetches(first, second) or self._fetches(second, first):
            return None
        held = {id(e) for e in first.equations}
        equations = [*first.equations, *(e for e in second.equations if id(e) not in held)]
        equations.sort(key=lambda e: self.order[id(e)])
        if not self._fits(equations):
            self._refused.add(tried)
            return None
        merged = second
        merged.equations = equations
        merged.needs = (first.needs | second.needs) - {first, second}
        merged.users = (first.users | second.users) - {first, second}
        merged.fetched = first.fetched | second.fetched
        merged.position = max(first.position, second.position)
        for need in merged.needs:
            need.users.discard(first)
            need.users.add(merged)
        for user in merged.users:
            user.needs.discard(first)
            user.needs.add(merged)
        self.steps.pop(first, None)
        for value in merged.made:
            if self.step_of.get(value) is first:
                self.step_of[value] = merged
        return merged

    def _merge_pairs(self) -> None:
        """Join groups that read the same large array, so that it is read once, and those where one reads
        what the other makes: later joins may have made room for what did not fit at first.
        """
        while sum(self._merge(first, second) for first, second in self._pairs()):
            pass

    def _merge(self, first: Step, second: Step) -> bool:
        present = first in self.steps and second in self.steps
        return present and self._joined(first, second) is not None

    def _pairs(self) -> list[tuple[Step, Step]]:
        """The kernels that might be one, the earlier one first."""
        kernels = [s for s in self.steps if s.kind == "kernel" and not s.apart]
        place = {s: i for i, s in enumerate(kernels)}
        pairs = {(n, s) for s in kernels for n in s.needs if n in place}
        readers: dict[Value, list[Step]] = {}
        for step in kernels:
            for value in self._reads(step):
                if value.shape and value not in self.creations:
                    readers.setdefault(value, []).append(step)
        for steps in readers.values():
            pairs.update((a, b) for i, a in enumerate(steps) for b in steps[i + 1 : i + 1 + NEAR])
        found = {(a, b) if place[a] < place[b] else (b, a) for a, b in pairs}
        return sorted(found, key=lambda pair: (place[pair[1]], place[pair[0]]))

    def _reads(self, step: Step) -> set[Value]:
        """What the step reads from memory."""
        return {b for e in step.equations for b in self._bases[id(e)]} - set(step.made)

    def _ordered(self) -> list[Step]:
        """The steps, each after what it needs; ties in program order."""
        pending = sorted(self.steps, key=lambda s: s.position)
        missing = [len(step.needs) for step in pending]
        waiting: dict[Step, list[int]] = {}
        for number, step in enumerate(pending):
            for need in step.needs:
                waiting.setdefault(need, []).append(number)
        ready = [number for number, count in enumerate(missing) if not count]
        order: list[Step] = []
        while ready:
            step = pending[heapq.heappop(ready)]
            order.append(step)
            for number in waiting.get(step, ()):
                missing[number] -= 1
                if not missing[number]:
                    heapq.heappush(ready, number)
        assert len(order) == len(pending), "steps that need each other: a bug in fusion"
        return order
