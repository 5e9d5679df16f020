"""One graph for any number of rows that a mask chooses: two runs that differ in that number go in.

    chosen = x[mask]                      v0: f32[n, 4]   what n runs computed of n rows
    loss = (chosen @ w).square().mean()

What an op does to each row by itself is done to all rows, where they lie. What brings rows together leaves
out those that were not chosen: a sum takes zeros for them, a mean divides by how many there are, a write
through the mask keeps what was there. What is computed of rows that were not chosen may be anything, and
nobody sees it: where it could reach anything else, in a gradient, too, `where` stands in between, so that not
even a NaN gets through.

Two runs tell which numbers follow from a count: those that differ. What is not known to be right for all
counts is refused. If Python has asked for a size, there is a guard on it in both (`Doors.asked_shape`), which
differs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.chosen_rows import FEWEST, Call, Chosen, Places, Refused, Rows, same_params, times
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.rules_of_rows import BY_FAMILY, RULES


@dataclasses.dataclass
class Opened:
    """The graph for all counts. constants: its new ones; hosts: before which equations Python is asked."""

    graph: Graph
    tracked: frozenset[Value]
    constants: dict[Value, np.ndarray]
    hosts: list[int]


def opened(
    graph: Graph, other: Graph, tracked: frozenset[Value], given: Sequence[Value], hosts: Sequence[int]
) -> Opened:
    """What `graph` and `other`, which are of runs with other counts, are for all counts.

    tracked: the values of `graph` that need gradients. given: those that leave it. hosts: the numbers of
    equations before which Python is asked for something. Raises Refused.
    """
    return _Opening(graph, other, tracked).opened(given, hosts)


class _Opening:
    def __init__(self, graph: Graph, other: Graph, tracked: frozenset[Value]) -> None:
        self.graph, self.other = graph, other
        self.tracked = set(tracked)
        names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
        # Names of values are the same in both runs.
        self._parts_of_other, self._parts = Builder({*names}, "c"), Builder({*names}, "c")
        self.builder = Builder(names, "r")
        self.rows: dict[Value, Rows | Places] = {}
        self._same: dict[Any, Value] = {}  # by what values are, the first of these
        self._canonical: dict[Value, Value] = {}
        self._by_mask: dict[Value, Chosen] = {}
        self._repeated: dict[tuple[int, int], Chosen] = {}
        self._pending: tuple[int, int] | None = None  # counts of which a guard was met

    def opened(self, given: Sequence[Value], hosts: Sequence[int]) -> Opened:
        """See the function of this name."""
        graph, other = self.graph, self.other
        if graph.inputs != other.inputs or len(graph.equations) != len(other.equations):
            raise Refused("the runs do something else")
        begins = []
        for equation, theirs in zip(graph.equations, other.equations, strict=True):
            begins.append(len(self.builder.equations))
            self.equation(equation, theirs)
        begins.append(len(self.builder.equations))
        if not self._by_mask:
            raise Refused("no mask has another count")
        if any(value in self.rows for value in given):
            raise Refused("chosen rows are a result")
        constants = self.builder.constants | self._parts.constants
        inputs = tuple(dict.fromkeys((*graph.inputs, *constants)))
        made = Graph(inputs, tuple(self.builder.equations), graph.outputs)
        return Opened(made, frozenset(self.tracked), constants, [begins[place] for place in hosts])

    # Equations.

    def equation(self, equation: Equation, other: Equation) -> None:
        """Put down what stands for an equation."""
        op = equation.op
        if op is not other.op or _names(equation) != _names(other):
            raise Refused("the runs do something else")
        if self._pending is not None and op.name != "nonzero":
            raise Refused("the count is not that of a mask")
        is_open = any(v in self.rows for v in equation.values())
        if op is GUARD:
            self._guard(equation, other, is_open)
        elif not is_open and _same_numbers(equation, other):
            self._copy(equation)
        else:
            self._open(equation, other)

    def _copy(self, equation: Equation) -> None:
        self.builder.equations.append(equation)
        if equation.op.family == "random":
            return
        inputs = tuple(self._canonical.get(v, v) if isinstance(v, Value) else v for v in equation.inputs)
        key = dataclasses.replace(equation, inputs=inputs).key()
        for number, value in enumerate(equation.outputs):
            self._canonical[value] = self._same.setdefault((key, number), value)

    def _guard(self, equation: Equation, other: Equation, is_open: bool) -> None:
        if is_open:
            raise Refused("a value by which Python goes on lies in chosen rows")
        if equation.params == other.params:
            self.builder.equations.append(equation)
            return
        counts = equation.params["expected"], other.params["expected"]
        if not equation.params.get("size") or min(counts) < FEWEST:
            raise Refused("Python goes on by something else, or by the count")
        self._pending = counts

    def _open(self, equation: Equation, other: Equation) -> None:
        builder, begin = self.builder, len(self.builder.equations)
        builder.source = equation.source
        found = interpreted(builder, self._made, equation, other)
        made = found if isinstance(found, list) else [found]
        tracked = any(v in self.tracked for v in equation.outputs)
        for value, one in zip(equation.outputs, made, strict=True):
            if isinstance(one, Tensor):
                if (one.array.shape, one.array.dtype) != (value.shape, value.dtype):
                    raise Refused(f"{equation.op.name} gives another type")
                clone = Equation(REGISTRY["clone"], (builder.value(one),), {}, (value,), equation.source)
                builder.equations.append(clone)
            else:
                self.rows[value] = one
                if isinstance(one, Rows):
                    self._check_type(value, one)
        if tracked:
            self._track(builder.equations[begin:])

    def _track(self, equations: Sequence[Equation]) -> None:
        for made in equations:
            needs = [i for i, v in enumerate(made.inputs) if v in self.tracked]
            if any(made.op.rule(i) is not None for i in needs):
                self.tracked.update(made.outputs)

    @staticmethod
    def _check_type(value: Value, rows: Rows) -> None:
        """What the rows have instead of the run's, they have along their axis."""
        shape = [*rows.tensor.array.shape]
        shape[rows.axis] = rows.chosen.counts[0]
        if (tuple(shape), rows.tensor.array.dtype) != (value.shape, value.dtype):
            raise Refused("rows of another type")

    def _made(self, equation: Equation, other: Equation) -> Any:
        """What an equation gives: rows, places, or what has no rows."""
        rule = RULES.get(equation.op.name) or BY_FAMILY.get(equation.op.family)
        if rule is None:
            raise Refused(f"{equation.op.name} of chosen rows")
        return rule(Call(self, equation, other))

    # What rules ask for.

    def operand(self, value: Any) -> Any:
        """Rows, places, a tensor, or a number."""
        if not isinstance(value, Value):
            return value
        return self.rows.get(value) or self.builder.tensor(value)

    def chosen_by(self, mask: Value, counts: tuple[int, int]) -> Chosen:
        """What a mask chooses, of which a guard has the count."""
        pending, self._pending = self._pending, None
        mask = self._canonical.get(mask, mask)
        if mask in self._by_mask:
            return self._by_mask[mask]
        if pending != counts:
            raise Refused("a count that no guard has")
        tensor = self.builder.tensor(mask)
        true = tensor if mask.dtype.kind == "b" else ops.ne(tensor, 0)
        count = ops.sum(true)
        flat = ops.reshape(true, (math.prod(mask.shape),))
        enough = {"expected": True, "kind": "branch"}
        guard = Equation(GUARD, (self.builder.value(ops.ge(count, FEWEST)),), enough, (), self.builder.source)
        self.builder.equations.append(guard)
        self._by_mask[mask] = Chosen(flat, mask.shape, count, counts)
        return self._by_mask[mask]

    def repeated(self, chosen: Chosen, times: int) -> Chosen:
        """The same as often as that, each on end."""
        if times == 1:
            return chosen
        key = id(chosen), times
        if key not in self._repeated:
            size = chosen.flat.array.shape[0]
            flat = ops.reshape(
                ops.expand(ops.reshape(chosen.flat, (size, 1)), (size, times)), (size * times,)
            )
            counts = chosen.counts[0] * times, chosen.counts[1] * times
            made = Chosen(flat, (size * times,), ops.mul(chosen.count, times), counts, chosen, times)
            self._repeated[key] = made
        return self._repeated[key]

    def with_counts(self, counts: tuple[int, int]) -> Chosen:
        """The only rows of which there were so many."""
        every = (*self._by_mask.values(), *self._repeated.values())
        known = {id(c): c for c in every if c.counts == counts}
        if len(known) != 1:
            raise Refused("a size that is of no mask, or of several")
        return next(iter(known.values()))

    def number(self, one: int, other: int, dtype: np.dtype) -> Tensor:
        """A number of the two runs that is a multiple of a count, as a tensor."""
        found = []
        for c in {id(c): c for c in self._by_mask.values()}.values():
            factor = one // c.counts[0]
            if factor > 0 and (factor * c.counts[0], factor * c.counts[1]) == (one, other):
                found.append((c, factor))
        if len(found) != 1 or type(one) is not int or dtype.kind != "f":
            raise Refused("a number that follows otherwise from a count")
        ((chosen, factor),) = found
        return times(chosen.count, factor, dtype)

    def parts(self, equation: Equation, other: Equation) -> Any:
        """What a composite op gives, by the ops that it is made of."""
        made = []
        for builder, e in ((self._parts, equation), (self._parts_of_other, other)):
            builder.equations, builder.source = [], e.source
            args = [builder.tensor(v) for v in e.inputs]
            found = interpreted(builder, _decompose(e), *args, **e.params)
            found = found if isinstance(found, tuple) else (found,)
            made.append((builder.equations, [builder.value(t) for t in found]))
        (ours, results), (theirs, _) = made
        constants, its_own = (b.constants for b in (self._parts, self._parts_of_other))
        alike = {v.name: a.tobytes() for v, a in constants.items()} == {
            v.name: a.tobytes() for v, a in its_own.items()
        }
        if len(ours) != len(theirs) or not alike:
            raise Refused("the runs do something else")
        tracked = any(v in self.tracked for v in equation.outputs)
        for part, its in zip(ours, theirs, strict=True):
            if tracked:
                self._track([part])
            self.equation(part, its)
        given = [self.operand(value) for value in results]
        return given if len(given) > 1 else given[0]


def _decompose(equation: Equation) -> Callable[..., Any]:
    """What takes a composite op apart."""
    assert isinstance(equation.op, Composite)
    return equation.op.decompose


def _names(equation: Equation) -> list[str]:
    """What it computes with, and gives."""
    return [v.name if isinstance(v, Value) else "" for v in (*equation.inputs, *equation.outputs)]


def _same_numbers(equation: Equation, other: Equation) -> bool:
    """Whether two equations of the same op have the same numbers and sizes."""
    numbers = [
        (repr(a), repr(b))
        for a, b in zip(equation.inputs, other.inputs, strict=True)
        if not (isinstance(a, Value) and isinstance(b, Value))
    ]
    types = [v.type for v in equation.outputs] == [v.type for v in other.outputs]
    return types and all(a == b for a, b in numbers) and same_params(equation.params, other.params)
