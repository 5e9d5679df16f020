"""Rolled loops that test data: rounds that all do the same until a test fails are one equation.

    now1, before1, count = tested(now, before, speed, body=round, carried=2, most=99, keeps=False)

says what calls of `round` say, each of which gets what the one before gave in the place of its first two
inputs, as long as the last thing that `round` gives is true, of which the others are then taken; `most` times
at the most. This is `jax.lax.while_loop`. Once the number of rounds is known, no test is needed, and they are
what `rolled` says (`rolled.py`): so the gradient is an equation whose graph depends on that number.

    d_now, d_before, d_speed = at_count(count, g_now1, now, before, speed, speed, template=...)
"""

from __future__ import annotations

import contextlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import Op, Params, TensorType, bind, wrap
from fusegrad.eager.core.state import no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.ir.differentiate import Builder, pull_back, zeros_of
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Graph, Subgraph, Value, identifier
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.rolled import MANY, ROLLED, Body, loop, through, ways_of

COUNT = TensorType((), np.dtype(np.int64))
# More rounds than any loop has.
FAR = 1 << 62
# Of so many numbers of rounds graphs are kept.
_KEPT = 256
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


def _gradient(
    g: Any,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    index: int,
    body: Body,
    carried: int,
    most: int,
    keeps: bool,
) -> Tensor | None:
    gradients = g if type(g) is list else [g]
    found = gradients[carried + 1 + index] if keeps else None
    given = tuple([i for i, known in enumerate(gradients[:carried]) if known is not None])
    if given:
        count, kept = outputs[carried], outputs[carried + 1 :] or inputs
        operands = count, *[gradients[i] for i in given], *kept, *inputs[carried:]
        made = bind(AT_COUNT, operands, {"template": backward_of(body, carried, given)})
        gradient = made[_place(inputs, index)]
        found = gradient if found is None else found + gradient
    return found


def _place(tensors: Sequence[Tensor], index: int) -> int:
    """Which of the tensors that have gradients that one is."""
    return sum(t.array.dtype.kind in "fcV" for t in tensors[:index])


class Tested(Op):
    """Rounds of a loop that tests data.

    Params: `body`, a `Body`, whose last output says whether the round counts; `carried`: how many tensors
    each hands on to the next; `most`: the most rounds that there are; `keeps`: whether it also gives what it
    was given. Gives what is handed on, how many rounds there were, and that: for the gradient, rounds are
    computed again from it, whatever is written into the inputs since.
    """

    family = "rolled"
    fills = False

    @staticmethod
    def leads(params: Params) -> Sequence[Collection[int]]:
        body, carried = params["body"], params["carried"]
        kept = range(len(body.graph.inputs)) if params["keeps"] else ()
        return [*ways(body, carried)[-1], frozenset[int](), *({i} for i in kept)]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        kept = [np.array(t.array, order="C") for t in args] if params["keeps"] else []
        return (*self._run(args, params), *kept)

    def _run(self, args: Sequence[Any], params: Params) -> tuple[np.ndarray, ...]:
        body, carried, most = params["body"], params["carried"], params["most"]
        now, count = args[:carried], 0
        if compiled_rounds is None or not body.has_run:
            # Op by op for the first time, while there are few rounds.
            few = most if compiled_rounds is None else MANY // max(1, len(body.graph.equations))
            body.has_run = True
            now, count = _op_by_op(body, args, carried, min(most, few))
            if compiled_rounds is None or count < min(most, few) or count == most:
                return (*now, np.array(count))
        left = {**params, "most": most - count}
        *made, more = compiled_rounds(body, [*map(wrap, now), *args[carried:]] if count else args, left)
        return (*made, np.array(count + more))

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        graph = params["body"].graph
        kept = [v.type for v in graph.inputs] if params["keeps"] else []
        return (*[v.type for v in graph.outputs[: params["carried"]]], COUNT, *kept)


def _op_by_op(body: Body, args: Sequence[Any], carried: int, most: int) -> tuple[list[np.ndarray], int]:
    with _alone():
        given = [wrap(t.array) for t in args]
        now, count = rounds_while(lambda *x: evaluate_graph(body.graph, x), given, carried, most)
    return [np.array(t.array, order="C") for t in now], count


TESTED = Tested("tested", "*tensors", {"tensors": _gradient})


def ways(body: Body, carried: int) -> list[list[Set[int]]]:
    """For no round, for one, and so on up to as many as it takes: for each tensor that is handed on, the
    inputs that its gradient goes to.
    """
    once = ways_of(untested(body).graph)[:carried]
    inputs = len(body.graph.inputs)
    found: list[list[Set[int]]] = [[{i} for i in range(carried)], once]
    step = [*once, *({i} for i in range(carried, inputs))]
    while (more := [through(way, step) for way in found[-1]]) not in found[1:]:
        found.append(more)
    return found


def untested(body: Body) -> Body:
    """The round without its test."""
    graph = body.graph
    return body.part(range(len(graph.inputs)), range(len(graph.outputs) - 1), graph.equations)


# What is known once the rounds have been counted.


class Template(Subgraph):
    """A graph for each number of rounds, with the tensors that it has for its last inputs."""

    def __init__(self, graph: Graph, key: str) -> None:
        """key: tells it from others."""
        super().__init__(graph)
        self._key = key
        self._derived: dict[Any, Derived] = {}
        self._made: OrderedDict[int, tuple[Graph, list[np.ndarray]]] = OrderedDict()

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
        super().__init__(body.graph, f"{given} back to {carried} of {body.graph.text}")
        self._body, self._carried, self._given = untested(body), carried, given

    def _make(self, rounds: int) -> tuple[Graph, list[np.ndarray]]:
        graph, carried = self._body.graph, self._carried
        names = {v.name for v in graph.inputs}
        seeds = [_named(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in self._given]
        now = [_named(f"{v.name}_now", v.type, names) for v in graph.inputs[carried:]]
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


def _named(name: str, type_: TensorType, names: set[str]) -> Value:
    value = Value(identifier(name, names), type_)
    names.add(value.name)
    return value


def backward_of(body: Body, carried: int, given: tuple[int, ...]) -> Backward:
    """The one template of a loop's gradients."""
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
        names = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
        tracked = {v for v in (*graph.inputs, *_made(graph)) if v.dtype.kind in "fcV"}
        gradients: dict[Value, Tensor] = {}

        def add(value: Value, gradient: Tensor) -> None:
            before = gradients.get(value)
            gradients[value] = gradient if before is None else before + gradient

        seeds = [_named(f"g_{graph.outputs[i].name}", graph.outputs[i].type, names) for i in self._given]
        builder = Builder(names, "d")

        def walk() -> list[Any]:
            for i, seed in zip(self._given, seeds, strict=True):
                add(graph.outputs[i], builder.tensor(seed))
            for equation in reversed(graph.equations):
                pull_back(equation, frozenset(tracked), gradients, builder, add)
            wanted = [v for v in graph.inputs[: self._number] if v.dtype.kind in "fcV"]
            return [builder.value(gradients[v] if v in gradients else zeros_of(v)) for v in wanted]

        results = interpreted(builder, walk)
        inputs = (*seeds, *graph.inputs, *builder.constants)
        whole = Graph(inputs, (*graph.equations, *builder.equations), tuple(results))
        return optimise(whole), [*constants, *builder.constants.values()]


def _made(graph: Graph) -> Iterator[Value]:
    return (v for e in graph.equations for v in e.outputs)


class AtCount(Op):
    """What a template's graph gives, of tensors that come after the number of rounds. Params: `template`."""

    family = "rolled"
    fills = False

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        count, *tensors = args
        graph, constants = params["template"].graph_of(int(count.array))
        with _alone():
            given = [wrap(np.asarray(t.array)) for t in tensors]
            made = _evaluated(graph, [*given, *map(wrap, constants)])
        return tuple([np.array(t.array, order="C") for t in made])

    def infer(self, types: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
        graph, _ = params["template"].graph_of(1)
        return tuple([v.type for v in graph.outputs])


def _evaluated(graph: Graph, tensors: Sequence[Tensor]) -> list[Tensor]:
    """What a graph gives, its loops compiled."""
    known: dict[Any, Any] = dict(zip(graph.inputs, tensors, strict=True))
    for equation in graph.equations:
        args = tuple([known[v] if isinstance(v, Value) else v for v in equation.inputs])
        if equation.op is ROLLED:
            run, params = rolled.compiled_rounds or Body.repeat, dict(equation.params)
            made: Any = tuple(map(wrap, run(params["body"], args, params)))
        else:
            made = bind(equation.op, args, dict(equation.params))
        known.update(zip(equation.outputs, made if type(made) is tuple else (made,), strict=True))
    return [known[v] for v in graph.outputs]


def _pull_at_count(g: Any, inputs: Sequence[Tensor], index: int, template: Template) -> Tensor | None:
    gradients = g if type(g) is list else [g]
    given = tuple([i for i, known in enumerate(gradients) if known is not None])
    if not index or not given:
        return None
    count, *others = inputs
    operands = count, *[gradients[i] for i in given], *others
    made = bind(AT_COUNT, operands, {"template": template.derived(given, len(others))})
    gradient: Tensor = made[_place(others, index - 1)]
    return gradient


AT_COUNT = AtCount("at_count", "*tensors", {"tensors": _pull_at_count})


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Nobody listens, and no gradients are recorded."""
    interpreter, state.interpreter = state.interpreter, None
    try:
        with no_grad():
            yield
    finally:
        state.interpreter = interpreter
