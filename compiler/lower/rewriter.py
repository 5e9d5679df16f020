"""The rewriter: a graph and rules go in, a graph with each equation replaced as its rule says comes out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.gather_op import FETCH, Along
from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.compiler.lower.push_gathers import pushed
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.families import Layout, View, contiguous_layout
from fusegrad.eager.core.op import REGISTRY, Op, TensorType
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Source, Value

_INT64 = np.dtype(np.int64)
CLONE = REGISTRY["clone"]


class Rewriter:
    """The graph as far as it is rewritten, and what rules are written with.

    rules: by the name of an op what expresses it through others, `rule(rewriter, *inputs, **params)`; it
    gives the result or results, or None where it does not know how. original: what a rule is asked about.
    """

    def __init__(self, graph: Graph, rules: dict[str, Callable[..., Any]]) -> None:
        self.rules = rules
        self.original: Equation
        self.equations: list[Equation] = []
        self.changed = False
        self.checks: list[Value] = []
        self.same: dict[Value, Operand] = {}
        self.producer: dict[Value, Equation] = {}
        self._returned = {v for v in graph.outputs if isinstance(v, Value)}
        self._names = graph.names()
        self._count = 0
        self.source: Source | None = None
        # What eager made one index of: the indices, and the sizes of their dimensions.
        self.flat: dict[Value, tuple[tuple[Value, ...], tuple[int, ...]]] = {}
        self._made: dict[Any, tuple[Value, ...]] = {}
        self._within: set[tuple[Value, int, int]] = set()
        self._positions: dict[Value, int] = {}
        self._readers: dict[Value, int] = {}
        self._asked = {_key(e.op, e.inputs, e.params) for e in graph.equations}
        for equation in graph.equations:
            for value in set(equation.values()):
                self._readers[value] = self._readers.get(value, 0) + 1
        for value in self._returned:
            self._readers[value] = self._readers.get(value, 0) + 1

    def now(self, operand: Operand) -> Operand:
        """What stands for an operand of the original graph."""
        return self.same.get(operand, operand) if isinstance(operand, Value) else operand

    def put(self, original: Equation) -> None:
        """Add an equation, expressed through others where that is known."""
        inputs = tuple(self.now(v) for v in original.inputs)
        equation = Equation(original.op, inputs, original.params, original.outputs, original.source)
        rule = self.rules.get(equation.op.name)
        if rule is not None and all(has_kernels(v.dtype) for v in (*equation.values(), *equation.outputs)):
            self.original, self.source, start = original, equation.source, len(self.equations)
            made = rule(self, *equation.inputs, **equation.params)
            if made is not None:
                self.changed = True
                results = made if isinstance(made, tuple) else (made,)
                for output, result in zip(equation.outputs, results, strict=True):
                    assert result.type == output.type, (
                        f"{equation.op.name} is lowered to {result.type}, and is {output.type}"
                    )
                    kept = output in self._returned and self.position(result) < start
                    # What is returned has memory of its own.
                    now = self.same[output] = self._new(CLONE, (result,), {}) if kept else result
                    self._readers[now] = self._readers.get(now, 0) + self._readers.get(output, 0)
                return
        self._append(equation)

    def _append(self, equation: Equation) -> None:
        self._positions.update(dict.fromkeys(equation.outputs, len(self.equations)))
        self.equations.append(equation)
        self.producer.update(dict.fromkeys(equation.outputs, equation))

    def is_asked(self, name: str, *operands: Operand, **params: Any) -> bool:
        """Whether the original graph has an equation of an op on operands, as they are called there."""
        return _key(REGISTRY[name], operands, params) in self._asked

    def readers(self, value: Value) -> int:
        """How many equations of the original graph (and results) read a value."""
        return self._readers.get(value, 0)

    def position(self, value: Value) -> int:
        """Where its equation stands; -1 for an input."""
        return self._positions.get(value, -1)

    # What rules are written with.

    def op(self, name: str, *operands: Operand, **params: Any) -> Value:
        """The result of a public op: of a new equation, or of an equal one that a rule has made."""
        return self.equation(REGISTRY[name], operands, params)

    def equation(self, op: Op, operands: Sequence[Operand], params: Any) -> Value:
        """`op` for an op that is at hand."""
        (value,) = self._made_by(op, operands, params)
        return value

    def several(self, op: Op, operands: Sequence[Operand], params: Any) -> tuple[Value, ...]:
        """The results of an op that has several: of a new equation, or of an equal one."""
        return self._made_by(op, operands, params)

    def _made_by(self, op: Op, operands: Sequence[Operand], params: Any) -> tuple[Value, ...]:
        key = _key(op, operands, params)
        if key not in self._made:
            self._made[key] = self._new_ones(op, tuple(operands), dict(params))
        return self._made[key]

    def _new(self, op: Op, operands: tuple[Operand, ...], params: dict[str, Any]) -> Value:
        (value,) = self._new_ones(op, operands, params)
        return value

    def _new_ones(self, op: Op, operands: tuple[Operand, ...], params: dict[str, Any]) -> tuple[Value, ...]:
        made = op.infer([v.type if isinstance(v, Value) else v for v in operands], params)
        outputs = tuple(map(self._named, (made,) if isinstance(made, TensorType) else made))
        self._append(Equation(op, operands, params, outputs, self.source))
        return outputs

    def _named(self, type_: TensorType) -> Value:
        """A new value."""
        while f"l{self._count}" in self._names:
            self._count += 1
        self._count += 1
        return Value(f"l{self._count - 1}", type_)

    def demand(self, truth: Value) -> None:
        """Check that a truth without dimensions holds."""
        if truth not in self.checks:
            self.checks.append(truth)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` under another shape."""
        return x if x.shape == tuple(shape) else self.op("reshape", x, shape=tuple(shape))

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` broadcast to a shape."""
        return x if x.shape == tuple(shape) else self.op("expand", x, shape=tuple(shape))

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        """`x` as another dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=FROM_NUMPY[dtype])

    def arange(self, count: int, along: int, ndim: int, dtype: Any = dtypes.int64) -> Value:
        """0, 1, ... along one of `ndim` dimensions."""
        numbers = self.op("arange", shape=(count,), start=0, step=1, dtype=dtype)
        return self.reshape(numbers, (1,) * along + (count,) + (1,) * (ndim - along - 1))

    def counted(self, entry: Slice, count: int, along: int, ndim: int) -> Value:
        """For each of `count` positions along a dimension its number in a slice; -1 for those outside."""
        place = self.op("sub", self.arange(count, along, ndim), entry.start)
        # A half more, and the quotient is never so close to a whole number that it could be rounded to it.
        half = self.op("add", self.cast(place, np.dtype(np.float64)), 0.5)
        number = self.cast(self.op("floor", self.op("div", half, entry.step)), _INT64)
        hit = self.op("eq", self.op("mul", number, entry.step), place)
        return self.op("where", hit, number, self.full((), -1, _INT64))

    def full(self, shape: Sequence[int], value: Any, dtype: np.dtype) -> Value:
        """A tensor of one number."""
        return self.op("full", shape=tuple(shape), value=value, dtype=FROM_NUMPY[dtype])

    def fetch(
        self, x: Value, other: Operand, indices: Sequence[Value], shape: Sequence[int], where: Sequence[Along]
    ) -> Value:
        """See `gather_op.Fetch`; of a constant, and of a range, there is nothing to read."""
        made = self._made_there(x, indices, shape, where)
        if made is not None:
            inside = self.inside(indices, shape, where)
            if inside is not None:
                made = self.op("where", inside, made, self.operand(other, x.dtype))
            return self.expand(made, shape)
        moved = pushed(self, x, other, indices, shape, tuple(where))
        return self.fetch_memory(x, other, indices, shape, where) if moved is None else moved

    def _made_there(
        self, x: Value, indices: Sequence[Value], shape: Sequence[int], where: Sequence[Along]
    ) -> Value | None:
        """The elements of a constant or a range at some places; None for other tensors."""
        origin = self.origin(x)
        if origin is None or origin.op.name not in ("full", "arange"):
            return None
        if origin.op.name == "full":
            return self.full((), origin.params["value"], x.dtype)
        start, step, layout = origin.params["start"], origin.params["step"], self._layout(x)
        if layout is None or not (isinstance(start, int) and isinstance(step, int)):
            return None
        number = self.full((), layout.offset, _INT64)
        for along, stride in zip(where, layout.strides, strict=True):
            if stride:
                place = self.cast(self.place(along, indices, shape), _INT64)
                number = self.op("add", number, self.op("mul", place, stride))
        return self.cast(self.op("add", self.op("mul", number, step), start), x.dtype)

    def _layout(self, x: Value) -> Layout | None:
        """How a view of something row-major lies."""
        equation = self.producer.get(x)
        if equation is None or not isinstance(equation.op, View):
            return contiguous_layout(x.shape)
        layout = self._layout(equation.inputs[0])
        return None if layout is None else equation.op.layout(layout, **equation.params)

    def fetch_memory(
        self, x: Value, other: Operand, indices: Sequence[Value], shape: Sequence[int], where: Sequence[Along]
    ) -> Value:
        """See `gather_op.Fetch`; x is put in memory if it is not there."""
        origin = self.origin(x)
        if origin is not None and origin.op.family == "creation":
            x = self.op("clone", x)
        params = {"shape": tuple(shape), "where": tuple(where)}
        return self.equation(FETCH, (x, other, *indices), params)

    def within(self, index: Value, low: int, high: int) -> None:
        """Check that all of `index` lies in low..high-1."""
        origin = self.origin(index)
        if (index, low, high) in self._within or (origin is not None and _counts(origin, low, high)):
            return
        self._within.add((index, low, high))
        inside = self.op("logical_and", self.op("ge", index, low), self.op("lt", index, high))
        self.checks.append(self.op("all", inside, dim=None, keepdim=False))

    def from_zero(self, index: Value, size: int) -> Value:
        """`index` with what counts from the end counted from 0."""
        origin = self.origin(index)
        if origin is not None and _counts(origin, 0, size):
            return index
        return self.op("where", self.op("lt", index, 0), self.op("add", index, size), index)

    def operand(self, other: Operand, dtype: np.dtype) -> Value:
        """A number as a tensor without dimensions."""
        return other if isinstance(other, Value) else self.full((), other, dtype)

    def inside(self, indices: Sequence[Value], shape: Sequence[int], where: Sequence[Along]) -> Value | None:
        """Where a fetch finds an element; None for everywhere."""
        result: Value | None = None
        for along in where:
            before, behind = along.tests(tuple(shape))
            if not (before or behind):
                continue
            place = self.place(along, indices, shape)
            tests = [self.op("ge", place, 0)] if before else []
            tests += [self.op("lt", place, along.size)] if behind else []
            for test in tests:
                result = test if result is None else self.op("logical_and", result, test)
        return result

    def place(self, along: Along, indices: Sequence[Value], shape: Sequence[int]) -> Value:
        """The places along one dimension of what is fetched from."""
        if along.by is not None:
            return indices[along.by]
        if along.dim is None:
            return self.full((), along.start, _INT64)
        place = self.arange(shape[along.dim], along.dim, len(shape))
        if along.step != 1:
            place = self.op("mul", place, along.step)
        return self.op("add", place, along.start) if along.start else place

    def origin(self, operand: Operand) -> Equation | None:
        """The equation whose elements an operand shows."""
        equation = self.producer.get(operand) if isinstance(operand, Value) else None
        if equation is not None and equation.op.family == "view":
            return self.origin(equation.inputs[0])
        return equation

    def is_zeros(self, operand: Operand) -> bool:
        """Whether all elements are 0, as far as one can see."""
        if not isinstance(operand, Value):
            return bool(operand == 0)
        origin = self.origin(operand)
        return origin is not None and origin.op.name == "full" and bool(origin.params["value"] == 0)


def _key(op: Op, operands: Sequence[Operand], params: Mapping[str, Any]) -> Hashable:
    """What equal equations have in common; numbers by their text, which leaves open sizes open."""
    known = tuple([v if isinstance(v, Value) else (type(v), repr(v)) for v in operands])
    return op.name, known, repr(sorted(params.items()))


def _counts(origin: Equation, low: int, high: int) -> bool:
    """Whether an equation makes whole numbers that all lie in low..high-1."""
    if origin.op.name != "arange":
        return False
    (count,), start, step = (origin.params[p] for p in ("shape", "start", "step"))
    last = start + step * (count - 1)
    whole = isinstance(start, int) and isinstance(step, int)
    return not count or (whole and min(start, last) >= low and max(start, last) < high)
