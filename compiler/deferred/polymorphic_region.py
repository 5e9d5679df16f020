"""A form: a stretch compiled once for all sizes that would be compiled alike.

The sizes of a stretch are those of the tensors that it takes, and those in the parameters of its ops, in
the order in which the ops come. Those that differ from run to run are left open
(`tracer/ir/symbolic_sizes.py`): the shapes of all values, the gradients and the kernels follow from them.
A form with its sizes put in is a `Stretch` that runs; putting them in compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.deferred.region import Given, Part, Step, Stretch
from fusegrad.compiler.deferred.shape_patterns import dense_order, dense_strides, filled, layout_key
from fusegrad.compiler.paths.segments import Answers, Code, Segment
from fusegrad.compiler.placement.memory_plan import copied, with_sizes
from fusegrad.eager.core.families import Layout
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Graph
from fusegrad.tracer.ir.symbolic_sizes import Sizes, Values


class Form:
    """A stretch with open sizes. Raises what the compiler raises when it is made.

    steps, outside, alive: as `Stretch` takes them, with the sizes of a run. sizes: all of these. others:
    sizes of other runs; what differs from them is left open, and without any, with `every`, all sizes.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        outside: Sequence[Tensor],
        alive: Sequence[int],
        sizes: tuple[int, ...],
        others: Sequence[tuple[int, ...]] = (),
        every: bool = False,
    ) -> None:
        columns = list(zip(sizes, *others, strict=True))
        open_columns: dict[tuple[int, ...], int] = {}  # with the place where each comes first
        self._expected: list[int | _Known] = []
        for place, column in enumerate(columns):
            differs = any(n != column[0] for n in column) if others else every
            if not differs or column[0] < 2:
                self._expected.append(column[0])
                continue
            known = _from_known(column, list(open_columns))
            if known is None:
                known = _Known(len(open_columns), 1, 0)
                open_columns[column] = place
            self._expected.append(known)
        self._first = list(open_columns.values())
        self.sizes = Sizes([sizes[place] for place in self._first])
        symbols = [e if type(e) is int else e.of(self.sizes.dims) for e in self._expected]  # type: ignore[union-attr]
        self.uses = 0
        if not self.open:
            self.stretch = Stretch(steps, [Given.of(tensor) for tensor in outside], alive)
            return
        given, opened = _opened(steps, outside, symbols)
        self._stretch = Stretch(opened, given, alive)
        self._parts = [_OpenPart(part, self.sizes) for part in self._stretch.parts]
        self._holds = self.sizes.close()
        first = self.at(sizes)
        assert first is not None
        self.stretch = first

    @property
    def open(self) -> bool:
        """Whether any size was left open."""
        return bool(self._first)

    @property
    def parts(self) -> list[Part]:
        """The parts, with the sizes that the form was made with."""
        return self.stretch.parts

    def at(self, sizes: tuple[int, ...]) -> Stretch | None:
        """The stretch with these sizes; None where it would have been compiled otherwise."""
        given = [sizes[place] for place in self._first]
        expected = [e if type(e) is int else e.of(given) for e in self._expected]  # type: ignore[union-attr]
        if [*sizes] != expected:
            return None
        if not self.open:
            return self.stretch
        if min(given) < 2 or not self._holds(*given):
            return None
        self.uses += 1
        values = self.sizes.values(given)
        parts = [part.at(values) for part in self._parts]
        return self._stretch.with_parts(parts, lambda params: {k: values.of(v) for k, v in params.items()})


class _Known(NamedTuple):
    """A size that follows from an open one."""

    number: int
    factor: int
    more: int

    def of(self, sizes: Sequence[Any]) -> Any:
        """The size, from the open ones."""
        return sizes[self.number] * self.factor + self.more


def _from_known(column: tuple[int, ...], known: Sequence[tuple[int, ...]]) -> _Known | None:
    """How a size comes from an open one, judging by all runs; in later ones that is tested.

    One run alone tells only which sizes are equal.
    """
    for number, other in enumerate(known):
        more = column[0] - other[0]
        if len(column) == 1:
            if not more:
                return _Known(number, 1, 0)
            continue
        if all(n - m == more for n, m in zip(column, other, strict=True)):
            return _Known(number, 1, more)
        factor = column[0] // other[0]
        if all(n == m * factor for n, m in zip(column, other, strict=True)):
            return _Known(number, factor, 0)
    return None


def _opened(
    steps: Sequence[Step], outside: Sequence[Tensor], symbols: Sequence[Any]
) -> tuple[list[Given], list[Step]]:
    """What a stretch takes and its steps, with `symbols` for the sizes; the ops' rules give the shapes."""
    source = iter(symbols)
    given: list[Given] = []
    types: dict[int, TensorType] = {}
    # Shape rules do not look at the Python numbers of a run, but for their types.
    scalars = [where for step in steps for kind, where in step.inputs if kind == "scalar"]
    numbers = [1 if dtype.kind == "i" else 0.5 for _, dtype in sorted(scalars, key=lambda where: where[0])]
    opened: list[Step] = []
    for step in steps:
        for kind, number in step.inputs:
            if kind == "outside" and number == len(given):
                given.append(_given(outside[number], source))
        params = filled(step.params, source)
        operands = step.operands(types, [g.type for g in given], numbers)
        inferred = step.op.infer(operands, params)
        found = (inferred,) if isinstance(inferred, TensorType) else inferred
        gives = []
        for k, (known, type_) in enumerate(zip(step.gives, found, strict=True)):
            itemsize = type_.dtype.itemsize
            order = dense_order(known.type.shape, known.strides, itemsize)
            if order is None and not step.op.view:
                order = tuple(range(type_.ndim))  # see `patterns.predicted`
            # A view's strides are not asked for: results are given as the views that they are.
            strides = known.strides if order is None else dense_strides(type_.shape, order, itemsize)
            gives.append(known._replace(type=type_, strides=strides))
            types[step.first + k] = type_
        opened.append(Step(step.op, step.inputs, params, step.first, tuple(gives)))
    return given, opened


def _given(tensor: Tensor, source: Iterator[Any]) -> Given:
    """What is known of a tensor, with the next symbols for its sizes."""
    array = tensor.array
    shape = tuple([next(source) for _ in array.shape])
    order = dense_order(array.shape, array.strides, array.itemsize)
    if order is not None:
        strides = dense_strides(shape, order, 1)
    elif len(layout_key(array)[1]) > array.ndim:
        strides = tuple([next(source) for _ in array.shape])
    else:
        return Given.of(tensor)
    return Given(TensorType(shape, array.dtype), Layout(shape, strides), tensor.needs_grad)


# With numbers for the sizes.


class _OpenPart:
    """A part with open sizes: what is to be made again of it for each."""

    def __init__(self, part: Part, sizes: Sizes) -> None:
        self.part, self.sizes = part, sizes
        self._joint_holds: Callable[..., bool] | None = None  # once somebody has asked for a joint program
        assert part.tree.root.path is not None
        graph = part.tree.root.path.capture.graph
        # Only derivatives of derivatives need the equations again.
        self._has_sizes = any(has_symbols(tuple(e.params.values())) for e in graph.equations)

    def at(self, values: Values) -> Part:
        """The part with its sizes: the same kernels in other places."""
        root, part = self.part.tree.root, self.part
        segment, path = copied(root), copied(root.path)
        assert segment.code is not None and path is not None
        segment.code = _sized(segment.code, values)
        if segment.backward is not None:
            segment.backward = _sized(segment.backward, values)
        path.derivative = copied(path.derivative)
        path.derivative.types = values.of(path.derivative.types)
        if self._has_sizes:
            path.capture = copied(path.capture)
            graph = path.capture.graph
            path.capture.graph = Graph(graph.inputs, with_sizes(graph.equations, values), graph.outputs)
        segment.path = path
        known = root.answers
        segment.answers = Answers(facts=known.facts, usage=known.usage)
        segment.joint = self._joint(values)
        tree = copied(part.tree)
        tree.root, tree.paths = segment, [path]
        return Part(tree, part.takes, part.gives, lambda leaf: self._make_joint(leaf, values))

    def _make_joint(self, leaf: Segment, values: Values) -> None:
        """Give the leaf its joint program, which is planned once, with guards of its own."""
        with compiling:
            if self._joint_holds is None:
                self.sizes.begin()
                try:
                    self.part.tree.make_joint(self.part.tree.root)
                finally:
                    self._joint_holds = self.sizes.close()
        leaf.joint = self._joint(values)

    def _joint(self, values: Values) -> Code | None:
        joint, holds = self.part.tree.root.joint, self._joint_holds
        if joint is None or holds is None or not holds(*values.given.values()):
            return None
        return _sized(joint, values)


def _sized(code: Code, sizes: Values) -> Code:
    """Code with numbers for its sizes."""
    places = (_at(spots, sizes) for spots in (code.checks, code.results, code.left, code.gradients))
    checks, results, left, gradients = places
    program = code.program.at(sizes)
    spots = _at([spot for _, spot in code.keeps], sizes)
    keeps = [(place, spot) for (place, _), spot in zip(code.keeps, spots, strict=True)]
    found = checks, keeps, code.guard, results, left, gradients
    return Code(program, code.inputs, *found, code.held)


def _at(places: Sequence[Any], sizes: Values) -> list[Any]:
    """Places in a program's arrays, with the views to apply."""
    return [(index, with_sizes(chain, sizes) if chain else chain) for index, chain in places]
