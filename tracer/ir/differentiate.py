"""Differentiation: a graph and the values to derive go in, the graph of their gradients comes out.

The gradient rules of eager are run on types, and what they do is written down.

Source: reverse-mode differentiation of a straight-line program; the rules are the ones that
eager's nodes run (`Op.gradient`), so both give the same equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.abstract import AbstractInterpreter, interpreted, stand_in
from fusegrad.eager.core.op import Op, Params
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.cotangent import (
    TRUTH,
    Cotangent,
    Cotangents,
    Presence,
    Structured,
    present_of,
    zeros_of,
)
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Source, Value, array_type, identifier


class NoGradient(Exception):
    """The rule of an op says that for these inputs it has no gradient."""


class Builder(AbstractInterpreter):
    """Abstract evaluation that writes down what it is asked: for making graphs from rules.

    names: names that are taken already; new values get fresh ones with `prefix`.
    """

    def __init__(self, names: set[str], prefix: str = "v") -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Value, np.ndarray] = {}
        self.source: Source | None = None
        self._names = names
        self._prefix = prefix
        self._count = 0
        self._values: dict[int, Value] = {}
        self._tensors: dict[Value, Tensor] = {}
        self._alive: list[Tensor] = []

    def tensor(self, value: Any) -> Any:
        """The abstract tensor that stands for `value` (numbers stand for themselves)."""
        if not isinstance(value, Value):
            return value
        tensor = self._tensors.get(value)
        if tensor is None:
            tensor = stand_in(value.type)
            self._define(value, tensor)
        return tensor

    def value(self, tensor: Any) -> Any:
        """The value that `tensor` stands for; a real tensor becomes a constant."""
        if not isinstance(tensor, Tensor):
            return tensor
        value = self._values.get(id(tensor.array))
        if value is None:
            value = Value(self._fresh("constant"), array_type(tensor.array))
            self.constants[value] = tensor.array
            self._define(value, tensor)
        return value

    def made(
        self, op: Op, args: tuple[Any, ...], params: Params, outputs: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        inputs = tuple(self.value(a) for a in args)
        values = []
        for tensor in outputs:
            value = Value(self._fresh(self._prefix), array_type(tensor.array))
            self._define(value, tensor)
            values.append(value)
        self.equations.append(Equation(op, inputs, dict(params), tuple(values), self.source))
        return outputs

    def check(self, tensor: Tensor, passed: Callable[[], Tensor], within: tuple[int, ...] = ()) -> bool:
        """A test of an op's input: a guard in the graph."""
        params = {"expected": True, "kind": "check"}
        self.equations.append(Equation(GUARD, (self.value(passed()),), params, (), self.source))
        return False

    def takes(self, name: str) -> None:
        """Somebody else has given a value this name."""
        self._names.add(name)

    def _define(self, value: Value, tensor: Tensor) -> None:
        self._values[id(tensor.array)] = value
        self._tensors[value] = tensor
        self._alive.append(tensor)
        self._names.add(value.name)

    def _fresh(self, prefix: str) -> str:
        while True:
            name = f"{prefix}{self._count}"
            self._count += 1
            if name not in self._names:
                return identifier(name, self._names)


def differentiate(
    graph: Graph, tracked: frozenset[Value], outputs: Sequence[Value], wanted: Sequence[Value]
) -> tuple[Graph, dict[Value, np.ndarray], tuple[Value, ...]]:
    """The graph that gives the gradients of `wanted` from those of `outputs`.

    tracked: the values of `graph` that need gradients; gradients flow through no others.
    Its inputs are the gradients of `outputs` (named `g_NAME`), then the values of `graph` that the
    rules need, in the order of their definition. The second result binds its constants; the
    third is those of `wanted` that a gradient reaches, in the order of the graph's outputs.

    Raises NoGradient where a rule raises what eager's backward would raise to the user.
    """
    names = graph.names()
    builder = Builder(names, "d")
    seeds = [Value(identifier(f"g_{v.name}", builder._names), v.type) for v in outputs]
    gradients: dict[Value, Cotangent] = {}

    def walk() -> list[Any]:
        given = ((v, Cotangent(builder.tensor(seed))) for v, seed in zip(outputs, seeds, strict=True))
        gradients.update(walked_back(graph, given, tracked, builder))
        return [builder.value(gradients[v].gradient) for v in wanted if v in gradients]

    results = interpreted(builder, walk)
    known = {o for e in builder.equations for o in e.outputs} | set(seeds) | set(builder.constants)
    order = (*graph.inputs, *(o for e in graph.equations for o in e.outputs))
    read = {v for e in builder.equations for v in e.values()} | {v for v in results if isinstance(v, Value)}
    needed = [v for v in order if v in read and v not in known]
    inputs = (*seeds, *needed, *builder.constants)
    reached = tuple(v for v in wanted if v in gradients)
    return Graph(inputs, tuple(builder.equations), tuple(results)), builder.constants, reached


def walked_back(
    graph: Graph, given: Iterable[tuple[Value, Cotangent]], tracked: frozenset[Value], builder: Builder
) -> dict[Value, Cotangent]:
    """The cotangents of the values of a graph, which the builder writes down.

    given: some of its outputs, each with its cotangent.
    """
    found: dict[Value, Cotangent] = {}

    def add(value: Value, more: Cotangent) -> None:
        known = found.get(value)
        found[value] = more if known is None else known.plus(more)

    for output, seed in given:
        add(output, seed)
    for equation in reversed(graph.equations):
        outputs = [found.get(v) if v in tracked else None for v in equation.outputs]
        if equation.op.rules is None or all(known is None for known in outputs):
            continue
        builder.source = equation.source
        try:
            pulled = _pulled_back(equation, outputs, tracked, builder)
        except RuntimeError as refusal:
            raise NoGradient(str(refusal)) from refusal
        for operand, cotangent in zip(equation.inputs, pulled, strict=True):
            if cotangent is not None and operand in tracked:
                add(operand, cotangent)
    builder.source = None
    return found


def _pulled_back(
    equation: Equation, given: Cotangents, tracked: frozenset[Value], builder: Builder
) -> Cotangents:
    """The cotangents of an equation's inputs, from those of its outputs."""
    op, params = equation.op, dict(equation.params)
    inputs = [builder.tensor(v) for v in equation.inputs]
    outputs = [builder.tensor(v) for v in equation.outputs]
    if isinstance(op, Structured):
        return op.pull_back(given, inputs, outputs, params)
    gradients = [
        zeros_of(v) if known is None else known.gradient
        for known, v in zip(given, equation.outputs, strict=True)
    ]
    g: Any = gradients if len(gradients) > 1 else gradients[0]
    present = present_of(x for x in given if x is not None)
    types = [v.type if isinstance(v, Value) else None for v in equation.inputs]
    found: list[Cotangent | None] = []
    for index, operand in enumerate(equation.inputs):
        gradient = None
        if isinstance(operand, Value) and operand in tracked and op.rule(index) is not None:
            gradient = op.gradient(index, g, inputs, outputs, types, params)
        found.append(None if gradient is None else Cotangent(gradient).times(present))
    return found


class Walk:
    """Goes back through a graph. seeds, truths: for its outputs, by number, what stands for the gradient and
    for whether there is one.
    """

    def __init__(self, graph: Graph, given: Iterable[tuple[int, Presence]]) -> None:
        """given: when there are gradients of which outputs."""
        self.graph = graph
        self._names = graph.names()
        self.builder = Builder(set(self._names), "d")
        floats = [(i, each) for i, each in given if graph.outputs[i].dtype.kind in "fcV"]
        known = [(i, each) for i, each in floats if each is not Presence.NEVER]
        self.seeds = {i: self.new("g", graph.outputs[i]) for i, _ in known}
        sometimes = [i for i, each in known if each is Presence.SOMETIMES]
        self.truths = {i: self.new("has", Value(self.seeds[i].name, TRUTH)) for i in sometimes}

    def new(self, prefix: str, value: Value) -> Value:
        """A new value of the type of another one."""
        name = identifier(f"{prefix}_{value.name}", self._names)
        self._names.add(name)
        self.builder.takes(name)
        return Value(name, value.type)

    def back(self) -> dict[Value, Cotangent]:
        """The cotangents of what the round computes and takes."""
        graph, builder = self.graph, self.builder
        values = (*graph.inputs, *(v for e in graph.equations for v in e.outputs))
        tracked = frozenset([v for v in values if v.dtype.kind in "fcV"])
        begin = []
        for i, seed in self.seeds.items():
            present = builder.tensor(self.truths[i]) if i in self.truths else None
            begin.append((graph.outputs[i], Cotangent(builder.tensor(seed), present)))
        return walked_back(graph, begin, tracked, builder)
