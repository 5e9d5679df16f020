"""Recomputation: a graph goes in; one comes out in which cheap values are computed again, not kept.

Copies of an equation in one kernel cost nothing: the kernel computes equal scalars once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from typing import Any

from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.schedule import is_cheap
from fusegrad.eager.core.families import Elementwise, Reduction, View
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# What is so many times larger than what it is made of is made again rather than stored and read; and a
# total over so much less than what waits for it gets a kernel of its own.
MUCH = 8
# Most copies that one graph gets for each of its equations.
MOST_COPIES = 4


def _size(value: Value) -> int:
    return likely(math.prod(value.shape))


class _Copies:
    """Copies of equations under new names, with what they read copied too where `chosen` says so."""

    def __init__(self, graph: Graph, chosen: Collection[Value]) -> None:
        self.made = {v: e for e in graph.equations for v in e.outputs}
        self.chosen = chosen
        self.numbers: Iterator[Any] = itertools.count()
        self.equations: list[Equation] = []
        self.count = 0
        self._own: dict[Value, Value] = {}

    def reading(self, equation: Equation) -> Equation:
        """The equation reading copies of its own, one of each value; theirs are added to the list."""
        self._own.clear()
        return self._rewired(equation)

    def _rewired(self, equation: Equation) -> Equation:
        inputs = [self._copy(v) if copied else v for v, copied in self._operands(equation)]
        if all(a is b for a, b in zip(inputs, equation.inputs, strict=True)):
            return equation
        return Equation(equation.op, tuple(inputs), equation.params, equation.outputs, equation.source)

    def _operands(self, equation: Equation) -> list[tuple[Any, bool]]:
        """What an equation reads, and whether it reads a copy of that."""
        # What is fetched from has to be in memory: there is one of it.
        return [
            (v, v in self.chosen and not (equation.op is FETCH and i == 0))
            for i, v in enumerate(equation.inputs)
        ]

    def _copy(self, value: Value) -> Value:
        """The copy of a value; those that it is computed from come before it, however many there are."""
        pending = [value]
        while pending:
            here = pending[-1]
            if here in self._own:
                pending.pop()
                continue
            operands = self._operands(self.made[here])
            missing = next((v for v, copied in operands if copied and v not in self._own), None)
            if missing is not None:
                pending.append(missing)
                continue
            origin = self._rewired(self.made[here])
            self.count += 1
            copy = self._own[here] = Value(f"{here.name}_again{next(self.numbers)}", here.type)
            self.equations.append(Equation(origin.op, origin.inputs, origin.params, (copy,), origin.source))
        return self._own[value]


def with_repeats(graph: Graph, needed: Collection[Value]) -> Graph:
    """Each reader makes the cheap results for itself that are much larger than what they are made of.

    A mask that compares row numbers with column numbers is such a result. needed: what must be in
    memory anyway.
    """
    spread, free = set[Value](), set[Value]()
    for equation in graph.equations:
        if len(equation.outputs) != 1:
            continue
        sources = [_size(v) for v in equation.values() if v not in free]
        if equation.op.family == "creation" or (isinstance(equation.op, View) and not sources):
            free.add(equation.output)
        if equation.output not in needed and _is_repeated(equation, sources):
            spread.add(equation.output)
            if equation.op is not FETCH:
                free.add(equation.output)
    if not spread:
        return graph
    copies = _Copies(graph, spread)
    rewired: list[list[Equation]] = []  # for each equation the copies that it reads, and itself
    for equation in graph.equations:
        family = equation.op.family
        copied = family in (
            "elementwise",
            "reduction",
            "fetch",
            "assemble",
        ) and copies.count < MOST_COPIES * len(copies.made)
        if copied and not (equation.outputs and equation.output in spread):
            equation = copies.reading(equation)
        rewired.append([*copies.equations, equation])
        copies.equations = []
    return _with_read(graph, rewired, spread)


def _is_repeated(equation: Equation, sources: list[int]) -> bool:
    """Whether each reader had better compute the equation for itself. sources: the sizes of its operands
    but for those that are made of nothing, or repeated too.
    """
    if equation.op is FETCH:
        # A read at another place of what is in memory.
        return all(along.by is None for along in equation.params["where"]) and len(sources) == 1
    if isinstance(equation.op, View):
        return not sources and equation.inputs[0].type.ndim > 0
    cheap = isinstance(equation.op, Elementwise) and is_cheap(equation)
    return cheap and MUCH * max(sources, default=0) <= _size(equation.output)


def _with_read(graph: Graph, rewired: list[list[Equation]], spread: Collection[Value]) -> Graph:
    """The graph of the equations in `rewired`; those of `spread` only where something still reads them."""
    read: set[Value] = set()
    kept: list[list[Equation]] = []
    for equations in reversed(rewired):
        equation = equations[-1]
        if not (equation.outputs and equation.output in spread) or equation.output in read:
            read.update(*(e.values() for e in equations))
            kept.append(equations)
    return Graph(graph.inputs, tuple(itertools.chain(*reversed(kept))), graph.outputs)


# Totals that the rest waits for.


def early_totals(graph: Graph) -> tuple[Graph, dict[Value, list[Equation]]]:
    """The totals that are best known before all else, with the equations (copies) that make them.

    The mean of a loss over the rows that count, for example: how many there are takes a look at the
    labels; known first, it lets the gradient share the kernel of the loss.
    """
    made = {v: e for e in graph.equations for v in e.outputs}
    users, inputs = graph.users(), set(graph.inputs)
    early: dict[Value, set[Value]] = {}
    for equation in graph.equations:
        if isinstance(equation.op, Reduction) and _size(equation.output) == 1:
            cone = _behind(equation, made, inputs)
            if cone is not None and _awaited(equation.output, users, max(map(_size, equation.values()))):
                early[equation.output] = cone
    if not early:
        return graph, {}
    groups: dict[Value, list[Equation]] = {}
    equations: list[Equation] = []
    for equation in graph.equations:
        if equation.outputs and equation.output in early:
            copies = _Copies(graph, early[equation.output])
            copies.numbers = (f"early{len(groups)}_{i}" for i in itertools.count())
            equation = copies.reading(equation)
            equations += copies.equations
            groups[equation.output] = [*copies.equations, equation]
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs), groups


def _behind(total: Equation, made: dict[Value, Equation], inputs: Collection[Value]) -> set[Value] | None:
    """What a total is computed from; None where that is more than a few elementwise equations."""
    found: set[Value] = set()
    pending = [*total.values()]
    while pending:
        value = pending.pop()
        if value in inputs or value in found:
            continue
        equation = made[value]
        if equation.op.family not in ("elementwise", "view", "creation") or len(found) == MUCH:
            return None
        found.add(value)
        pending += equation.values()
    return found


def _awaited(total: Value, users: dict[Value, list[Equation]], size: int) -> bool:
    """Whether something much larger than `size` is computed from a total, by way of numbers alone."""
    pending, seen = [total], {total}
    while pending:
        for equation in users.get(pending.pop(), ()):
            if equation.op is FETCH or not equation.outputs:
                continue
            if equation.op.family == "elementwise" and _size(equation.output) >= MUCH * size:
                return True
            if _size(equation.output) == 1 or equation.op.family == "view":
                fresh = [v for v in equation.outputs if v not in seen]
                seen.update(fresh)
                pending += fresh
    return False
