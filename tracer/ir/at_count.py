"""Equations whose graph depends on a number that is known when they run: as many rounds as a loop had.

    d_now, d_before, d_speed = at_count(count, g_now1, now, before, speed, speed, template=...)

A template has a graph for each number of rounds: that of the gradients of a loop that tests data
(`tested.py`), whose rounds are a rolled loop once they have been counted, or that of the gradients of another
template.
"""

from __future__ import annotations

import itertools
import zlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import Op, Params, TensorType, bind, wrap
from fusegrad.eager.core.state import enable_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.ir.differentiate import Builder, zeros_of
from fusegrad.tracer.ir.evaluation import alone, evaluate_graph
from fusegrad.tracer.ir.graph import Graph, Subgraph
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.pullback import fresh, place_of, pullback
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop

# Of so many numbers of rounds graphs are kept.
_KEPT = 256


class Template(Subgraph):
    """A graph for each number of rounds, with the tensors that it has for its last inputs."""

    def __init__(self, graph: Graph, key: str) -> None:
        """key: tells it from others."""
        super().__init__(graph)
        self._key = key
        self._derived: dict[Any, Derived] = {}
        self._made: OrderedDict[int, tuple[Graph, list[np.ndarray]]] = OrderedDict()
        self._leads: list[set[int]] | None = None

    @property
    def name(self) -> str:
        return f"template_{zlib.crc32(self._key.encode()):08x}"

    def __repr__(self) -> str:
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def graph_of(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        """The graph, and these tensors."""
        found = self._made.pop(rounds, None) or self._make(rounds)
        self._made[rounds] = found
        while len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return found

    def _make(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        raise NotImplementedError

    def run(self, rounds: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the graph gives for so many rounds."""
        graph, constants = self.graph_of(rounds)
        return evaluate_graph(graph, [*tensors, *map(wrap, constants)])

    def leads(self) -> list[set[int]]:
        """For each output the inputs that its gradient goes to, for some number of rounds."""
        if self._leads is None:
            self._leads = self._ways(rounds=1)
            # Where no way is new after one round more, none is after more of them.
            for rounds in itertools.count(2):
                before = [*map(len, self._leads)]
                self._leads = [a | b for a, b in zip(self._leads, self._ways(rounds), strict=True)]
                if before == [*map(len, self._leads)]:
                    break
        return self._leads

    def _ways(self, rounds: int) -> list[set[int]]:
        graph, constants = self.graph_of(rounds)
        number = len(graph.inputs) - len(constants)
        return [{i for i in ways if i < number} for ways in rolled.ways_of(graph)]

    def derived(self, given: tuple[int, ...], number: int) -> Derived:
        """What gives the gradients of its first inputs, so many, from those of these outputs."""
        key = given, number
        if key not in self._derived:
            self._derived[key] = Derived(self, given, number)
        return self._derived[key]


class Backward(Template):
    """The gradients of what the rounds of a loop were given, from those of some of what they hand on.

    Its inputs are these, what was given as it was then, and what all rounds read as it is now: so it is in
    eager, whose nodes have the inputs of each op. Its outputs are zeros where there is no gradient.
    """

    def __init__(self, body: Body, carried: int, given: tuple[int, ...]) -> None:
        """body: without a test. carried: how many tensors its rounds hand on. given: which have gradients."""
        super().__init__(body.graph, f"{given} back to {carried} of {body.graph.text}")
        self._body, self._carried, self._given = body, carried, given

    def _make(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        graph, carried = self._body.graph, self._carried
        names = {v.name for v in graph.inputs}
        seeds = [fresh(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in self._given]
        now = [fresh(f"{v.name}_now", v.type, names) for v in graph.inputs[carried:]]
        builder = Builder(names, "d")
        wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.kind in "fcV"]

        def walk() -> list[Any]:
            gradients: list[Any] = [None] * carried
            for i, seed in zip(self._given, seeds, strict=True):
                gradients[i] = builder.tensor(seed)
            if not rounds:
                return [gradients[i] if i < carried else None for i in wanted]
            then = [builder.tensor(v) for v in graph.inputs]
            inputs = [*then[:carried], *map(builder.tensor, now)]
            params = loop(self._body, rounds, carried, keeps=True)
            kept: Any = bind(ROLLED, tuple(then), params)
            gradients += [None] * (len(kept) - carried)
            return [rolled.gradient(gradients, inputs, kept, i, **params) for i in wanted]

        def filled() -> list[Any]:
            found = zip(wanted, walk(), strict=True)
            return [builder.value(zeros_of(graph.inputs[i]) if x is None else x) for i, x in found]

        results = interpreted(builder, filled)
        inputs = (*seeds, *graph.inputs, *now, *builder.constants)
        made = optimise(Graph(inputs, tuple(builder.equations), tuple(results)))
        return made, [*builder.constants.values()]

    def run(self, rounds: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        number, carried = len(self._given), self._carried
        inputs = number + len(self._body.graph.inputs)
        then, now = tensors[number + carried : inputs], tensors[inputs:]
        if all(
            np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind in "fc")
            for a, b in zip(then, now, strict=True)
        ):
            return super().run(rounds, tensors)
        return self._written_since(rounds, tensors[:number], tensors[number:inputs], now)

    def _written_since(
        self, rounds: int, seeds: Sequence[Tensor], inputs: Sequence[Tensor], now: Sequence[Tensor]
    ) -> list[Tensor]:
        """The gradients where what all rounds read was written since, and nobody has counted that.

        Nodes keep what they are given, and find there what was written; what rounds made they keep as it was.
        """
        graph, carried = self._body.graph, self._carried
        with enable_grad():
            leaves = [wrap(t.array.copy()).requires_grad_(t.array.dtype.kind in "fcV") for t in inputs]
            state: Sequence[Any] = leaves[:carried]
            for _ in range(rounds):
                state = evaluate_graph(graph, [*state, *leaves[carried:]], writes_out=True)[:carried]
            for leaf, written in zip(leaves[carried:], now, strict=True):
                leaf.array[...] = written.array
            wanted = [leaf for leaf in leaves if leaf.array.dtype.kind in "fcV"]
            pairs = [(state[i], g) for i, g in zip(self._given, seeds, strict=True) if state[i].needs_grad]
            found = autograd.grad(
                [made for made, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
            )
        return [wrap(np.zeros_like(x.array)) if g is None else g for x, g in zip(wanted, found, strict=True)]


def backward_of(body: Body, carried: int, given: tuple[int, ...]) -> Backward:
    """The one template of the gradients of these rounds."""
    key = carried, given
    if key not in body.templates:
        body.templates[key] = Backward(body, carried, given)
    found: Backward = body.templates[key]
    return found


class Derived(Template):
    """The gradients of the inputs of another template, where they are differentiable, from those of some of
    its outputs: its inputs are these, and those of the other one.
    """

    def __init__(self, of: Template, given: tuple[int, ...], number: int) -> None:
        super().__init__(of.graph, f"{number} inputs by {given} of {of!r}")
        self._of, self._given, self._number = of, given, number

    def _make(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        graph, constants = self._of.graph_of(rounds)
        made = pullback(graph, self._given, self._number)
        return made.graph, [*constants, *made.constants]


class AtCount(Op):
    """What a template's graph gives, of tensors that come after the number of rounds. Params: `template`."""

    family = "rolled"
    fills = False

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        # The first input is the number of rounds.
        return [{i + 1 for i in ways} for ways in params["template"].leads()]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        count, *tensors = args
        with alone():
            given = [wrap(np.asarray(t.array)) for t in tensors]
            made = params["template"].run(int(count.array), given)
        return tuple([np.array(t.array, order="C") for t in made])

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        graph, _ = params["template"].graph_of(1)
        return tuple([v.type for v in graph.outputs])


def _gradient(g: Any, inputs: Sequence[Tensor], index: int, template: Template) -> Tensor | None:
    gradients = g if type(g) is list else [g]
    given = tuple([i for i, known in enumerate(gradients) if known is not None])
    leads = AtCount.leads({"template": template})
    if not any(index in leads[i] for i in given):
        return None
    count, *others = inputs
    operands = count, *[gradients[i] for i in given], *others
    made = bind(AT_COUNT, operands, {"template": template.derived(given, len(others))})
    gradient: Tensor = made[place_of(others, index - 1)]
    return gradient


AT_COUNT = AtCount("at_count", "*tensors", {"tensors": _gradient})
