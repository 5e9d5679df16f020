"""Merging products: a graph with many small products goes in, one with few large ones comes out.

A loop in Python multiplies the slices of a tensor by the same matrix, one after the other, and its gradient
adds up as many products again. Products of slices are slices of a product:

    x[0] @ w, x[1] @ w, ...         are the rows of    x.reshape(-1, k) @ w

and a sum of products is a product of what is joined along the dimension that is summed over:

    a.T @ b + c.T @ d + ...         is                 cat([a, c, ...]).T @ cat([b, d, ...])

What is joined so, and also added up row by row, is added up at once: b.sum(0) + d.sum(0) + ...

The gradient of a tensor whose slices were read is a sum of tensors that are zero but for one slice each:
these slices one behind the other.

The parts of a `cat` are computed in their places (`compiler/placement/memory_plan.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.op import REGISTRY, Op, TensorType
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Source, Value, identifier
from fusegrad.tracer.ir.symbolic_sizes import likely

# Fewer products than this, and products of more multiplications, stay as they are; but a sum of products that
# each add up so few rows reads and writes it once for each of them, whatever its size.
FEW = 4
LARGE = 1 << 22
FEW_ROWS = 64
_ROWS = {"dim": (0,), "keepdim": False}  # of a sum over the rows of a matrix


def gathered(graph: Graph) -> Graph:
    """The graph with its small products gathered."""
    names = Counter(e.op.name for e in graph.equations)
    if max(names["matmul"], names["embed"]) < FEW:
        return graph
    gathering = _Gathering(graph)
    gathering.slices()
    gathering.sums()
    gathering.rows()
    return gathering.result()


class _Gathering:
    """One rewriting. before: by the place of an equation, what is computed in front of it; instead: by their
    outputs, what takes the place of others.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made = {v: e for e in graph.equations for v in e.outputs}
        self.order = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
        self.users = graph.users()
        self.returned = set(graph.outputs)
        # A stretch of a graph that was gathered before has such names already.
        self._names = {v.name for v in graph.inputs} | {v.name for v in self.made}
        self.before: dict[int, list[Equation]] = {}
        self.instead: dict[Value, Equation] = {}
        self.joined: dict[tuple[Value, ...], Value] = {}
        self.place = 0  # of the equation in front of which new ones are put
        self.source: Source | None = None

    def result(self) -> Graph:
        """What came of it."""
        if not self.instead:
            return self.graph
        equations: list[Equation] = []
        for number, equation in enumerate(self.graph.equations):
            equations += self.before.get(number, ())
            equations.append(
                self.instead.get(equation.outputs[0], equation) if equation.outputs else equation
            )
        return passes.dead_code(Graph(self.graph.inputs, tuple(equations), self.graph.outputs))

    def op(self, name: str, *operands: Operand, **params: object) -> Value:
        """A new equation in front of the present one."""
        op: Op = REGISTRY[name]
        type_ = op.infer([v.type if isinstance(v, Value) else v for v in operands], params)
        assert isinstance(type_, TensorType)
        here = self.before.setdefault(self.place, [])
        value = Value(identifier(f"gathered{self.place}_{len(here)}", self._names), type_)
        self._names.add(value.name)
        here.append(Equation(op, operands, params, (value,), self.source))
        return value

    def at(self, equation: Equation) -> None:
        """From now on new equations are put in front of `equation`."""
        self.place, self.source = self.order[equation.output], equation.source

    def _small(self, product: Equation, most: float = LARGE) -> bool:
        """Whether a product of matrices has no more multiplications than that, and is known to have some."""
        x, y = product.inputs
        if not (isinstance(x, Value) and isinstance(y, Value)) or has_symbols((*x.shape, *y.shape)):
            return False
        plain = len(x.shape) == len(y.shape) == 2 and product.output.dtype.kind == "f"
        return plain and 0 < likely(math.prod(x.shape) * y.shape[1]) <= most

    # Products of slices.

    def slices(self) -> None:
        """Products of the rows of one tensor with one matrix."""
        groups: dict[tuple[Value, Value], dict[int, list[Equation]]] = {}
        for equation in self.graph.equations:
            if equation.op.name == "matmul" and self._small(equation):
                row = self._row(equation.inputs[0])
                if row is not None:
                    x, number = row
                    groups.setdefault((x, equation.inputs[1]), {}).setdefault(number, []).append(equation)
        for (x, matrix), rows in groups.items():
            first, last = min(rows), max(rows)
            if len(rows) >= FEW and len(rows) == last - first + 1:
                self._multiply(x, matrix, rows, first)

    def _row(self, value: Value) -> tuple[Value, int] | None:
        """The tensor, and the number, of which a matrix is a slice along the first dimension."""
        equation = self.made.get(value)
        if equation is None or equation.op.name != "getitem":
            return None
        (x,), index = equation.inputs, equation.params["index"]
        if len(x.shape) != 3 or has_symbols(x.shape) or not index or type(index[0]) is not int:
            return None
        whole = [Slice(0, n, 1) for n in x.shape[1:]]
        return (x, index[0]) if list(index[1:]) in (whole[:0], whole[:1], whole) else None

    def _multiply(self, x: Value, matrix: Value, rows: dict[int, list[Equation]], first: int) -> None:
        _, height, length = x.shape
        count, width = len(rows), matrix.shape[1]
        self.at(min((e for found in rows.values() for e in found), key=lambda e: self.order[e.output]))
        part = self._rows(x, first, count)
        product = self.op("matmul", self.op("reshape", part, shape=(count * height, length)), matrix)
        whole = self.op("reshape", product, shape=(count, height, width))
        for number, found in rows.items():
            index = (number - first, Slice(0, height, 1), Slice(0, width, 1))
            for equation in found:
                self.instead[equation.output] = Equation(
                    REGISTRY["getitem"], (whole,), {"index": index}, equation.outputs, equation.source
                )

    def _rows(self, x: Value, first: int, count: int) -> Value:
        if count == x.shape[0]:
            return x
        entries = [Slice(first, first + count, 1), *(Slice(0, n, 1) for n in x.shape[1:])]
        return self.op("getitem", x, index=tuple(entries))

    # Sums of products.

    def sums(self) -> None:
        """Products added up, each of a transposed matrix with another; then sums of the same rows."""
        whole = self._whole_sums()
        for equation in whole:
            terms = self._terms(equation)
            found: dict[Any, list[Equation]] = {}  # by the shapes of the operands
            for term in terms:
                product = self._product(term)
                if product is not None:
                    shapes = (product.inputs[0].shape, product.inputs[1].shape)
                    found.setdefault(shapes, []).append(product)
            products = max(found.values(), key=len, default=[])
            if len(products) >= FEW:
                self._sum(equation, terms, products)
        for equation in whole:
            terms = self._terms(equation)
            parts = {self.made[term].inputs[0]: term for term in terms if self._sums_rows(term)}
            for joined, value in self.joined.items():
                # What is joined twice is added up once.
                if len(joined) == len(parts) and parts.keys() == {*joined}:
                    self.at(equation)
                    self._replace(equation, terms, {*parts.values()}, "sum", (value,), _ROWS)
                    break

    def _sums_rows(self, term: Value) -> bool:
        """Whether a term is the sum of the rows of a matrix, and nothing else reads it."""
        made = self.made.get(term)
        if made is None or made.op.name != "sum" or not self._alone(term):
            return False
        return dict(made.params) == _ROWS

    def _alone(self, value: Value) -> bool:
        """Whether one equation reads the value, and nothing else."""
        return len(self.users.get(value, ())) == 1 and value not in self.returned

    def _whole_sums(self) -> list[Equation]:
        """The sums that are no terms of others."""
        return [e for e in self.graph.equations if e.op.name == "add" and not self._is_part(e)]

    def _is_part(self, equation: Equation) -> bool:
        """Whether the sum is a term of another sum only."""
        (value,) = equation.outputs
        return (
            self._alone(value) and self.users[value][0].op.name == "add" and self._adds(self.users[value][0])
        )

    @staticmethod
    def _adds(equation: Equation) -> bool:
        """Whether an equation adds two matrices of its result's type."""
        return all(isinstance(v, Value) and v.type == equation.output.type for v in equation.inputs)

    def _terms(self, equation: Equation) -> list[Value]:
        """What a sum of sums adds up, from left to right."""
        terms: list[Value] = []
        pending = [equation.output]
        while pending:
            value = pending.pop()
            made = self.made.get(value)
            whole = value == equation.output
            if made is None or made.op.name != "add" or not (whole or self._alone(value)):
                terms.append(value)
            elif self._adds(made):
                pending += reversed(made.inputs)
            elif not whole and made.inputs[0] == 0 and made.inputs[1].type == value.type:
                pending.append(made.inputs[1])  # what Python's `sum` begins with
            else:
                terms.append(value)
        return terms

    def _product(self, term: Value) -> Equation | None:
        """The product `a.T @ b` that a term is, if it is one and nothing else reads it."""
        product = self.made.get(term)
        if product is None or product.op.name != "matmul" or not self._alone(term):
            return None
        rows = product.inputs[1].shape[0]
        if not self._small(product, LARGE if has_symbols((rows,)) or rows > FEW_ROWS else math.inf):
            return None
        left = self.made.get(product.inputs[0])
        transposed = left is not None and left.op.name == "permute" and left.params["dims"] == (1, 0)
        return product if transposed and product.output not in self.instead else None

    def _sum(self, equation: Equation, terms: Sequence[Value], products: Sequence[Equation]) -> None:
        """Put one product in the place of many."""
        self.at(equation)
        # A gradient adds up what came last first; so the slices of a tensor are in its own order.
        products = sorted(products, key=lambda e: -self.order[e.output])
        left = self._join([self.made[e.inputs[0]].inputs[0] for e in products])
        right = self._join([e.inputs[1] for e in products])
        operands = self.op("permute", left, dims=(1, 0)), right
        self._replace(equation, terms, {e.output for e in products}, "matmul", operands, {})

    def _replace(
        self,
        equation: Equation,
        terms: Sequence[Value],
        gathered: set[Value],
        name: str,
        operands: tuple[Operand, ...],
        params: dict[str, Any],
    ) -> None:
        """Let a sum of terms add up what an op makes of `operands`, and the terms that were not gathered."""
        for term in terms:
            if term not in gathered:
                operands, name, params = (self.op(name, *operands, **params), term), "add", {}
        self.instead[equation.output] = Equation(
            REGISTRY[name], operands, params, equation.outputs, equation.source
        )

    # Sums of slices.

    def rows(self) -> None:
        """Sums of what is zero but for one slice."""
        for equation in self._whole_sums():
            terms = self._added(equation)
            dim, layers = self._layers(terms)
            gathered = {term for layer in layers for term in layer.values()}
            last = max((place for place, term in enumerate(terms) if term in gathered), default=0)
            others = [term for term in terms[:last] if term not in gathered]
            # Whatever else is added up must be added in the same order. Of two numbers either can be first.
            if layers and len(others) <= (len(layers) == 1):
                self.at(equation)
                first, *further = (self._stacked(layer, dim, equation.output.type) for layer in layers)
                # An element of the sum has had zeros added to it: it is no -0.
                operands: tuple[Operand, ...] = first, 0
                for stacked in further:
                    operands = self.op("add", *operands), stacked
                self._replace(equation, terms, gathered, "add", operands, {})

    def _layers(self, terms: Sequence[Value]) -> tuple[int, list[dict[int, Value]]]:
        """The terms that are zero but for one slice along a dimension, by its number; those that come first
        for their number, second, and so on, as long as there are some.
        """
        found: dict[int, list[dict[int, Value]]] = {}
        for term in terms:
            slice_ = self._only_slice(term)
            if slice_ is not None:
                dim, number = slice_
                layers = found.setdefault(dim, [])
                free = next((layer for layer in layers if number not in layer), None)
                if free is None:
                    layers.append({number: term})
                else:
                    free[number] = term
        dim, layers = max(found.items(), key=lambda item: len(item[1][0]), default=(0, []))
        return dim, [layer for layer in layers if len(layer) >= FEW]

    def _added(self, equation: Equation) -> list[Value]:
        """What a sum adds up, one after the other."""
        terms: list[Value] = []
        value = equation.output
        while value == equation.output or self._alone(value):
            made = self.made.get(value)
            if made is None or made.op.name != "add" or not self._adds(made):
                break
            value, term = made.inputs
            terms.append(term)
        return [value, *reversed(terms)]

    def _only_slice(self, term: Value) -> tuple[int, int] | None:
        """A dimension, and the number of the slice along it outside of which a tensor is zero."""
        made = self.made.get(term)
        if made is None or made.op.name != "embed" or not self._alone(term) or has_symbols(term.shape):
            return None
        index = made.params["index"]
        dims = [d for d, entry in enumerate(index) if type(entry) is int]
        whole = [Slice(0, n, 1) for n in term.shape]
        if len(dims) != 1 or len(whole) == 1 or len(index) != len(whole) or 0 in term.shape:
            return None
        (dim,) = dims
        return (dim, index[dim]) if [*index[:dim], whole[dim], *index[dim + 1 :]] == whole else None

    def _stacked(self, rows: dict[int, Value], dim: int, type_: TensorType) -> Value:
        """A tensor of slices along a dimension, by number, and of zeros where there are none."""
        count, rest = type_.shape[dim], (*type_.shape[:dim], *type_.shape[dim + 1 :])
        parts: list[Value] = []
        end = 0
        for number in (*sorted(rows), count):
            if number > end:
                shape = ((number - end) * rest[0], *rest[1:])
                parts.append(self.op("full", shape=shape, value=0, dtype=FROM_NUMPY[type_.dtype]))
            if number in rows:
                parts.append(self.made[rows[number]].inputs[0])
            end = number + 1
        # Parts that lie one behind the other are computed in their places.
        stacked = self.op("reshape", self.op("cat", *parts, dim=0), shape=(count, *rest))
        if dim == 0:
            return stacked
        return self.op("permute", stacked, dims=(*range(1, dim + 1), 0, *range(dim + 1, len(type_.shape))))

    # Matrices on top of each other.

    def _join(self, parts: Sequence[Value]) -> Value:
        """Matrices on top of each other."""
        found = [row for row in map(self._row, parts) if row is not None]
        if len(found) == len(parts) and len({x for x, _ in found}) == 1:
            x, first = found[0]
            if [number for _, number in found] == [*range(first, first + len(parts))]:
                shape = (len(parts) * parts[0].shape[0], parts[0].shape[1])
                return self.op("reshape", self._rows(x, first, len(parts)), shape=shape)
        key = tuple(parts)
        if key not in self.joined:
            # Right behind the last part, so that whatever else needs it comes later.
            place, self.place = self.place, 1 + max(self.order.get(part, -1) for part in parts)
            self.joined[key], self.place = self.op("cat", *parts, dim=0), place
        return self.joined[key]
