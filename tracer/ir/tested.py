"""Rolled loops that test data: rounds that all do the same until a test fails are one equation.

    now1, before1, count = tested(now, before, speed, body=round, carried=2, most=99, keeps=False, then=())

says what calls of `round` say, each of which gets what the one before gave in the place of its first two
inputs, as long as the last thing that `round` gives is true, of which the others are then taken; `most` times
at the most. This is `jax.lax.while_loop`. Once the number of rounds is known, no test is needed, and they are
what `rolled` says (`rolled.py`). So the gradient is a graph of loops whose trip count is its first input:

    d_now, d_before, d_speed = at_count(count, g_now1, now, before, speed, speed, graph=...)

One graph is enough for all numbers of rounds: its loops are told how often they run. What they keep of each
round has as many rows; so it has no place but within that graph.
"""

from __future__ import annotations

import contextlib
import contextvars
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import Op, Params, TensorType, bind, wrap
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
    cotangents_of,
    presence,
    truth_of,
    zeros_of,
)
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.evaluation import alone, evaluate_graph
from fusegrad.tracer.ir.graph import Graph, Subgraph, Value, once
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.pullback import fresh, place_of, pullback
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop, ways_of

COUNT = TensorType((), np.dtype(np.int64))
# More rounds than any loop has.
FAR = 1 << 62


_rounds = contextvars.ContextVar("rounds", default=FAR)


@contextlib.contextmanager
def at_most(rounds: int) -> Iterator[None]:
    """Have loops end after so many rounds, for those who need no results of them."""
    before = _rounds.set(rounds)
    try:
        yield
    finally:
        _rounds.reset(before)


def rounds_while(
    round_: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], carried: int, most: int
) -> tuple[list[Tensor], int]:
    """What is handed on in the end, and after how many rounds; see `Tested`."""
    now, others = [*tensors[:carried]], tensors[carried:]
    count = 0
    while count < most:
        *after, goes_on = round_(*now, *others)
        if not goes_on.array.item():
            break
        now, count = after, count + 1
    return now, count


class Tested(Structured):
    """Rounds of a loop that tests data.

    Params: `body`, a `Body`, whose last output says whether the round counts; `carried`: how many tensors
    each hands on to the next; `most`: the most rounds that there are; `keeps`: whether it also gives what it
    was given; `then`: the inputs that all rounds read, and no node of eager's keeps: the gradient goes by
    what they were. Gives what is handed on, how many rounds there were, and that: for the gradient, rounds
    are computed again from it, whatever is written into the inputs since.
    """

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        body, carried = params["body"], params["carried"]
        kept = range(len(body.graph.inputs)) if params["keeps"] else ()
        found = body.untested().leads(carried, None)
        return [*found, frozenset[int](), *({i} for i in kept)]

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """The rounds go back, as many as there were."""
        carried = params["carried"]
        known = {i: x for i, x in enumerate(given[:carried]) if x is not None}
        found: list[Cotangent | None] = [*given[carried + 1 :]] if params["keeps"] else [None] * len(inputs)
        if known:
            count, kept = outputs[carried], outputs[carried + 1 :] or inputs
            then = params["then"]
            now = [(kept if i in then else inputs)[i] for i in range(carried, len(inputs))]
            when = tuple([(i, presence(x)) for i, x in known.items()])
            backward = _backward(params["body"].untested(), carried, when)
            pulled = backward.cotangents(count, known.values(), (*kept, *now))
            found = [
                b if a is None else a if b is None else a.plus(b) for a, b in zip(found, pulled, strict=True)
            ]
        return found

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        kept = [np.array(t.array, order="C") for t in args] if params["keeps"] else []
        return (*self._run(args, params), *kept)

    @staticmethod
    def written_out(args: Sequence[Any], params: Params) -> tuple[Any, ...]:
        graph = params["body"].graph

        def round_(*tensors: Tensor) -> tuple[Any, ...]:
            return evaluate_graph(graph, tensors, writes_out=True)

        now, count = rounds_while(round_, args, params["carried"], params["most"])
        return (*now, wrap(np.array(count)), *(args if params["keeps"] else ()))

    def _run(self, args: Sequence[Any], params: Params) -> tuple[np.ndarray, ...]:
        body, carried, most = params["body"], params["carried"], params["most"]
        most = min(most, _rounds.get())
        now, count = args[:carried], 0
        compiled = rolled.compiled_rounds
        few = most if compiled is None else min(most, body.few_at_first())
        if few or compiled is None:
            now, count = _op_by_op(body, args, carried, few)
            if compiled is None or count < few or count == most:
                return (*now, np.array(count))
        left = {**params, "most": most - count}
        *made, more = compiled(body, [*map(wrap, now), *args[carried:]] if count else args, left)
        return (*made, np.array(count + more))

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        graph = params["body"].graph
        kept = [v.type for v in graph.inputs] if params["keeps"] else []
        return (*[v.type for v in graph.outputs[: params["carried"]]], COUNT, *kept)


def _op_by_op(body: Body, args: Sequence[Any], carried: int, most: int) -> tuple[list[np.ndarray], int]:
    with alone():
        given = [wrap(t.array) for t in args]
        now, count = rounds_while(lambda *x: evaluate_graph(body.graph, x), given, carried, most)
    return [np.array(t.array, order="C") for t in now], count


TESTED = Tested("tested", keeps_outputs=True)


class HandedOn(Op):
    """A copy of what rounds hand on, so that who writes into it does not write what the graph keeps. Params:
    `node`, the name of the node that made it in a round.
    """

    family = "rolled"

    def evaluate(self, args: Sequence[Any], params: Params) -> np.ndarray:
        return np.array(args[0].array, copy=True)

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        return TensorType(types[0].shape, types[0].dtype)


HANDED_ON = HandedOn("handed_on", "x", {"x": lambda g, node: g}, lambda params: params["node"])
# The same, where the node that made it in a round keeps it for backward.
HANDED_ON_KEPT = HandedOn("handed_on_kept", "x", {"x": lambda g, out, node: g}, lambda params: params["node"])


# The gradients of loops whose number of rounds is known when they run.


class Counted(Subgraph):
    """A graph with loops whose trip count is its first input. Its last inputs are `constants`."""

    def __init__(self, graph: Graph, constants: Sequence[np.ndarray]) -> None:
        super().__init__(graph)
        self._constants = constants
        self._key = f"{graph.text} {[x.tolist() for x in constants]}"

    @property
    def name(self) -> str:
        return f"counted_{zlib.crc32(self._key.encode()):08x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """What it gives of tensors that are not `constants`."""
        rounds = int(tensors[0].array)
        equations = [
            replace(e, params={**e.params, "rounds": rounds}) if e.op is ROLLED else e
            for e in self.graph.equations
        ]
        graph = Graph(self.graph.inputs, tuple(equations), self.graph.outputs)
        return evaluate_graph(graph, [*tensors, *map(wrap, self._constants)])

    @once
    def derived(self, given: tuple[int, ...], number: int) -> Counted:
        """What gives the gradients of its first inputs, so many, from those of these outputs: it takes the
        trip count, those, and the other inputs.
        """
        made = pullback(self.graph, [(i, Presence.ALWAYS) for i in given], number)
        graph = made.giving(())
        seeds, (count, *others) = graph.inputs[: len(given)], graph.inputs[len(given) :]
        graph = Graph((count, *seeds, *others), graph.equations, graph.outputs)
        return Counted(graph, [*self._constants, *made.constants])


class Backward(Counted):
    """The gradients of what the rounds of a loop were given, from those of some of what they hand on.

    Behind the trip count it takes these, truths for those that there are only sometimes, what was given as it
    was then, and what all rounds read as it is now: so it is in eager, whose nodes have the inputs of each
    op. Its outputs are zeros where there is no gradient; truths for those that there are sometimes come last.
    """

    def __init__(
        self, body: Body, carried: int, given: Mapping[int, Presence], products: tuple[Value, ...] = ()
    ) -> None:
        """body: without a test. carried: how many tensors its rounds hand on. given: of which there are
        gradients, and when. products: those that are kept of each round.
        """
        self._body, self._carried, self._given = body, carried, given
        self._wanted = [i for i, v in enumerate(body.graph.inputs) if v.dtype.kind in "fcV"]
        super().__init__(*self._made(products))

    @once
    def _keeping(self, products: tuple[Value, ...]) -> Backward:
        """The same, with these products kept of each round."""
        return Backward(self._body, self._carried, self._given, products)

    def _made(self, products: tuple[Value, ...]) -> tuple[Graph, list[np.ndarray]]:
        graph, carried = self._body.graph, self._carried
        names = {v.name for v in graph.inputs}
        seeds = {i: fresh(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in self._given}
        sometimes = [i for i, when in self._given.items() if when is Presence.SOMETIMES]
        truths = {i: fresh(f"has_{graph.outputs[i].name}", TRUTH, names) for i in sometimes}
        now = [fresh(f"{v.name}_now", v.type, names) for v in graph.inputs[carried:]]
        count = fresh("count", COUNT, names)
        builder = Builder(names, "d")

        def results() -> list[Value]:
            given: list[Cotangent | None] = [None] * carried
            for i, seed in seeds.items():
                given[i] = Cotangent(builder.tensor(seed), builder.tensor(truths.get(i)))
            then = [builder.tensor(v) for v in graph.inputs]
            inputs = [*then[:carried], *map(builder.tensor, now)]
            params = loop(self._body.keeping(carried, products), None, carried)
            params["keeps"] = carried + len(products)
            kept: Any = bind(ROLLED, tuple(then), params)
            given += [None] * (len(kept) - carried)
            found = [*ROLLED.pull_back(given, inputs, kept, params)]
            for i, x in enumerate(found):
                if i >= carried and presence(x) is Presence.ALWAYS:
                    # Where there is no round, nothing has been read.
                    found[i] = x and x._replace(present=builder.tensor(count) > 0)
            self._presences = [*map(presence, found)]
            self._truths = [i for i in self._wanted if self._presences[i] is Presence.SOMETIMES]
            gradients = (
                zeros_of(graph.inputs[i]) if (x := found[i]) is None else x.gradient for i in self._wanted
            )
            return [builder.value(x) for x in (*gradients, *(truth_of(found[i]) for i in self._truths))]

        made = interpreted(builder, results)
        inputs = (count, *seeds.values(), *truths.values(), *graph.inputs, *now, *builder.constants)
        whole = optimise(Graph(inputs, tuple(builder.equations), tuple(made)))
        return whole, [*builder.constants.values()]

    def cotangents(self, count: Tensor, given: Collection[Cotangent], tensors: Tensors) -> Cotangents:
        """The cotangents of what so many rounds were given, from those of some of what they hand on."""
        truths = [x.present for x in given if x.present is not None]
        operands = count, *[x.gradient for x in given], *truths, *tensors
        made = bind(AT_COUNT, operands, {"graph": self})
        gradients = dict(zip(self._wanted, made, strict=False))
        present = dict(zip(self._truths, made[len(self._wanted) :], strict=True))
        return cotangents_of(self._presences, gradients, present)

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        carried, rounds = self._carried, int(tensors[0].array)
        seeds = len(tensors) - 2 * len(self._body.graph.inputs) + carried
        inputs = seeds + len(self._body.graph.inputs)
        then, now = tensors[seeds + carried : inputs], tensors[inputs:]
        if not all(
            np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind in "fc")
            for a, b in zip(then, now, strict=True)
        ):
            return self._written_since(rounds, tensors[1:seeds], tensors[seeds:inputs], now)
        products = self._body.products(carried, rounds)
        return Counted.run(self._keeping(products) if products else self, tensors)

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


@once
def _backward(body: Body, carried: int, given: tuple[tuple[int, Presence], ...]) -> Backward:
    """What gives the gradients of these rounds, without a test: one for all numbers of them."""
    return Backward(body, carried, dict(given))


class AtCount(Structured):
    """What a graph gives that has loops whose trip count is its first input. Params: `graph`, a `Counted`."""

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        return ways_of(params["graph"].graph)

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """What the graph gives back to its inputs: zeros where that has no gradient."""
        known = {i: x.gradient for i, x in enumerate(given) if x is not None}
        leads = self.leads(params)
        reached = {place for i in known for place in leads[i]}
        if not reached:
            return [None] * len(inputs)
        count, *others = inputs
        graph = params["graph"].derived(tuple(known), len(inputs))
        made = bind(AT_COUNT, (count, *known.values(), *others), {"graph": graph})
        return [Cotangent(made[place_of(inputs, i)]) if i in reached else None for i in range(len(inputs))]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        with alone():
            made = params["graph"].run([wrap(np.asarray(t.array)) for t in args])
        return tuple([np.array(t.array, order="C") for t in made])

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        return tuple([v.type for v in params["graph"].graph.outputs])


AT_COUNT = AtCount("at_count", keeps_outputs=False)
