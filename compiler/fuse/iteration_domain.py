"""The iteration domain: a group of equations goes in; along which axis each dimension runs comes out.

Every dimension of every value in a group is a node; elementwise ops join the nodes of their
operands and result, reductions join the kept ones. The classes that result are the axes of the
loop nest. Views between members only rename dimensions; values from outside are loads, each
with the strides of its own view.

    v0: f32[6, 40] = permute(y, dims=(1, 0))               v1: (0, 1)
    v1: f32[6, 40] = mul(x, v0)                become      v2: (1,)
    v2: f32[40] = sum(v1, dim=(0,))                        x: {0: 40, 1: 1}
                                                           y: {0: 1, 1: 6}

v1 and v2 are members, with an axis for each dimension; x and y are loads, with a stride for each axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.base.assemble_op import ASSEMBLE
from fusegrad.compiler.base.gather_op import FETCH, affine, indexed
from fusegrad.eager.core.families import Layout, Reduction, View, contiguous_layout
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Graph, Value

Axis = int
Dims = tuple[Axis | None, ...]  # for each dimension of a value its axis; None for size 1


class Sources:
    """Where values come from: their equations, and the memory that views look at.

    layouts: how materialised values lie (inputs as they were given; others are contiguous).
    """

    def __init__(self, graph: Graph, layouts: Mapping[Value, Layout] | None = None) -> None:
        self.graph = graph
        self.producer: dict[Value, Equation] = {o: e for e in graph.equations for o in e.outputs}
        self.layouts: dict[Value, Layout] = dict(layouts or {})
        self._resolved: dict[Value, tuple[Value, tuple[Equation, ...]]] = {}
        self._seen: dict[Value, Layout | None] = {}

    def resolve(self, value: Value) -> tuple[Value, tuple[Equation, ...]]:
        """The value that `value` is a view of, and the views in between, first applied first."""
        known = self._resolved.get(value)
        if known is None:
            equation = self.producer.get(value)
            if equation is not None and isinstance(equation.op, View):
                base, chain = self.resolve(equation.inputs[0])
                known = (base, (*chain, equation))
            else:
                known = (value, ())
            self._resolved[value] = known
        return known

    def base(self, value: Value) -> Value:
        """The value whose memory `value` looks at."""
        return self.resolve(value)[0]

    def layout(self, value: Value) -> Layout | None:
        """Where the elements of `value` lie in the memory of its base; None if no strides say it."""
        if value in self._seen:
            return self._seen[value]
        base, chain = self.resolve(value)
        layout: Layout | None = self.layouts.get(base) or contiguous_layout(base.shape)
        for equation in chain:
            if layout is not None:
                assert isinstance(equation.op, View)
                layout = equation.op.layout(layout, **equation.params)
        self._seen[value] = layout
        return layout


def mapped_dims(chain: Sequence[Equation], shape: tuple[int, ...]) -> list[int | None] | None:
    """For each dimension of a view the dimension of its base that it runs along.

    None in the list for dimensions of size 1 or stride 0; None instead of a list where the view
    cuts, reverses or merges dimensions, which only a materialised base allows.
    """
    dims: list[int | None] = [i if n != 1 else None for i, n in enumerate(shape)]
    sizes = list(shape)
    for equation in chain:
        name, params, result = equation.op.name, equation.params, equation.output.shape
        if name == "permute":
            dims = [dims[d] for d in params["dims"]]
        elif name == "expand":
            extra = len(result) - len(sizes)
            kept_dims = (d if sizes[i] == result[extra + i] else None for i, d in enumerate(dims))
            dims = [*[None] * extra, *kept_dims]
        elif name == "reshape":
            kept = [(n, d) for n, d in zip(sizes, dims, strict=True) if n != 1]
            if [n for n, _ in kept] != [n for n in result if n != 1]:
                return None
            source = iter(kept)
            dims = [None if n == 1 else next(source)[1] for n in result]
        elif name == "getitem":
            whole = [Slice(0, n, 1) for n in sizes]
            if [e for e in params["index"] if e is not None] != whole:
                return None
            source_dims = iter(dims)
            dims = [None if e is None else next(source_dims) for e in params["index"]]
        elif name != "detach":
            return None
        sizes = list(result)
    return dims


@dataclass
class Use:
    """An operand of an equation: a member of the group, or a load with strides along axes.

    places: the strides of the dimensions whose index is a scalar of the kernel.
    """

    value: Value
    base: Value
    member: bool
    dims: Dims
    strides: dict[Axis, int]
    offset: int
    places: tuple[int, ...] = ()


class Domain:
    """The axes of a group. `None` from `analyse` where dimensions clash.

    members: output dims of each member value; uses: operand dims by (equation, operand) index.
    """

    def __init__(
        self,
        equations: Sequence[Equation],
        members: dict[Value, Dims],
        uses: dict[tuple[int, int], Use],
        sizes: dict[Axis, int],
    ) -> None:
        self.equations = equations
        self.members = members
        self.uses = uses
        self.sizes = sizes

    @staticmethod
    def axes(dims: Dims) -> frozenset[Axis]:
        """The axes that a value with `dims` varies along."""
        return frozenset(a for a in dims if a is not None)


# A dimension of something in the group, by number; None for one of size 1, which is not run along.
_Node = int | None


class _Union:
    """Union-find over numbered nodes. extents: how many elements there are along each."""

    def __init__(self) -> None:
        self.extents: list[int] = []
        self._parent: list[int] = []

    def nodes(self, shape: Sequence[int]) -> list[_Node]:
        """A node of its own for each dimension."""
        found: list[_Node] = []
        for n in shape:
            if n == 1:
                found.append(None)
            else:
                found.append(len(self._parent))
                self._parent.append(len(self._parent))
                self.extents.append(n)
        return found

    def find(self, node: int) -> int:
        parent = self._parent
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    def copy(self) -> _Union:
        """What is joined so far, to be joined otherwise from here on."""
        made = _Union()
        made.extents, made._parent = self.extents, [*self._parent]
        return made

    def join(self, a: int, b: int) -> None:
        self._parent[self.find(a)] = self.find(b)


def analyse(equations: Sequence[Equation], sources: Sources) -> Domain | None:
    """The domain of a group, or None where it has none (what one of it makes meets its own transpose)."""
    union = _Union()
    made = {e.output for e in equations}
    outputs: dict[Value, list[_Node]] = {}
    nodes: dict[tuple[int, int], list[_Node]] = {}
    loads: dict[Any, list[list[int]]] = {}
    for i, equation in enumerate(equations):
        output = outputs[equation.output] = union.nodes(nest_shape(equation))
        for j, operand in enumerate(equation.inputs):
            if not isinstance(operand, Value):
                continue
            if equation.op is FETCH and j == 0:
                if sources.base(operand) in made:
                    return None
                nodes[i, j] = output
                continue
            base, chain = sources.resolve(operand)
            if base in made:
                dims = mapped_dims(chain, base.shape)
                if dims is None or not is_along_axes(base, outputs[base]):
                    return None
                found = [None if d is None else outputs[base][d] for d in dims]
            else:
                found = union.nodes(operand.shape)
            nodes[i, j] = found
            pairs = _joined(equation, found, output)
            if base not in made:
                # The same access twice runs along the same axes: softmax reads x to find its
                # maximum, and again to subtract it.
                layout = sources.layout(operand)
                assert layout is not None, "copies are put in before fusion"
                steps = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
                nodes_here = [node for node in found if node is not None]
                loads.setdefault((base, layout.offset, tuple(steps)), []).append(nodes_here)
            for a, b in pairs:
                union.join(a, b)
    apart = union.copy()
    for first, *others in loads.values():
        for other in others:
            for a, b in zip(first, other, strict=True):
                union.join(a, b)
    domain = _labelled(equations, outputs, nodes, union, sources)
    if domain is None and any(len(those) > 1 for those in loads.values()):
        # The points of a set and all their distances: the same is read along two axes.
        _join_where_possible(apart, [*outputs.values(), *nodes.values()], loads.values())
        domain = _labelled(equations, outputs, nodes, apart, sources)
    return domain


def nest_shape(equation: Equation) -> tuple[Any, ...]:
    """The shape of what a nest runs along to compute a result: its pieces are stored one after the other."""
    shape = equation.output.shape
    apart = equation.params["dims"] if equation.op is ASSEMBLE else ()
    return tuple([1 if d in apart else n for d, n in enumerate(shape)]) if apart else shape


def is_along_axes(value: Value, dims: Sequence[int | None]) -> bool:
    """Whether a nest runs along all dimensions of what it makes, which can be read of it then."""
    return all(d is not None or n == 1 for d, n in zip(dims, value.shape, strict=True))


def _join_where_possible(
    union: _Union, values: Sequence[list[_Node]], loads: Iterable[list[list[int]]]
) -> None:
    """Make axes along which the same is read one, unless one value would have that axis twice then.

    values: the dimensions of each. loads: for each access the dimensions of those that read it.
    """
    owners: dict[int, set[int]] = {}  # by axis so far, the values that run along it
    for number, dims in enumerate(values):
        for node in dims:
            if node is not None:
                owners.setdefault(union.find(node), set()).add(number)
    for readers in loads:
        ways: list[list[int]] = []
        for reader in readers:
            axes = [union.find(node) for node in reader]
            for way in ways:
                others = [union.find(node) for node in way]
                pairs = [(a, b) for a, b in zip(axes, others, strict=True) if a != b]
                if all(owners[a].isdisjoint(owners[b]) for a, b in pairs) and len({*pairs}) == len(pairs):
                    for a, b in pairs:
                        union.join(a, b)
                        owners[b] |= owners[a]
                    break
            else:
                ways.append(reader)


def _joined(equation: Equation, found: list[_Node], output: list[_Node]) -> list[tuple[int, int]]:
    """The pairs of nodes that the equation's family makes one axis."""
    if isinstance(equation.op, Reduction):
        dim, keepdim = equation.params["dim"], equation.params["keepdim"]
        reduced = set(range(len(found))) if dim is None else set(dim)
        if keepdim:
            pairs = [(n, o) for d, (n, o) in enumerate(zip(found, output, strict=True)) if d not in reduced]
        else:
            kept = [n for d, n in enumerate(found) if d not in reduced]
            pairs = list(zip(kept, output, strict=True))
    else:
        extra = len(output) - len(found)
        pairs = list(zip(found, output[extra:], strict=True))
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _labelled(
    equations: Sequence[Equation],
    outputs: dict[Value, list[_Node]],
    nodes: dict[tuple[int, int], list[_Node]],
    union: _Union,
    sources: Sources,
) -> Domain | None:
    """Number the classes and put the numbers in; None where one value has an axis twice."""
    numbers: dict[int, Axis] = {}
    sizes: dict[Axis, int] = {}

    def label(found: Sequence[_Node]) -> Dims | None:
        dims: list[Axis | None] = []
        for node in found:
            if node is None:
                dims.append(None)
                continue
            axis = numbers.setdefault(union.find(node), len(numbers))
            if sizes.setdefault(axis, union.extents[node]) != union.extents[node]:
                return None
            dims.append(axis)
        axes = [a for a in dims if a is not None]
        return tuple(dims) if len(set(axes)) == len(axes) else None

    members: dict[Value, Dims] = {}
    uses: dict[tuple[int, int], Use] = {}
    for i, equation in enumerate(equations):
        dims = label(outputs[equation.output])
        if dims is None:
            return None
        members[equation.output] = dims
        for j, operand in enumerate(equation.inputs):
            if not isinstance(operand, Value):
                continue
            dims = label(nodes[i, j])
            if dims is None:
                return None
            base = sources.base(operand)
            if equation.op is FETCH and j == 0:
                uses[i, j] = _fetched(equation, operand, base, dims, sources)
                continue
            strides: dict[Axis, int] = {}
            offset = 0
            if base not in outputs:
                layout = sources.layout(operand)
                assert layout is not None, "copies are put in before fusion"
                strides = {a: s for a, s in zip(dims, layout.strides, strict=True) if a is not None and s}
                offset = layout.offset
            uses[i, j] = Use(operand, base, base in outputs, dims, strides, offset)
    return Domain(equations, members, uses, sizes)


def _fetched(equation: Equation, operand: Value, base: Value, dims: Dims, sources: Sources) -> Use:
    """How a fetch reads its tensor: by strides along the axes of its result, and by indices."""
    layout, where = sources.layout(operand), equation.params["where"]
    assert layout is not None, "copies are put in before fusion"
    strides: dict[Axis, int] = {}
    offset = layout.offset
    for d, along in affine(where):
        offset += along.start * layout.strides[d]
        axis = None if along.dim is None else dims[along.dim]
        if axis is not None:
            strides[axis] = strides.get(axis, 0) + along.step * layout.strides[d]
    strides = {a: s for a, s in strides.items() if s}
    places = tuple(layout.strides[d] for d, _ in indexed(where))
    return Use(operand, base, False, dims, strides, offset, places)


def is_creation(equation: Equation) -> bool:
    """Whether the equation makes its values from nothing, so that any kernel can make them again."""
    return equation.op.family == "creation"
