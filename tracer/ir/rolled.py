"""Rolled loops: rounds that all do the same are one equation; `unrolled` writes them out again.

    now1, before1 = rolled(now, before, speed, body=round, rounds=47, carried=2, rows=0)

says what 47 calls of `round` say, each of which gets what the one before gave in the place of its first two
inputs. Of each of the next `rows` inputs a round gets a row of its own, from the last one on if `backwards`;
what it gives besides what is carried on is put into rows in the same order. So this is `jax.lax.scan`. Its
gradient is a loop that goes back. For that, what each round was handed, and the products that it computed of
that, come first of the rows, if the loop `keeps` them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any

import numpy as np

from fusegrad.eager.core.op import REGISTRY, Params, TensorType, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.cotangent import (
    Cotangents,
    Presence,
    Structured,
    Tensors,
    cotangents_of,
    presence,
    truth_of,
    zeros_like,
)
from fusegrad.tracer.ir.evaluation import alone, evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Subgraph, Value, ancestors, inlined, once
from fusegrad.tracer.ir.reversed_round import Given, History, ReversedRound, reversed_round

_GETITEM, _RESHAPE, _CAT, _CLONE, _MATMUL = (
    REGISTRY[name] for name in ("getitem", "reshape", "cat", "clone", "matmul")
)


# Loops of more ops than this, in all rounds, are compiled in eager runs as well, by what the compiler hands
# over, and so are those that are evaluated again.
MANY = 5000
# Rows that a loop leaves for others than its user take no more bytes than this: else products are computed
# again on the way back, or stay in the rounds.
MOST_KEPT = 1 << 28
compiled_rounds: Callable[[Body, Sequence[Tensor], Params], tuple[np.ndarray, ...]] | None = None


def have_rounds_compiled(run: Callable[[Body, Sequence[Tensor], Params], tuple[np.ndarray, ...]]) -> None:
    """Have loops of many ops run by `run`, which gives what `Body.repeat` does, or what `Tested` gives."""
    global compiled_rounds
    compiled_rounds = run


class Body(Subgraph):
    """What a round does: its first outputs take the place of its first inputs in the next one."""

    is_compiled = False
    _has_run = False

    def repeat(self, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
        """The arrays that all rounds give, op by op."""
        options = {name: value for name, value in params.items() if name != "body"}
        with alone():
            given = [wrap(t.array) for t in tensors]
            made = all_rounds(lambda *x: evaluate_graph(self.graph, x), given, **options)
        return tuple([np.array(t.array, order="C") for t in made])

    def few_at_first(self) -> int:
        """How many rounds are evaluated op by op: those of the first time, if there are few. A loop that is
        evaluated again, or that is long, pays for being compiled.
        """
        has_run, self._has_run = self._has_run, True
        return 0 if has_run else MANY // max(1, len(self.graph.equations))

    @once
    def untested(self) -> Body:
        """The round without its last output."""
        return Body(Graph(self.graph.inputs, self.graph.equations, self.graph.outputs[:-1]))

    @once
    def keeping(self, carried: int, products: tuple[Value, ...]) -> Body:
        """A round that also gives what it was handed, and these of its products."""
        inputs, equations, outputs = self.graph.inputs, self.graph.equations, self.graph.outputs
        return Body(
            Graph(inputs, equations, (*outputs[:carried], *inputs[:carried], *products, *outputs[carried:]))
        )

    def products(self, carried: int, rounds: int | None) -> tuple[Value, ...]:
        """The products of what a round was handed, if there is memory to keep them of all rounds: of a number
        that is not known there is none.
        """
        if rounds is None:
            return ()
        follow = set(self.graph.inputs[:carried])
        found = []
        for equation in self.graph.equations:
            if not follow.isdisjoint(equation.values()):
                follow.update(equation.outputs)
                if equation.op is _MATMUL and equation.output not in self.graph.outputs:
                    found.append(equation.output)
        bytes_ = rounds * sum(math.prod(v.shape) * v.dtype.itemsize for v in found)
        return tuple(found) if bytes_ <= MOST_KEPT else ()

    @once
    def part(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Body:
        """A round that takes and gives less, and computes no more than that."""
        taken, given = (
            tuple([values[i] for i in places])
            for values, places in ((self.graph.inputs, inputs), (self.graph.outputs, outputs))
        )
        read = ancestors(self.graph.equations, given)
        equations = [e for e in self.graph.equations if not read.isdisjoint(e.outputs)]
        return Body(Graph(taken, tuple(equations), given))

    @once
    def leads(self, carried: int, rounds: int | None) -> list[Set[int]]:
        """For each output of so many rounds (None: of any number) the inputs that its gradient goes to."""
        ways, inputs = ways_of(self.graph), len(self.graph.inputs)
        # What all rounds read leads to itself.
        one = [*ways[:carried], *({i} for i in range(carried, inputs))]
        before = _steps(
            [{i, *there} for i, there in enumerate(one)], inputs if rounds is None else rounds - 1
        )
        last = before if rounds is None else _steps(one, rounds)
        return [*last[:carried], *(through(there, before) for there in ways[carried:])]

    @once
    def history(self, carried: int, given: Given) -> History:
        """When there are gradients, after each number of rounds."""
        return History(self.graph, carried, given)

    @once
    def reversed(
        self, carried: int, rows: int, given: Given, after: tuple[Presence, ...], keeps: int
    ) -> tuple[ReversedRound, Body]:
        """A round of the loop that goes back (see there), and that as a body."""
        products = self.graph.outputs[2 * carried : carried + keeps]
        back = reversed_round(self.graph, carried, rows, given, after, products)
        return back, Body(back.graph)


def all_rounds(
    round_: Callable[..., Sequence[Tensor]],
    tensors: Sequence[Tensor],
    rounds: int,
    carried: int,
    rows: int,
    backwards: bool,
    keeps: int = 0,
) -> tuple[Tensor, ...]:
    """What a loop gives whose rounds are calls of `round_`; see `Rolled`."""
    now, read, others = tensors[:carried], tensors[carried : carried + rows], tensors[carried + rows :]
    made: list[Sequence[Tensor]] = []
    for number in range(rounds - 1, -1, -1) if backwards else range(rounds):
        parts = [bind(_GETITEM, (x,), _row(x.array.shape, number)) for x in read]
        results = round_(*now, *parts, *others)
        now = results[:carried]
        made.append(results[carried:])
    columns = zip(*(reversed(made) if backwards else made), strict=True)
    return (*now, *(ops.stack(list(column)) for column in columns))


def _row(shape: tuple[int, ...], number: int) -> Params:
    """The parameters of `getitem` for a row."""
    return {"index": (number, *(Slice(0, n, 1) for n in shape[1:]))}


def loop(
    body: Body, rounds: int | None, carried: int, rows: int = 0, backwards: bool = False, keeps: bool = False
) -> Params:
    """The parameters of a loop. keeps: whether it is to keep what its gradient needs."""
    number = 0
    if keeps:
        products = body.products(carried, rounds)
        body, number = body.keeping(carried, products), carried + len(products)
    return {
        "body": body, "rounds": rounds, "carried": carried, "rows": rows, "backwards": backwards,
        "keeps": number,
    }  # fmt: skip


class Rolled(Structured):
    """Rounds of a loop.

    Params: `body`, a `Body`; `rounds`: how many there are, None in a graph that is told when it runs (see
    `tested.py`); `carried`: how many tensors each hands on to the next; `rows`: how many inputs give each
    round a row; `backwards`: from the last row on; `keeps`: how many of the rows that come out are the first
    ones, for the gradient.
    """

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        return params["body"].leads(params["carried"], params["rounds"])

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """The loop goes back, with what was kept of each round."""
        if params["carried"] and not params["keeps"]:
            body, rounds, carried, rows, backwards = (params[name] for name in _LOOP)
            params = loop(body, rounds, carried, rows, backwards, keeps=True)
            outputs = bind(ROLLED, tuple(inputs), params)
            given = (*given[:carried], *[None] * params["keeps"], *given[carried:])
        return _gone_back(given, inputs, outputs, **params)

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        body = params["body"]
        if not params["rounds"]:
            types = self.infer((), params)[params["carried"] :]
            return (*[np.array(t.array) for t in args[: params["carried"]]], *[np.empty(*t) for t in types])
        few = body.few_at_first() if compiled_rounds is not None else params["rounds"]
        run = type(body).repeat if params["rounds"] <= few or compiled_rounds is None else compiled_rounds
        return run(body, args, params)

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        outputs, carried = params["body"].graph.outputs, params["carried"]
        rounds = 1 if params["rounds"] is None else params["rounds"]
        rows = [TensorType((rounds, *v.shape), v.dtype) for v in outputs[carried:]]
        return (*[v.type for v in outputs[:carried]], *rows)


def ways_of(graph: Graph, tracked: Collection[Value] | None = None) -> list[Set[int]]:
    """For each output of a graph the inputs, by number, that its gradient goes to.

    tracked: the values that may need gradients (None: all).
    """

    def has_gradient(value: Value) -> bool:
        return value.dtype.kind in "fcV" and (tracked is None or value in tracked)

    ways: dict[Any, Set[int]] = {v: {i} for i, v in enumerate(graph.inputs) if has_gradient(v)}
    nothing: Set[int] = set()
    for equation in graph.equations:
        op = equation.op
        leads = None if op.leads is None else op.leads(dict(equation.params))
        given = [
            nothing if op.rule(i) is None else ways.get(v, nothing) for i, v in enumerate(equation.inputs)
        ]
        for number, output in enumerate(equation.outputs):
            if has_gradient(output):
                ways[output] = through(range(len(given)) if leads is None else leads[number], given)
    return [ways.get(v, nothing) for v in graph.outputs]


def through(first: Collection[int], second: Sequence[Set[int]]) -> Set[int]:
    """Where two steps lead."""
    return {place for i in first for place in second[i]}


def _steps(step: Sequence[Set[int]], times: int) -> Sequence[Set[int]]:
    """Where so many equal steps lead from each place."""
    found: Sequence[Set[int]] = [{i} for i in range(len(step))]
    while times:
        if times % 2:
            found = [through(ways, step) for ways in found]
        step, times = [through(ways, step) for ways in step], times // 2
    return found


# The parameters of a loop but what it keeps.
_LOOP = "body", "rounds", "carried", "rows", "backwards"


def _gone_back(
    given: Cotangents,
    inputs: Tensors,
    outputs: Tensors,
    body: Body,
    rounds: int,
    carried: int,
    rows: int,
    backwards: bool,
    keeps: int,
) -> Cotangents:
    """The cotangents of what a loop takes that keeps what its gradient needs; see `Rolled`."""
    leaving = {i: known for i, known in enumerate(given) if i >= carried and known is not None}
    in_rows = tuple([(i, presence(known)) for i, known in leaving.items()])
    history = body.history(carried, Given(tuple(map(presence, given[:carried])), in_rows))
    after = history.after(rounds)
    if all(each is Presence.NEVER for each in after):
        return [None] * len(inputs)
    during = Given(history.during(rounds), in_rows)
    back, body_back = body.reversed(carried, rows, during, after[carried:], keeps)
    begun = [given[i] if i < carried else None for i in range(len(inputs))]
    operands = (
        *[zeros_like(inputs[i]) if (x := begun[i]) is None else x.gradient for i in back.carried],
        *[zeros_like(inputs[i]) for i in back.others],
        *[truth_of(begun[i]) for i in back.truths],
        *[x.gradient for x in leaving.values()],
        *outputs[carried : carried + keeps],
        *inputs[carried:],
        *[x.present for x in leaving.values() if x.present is not None],
        *map(wrap, back.constants),
    )
    summed = (*back.carried, *back.others)
    on = len(summed) + len(back.truths)
    made = bind(ROLLED, operands, loop(body_back, rounds, on, len(leaving) + keeps + rows, not backwards))
    gradients = dict(zip((*summed, *back.rows), (*made[: len(summed)], *made[on:]), strict=True))
    truths = dict(zip(back.truths, made[len(summed) : on], strict=True))
    return cotangents_of(after, gradients, truths)


ROLLED = Rolled("rolled", keeps_outputs=True)


def pruned(equation: Equation, needed: Collection[Value]) -> Equation:
    """The loop without what is not `needed` of it, and of what it reads without what that does not take."""
    params, graph = equation.params, equation.params["body"].graph
    if params["body"].is_compiled:
        return equation
    carried, rows = params["carried"], params["rows"]
    wanted = {i for i, v in enumerate(equation.outputs) if v in needed}
    while True:
        read = ancestors(graph.equations, [graph.outputs[i] for i in wanted])
        more = {i for i, v in enumerate(graph.inputs[:carried]) if v in read} - wanted
        if not more:
            break
        wanted |= more
    outputs = tuple([i for i in range(len(graph.outputs)) if i in wanted])
    inputs = tuple([i for i, v in enumerate(graph.inputs) if (i in wanted if i < carried else v in read)])
    if len(outputs) == len(graph.outputs) and len(inputs) == len(graph.inputs):
        return equation
    less = {
        "body": params["body"].part(inputs, outputs),
        "rounds": params["rounds"],
        "carried": sum(i < carried for i in outputs),
        "rows": sum(carried <= i < carried + rows for i in inputs),
        "backwards": params["backwards"],
        "keeps": 0,
    }
    made = tuple([equation.outputs[i] for i in outputs])
    return Equation(ROLLED, tuple([equation.inputs[i] for i in inputs]), less, made, equation.source)


# Writing loops out.


def unrolled(graph: Graph, which: Callable[[Equation], bool] = lambda equation: True) -> Graph:
    """The graph with every round written out, of those of its loops for which `which` holds."""
    if not any(e.op is ROLLED and which(e) for e in graph.equations):
        return graph
    equations: list[Equation] = []
    names = graph.names()
    for equation in graph.equations:
        if equation.op is ROLLED and which(equation):
            equations += WrittenOut(equation, names).equations()
        else:
            equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


class WrittenOut:
    """A loop whose rounds are written out. names: those that are taken; its own are added."""

    def __init__(self, loop: Equation, names: set[str]) -> None:
        self.loop, self.names = loop, names

    def equations(self) -> Iterator[Equation]:
        """The equations of all rounds."""
        params, inputs = self.loop.params, self.loop.inputs
        body, rounds, carried = params["body"].graph, params["rounds"], params["carried"]
        now: Sequence[Any] = inputs[:carried]
        read = inputs[carried : carried + params["rows"]]
        left: dict[int, Sequence[Any]] = {}
        for number in reversed(range(rounds)) if params["backwards"] else range(rounds):
            parts = []
            for value in read:
                part = self._new(f"{value.name}_row{number}", TensorType(value.shape[1:], value.dtype))
                yield Equation(_GETITEM, (value,), _row(value.shape, number), (part,), self.loop.source)
                parts.append(part)
            operands = (*now, *parts, *inputs[carried + len(read) :])
            equations, results = inlined(body, operands, functools.partial(self._of_round, number))
            yield from equations
            now, left[number] = results[:carried], results[carried:]
        # What leaves the loop has the names that the others know.
        for value, output in zip(now, self.loop.outputs, strict=False):
            yield Equation(_CLONE, (value,), {}, (output,), self.loop.source)
        for place, output in enumerate(self.loop.outputs[carried:]):
            yield from self._joined([left[number][place] for number in range(rounds)], output)

    def _joined(self, values: Sequence[Value], output: Value) -> Iterator[Equation]:
        """The equations that put values into the rows of `output`."""
        rows = []
        for value in values:
            row = self._new(f"{value.name}_row", TensorType((1, *value.shape), value.dtype))
            yield Equation(_RESHAPE, (value,), {"shape": row.shape}, (row,), self.loop.source)
            rows.append(row)
        yield Equation(_CAT, tuple(rows), {"dim": 0}, (output,), self.loop.source)

    def _of_round(self, number: int, value: Value) -> Value:
        return self._new(f"{value.name}_round{number}", value.type)

    def _new(self, name: str, type_: TensorType) -> Value:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return Value(name, type_)
