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
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import Params, TensorType, bind, wrap
from fusegrad.eager.core.state import enable_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.ir.cotangent import (
    TRUTH,
    Cotangent,
    Cotangents,
    Presence,
    Structured,
    Tensors,
    presence,
    truth_of,
    zeros_of,
)
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.evaluation import alone, evaluate_graph
from fusegrad.tracer.ir.graph import Graph, Subgraph, Value
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.pullback import fresh, place_of, pullback
from fusegrad.tracer.ir.reversed_round import Given
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

    Its inputs are these, truths for those that there are only sometimes, what was given as it was then, and
    what all rounds read as it is now: so it is in eager, whose nodes have the inputs of each op. Its outputs
    are zeros where there is no gradient; truths for those that there are sometimes come last.
    """

    def __init__(self, body: Body, carried: int, given: Mapping[int, Presence]) -> None:
        """body: without a test. carried: how many tensors its rounds hand on. given: of which there are
        gradients, and when.
        """
        shown = ", ".join(f"{i} {when.name.lower()}" for i, when in given.items())
        super().__init__(body.graph, f"{shown} back to {carried} of {body.graph.text}")
        self._body, self._carried, self._given = body, carried, given
        begin = tuple([given.get(i, Presence.NEVER) for i in range(carried)])
        self._presences = body.history(carried, Given(begin, ())).whenever()
        self._wanted = [i for i, v in enumerate(body.graph.inputs) if v.dtype.kind in "fcV"]
        self._truths = [i for i in self._wanted if self._presences[i] is Presence.SOMETIMES]

    def cotangents(self, count: Tensor, given: Collection[Cotangent], tensors: Tensors) -> Cotangents:
        """The cotangents of what so many rounds were given, from those of some of what they hand on."""
        truths = [x.present for x in given if x.present is not None]
        operands = count, *[x.gradient for x in given], *truths, *tensors
        made = bind(AT_COUNT, operands, {"template": self})
        gradients = dict(zip(self._wanted, made, strict=False))
        present = dict(zip(self._truths, made[len(self._wanted) :], strict=True))
        return [
            None if when is Presence.NEVER else Cotangent(gradients[i], present.get(i))
            for i, when in enumerate(self._presences)
        ]

    def _make(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        graph, carried = self._body.graph, self._carried
        names = {v.name for v in graph.inputs}
        seeds = {i: fresh(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in self._given}
        sometimes = [i for i, when in self._given.items() if when is Presence.SOMETIMES]
        truths = {i: fresh(f"has_{graph.outputs[i].name}", TRUTH, names) for i in sometimes}
        now = [fresh(f"{v.name}_now", v.type, names) for v in graph.inputs[carried:]]
        builder = Builder(names, "d")

        def walk() -> Cotangents:
            given: list[Cotangent | None] = [None] * carried
            for i, seed in seeds.items():
                given[i] = Cotangent(builder.tensor(seed), builder.tensor(truths.get(i)))
            if not rounds:
                return [*given, *[None] * len(now)]
            then = [builder.tensor(v) for v in graph.inputs]
            inputs = [*then[:carried], *map(builder.tensor, now)]
            params = loop(self._body, rounds, carried, keeps=True)
            kept: Any = bind(ROLLED, tuple(then), params)
            given += [None] * (len(kept) - carried)
            return ROLLED.pull_back(given, inputs, kept, params)

        def results() -> list[Value]:
            found = walk()
            gradients = (
                zeros_of(graph.inputs[i]) if (x := found[i]) is None else x.gradient for i in self._wanted
            )
            return [builder.value(x) for x in (*gradients, *(truth_of(found[i]) for i in self._truths))]

        made = interpreted(builder, results)
        inputs = (*seeds.values(), *truths.values(), *graph.inputs, *now, *builder.constants)
        whole = optimise(Graph(inputs, tuple(builder.equations), tuple(made)))
        return whole, [*builder.constants.values()]

    def run(self, rounds: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        carried = self._carried
        seeds = len(tensors) - 2 * len(self._body.graph.inputs) + carried
        inputs = seeds + len(self._body.graph.inputs)
        then, now = tensors[seeds + carried : inputs], tensors[inputs:]
        if all(
            np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind in "fc")
            for a, b in zip(then, now, strict=True)
        ):
            return super().run(rounds, tensors)
        return self._written_since(rounds, tensors[:seeds], tensors[seeds:inputs], now)

    def _written_since(
        self, rounds: int, given: Sequence[Tensor], inputs: Sequence[Tensor], now: Sequence[Tensor]
    ) -> list[Tensor]:
        """The gradients where what all rounds read was written since, and nobody has counted that.

        Nodes keep what they are given, and find there what was written; what rounds made they keep as it was.
        """
        graph, carried = self._body.graph, self._carried
        truths = iter(given[len(self._given) :])
        there = [when is Presence.ALWAYS or next(truths).item() for when in self._given.values()]
        with enable_grad():
            leaves = [wrap(t.array.copy()).requires_grad_(t.array.dtype.kind in "fcV") for t in inputs]
            state: Sequence[Any] = leaves[:carried]
            for _ in range(rounds):
                state = evaluate_graph(graph, [*state, *leaves[carried:]], writes_out=True)[:carried]
            for leaf, written in zip(leaves[carried:], now, strict=True):
                leaf.array[...] = written.array
            wanted = [leaves[i] for i in self._wanted]
            seeds = [
                (state[i], g) for i, g, is_there in zip(self._given, given, there, strict=False) if is_there
            ]
            pairs = [(made, g) for made, g in seeds if made.needs_grad]
            found = autograd.grad(
                [made for made, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
            )
        gradients = dict(zip(self._wanted, found, strict=True))
        truths_found = [wrap(np.array(gradients[i] is not None)) for i in self._truths]
        filled = [wrap(np.zeros_like(leaves[i].array)) if g is None else g for i, g in gradients.items()]
        return [*filled, *truths_found]


def backward_of(body: Body, carried: int, given: Mapping[int, Cotangent]) -> Backward:
    """The one template of the gradients of these rounds. given: the cotangents of what they hand on."""
    when = {i: presence(x) for i, x in given.items()}
    key = carried, *when.items()
    if key not in body.templates:
        body.templates[key] = Backward(body, carried, when)
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
        made = pullback(graph, [(i, Presence.ALWAYS) for i in self._given], self._number)
        return made.giving(()), [*constants, *made.constants]


class AtCount(Structured):
    """What a template's graph gives, of tensors that come after the number of rounds. Params: `template`."""

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        # The first input is the number of rounds.
        return [{i + 1 for i in ways} for ways in params["template"].leads()]

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """What the graph gives back to its inputs: zeros where that has no gradient."""
        known = {i: x.gradient for i, x in enumerate(given) if x is not None}
        leads = self.leads(params)
        reached = {place for i in known for place in leads[i]}
        if not reached:
            return [None] * len(inputs)
        count, *others = inputs
        template = params["template"].derived(tuple(known), len(others))
        made = bind(AT_COUNT, (count, *known.values(), *others), {"template": template})
        return [Cotangent(made[place_of(inputs, i)]) if i in reached else None for i in range(len(inputs))]

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
    return AT_COUNT.rule_of(g, inputs, (), index, {"template": template})


AT_COUNT = AtCount("at_count", "*tensors", {"tensors": _gradient})
