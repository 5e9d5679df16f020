"""Rolled loops that test data: rounds that all do the same until a test fails are one equation.

    now1, before1, count = tested(now, before, speed, body=round, carried=2, most=99, keeps=False, then=())

says what calls of `round` say, each of which gets what the one before gave in the place of its first two
inputs, as long as the last thing that `round` gives is true, of which the others are then taken; `most` times
at the most. This is `jax.lax.while_loop`. Once the number of rounds is known, no test is needed, and they are
what `rolled` says (`rolled.py`): so the gradient is an equation whose graph depends on that number
(`at_count.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from typing import Any

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.at_count import backward_of
from fusegrad.tracer.ir.cotangent import Cotangent, Cotangents, Structured, Tensors
from fusegrad.tracer.ir.evaluation import alone, evaluate_graph
from fusegrad.tracer.ir.rolled import Body, through, ways_of

COUNT = TensorType((), np.dtype(np.int64))
# More rounds than any loop has.
FAR = 1 << 62
# What runs rounds compiled, as the compiler hands it over: gives what `Tested` does.
compiled_rounds: Callable[[Body, Sequence[Tensor], Params], tuple[np.ndarray, ...]] | None = None


def have_tests_compiled(run: Callable[[Body, Sequence[Tensor], Params], tuple[np.ndarray, ...]]) -> None:
    """Have rounds of loops that test data run by `run`."""
    global compiled_rounds
    compiled_rounds = run


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
        found = zip(*ways(body, carried), strict=True)
        return [*(frozenset[int]().union(*way) for way in found), frozenset[int](), *({i} for i in kept)]

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """The rounds go back, as many as there were."""
        carried = params["carried"]
        known = {i: x for i, x in enumerate(given[:carried]) if x is not None}
        found: list[Cotangent | None] = [*given[carried + 1 :]] if params["keeps"] else [None] * len(inputs)
        if known:
            count, kept = outputs[carried], outputs[carried + 1 :] or inputs
            then = params["then"]
            now = [(kept if i in then else inputs)[i] for i in range(carried, len(inputs))]
            template = backward_of(params["body"].untested(), carried, known)
            pulled = template.cotangents(count, known.values(), (*kept, *now))
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
        now, count = args[:carried], 0
        few = most if compiled_rounds is None else min(most, body.few_at_first())
        if few or compiled_rounds is None:
            now, count = _op_by_op(body, args, carried, few)
            if compiled_rounds is None or count < few or count == most:
                return (*now, np.array(count))
        left = {**params, "most": most - count}
        *made, more = compiled_rounds(body, [*map(wrap, now), *args[carried:]] if count else args, left)
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


def _gradient(
    g: Any,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    index: int,
    body: Body,
    carried: int,
    most: int,
    keeps: bool,
    then: tuple[int, ...],
) -> Tensor | None:
    params = {"body": body, "carried": carried, "most": most, "keeps": keeps, "then": then}
    return TESTED.rule_of(g, inputs, outputs, index, params)


TESTED = Tested("tested", "*tensors", {"tensors": _gradient})


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


def ways(body: Body, carried: int) -> list[list[Set[int]]]:
    """For no round, for one, and so on up to as many as it takes: for each tensor that is handed on, the
    inputs that its gradient goes to.
    """
    once = ways_of(body.untested().graph)[:carried]
    inputs = len(body.graph.inputs)
    found: list[list[Set[int]]] = [[{i} for i in range(carried)], once]
    step = [*once, *({i} for i in range(carried, inputs))]
    while (more := [through(way, step) for way in found[-1]]) not in found[1:]:
        found.append(more)
    return found
