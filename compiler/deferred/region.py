"""A stretch: ops in a row that a deferred run put off, compiled with what is alive at its end.

Its inputs are tensors that were there before, its results the tensors that somebody still holds
when values are asked for. The autograd graph must look to the user as eager's does: a result
from which another result was computed is on the way of that one's gradient, so the stretch is
cut behind it, and each part becomes one node.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.deferred.shape_patterns import Made
from fusegrad.compiler.fastpath.straight import note_run
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.path import make_path
from fusegrad.compiler.paths.segments import MISSED, Segment, Stopped
from fusegrad.compiler.paths.tree import Tree, unusual_layout
from fusegrad.compiler.placement.memory_plan import copied
from fusegrad.eager.core.families import Layout, View, contiguous_layout, layout_of
from fusegrad.eager.core.op import Op, Params, TensorType, evaluate, wrap
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.captured import Capture, Output
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import Fixed


class Given(NamedTuple):
    """What is known of a tensor from outside that a stretch takes."""

    type: TensorType
    layout: Layout
    needs_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Given:
        """What is known of `tensor`."""
        array = tensor.array
        return cls(TensorType(array.shape, array.dtype), layout_of(array), tensor.needs_grad)


class Step(NamedTuple):
    """One op of a stretch.

    inputs: ("made", number of the value in the stretch), ("outside", number of the tensor),
    ("number", a Python number), or ("scalar", (number of a Python number that differs from run to
    run, dtype that it is computed in)). first: the number of its first output. gives: its outputs.
    """

    op: Op
    inputs: tuple[tuple[str, Any], ...]
    params: Params
    first: int
    gives: tuple[Made, ...]

    def operands(
        self, made: Mapping[int, Any], outside: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[Any, ...]:
        """What the op takes in a run."""
        places = {"made": made, "outside": outside}
        return tuple(
            [
                places[kind][where]  # type: ignore[index]
                if kind in places
                else (scalars[where[0]] if kind == "scalar" else where)
                for kind, where in self.inputs
            ]
        )

    def sources(self) -> list[int]:
        """The numbers of the values of the stretch that it reads."""
        return [where for kind, where in self.inputs if kind == "made"]


class Part(NamedTuple):
    """Steps that run as one tree.

    takes: its inputs, as `Step.inputs` names them. gives: the numbers of the values it makes.
    make_joint: makes one program of the forward and the backward of a leaf.
    """

    tree: Tree
    takes: list[tuple[str, Any]]
    gives: list[int]
    make_joint: Callable[[Segment], None]

    def by_steps(self, leaves: Sequence[Tensor]) -> Sequence[Tensor] | None:
        """The values, by the steps of a plan; None where an op refuses its input."""
        run = replay.run(self.tree, leaves)
        if isinstance(run, Stopped):
            return None
        if run.leaf.path.derivative.alone and run.leaf.joint is None and run.leaf.followed():  # type: ignore[union-attr]
            self.make_joint(run.leaf)
        made: Sequence[Tensor] = run.finish()
        note_run(self.tree)
        return made

    def describe(self, kernels: bool = False) -> list[str]:
        """See `Program.describe`."""
        code = self.tree.root.code
        assert code is not None
        return code.program.describe(kernels)


class Stretch:
    """Compiled steps. Raises what the compiler raises when it is made.

    steps: in order. outside: the tensors that they take. alive: the numbers of the values that
    somebody holds.
    """

    def __init__(self, steps: Sequence[Step], outside: Sequence[Given], alive: Sequence[int]) -> None:
        self.steps = list(steps)
        self.makers = [step for step in steps for _ in step.gives]
        # Views are made of their bases afterwards, so that they share memory as they should.
        wanted = {self._base(i) for i in alive}
        cuts = self._cuts(wanted, alive)
        self._handed = cuts - wanted
        self._open = any(has_symbols(made.type.shape) for step in steps for made in step.gives)
        bounds = sorted({0, *(self.steps.index(self.makers[i]) + 1 for i in cuts), len(self.steps)})
        self.parts: list[Part] = []
        for start, end in itertools.pairwise(bounds):
            later = {self._base(i) for step in self.steps[end:] for i in step.sources()} | wanted
            part = self._part(self.steps[start:end], later, outside)
            if part is not None:
                self.parts.append(part)

    def with_parts(self, parts: list[Part], sized: Callable[[Params], Params]) -> Stretch:
        """The same steps with other code; `sized` gives the parameters with numbers for open sizes."""
        made = copied(self)
        made.parts = parts
        if self._handed:
            made.makers = [step._replace(params=sized(step.params)) for step in self.makers]
        return made

    def is_view(self, number: int) -> bool:
        """Whether a value has the memory of another, so that `run` does not make it."""
        return self._known(number).shares

    def _base(self, number: int) -> int:
        """The value that a view was made of; the value itself if it is none."""
        while self._known(number).shares:
            number = self.makers[number].sources()[0]
        return number

    def _known(self, number: int) -> Made:
        step = self.makers[number]
        return step.gives[number - step.first]

    def _cuts(self, wanted: set[int], alive: Sequence[int]) -> set[int]:
        """The values with gradients that somebody holds, views among them, and that wanted ones are computed
        from.
        """
        tracked = {i for i in (*wanted, *alive) if self._known(i).needs_grad}
        reached: dict[int, set[int]] = {}
        for step in self.steps:
            found = set().union(*(reached[i] | ({i} & tracked) for i in step.sources()))
            for k in range(len(step.gives)):
                reached[step.first + k] = found
        return set().union(*(reached[i] for i in tracked & wanted))

    def _views(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that make the views which `steps` take from before: parts hand on their bases alone,
        unless somebody may derive to them.
        """
        made, found = _numbers(steps), dict[int, Step]()
        pending = [i for step in steps for i in step.sources()]
        while pending:
            number = pending.pop()
            if number in made or number in found or number in self._handed:
                continue
            if self._known(number).shares:
                found[number] = self.makers[number]
                pending += found[number].sources()
        return [found[number] for number in sorted(found)]

    def _part(self, own: Sequence[Step], later: set[int], outside: Sequence[Given]) -> Part | None:
        """The tree of the steps `own`, which gives what `later` names; None where that is nothing."""
        gives = sorted(_numbers(own) & later)
        if not gives:
            return None
        steps = [*self._views(own), *own]
        made = _numbers(steps)
        operands = dict.fromkeys(i for s in steps for i in s.inputs if i[0] != "number")
        takes = [o for o in operands if o[0] != "made" or o[1] not in made]
        given = {operand: self._given(operand, outside) for operand in takes}
        values = {o: Value(_name(*o), known.type) for o, known in given.items()}
        inputs = tuple(values.values())
        equations = []
        for step in steps:
            outputs = tuple(Value(f"v{step.first + k}", m.type) for k, m in enumerate(step.gives))
            inner = tuple(where if kind == "number" else values[kind, where] for kind, where in step.inputs)
            equations.append(Equation(step.op, inner, step.params, outputs))
            values.update((("made", step.first + k), output) for k, output in enumerate(outputs))
        graph = Graph(inputs, tuple(equations), tuple(values["made", i] for i in gives))
        tracked = {values[o] for o, known in given.items() if known.needs_grad}
        tracked |= {values["made", i] for i in made if self._known(i).needs_grad}
        numbers = [value for (kind, _), value in zip(takes, inputs, strict=True) if kind == "scalar"]
        capture = self._capture(graph, tracked, gives)
        path = make_path(capture, {value: i for i, value in enumerate(inputs)}, ({}, []), numbers)
        tree = Tree([path], {values[o]: known.layout for o, known in given.items()}).complete()
        return Part(tree, takes, gives, tree.make_joint)

    def _given(self, operand: tuple[str, Any], outside: Sequence[Given]) -> Given:
        """What is known of an input."""
        kind, where = operand
        if kind == "outside":
            return outside[where]
        if kind == "scalar":
            return Given(TensorType((), where[1]), Layout((), ()), False)
        known, strides = self._known(where), self._strides(where)
        shape = known.type.shape
        if where in self._handed:
            return Given(known.type, Layout(shape, strides), known.needs_grad)
        layout = unusual_layout(shape, strides) or contiguous_layout(shape)
        return Given(known.type, layout, known.needs_grad)

    def _strides(self, number: int) -> tuple[Any, ...]:
        """The strides of a value in elements, also of a view whose sizes are open."""
        known, step = self._known(number), self.makers[number]
        if not (known.shares and self._open):
            return tuple(s // known.type.dtype.itemsize for s in known.strides)
        if not isinstance(step.op, View):
            raise Fixed(f"{step.op.name} does not say where the elements of a view lie")
        (source,) = step.sources()
        layout = step.op.layout(Layout(self._known(source).type.shape, self._strides(source)), **step.params)
        assert layout is not None, "a view lies somewhere in what it is a view of"
        return layout.strides

    def _capture(self, graph: Graph, tracked: set[Value], gives: list[int]) -> Capture:
        """A graph as if a run of it had been recorded that returned all its results."""
        outputs = tuple(
            Output("value", value, None, known.needs_grad, known.name, known.strides)
            for value, known in zip(graph.outputs, map(self._known, gives), strict=True)
        )
        structure = flatten(tuple(range(len(gives))), [])
        return Capture(None, graph, graph.inputs, {}, {}, frozenset(tracked), outputs, structure)

    def run(self, outside: Sequence[Tensor], scalars: Sequence[Any]) -> dict[int, Tensor] | None:
        """The values by number, without the views that nobody derives to; None where an op refuses its input,
        so that eager must say why.
        """
        found: dict[int, Tensor] = {}
        for part in self.parts:
            leaves = [
                outside[i]
                if kind == "outside"
                else self._made(i, found)
                if kind == "made"
                else _scalar(scalars, i)
                for kind, i in part.takes
            ]
            answer = part.tree.root.answers.straight
            made = MISSED if answer is None or state.inference else answer(leaves)
            if made is MISSED:
                made = part.by_steps(leaves)
                if made is None:
                    return None
            found.update(zip(part.gives, made, strict=True))
        return found

    def _made(self, number: int, found: dict[int, Tensor]) -> Tensor:
        """A value that a part has made, or a view of one; noted in `found`."""
        if number not in found:
            step = self.makers[number]
            sources = {i: self._made(i, found) for i in step.sources()}
            found[number] = evaluate(step.op, step.operands(sources, (), ()), step.params)
        return found[number]


def _numbers(steps: Sequence[Step]) -> set[int]:
    """The numbers of the values that steps make."""
    return {step.first + k for step in steps for k in range(len(step.gives))}


def _name(kind: str, where: Any) -> str:
    """The name of an input."""
    return {"outside": f"x{where}", "made": f"v{where}"}.get(kind) or f"k{where[0]}"


def _scalar(scalars: Sequence[Any], where: tuple[int, np.dtype]) -> Tensor:
    """A Python number as the tensor that a compiled stretch takes."""
    number, dtype = where
    return wrap(np.array(scalars[number], dtype))
