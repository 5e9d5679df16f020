"""Fusion: the equations of a graph go in, groups of them that share a kernel come out.

Equations are taken in order; each joins the groups that make its operands where one loop nest
can compute both (`schedules` says so) and no other step would have to run in between. Matrix
products and ops that only NumPy can run are steps of their own; views are none, their readers
see through them.

    v0 = mul(x, 2)                          t0 = x0[i0]
    v1 = relu(v0)           is one loop:    t1 = t0 * k0
    v2 = sum(v1)                            t2 = maximum(0.0, t1)
                                            a0 = a0 + t2
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.build_kernel import build_kernel
from fusegrad.compiler.fuse.concatenation import join_kernel
from fusegrad.compiler.fuse.isomorphic_groups import Alike, Plans
from fusegrad.compiler.fuse.iteration_domain import Sources, analyse, is_creation
from fusegrad.compiler.fuse.nest_growth import Answer, Growth, Nest
from fusegrad.compiler.fuse.parts_written import write_kernel
from fusegrad.compiler.fuse.pooling_nests import SPREADS, spread_kernel, spreads
from fusegrad.compiler.fuse.recompute import early_totals, with_repeats
from fusegrad.compiler.fuse.scans import SCANS, scan_kernel
from fusegrad.compiler.fuse.scatters import COMBINERS, scatter_kernel, scattered_from
from fusegrad.compiler.fuse.schedule import Schedule, schedules
from fusegrad.compiler.fuse.steps import Step, last_of
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import has_kernels, product_dtype
from fusegrad.compiler.kernel.scalar import NotLowered
from fusegrad.eager.core.families import Contraction, View
from fusegrad.eager.ops.pointwise.elementwise import _clone
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value

# Of a group of no more equations than this, so many nests are compared.
WORTH_COMPARING, MOST_PLANS = 100, 3
# Of the groups that read one array, each is tried with so many that come after it.
NEAR = 8
# Whether one step needs another through a third is looked for among so many; if that is not enough, it may.
MOST_SEARCHED = 256
SCATTERS = frozenset({"put", "scatter", "scatter_reduce"})
NESTS = {"cat": join_kernel, "write": write_kernel, **dict.fromkeys(SPREADS, spread_kernel)}


Choose = Callable[[list[BoundKernel]], BoundKernel]


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


def _merged(one: list[int], other: list[int]) -> list[int]:
    """The numbers of two lists in order, each once."""
    return one + other if one[-1] < other[0] else sorted({*one, *other})


class Fusion:
    """Divides one graph into steps.

    needed: the values that must be in memory at the end (results, guards, what backward reads). plans: what
    is known of groups of other graphs. choose: picks one of several kernels that compute the same.
    """

    def __init__(
        self, graph: Graph, sources: Sources, needed: Iterable[Value], plans: Plans, choose: Choose
    ) -> None:
        self._choose = choose
        self.needed = {sources.base(v) for v in needed}
        graph, self.early = early_totals(with_repeats(graph, self.needed))
        self.graph, self.sources = graph, Sources(graph, sources.layouts)
        self.steps: dict[Step, None] = {}  # in order
        self.step_of: dict[Value, Step] = {}
        self.creations: dict[Value, int] = {}
        # What is known of an equation stands at its number.
        self._equations = graph.equations
        self._bases = [self._read_memory(e) for e in graph.equations]
        self._makers = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
        self._readers = self._readers_of_results()
        self._plans, self._alike = plans, Alike(self.sources, plans.kinds)
        self._growth = Growth(graph.equations, self.sources)
        self._refused: set[tuple[Step, int, Step, int]] = set()  # pairs of steps that no nest can hold

    def _read_memory(self, equation: Equation) -> list[Value]:
        """The values in memory that an equation reads, maybe through views; a view reads none."""
        return [] if isinstance(equation.op, View) else [self.sources.base(v) for v in equation.values()]

    def _readers_of_results(self) -> list[set[int]]:
        """For each equation those that read its results in memory. What is made from nothing has none: they
        can make it.
        """
        readers: list[set[int]] = [set() for _ in self._equations]
        for number, bases in enumerate(self._bases):
            for base in bases:
                maker = self._makers.get(base)
                if maker is not None and not is_creation(self._equations[maker]):
                    readers[maker].add(number)
        return readers

    def run(self) -> list[Step]:
        """The steps in an order in which they can run, kernels built."""
        computing = [
            i for i, e in enumerate(self._equations) if not isinstance(e.op, View) and e.op is not GUARD
        ]
        made = (i for i in computing if is_creation(self._equations[i]) and self._lowerable([i]))
        self.creations = {self._equations[i].output: i for i in made}
        single = {
            i: self._single(i) for i in computing if self._equations[i].outputs[0] not in self.creations
        }
        for step in single.values():
            if step.kind != "kernel":
                # Only kernels make constants and ranges for themselves; others read them from memory.
                equation = step.equations[0]
                values = (
                    scattered_from(equation) if self._constant(equation) is not None else equation.values()
                )
                self.needed |= {self.sources.base(v) for v in values} & self.creations.keys()
        apart = {self._makers[e.output] for group in self.early.values() for e in group}
        for number in computing:
            value = self._equations[number].output
            if value in self.early:
                for step in self._early_steps(self.early[value]):
                    self._add(step)
            elif number in apart:
                continue
            elif number in single:
                self._add(single[number])
            elif value in self.needed:
                self._add(self._step("kernel", [number]))
        self._merge_pairs()
        steps = [with_kernel for step in self._ordered() for with_kernel in self._with_kernels(step)]
        for step in steps:
            step.let_go()
        return steps

    def _early_steps(self, group: Sequence[Equation]) -> list[Step]:
        """The steps of a total that is known before all else: one, if there is a nest of all of it."""
        numbers = [self._makers[e.output] for e in group if not isinstance(e.op, View)]
        if self._lowerable(numbers):
            return [self._step("kernel", numbers, apart=True)]
        return [self._single(number) for number in numbers]

    def _step(self, kind: str, numbers: list[int], apart: bool = False) -> Step:
        return Step(kind, [self._equations[i] for i in numbers], numbers, apart=apart)

    def _with_kernels(self, step: Step) -> list[Step]:
        """The step with its kernel; where a group has no nest, which has grown pair by pair, one for each of
        its equations.
        """
        step.equations = [self._equations[i] for i in step.numbers]
        if step.kind == "loops":
            (equation,) = step.equations
            step.kernel = self._nest(equation)
        elif step.kind == "kernel":
            step.kernel = self._kernel(step)
            if step.kernel is None:
                alone = [n for n in step.numbers if self._is_stored(self._equations[n].output)]
                assert len(alone) > 1, "an equation without a nest: a bug in fusion"
                parts = [self._step("kernel", self._with_creations([n])) for n in alone]
                return [found for part in parts for found in self._with_kernels(part)]
        return [step]

    def _is_stored(self, value: Value) -> bool:
        """Whether a value is not made by each who reads it."""
        return value not in self.creations or value in self.needed

    def _kernel(self, step: Step) -> BoundKernel | None:
        """The kernel of a group, which is built once for all groups like it; None where it has no nest."""
        outputs = self._outputs(step.numbers)
        group = self._alike.group(step.equations, outputs)
        if group.key in self._plans.built:
            return group.kernel_like(*self._plans.built[group.key])
        most = MOST_PLANS if len(step.numbers) <= WORTH_COMPARING else 1
        plans = list(itertools.islice(self._all_plans(step.numbers, step.nest), most))
        if not plans:
            return None
        kernel = self._choose([build_kernel(plan, outputs, self.sources) for plan in plans])
        self._plans.built[group.key] = kernel, group
        return kernel

    def _nest(self, equation: Equation) -> BoundKernel:
        """The kernel that is written for the equation's op."""
        if equation.op.name in SCATTERS:
            return scatter_kernel(equation, self._constant(equation), self.sources)
        nest = scan_kernel if equation.op.name in SCANS else NESTS[equation.op.name]
        return nest(equation, self.sources)

    # One equation.

    def _single(self, number: int) -> Step:
        equation = self._equations[number]
        if isinstance(equation.op, Contraction) and product_dtype(equation.output.dtype) is not None:
            if all(n for v in equation.values() for n in v.shape):
                return self._step("product", [number])
        elif equation.op.family in ("elementwise", "reduction", "fetch", "assemble") and self._is_kernel(
            number
        ):
            return self._step("kernel", [number])
        elif self._is_nest(equation):
            return self._step("loops", [number])
        elif equation.op.family == "solver":
            return self._step("solver", [number])
        return self._step("opaque", [number])

    @staticmethod
    def _is_nest(equation: Equation) -> bool:
        """Whether a nest is written for the op, and its dtypes are those of kernels."""
        name = equation.op.name
        if name in SCANS or name in SCATTERS or name in NESTS:
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
        number = self.creations.get(self.sources.base(equation.inputs[0]))
        if number is None:
            return None
        made = self._equations[number]
        return made.params["value"] if made.op.name == "full" else None

    def _is_kernel(self, number: int) -> bool:
        """Whether an equation can be a kernel; notes what must be in memory for it, and not made inside."""
        if self._lowerable(self._with_creations([number])):
            return True
        # A part of what is made from nothing cannot be read where it is made.
        made = self.creations.keys() & {*self._bases[number]}
        if not made or not self._lowerable([number]):
            return False
        self.needed |= made
        return True

    def _lowerable(self, numbers: list[int]) -> bool:
        """Whether the kernel IR can say the group whose last result is needed; the same for all like it."""
        equations = [self._equations[i] for i in numbers]
        key = self._alike.group(equations, [equations[-1].output]).key
        if key not in self._plans.said:
            self._plans.said[key] = self._builds(numbers)
        return self._plans.said[key]

    def _builds(self, numbers: list[int]) -> bool:
        """Whether there is a nest of the equations, and the kernel IR can say it."""
        plan = self._plan(numbers)
        if plan is None:
            return False
        try:
            build_kernel(plan, [self._equations[numbers[-1]].output], self.sources)
        except NotLowered:
            return False
        return True

    def _with_creations(self, numbers: list[int]) -> list[int]:
        """The group with the constants and ranges that it reads made inside it."""
        made = {
            self.creations[base]
            for number in numbers
            for base in self._bases[number]
            if base in self.creations and base not in self.step_of
        }
        return sorted(made.union(numbers)) if made else numbers

    def _plan(self, numbers: Sequence[int], nest: Nest | None = None) -> Schedule | None:
        return next(self._all_plans(numbers, nest), None)

    def _all_plans(self, numbers: Sequence[int], nest: Nest | None = None) -> Iterator[Schedule]:
        """The nests of a group; nest: one that is known to hold it."""
        domain = analyse([self._equations[i] for i in numbers], self.sources)
        if domain is not None:
            rows = None if nest is None else functools.partial(nest.rows_in, domain, numbers)
            yield from schedules(domain, self._outputs(numbers), self.sources, rows)

    def _nest_of(self, step: Step) -> Nest:
        """The nest of a fused group."""
        if step.nest is None:
            step.nest = self._planned_nest(step.numbers)
            assert step.nest is not None, "a group without a nest: a bug in fusion"
        return step.nest

    def _planned_nest(self, numbers: list[int]) -> Nest | None:
        """The nest of a group as a whole, None where there is none; planned once for all groups like it."""
        known = self._plans.nests
        group = self._alike.group([self._equations[i] for i in numbers], self._outputs(numbers))
        if group.key not in known:
            plan = self._plan(numbers)
            planned = plan and (Nest.planned(plan, numbers, self.sources), group, numbers)
            known[group.key] = planned if isinstance(planned, tuple) else None
        found = known[group.key]
        if found is None:
            return None
        nest, like, those = found
        # It is going to grow.
        names = dict(zip(those, numbers, strict=True))
        return nest.of_group_like_it(group.in_place_of(like), names, self._equations)

    def _nest_of_both(self, first: Step, second: Step, numbers: list[int]) -> Nest | None:
        """The nest that holds both groups, with these equations; None where there is none."""
        found = self._growth.joined(self._nest_of(first), self._nest_of(second), self._is_result)
        if isinstance(found, Nest):
            return found
        return None if found is Answer.NO else self._planned_nest(numbers)

    def _is_result(self, number: int, inside: set[int]) -> bool:
        """Whether the value of an equation is read outside its group, or needed at the end."""
        return not self._readers[number] <= inside or self._equations[number].output in self.needed

    def _outputs(self, numbers: Sequence[int]) -> list[Value]:
        """The members that are read outside the group or needed at the end."""
        inside = {*numbers}
        return [self._equations[i].output for i in numbers if self._is_result(i, inside)]

    # Joining.

    def _add(self, step: Step) -> None:
        """Put a step in, joined with the groups before it where that works."""
        if step.kind == "kernel":
            step.numbers = self._with_creations(step.numbers)
            fetches = (i for i in step.numbers if self._equations[i].op is FETCH)
            sources = [self._bases[i][0] for i in fetches]
            step.fetched = {self._makers[v] for v in sources if v in self._makers}
        step.needs = self._producers(step)
        for need in step.needs:
            need.users[step] = None
        step.position = len(self.steps)
        made = [v for i in step.numbers for v in self._equations[i].outputs]
        if step.kind == "kernel" and not step.apart:
            # Positions may be equal; sets have no order that comes again.
            for producer in sorted(step.needs, key=lambda s: (-s.position, s.numbers[0])):
                if producer.kind == "kernel" and producer in step.needs:
                    step = self._joined(producer, step) or step
        self.steps.setdefault(step)
        for value in made:
            if value not in self.creations or value in self.needed:
                self.step_of[value] = step

    def _producers(self, step: Step) -> dict[Step, None]:
        found = (self.step_of.get(b) for i in step.numbers for b in self._bases[i])
        return dict.fromkeys(last_of(s) for s in found if s is not None)

    def _come_between(self, first: Step, second: Step) -> bool:
        """Whether one of the steps needs the other through a third one, which then has to run in between, or
        might.
        """
        searches = [self._search(first, second), self._search(second, first)]
        for _ in range(MOST_SEARCHED):
            if not searches:
                return False
            # In turn: where one way there is a path, the other way there is none to be found.
            for search in (*searches,):
                found = next(search)
                if found:
                    return True
                if found is False:
                    searches.remove(search)
        return True

    @staticmethod
    def _search(start: Step, target: Step) -> Iterator[bool | None]:
        """Whether `start` needs `target` through some other step; None as long as that is not known.

        Asked from both ends: in a long program one of them mostly has little behind it. The numbers of
        equations tell nothing here: a step runs as one, so what reads an early equation of a group waits
        for all that the late ones need.
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
        return bool(reader.fetched) and not reader.fetched.isdisjoint(maker.numbers)

    def _joined(self, first: Step, second: Step) -> Step | None:
        """`second` merged into `first`, or None where one nest cannot hold both."""
        if first.apart or second.apart:
            return None
        tried = (first, len(first.numbers), second, len(second.numbers))
        if tried in self._refused:
            return None
        if self._come_between(first, second) or self._fetches(first, second) or self._fetches(second, first):
            return None
        numbers = _merged(first.numbers, second.numbers)
        nest = self._nest_of_both(first, second, numbers)
        if nest is None:
            self._refused.add(tried)
            return None
        merged = second
        merged.numbers, merged.nest = numbers, nest
        merged.needs = {s: None for s in (*first.needs, *second.needs) if s not in (first, second)}
        merged.users = {s: None for s in (*first.users, *second.users) if s not in (first, second)}
        merged.fetched = first.fetched | second.fetched
        merged.position = max(first.position, second.position)
        for need in merged.needs:
            need.users.pop(first, None)
            need.users.setdefault(merged)
        for user in merged.users:
            user.needs.pop(first, None)
            user.needs.setdefault(merged)
        self.steps.pop(first, None)
        first.into = merged
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
        made = {v for i in step.numbers for v in self._equations[i].outputs}
        return {b for i in step.numbers for b in self._bases[i]} - made

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
