"""Stacks that are taken apart again: what is computed of the whole is computed of each row.

So that rows need not be put together, and looked up, between one step of a small system and the next:

    v0: f32[2, 9] = cat(x, y, dim=0)
    v1: f32[2, 9] = add(state, v0)              a0: f32[1, 9] = getitem(state, index=(slice(0, 1), ...))
    v2: f32[9] = getitem(v1, index=(1, ...))    a1: f32[1, 9] = add(a0, x)    # and so the other row
                                                v2: f32[9] = getitem(a3, index=(0, ...))

Each element is computed by the same ops as before. The whole is put together where somebody needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.core.op import REGISTRY, Op, TensorType
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Source, Value

# Stacks of more rows than this stay as they are: each op would become as many.
MOST_ROWS = 8

CAT, EMBED, GETITEM, RESHAPE, FULL = (REGISTRY[n] for n in ("cat", "embed", "getitem", "reshape", "full"))


def with_rows_apart(graph: Graph) -> Graph:
    """The graph with stacks computed row by row, where rows are looked up."""
    if all(equation.op is not CAT for equation in graph.equations):
        return graph
    stacks = _Stacks(graph)
    chosen = stacks.worth_it()
    if not chosen:
        return graph
    apart = _Apart(graph, {v: stacks.axes[v] for v in chosen}, stacks.needed)
    for equation in graph.equations:
        apart.put(equation)
    return Graph(graph.inputs, tuple(apart.equations), graph.outputs)


class _Stacks:
    """The stacks of a graph, and what is computed of them element by element.

    axes: the dimension that their rows lie along. beside: for each those that it is computed of, or that are
    computed of it. looked_up: those of which rows are read; needed: those that something other than rows is
    computed of.
    """

    def __init__(self, graph: Graph) -> None:
        self.axes: dict[Value, int] = {}
        self.beside: dict[Value, list[Value]] = {}
        self.looked_up: set[Value] = set()
        self.needed: set[Value] = set()
        for equation in graph.equations:
            self._note(equation)
        self.needed.update(v for v in graph.outputs if isinstance(v, Value) and v in self.axes)

    def _note(self, equation: Equation) -> None:
        read = [v for v in equation.values() if v in self.axes]
        axis = _stacked_along(equation)
        by_rows: list[Value] = []
        if axis is None and read and _is_elementwise(equation):
            made = equation.output
            axis = next((self.axes[v] for v in read if v.shape == made.shape), None)
            by_rows = [v for v in read if self.axes[v] == axis and v.shape == made.shape]
        if axis is not None:
            self.axes[equation.output], self.beside[equation.output] = axis, by_rows
            for value in by_rows:
                self.beside[value].append(equation.output)
        elif read and _row_read(equation, self.axes) is not None:
            self.looked_up.add(equation.inputs[0])
            return
        self.needed.update(v for v in read if v not in by_rows)

    def worth_it(self) -> set[Value]:
        """The stacks to take apart: of those that hang together, rows of more than half as many are looked up
        as are needed whole. To put a whole together takes the stores that it would take anyway.
        """
        chosen: set[Value] = set()
        while self.beside:
            members = _reached(next(iter(self.beside)), self.beside)
            if 2 * len(self.looked_up.intersection(members)) > len(self.needed.intersection(members)):
                chosen.update(members)
        return chosen


def _reached(start: Value, beside: dict[Value, list[Value]]) -> set[Value]:
    """All that hangs together with a value, taken out of `beside`."""
    pending, found = [start], {start}
    while pending:
        for value in beside.pop(pending.pop(), ()):
            if value not in found:
                found.add(value)
                pending.append(value)
    return found


# What is a stack.


def _is_elementwise(equation: Equation) -> bool:
    """Whether an equation is one for kernels: of what NumPy computes, each op more is a call more."""
    is_plain = isinstance(equation.op, Elementwise) and not equation.op.refuses
    return is_plain and has_kernels(equation.output.dtype)


def _stacked_along(equation: Equation) -> int | None:
    """The dimension along which an equation puts single rows together, or one among zeros."""
    if equation.op not in (CAT, EMBED):
        return None
    made = equation.output
    if has_symbols(made.shape) or not has_kernels(made.dtype):
        return None
    if equation.op is CAT:
        axis: int = equation.params["dim"]
        pieces = [(v.shape[axis], v.dtype) for v in equation.values()]
        return axis if set(pieces) == {(1, made.dtype)} and 2 <= len(pieces) <= MOST_ROWS else None
    found = _row_of(equation.params["index"], made.shape)
    return found[0] if found is not None and made.shape[found[0]] <= MOST_ROWS else None


def _row_of(index: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The dimension and the number of the row that an index picks, if it picks one and all of that."""
    if len(index) != len(shape):
        return None
    picked = [d for d, (entry, n) in enumerate(zip(index, shape, strict=True)) if entry != Slice(0, n, 1)]
    if len(picked) != 1:
        return None
    (axis,) = picked
    number = _number(index[axis])
    return None if number is None else (axis, number)


def _number(entry: Any) -> int | None:
    """Which single row an entry of an index picks, if it does."""
    if type(entry) is int:
        return entry if entry >= 0 else None
    is_one = isinstance(entry, Slice) and entry.step == 1 and entry.stop == entry.start + 1
    return entry.start if is_one else None


def _row_read(equation: Equation, axes: dict[Value, int]) -> int | None:
    """The number of the row of a stack that an equation looks into, if there is one such row."""
    if equation.op is not GETITEM or equation.inputs[0] not in axes:
        return None
    source, index = equation.inputs[0], equation.params["index"]
    return _number(index[axes[source]]) if len(index) == len(source.shape) and None not in index else None


# Taking them apart.


class _Apart:
    """The graph as far as it is rewritten."""

    def __init__(self, graph: Graph, axes: dict[Value, int], needed: set[Value]) -> None:
        self.axes, self.needed = axes, needed
        self.equations: list[Equation] = []
        self._rows: dict[Value, list[Value]] = {}
        self._taken: dict[tuple[Value, int, int], Value] = {}
        self._names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}

    def put(self, equation: Equation) -> None:
        """Add an equation, or what stands for it."""
        made = equation.output if equation.outputs else None
        if made not in self.axes:
            number = _row_read(equation, self.axes)
            self.equations.append(equation if number is None else self._look_up(equation, number))
            return
        is_new = _stacked_along(equation) is None
        self._rows[made] = self._computed(equation) if is_new else self._stacked(equation)
        if made in self.needed:
            whole = Equation(CAT, tuple(self._rows[made]), {"dim": self.axes[made]}, (made,), equation.source)
            self.equations.append(whole if is_new else equation)

    def _look_up(self, equation: Equation, number: int) -> Equation:
        source: Value = equation.inputs[0]
        index, axis = list(equation.params["index"]), self.axes[source]
        index[axis] = 0 if type(index[axis]) is int else Slice(0, 1, 1)
        row = self._rows[source][number]
        others = [(entry, n) for d, (entry, n) in enumerate(zip(index, row.shape, strict=True)) if d != axis]
        if all(entry == Slice(0, n, 1) for entry, n in others):
            # What looks at a part has to find it in memory.
            params = {"shape": equation.output.shape}
            return Equation(RESHAPE, (row,), params, equation.outputs, equation.source)
        return Equation(GETITEM, (row,), {"index": tuple(index)}, equation.outputs, equation.source)

    def _computed(self, equation: Equation) -> list[Value]:
        """The rows of what is computed element by element."""
        made = equation.output
        rows = []
        for number in range(made.shape[self.axes[made]]):
            inputs = [self._row(v, made, number, equation.source) for v in equation.inputs]
            rows.append(self._add(equation.op, inputs, equation.params, made, equation.source))
        return rows

    def _stacked(self, equation: Equation) -> list[Value]:
        """The rows that an equation puts together, or the one among zeros."""
        if equation.op is CAT:
            return list(equation.inputs)
        made, source = equation.output, equation.source
        found = _row_of(equation.params["index"], made.shape)
        assert found is not None
        shape = self._shape(made)
        rows = []
        for number in range(made.shape[self.axes[made]]):
            if number == found[1]:
                rows.append(self._add(RESHAPE, equation.inputs, {"shape": shape}, made, source))
            else:
                params = {"shape": shape, "value": 0, "dtype": FROM_NUMPY[made.dtype]}
                rows.append(self._add(FULL, (), params, made, source))
        return rows

    def _row(self, operand: Operand, made: Value, number: int, source: Source | None) -> Operand:
        """A row of an operand of what makes `made`; all of it, where it has one for all rows."""
        if not isinstance(operand, Value):
            return operand
        if self.axes.get(operand) == self.axes[made] and operand.shape == made.shape:
            return self._rows[operand][number]
        axis = self.axes[made] - (len(made.shape) - len(operand.shape))
        if axis < 0 or operand.shape[axis] == 1:
            return operand
        key = operand, axis, number
        if key not in self._taken:
            index = [Slice(0, n, 1) for n in operand.shape]
            index[axis] = Slice(number, number + 1, 1)
            row = TensorType((*operand.shape[:axis], 1, *operand.shape[axis + 1 :]), operand.dtype)
            taken = Value(self._name(operand), row)
            self.equations.append(Equation(GETITEM, (operand,), {"index": tuple(index)}, (taken,), source))
            self._taken[key] = taken
        return self._taken[key]

    def _add(
        self, op: Op, inputs: Sequence[Operand], params: Any, made: Value, source: Source | None
    ) -> Value:
        row = Value(self._name(made), TensorType(self._shape(made), made.dtype))
        self.equations.append(Equation(op, tuple(inputs), params, (row,), source))
        return row

    def _shape(self, made: Value) -> tuple[int, ...]:
        """The shape of a row."""
        axis = self.axes[made]
        return (*made.shape[:axis], 1, *made.shape[axis + 1 :])

    def _name(self, value: Value) -> str:
        """A name for a row that nothing else has."""
        number = 0
        while (name := f"{value.name}_row{number}") in self._names:
            number += 1
        self._names.add(name)
        return name
