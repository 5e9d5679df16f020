"""A stretch: ops in a row that a deferred run put off, compiled with what is alive at its end.

Its inputs are tensors that were there before, its results the tensors that somebody still holds
when values are asked for. The autograd graph must look to the user as eager's does: a result
from which another result was computed is on the way of that one's gradient, so the stretch is
cut behind it, and each part becomes one node.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.path import layout_of, make_path
from fusegrad.compiler.tree import Run, Tree
from fusegrad.eager.families import Layout
from fusegrad.eager.op import Op, Params, TensorType, wrap
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.capture import Capture, Output
from fusegrad.tracer.graph import Equation, Graph, Value
from fusegrad.tracer.tree import flatten


class Made(NamedTuple):
    """What is known of a tensor that a step makes, from the first time that it ran.

    strides: in bytes, since the user may ask for them before there are values. name: of its node.
    shares: whether it is a view of the step's input (a reshape may have copied).
    """

    type: TensorType
    strides: tuple[int, ...]
    needs_grad: bool
    name: str
    shares: bool


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
    """

    tree: Tree
    takes: list[tuple[str, Any]]
    gives: list[int]

    def describe(self) -> list[str]:
        """A line for each step of its program."""
        program = self.tree.root.program
        assert program is not None
        return program.describe()


class Stretch:
    """Compiled steps. Raises what the compiler raises when it is made.

    steps: in order. outside: the tensors that they take, of the types that all later runs have.
    alive: the numbers of the values that somebody holds.
    """

    def __init__(self, steps: Sequence[Step], outside: Sequence[Tensor], alive: Sequence[int]) -> None:
        self.steps = list(steps)
        self.makers = [step for step in steps for _ in step.gives]
        # Views are made of their bases afterwards, so that they share memory as they should.
        wanted = {self._base(i) for i in alive}
        bounds = [0, *(self.steps.index(self.makers[i]) + 1 for i in self._cuts(wanted)), len(self.steps)]
        bounds = sorted(set(bounds))
        self.parts: list[Part] = []
        for start, end in itertools.pairwise(bounds):
            later = {i for step in self.steps[end:] for i in step.sources()} | wanted
            part = self._part(self.steps[start:end], later, outside)
            if part is not None:
                self.parts.append(part)

    def _base(self, number: int) -> int:
        """The value that a view was made of; the value itself if it is none."""
        while self._known(number).shares:
            number = self.makers[number].sources()[0]
        return number

    def _known(self, number: int) -> Made:
        step = self.makers[number]
        return step.gives[number - step.first]

    def _cuts(self, wanted: set[int]) -> list[int]:
        """The wanted values with gradients that other such values are computed from."""
        tracked = {i for i in wanted if self._known(i).needs_grad}
        reached: dict[int, set[int]] = {}
        for step in self.steps:
            found = set().union(*(reached[i] | ({i} & tracked) for i in step.sources()))
            for k in range(len(step.gives)):
                reached[step.first + k] = found
        return sorted(set().union(*(reached[i] for i in tracked)))

    def _part(self, steps: Sequence[Step], later: set[int], outside: Sequence[Tensor]) -> Part | None:
        """The tree of `steps`, which gives what `later` names; None where that is nothing."""
        made = {step.first + k for step in steps for k in range(len(step.gives))}
        gives = sorted(made & later)
        if not gives:
            return None
        operands = dict.fromkeys(i for s in steps for i in s.inputs if i[0] != "number")
        takes = [o for o in operands if o[0] != "made" or o[1] not in made]
        values: dict[tuple[str, Any], Value] = {}
        tracked, layouts = set(), {}
        for kind, number in takes:
            if kind == "outside":
                array, tracks = outside[number].array, outside[number].needs_grad
                value = Value(f"x{number}", TensorType(array.shape, array.dtype))
                layouts[value] = layout_of(array)
            elif kind == "scalar":
                place, dtype = number
                value, tracks = Value(f"k{place}", TensorType((), dtype)), False
                layouts[value] = Layout((), ())
            else:
                known = self._known(number)
                value, tracks = Value(f"v{number}", known.type), known.needs_grad
                layouts[value] = layout_of(np.empty(known.type.shape, known.type.dtype))
            values[kind, number] = value
            if tracks:
                tracked.add(value)
        inputs = tuple(values.values())
        equations = []
        for step in steps:
            outputs = tuple(Value(f"v{step.first + k}", m.type) for k, m in enumerate(step.gives))
            inner = tuple(where if kind == "number" else values[kind, where] for kind, where in step.inputs)
            equations.append(Equation(step.op, inner, step.params, outputs))
            for output, known, k in zip(outputs, step.gives, range(len(outputs)), strict=True):
                values["made", step.first + k] = output
                if known.needs_grad:
                    tracked.add(output)
        results = [values["made", i] for i in gives]
        outputs_of = tuple(
            Output("value", value, None, known.needs_grad, known.name, known.strides)
            for value, known in zip(results, map(self._known, gives), strict=True)
        )
        graph = Graph(inputs, tuple(equations), tuple(results))
        structure = flatten(tuple(range(len(results))), [])
        capture = Capture(None, graph, inputs, {}, {}, frozenset(tracked), outputs_of, structure)
        path = make_path(capture, {value: i for i, value in enumerate(inputs)})
        return Part(Tree([path], layouts), takes, gives)

    def run(self, outside: Sequence[Tensor], scalars: Sequence[Any]) -> dict[int, Tensor] | None:
        """The values by number, without views; None where an op refuses its input, so that eager must
        say why."""
        from fusegrad.compiler.jit import finish

        found: dict[int, Tensor] = {}
        for part in self.parts:
            leaves = [
                outside[i] if kind == "outside" else found[i] if kind == "made" else _scalar(scalars, i)
                for kind, i in part.takes
            ]
            run = part.tree.run(leaves)
            if not isinstance(run, Run):
                return None
            if run.leaf.path.derives_alone and run.leaf.joint is None and run.leaf.followed():  # type: ignore[union-attr]
                part.tree.make_joint(run.leaf)
            found.update(zip(part.gives, finish(run, leaves), strict=True))
        return found


def _scalar(scalars: Sequence[Any], where: tuple[int, np.dtype]) -> Tensor:
    """A Python number as the tensor that a compiled stretch takes."""
    number, dtype = where
    return wrap(np.array(scalars[number], dtype))
