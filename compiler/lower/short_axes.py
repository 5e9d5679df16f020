"""Short axes: what is computed of coordinates, colours or small matrices is computed for each of them apart.

A nest runs along axes. What picks one of three coordinates, or puts three together, is no nest: the whole
must lie in memory before, and is read again behind. A dimension of known size up to `MOST` is no axis, if
that costs less: its elements are values of their own, pieces, and `cat`, slices, zeros around something,
small products and sums along it move names.

    v0: f32[9, 3] = mul(x, 2)                     l0: f32[9, 1] = getitem(x, index=(..., slice(1, 2, 1)))
    v1: f32[9, 1] = getitem(v0, index=(..., 1:2)) l1: f32[9, 1] = mul(l0, 2)
    v2: f32[9, 2] = getitem(v0, index=(..., :1))  ...
    v3: f32[9, 3] = cat(v1, v2, dim=1)            v3: f32[9, 3] = assemble(l1, l3, l5, dims=(1,))

Each element is computed by the same ops as before. The whole is put together where somebody needs it, by the
kernel that computes the pieces. Which dimensions hang together, and how their elements move, each op says in
`pieces.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fusegrad.compiler.kernel.ir import ELEMENTARY
from fusegrad.compiler.lower.piece_rules import links_of, rule_of
from fusegrad.compiler.lower.pieces import MOST, Links, Pieces, is_eligible
from fusegrad.eager.core.families import Contraction, Elementwise, Reduction, View
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# About what it takes in cycles to begin another kernel; to compute a vector of one thing and another; what a
# statement more in a kernel takes LLVM, of so many calls that will be made; and for how many bytes, written
# and read again, memory takes a cycle.
KERNEL, PLAIN, FUNCTION, COMPILED, BYTES = 200.0, 1.0, 14.0, 20.0, 4.0
VECTOR = 64  # bytes

_Node = tuple[Value, int]  # a dimension of a value


def with_short_axes_apart(graph: Graph, kept_between: bool = False) -> Graph:
    """The graph with what moves along short dimensions computed for each element of these apart.

    kept_between: whether values are going to be kept between parts of the graph, each in an array of its own.
    """
    found = _Dimensions(graph)
    axes = found.chosen(VECTOR if kept_between else 0)
    if not axes:
        return graph
    pieces = Pieces(graph, axes)
    for equation in graph.equations:
        pieces.put(equation, None if links_of(equation) is None else rule_of(equation))
    outputs = [pieces.whole(v) if isinstance(v, Value) else v for v in graph.outputs]
    return passes.dead_code(Graph(graph.inputs, tuple(pieces.equations), tuple(outputs)))


class _Dimensions:
    """The short dimensions of what kernels compute, those together that only make sense apart together.

    links: what is known of equations, by result. moved: by dimension what lies in memory for it: values of
    which only a part is read along it, or that are a part along it. whole: values that are needed as a whole.
    """

    def __init__(self, graph: Graph) -> None:
        self.made: dict[Value, Equation] = {}
        self.links: dict[Value, Links] = {}
        self.whole = {v for v in graph.outputs if isinstance(v, Value)}
        self._parents: dict[_Node, _Node] = {}
        self._users = graph.users()
        for equation in graph.equations:
            self._note(equation)

    def _note(self, equation: Equation) -> None:
        links = links_of(equation)
        if links is None:
            self.whole.update(equation.values())
            return
        made = equation.output
        if isinstance(equation.op, View) and not self.is_computed(equation.inputs[0]):
            return  # a part of what lies in memory is there
        self.made[made], self.links[made] = equation, links
        found = {*links.consumed}
        for number, dim, along in links.pairs:
            operand = equation.inputs[number]
            if is_eligible(operand, dim) and is_eligible(made, along):
                found.add((number, dim))
                self._join((operand, dim), (made, along))
        for (number, dim), (other, along) in links.met:
            self._join((equation.inputs[number], dim), (equation.inputs[other], along))
        for number, operand in enumerate(equation.inputs):
            if isinstance(operand, Value) and any(
                is_eligible(operand, d) and (number, d) not in found for d in range(len(operand.shape))
            ):
                self.whole.add(operand)

    def _join(self, one: _Node, other: _Node) -> None:
        if (
            self.is_computed(one[0])
            and self.is_computed(other[0])
            and is_eligible(*one)
            and is_eligible(*other)
        ):
            self._parents[self._find(one)] = self._find(other)

    def is_computed(self, value: Any) -> bool:
        """Whether kernels compute a value, as it is or as what it is a view of."""
        return value in self.made

    def _find(self, node: _Node) -> _Node:
        parents = self._parents
        while (above := parents.setdefault(node, node)) != node:
            parents[node] = parents.setdefault(above, above)
            node = above
        return node

    def chosen(self, least: int) -> dict[Value, tuple[int, ...]]:
        """For values that are computed apart the dimensions along which they are.

        least: of what hangs together some pieces have to be of so many bytes.
        """
        together: dict[_Node, list[_Node]] = {}
        for value in self.made:
            for dim in range(len(value.shape)):
                if is_eligible(value, dim):
                    together.setdefault(self._find((value, dim)), []).append((value, dim))
        moved = self._moved()
        gains = {root: self._gain(together[root], moved[root]) for root in moved if root in together}
        axes: dict[Value, tuple[int, ...]] = {}
        wanted = sorted((r for r in gains if gains[r] > 0), key=lambda r: -gains[r])
        while wanted:
            for root in wanted:
                own: dict[Value, list[int]] = {}
                for value, dim in together.pop(root):
                    own.setdefault(value, [*axes.get(value, ())]).append(dim)
                largest = max(_bytes(v) / math.prod(v.shape[d] for d in dims) for v, dims in own.items())
                if largest >= least and all(
                    math.prod(v.shape[d] for d in dims) <= MOST for v, dims in own.items()
                ):
                    axes.update((v, tuple(sorted(dims))) for v, dims in own.items())
            wanted = [root for root in self._reduced_for(axes) if root in together]
        return axes

    def _reduced_for(self, axes: Mapping[Value, object]) -> dict[_Node, None]:
        """The dimensions along which something is reduced that pieces are computed of: in the nest of these
        it is no loop, either.
        """
        found: dict[_Node, None] = {}
        near: set[Value] = set()
        for value, equation in reversed(self.made.items()):
            if value in axes or value in near:
                near.update(v for v in equation.values() if v in self.made and v not in axes)
                if isinstance(equation.op, Reduction):
                    (x,) = equation.inputs
                    found.update(
                        (self._find((x, d)), None)
                        for _, d in self.links[value].consumed
                        if self.is_computed(x) and is_eligible(x, d)
                    )
        return found

    def _moved(self) -> dict[_Node, set[Value]]:
        """By the dimensions that hang together what has to lie in memory because parts of it move."""
        found: dict[_Node, set[Value]] = {}
        for value, links in self.links.items():
            equation = self.made[value]
            if isinstance(equation.op, View) and not self._is_used(value):
                continue
            for number, of_result, dim in links.moved:
                operand = equation.inputs[number]
                node = (value if of_result else operand), dim
                if self.is_computed(operand) and is_eligible(*node):
                    found.setdefault(self._find(node), set()).add(operand)
        return found

    def _is_used(self, value: Value) -> bool:
        """Whether a kernel computes something of a value."""
        return any(e.outputs and e.output in self.links for e in self._users.get(value, ()))

    def _gain(self, nodes: list[_Node], moved: set[Value]) -> float:
        """The cycles, about, that are saved where these dimensions are apart."""
        saved = sum(KERNEL + _bytes(v) / BYTES for v in moved if v not in self.whole)
        return saved - sum(self._cost(value, dim) for value, dim in nodes)

    def _cost(self, value: Value, dim: int) -> float:
        """How much more work a value is, one index along a dimension after the other."""
        equation = self.made[value]
        elements, count = likely(math.prod(value.shape)), value.shape[dim]
        lanes = VECTOR // value.dtype.itemsize
        vectors = count * -(-elements // (count * lanes)) - -(-elements // lanes)
        # Where it is needed as a whole, vectors of pieces are turned over.
        turned = _bytes(value) / VECTOR if value in self.whole else 0.0
        if isinstance(equation.op, View):
            return turned
        statements = _statements(equation, dim)
        return turned + statements * (COMPILED * (count - 1) + _cycles(equation) * vectors)


def _bytes(value: Value) -> float:
    return float(likely(math.prod(value.shape)) * value.dtype.itemsize)


def _statements(equation: Equation, dim: int) -> int:
    """How many statements of a kernel one index along a dimension takes."""
    if not isinstance(equation.op, Contraction):
        return 1
    sides = equation.inputs[0].shape[-1], *equation.output.shape[-2:]
    short = [n for n in sides if type(n) is int and n <= MOST]
    return 2 * math.prod(short) // equation.output.shape[dim]


def _cycles(equation: Equation) -> float:
    op = equation.op
    return FUNCTION if isinstance(op, Elementwise) and op.scalar in ELEMENTARY else PLAIN
