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
import itertools
import math
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
from fusegrad.compiler.fuse.schedule import Schedule, is_cheap, schedules
from fusegrad.compiler.fuse.steps import Step, come_between, in_order, last_of
from fusegrad.compiler.fuse.turns import Turns, turns_of
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.dtypes import has_kernels, product_dtype
from fusegrad.compiler.kernel.scalar import NotLowered
from fusegrad.eager.core.families import Contraction, View
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# Of a group of no more equations than this, so many nests are compared.
WORTH_COMPARING, MOST_PLANS = 100, 3
# Of the groups that read one array, each is tried with so many that come after it.
NEAR = 8
# Larger values than this, in bytes, are not kept for later rounds if they are cheap: of 10,000 numbers a call
# takes 0.7 ms in one kernel, and 0.9 by turns; of 100, that kernel is never done (`families`, lorenz).
SMALL = 1 << 12
SCATTERS = frozenset({"put", "scatter", "scatter_reduce"})
NESTS = {"cat": join_kernel, "write": write_kernel, **dict.fromkeys(SPREADS, spread_kernel)}


Choose = Callable[[list[BoundKernel]], BoundKernel]


def _merged(one: list[int], other: list[int]) -> list[int]:
    """The numbers of two lists in order, each once."""
    return one + other if one[-1] < other[0] else sorted({*one, *other})


def _bytes(value: Value) -> int:
    return likely(math.prod(value.shape)) * value.dtype.itemsize


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
        self.single: dict[int, Step] = {}
        # What is known of an equation stands at its number.
        self._equations = graph.equations
        self._bases = [self._read_memory(e) for e in graph.equations]
        self._makers = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
        self._apart = {self._makers[e.output] for group in self.early.values() for e in group}
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
        self.single = {
            i: self._single(i) for i in computing if self._equations[i].outputs[0] not in self.creations
        }
        for step in self.single.values():
            if step.kind != "kernel":
                # Only kernels make constants and ranges for themselves; others read them from memory.
                equation = step.equations[0]
                values = (
                    scattered_from(equation) if self._constant(equation) is not None else equation.values()
                )
                self.needed |= {self.sources.base(v) for v in values} & self.creations.keys()
        steps = self._divided_by_turns()
        for step in steps:
            step.needs = self._producers(step)
        steps = [with_kernel for step in steps for with_kernel in self._with_kernels(step)]
        for step in steps:
            step.let_go()
        return steps

    def _divided_by_turns(self) -> list[Step]:
        """The steps of all equations; where those are turns of a loop, all turns have the same groups."""
        steps: list[Step] = []
        place = 0
        for turns in turns_of(self._equations, self._readers, self._are_alike):
            steps += self._divided(range(place, turns.first))
            turn = self._divided(next(turns.all()))
            steps += (self._moved(s, turns.first, by) for by in turns.distances() for s in turn)
            place = turns.end
        return steps + self._divided(range(place, len(self._equations)))

    def _divided(self, numbers: range) -> list[Step]:
        """The steps of these equations, in an order in which they can run."""
        self.steps = {}
        for number in numbers:
            equation = self._equations[number]
            if equation.outputs and equation.output in self.early:
                for step in self._early_steps(self.early[equation.output]):
                    self._add(step)
            elif number in self._apart:
                continue
            elif number in self.single:
                self._add(self.single[number])
            elif equation.outputs and equation.output in self.creations.keys() & self.needed:
                self._add(self._step("kernel", [number]))
        self._merge_pairs()
        return in_order(self.steps)

    def _are_alike(self, turns: Turns) -> bool:
        """Whether turns read what they make in the same places, and have steps for the same equations."""
        first, *others = ([*map(self._role, turn, len(turn) * [turn[0]])] for turn in turns.all())
        return all(roles == first for roles in others) and not self._is_kept_in_vain(turns)

    def _is_kept_in_vain(self, turns: Turns) -> bool:
        """Whether turns find large values in memory that a kernel of all rounds would not need there."""
        first, second, third, *_ = turns.all()
        before, read = ({b for i in turn for b in self._bases[i]} for turn in (first, second))
        kept = [i for v in read - before if -1 < (i := self._makers.get(v, -1)) < turns.first]
        kept += [i for i in second if max(self._readers[i], default=0) >= third.stop]
        made = [e for i in kept if self._is_stored((e := self._equations[i]).outputs[0])]
        return any(is_cheap(e) and _bytes(e.output) > SMALL for e in made)

    def _role(self, number: int, begin: int) -> Any:
        """What the equation in the same place of each turn has to be like; this turn begins there."""
        equation = self._equations[number]
        is_stored = bool(equation.outputs) and self._is_stored(equation.outputs[0])
        made = [max(self._makers.get(v, -1) - begin, -1) for v in equation.values()]
        kind = self.single[number].kind if number in self.single else is_stored
        return kind, made, number if number in self._apart else None

    def _moved(self, step: Step, begin: int, by: int) -> Step:
        """What a step of the turn that begins there is in one so much further on."""
        if by:
            step = self._step(step.kind, [n + by for n in step.numbers if n >= begin])
            if step.kind == "kernel":
                step.numbers = self._with_creations(step.numbers)
            self._note(step)
        return step

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
        step.needs = {s: None for s in self._producers(step) if s in self.steps}
        for need in step.needs:
            need.users[step] = None
        step.position = len(self.steps)
        self._note(step)
        if step.kind == "kernel" and not step.apart:
            # Positions may be equal; sets have no order that comes again.
            for producer in sorted(step.needs, key=lambda s: (-s.position, s.numbers[0])):
                if producer.kind == "kernel" and producer in step.needs:
                    step = self._joined(producer, step) or step
        self.steps.setdefault(step)

    def _note(self, step: Step) -> None:
        """Note which values a step makes."""
        made = (v for i in step.numbers for v in self._equations[i].outputs if self._is_stored(v))
        self.step_of.update(dict.fromkeys(made, step))

    def _producers(self, step: Step) -> dict[Step, None]:
        found = (self.step_of.get(b) for i in step.numbers for b in self._bases[i])
        producers = dict.fromkeys(last_of(s) for s in found if s is not None)
        producers.pop(step, None)
        return producers

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
        if come_between(first, second) or self._fetches(first, second) or self._fetches(second, first):
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
