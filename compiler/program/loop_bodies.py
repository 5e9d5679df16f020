"""Loop bodies: rolled loops go in; ones whose round is compiled once, or written out rounds, come out.

Rounds that could share kernels are written out, so many of them that a kernel is long enough: these are one
round then. Where there are few, all are, and are compiled like any other equations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.fuse.turns import rounds_of_turn
from fusegrad.compiler.native.calls import Calls
from fusegrad.compiler.native.rounds import RoundsOfCalls
from fusegrad.compiler.placement.memory_plan import Placed
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.loop_distribution import distributed
from fusegrad.compiler.program.pipeline import clone_op
from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import Params
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.branch import flattened
from fusegrad.tracer.ir.graph import Equation, Graph, Value, identifier
from fusegrad.tracer.ir.pullback import fresh
from fusegrad.tracer.ir.rolled import ROLLED, Body, WrittenOut, unrolled
from fusegrad.tracer.loops.rolling import TURN

# Rounds of more equations than this, in all, stay rounds: longer kernels take LLVM longer, and a long loop is
# hardly faster for them. Of 1,000 steps `x + 0.01 * sin(x)` of ten numbers the first call takes 24 ms as
# rounds, 140 by turns; later ones 30 and 27 us.
MOST_WRITTEN_OUT = 2000
# Rounds that take and give so many elements in all run in one native call, where a small one counts as so
# many: in between, Python sees to signals. That is a few hundredths of a second.
AT_ONCE, SMALL_ROUND = 1 << 24, 1 << 10


def with_compiled_loops(graph: Graph, program_of: Callable[[Graph], Any]) -> Graph:
    """The graph with the bodies of its loops compiled, or the rounds written out.

    program_of: divides a graph into the steps of a program, which is yet to be compiled.
    """
    if not any(map(_is_open, graph.equations)):
        return graph

    @functools.cache
    def flat(body: Body, carried: int) -> Body:
        # Rounds compute both sides of branches, and choose: so they are native code.
        return body if (found := flattened(body.graph)) is body.graph else Body(found)

    @functools.cache
    def compiled(body: Body, carried: int) -> Body:
        return CompiledBody(body.graph, carried, program_of)

    @functools.cache
    def together(body: Body, rounds: int) -> int:
        return _rounds_together(body, rounds, program_of)

    graph, names = _with_bodies(graph, flat), graph.names()
    equations: list[Equation] = []
    for equation in graph.equations:
        hands_on = _is_open(equation) and not equation.params["rows"]
        if hands_on and len(equation.outputs) == equation.params["carried"]:
            number = together(equation.params["body"], equation.params["rounds"])
            equations += _in_turns(equation, number, names)
        else:
            equations.append(equation)
    return _with_bodies(distributed(Graph(graph.inputs, tuple(equations), graph.outputs)), compiled)


def _is_open(equation: Equation) -> bool:
    """Whether it is a loop whose round is not compiled."""
    return equation.op is ROLLED and not equation.params["body"].is_compiled


def _with_bodies(graph: Graph, made: Callable[[Body, int], Body]) -> Graph:
    """The graph with other bodies of its loops, made of each and of how many tensors it hands on."""
    equations = []
    for equation in graph.equations:
        if _is_open(equation):
            params = equation.params
            body = made(params["body"], params["carried"])
            equation = replace(equation, params={**params, "body": body})
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _rounds_together(body: Body, rounds: int, program_of: Callable[[Graph], Any]) -> int:
    """How many rounds of so many are to be one: those that could share kernels."""
    if rounds * len(body.graph.equations) > MOST_WRITTEN_OUT:
        return 1
    program = program_of(passes.optimise(body.graph))
    if _are_apart(program.steps, TURN):
        return 1
    return rounds_of_turn(rounds, len(program.graph.equations)) or max(1, rounds)


def _are_apart(steps: Sequence[Step], rounds: int) -> bool:
    """Whether each round has steps of its own, and the same ones."""
    kinds = [s.equations[0].op.name if s.kernel is None else s.kernel.kernel.digest for s in steps]
    length = len(kinds) // rounds
    return kinds == rounds * kinds[:length]


def _in_turns(loop: Equation, number: int, names: set[str]) -> list[Equation]:
    """The loop with so many of its rounds as one, and those that are left over written out behind it.

    names: those that are taken; its own are added.
    """
    params, body = loop.params, loop.params["body"].graph
    turns, rest = divmod(params["rounds"], number)
    if number == 1:
        return [loop]
    if turns == 1:
        return [*WrittenOut(loop, names).equations()]
    own = {v.name for v in body.inputs}
    made = tuple([fresh(v.name, v.type, own) for v in loop.outputs])
    turn = Equation(ROLLED, body.inputs, {**params, "rounds": number}, made, loop.source)
    whole = Body(unrolled(Graph(body.inputs, (turn,), made), _is_open))
    then = tuple([fresh(v.name, v.type, names) for v in loop.outputs])
    left = replace(loop, inputs=(*then, *loop.inputs[len(then) :]), params={**params, "rounds": rest})
    by_turns = replace(loop, params={**params, "body": whole, "rounds": turns}, outputs=then)
    return [by_turns, *WrittenOut(left, names).equations()]


class CompiledBody(Body):
    """A round that is compiled; its results lie where the next round reads them."""

    is_compiled = True

    def __init__(
        self, graph: Graph, carried: int, program_of: Callable[[Graph], Any], keeps_inputs: bool = False
    ) -> None:
        """keeps_inputs: whether what a round is handed is there after it."""
        super().__init__(graph)
        graph = _with_results_apart(passes.optimise(flattened(graph)))
        self.program = program_of(graph)
        # What a round looks up is known to be there (`tracer/record/ranges.py`).
        self.program.checks.clear()
        pairs = list(zip(self.program.graph.outputs[:carried], graph.inputs[:carried], strict=True))
        self.program.into = {} if keeps_inputs else in_place(self.program, pairs)
        self.program.begin()
        self.places = [self.program.locate(v)[0] for v in self.program.graph.outputs]
        # What runs rounds, by how many tensors they hand on, what they get and give in rows, and their test.
        self._rounds: dict[Any, _Rounds] = {}

    def repeat(self, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
        """The arrays that all rounds give."""
        return self.repeat_on([t.array for t in tensors], params)

    def repeat_on(self, arrays: Sequence[np.ndarray], params: Params) -> tuple[np.ndarray, ...]:
        """The arrays that all rounds give, of those of the loop's tensors; of a loop with a test what is
        handed on, and how many counted. It keeps its inputs: where the test fails, they are the last state.
        """
        carried, is_tested = params["carried"], "most" in params
        now, given = _in_rows(arrays, carried)
        key = carried, params.get("rows", 0), params.get("backwards", False), is_tested
        if key not in self._rounds:
            self._rounds[key] = _Rounds(self, *key)
        if is_tested:
            count = self._rounds[key].run(now, given, [np.empty(1, np.bool_)], params["most"])
            return (*now, np.array(count))
        made = [np.empty((params["rounds"], *v.shape), v.dtype) for v in self.graph.outputs[carried:]]
        self._rounds[key].run(now, given, made, params["rounds"])
        return (*now, *made)


def _in_rows(arrays: Sequence[np.ndarray], carried: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The arrays of a loop's tensors, row-major: copies of what it carries on, and what its rounds read."""
    now = [np.array(array, order="C") for array in arrays[:carried]]
    return now, [np.asarray(array, order="C") for array in arrays[carried:]]


class _Rounds:
    """Rounds of which all is known but how many there are, and the memory that they work on.

    on, left: where lies what a round hands on, and what it leaves. turns: which arrays of those that are
    handed on lie beside what the round was handed, and where: afterwards the two change places.
    """

    def __init__(self, body: CompiledBody, carried: int, rows: int, backwards: bool, is_tested: bool) -> None:
        """rows: how many of the tensors that all rounds read give each a row. is_tested: whether a round
        leaves nothing but whether it counts, and is the last one if it does not.
        """
        self._placed: Placed = body.program.placed()
        self._on, self._left = body.places[:carried], body.places[carried:]
        self._turns = [(i, place) for i, place in enumerate(self._on) if place >= len(body.graph.inputs)]
        self._rows, self._backwards, self._is_tested = rows, backwards, is_tested
        elements = sum(math.prod(v.shape) for v in (*body.graph.inputs, *body.graph.outputs))
        self._at_once = max(1, AT_ONCE // max(elements, SMALL_ROUND))
        self._several: dict[int, RoundsOfCalls] = {}  # what runs so many of them

    def run(self, now: list[np.ndarray], given: list[np.ndarray], made: list[np.ndarray], most: int) -> int:
        """Run so many rounds, or as many as count; how many there were. What they hand on is in `now`.

        given: what all rounds read; made: where each puts a row, or its test.
        """
        calls = self._placed.calls
        if calls is None:
            return self._step_by_step(now, given, made, most)
        spare, counted, count = [np.empty_like(now[i]) for i, _ in self._turns], np.zeros(1, np.int64), 0
        arena = self._placed.take_arena()
        while count < most:
            done = number = min(most - count, self._at_once)
            arrays = self._arrays(now, given, made, spare, self._row(count, most))
            several = self._several.get(number) or self._prepared(calls, number, given, made, len(arrays))
            several.run(*arrays, arena, counted)
            if self._is_tested:
                done = int(counted[0])
            if done % 2:
                for k, (i, _) in enumerate(self._turns):
                    now[i], spare[k] = spare[k], now[i]
            count += done
            if done < number:
                break
        self._placed.arenas.append(arena)
        return count

    def _row(self, number: int, most: int) -> int:
        """The row of a round."""
        return 0 if self._is_tested else most - 1 - number if self._backwards else number

    def _step_by_step(
        self, now: list[np.ndarray], given: list[np.ndarray], made: list[np.ndarray], most: int
    ) -> int:
        """Rounds in which NumPy has part."""
        for number in range(most):
            row = self._row(number, most)
            parts = [x[row, ...] for x in given[: self._rows]]
            arrays = self._placed.run([*now, *parts, *given[self._rows :]])
            for array, place in zip(made, self._left, strict=True):
                array[row] = arrays[place]
            if self._is_tested and not made[0][0]:
                return number
            now[:] = [arrays[place] for place in self._on]
        return most

    def _arrays(
        self,
        now: list[np.ndarray],
        given: list[np.ndarray],
        made: list[np.ndarray],
        spare: list[np.ndarray],
        row: int,
    ) -> list[np.ndarray]:
        """The memory of the rounds from one on, of which only where it begins is read."""
        parts, left = given[: self._rows], made
        if row:
            parts, left = [x[row, ...] for x in parts], [x[row, ...] for x in left]
        arrays = [*now, *parts, *given[self._rows :], *self._placed.rest]
        for (_, place), array in zip((*self._turns, *enumerate(self._left)), (*spare, *left), strict=True):
            arrays[place] = array
        return arrays

    def _prepared(
        self, calls: Calls, number: int, given: list[np.ndarray], made: list[np.ndarray], arrays: int
    ) -> RoundsOfCalls:
        moving = [*enumerate(given[: self._rows], len(self._on))]
        moving += [] if self._is_tested else zip(self._left, made, strict=True)
        sign = -1 if self._backwards else 1
        moves = [(place + 1, sign * array[0].nbytes) for place, array in moving]
        turns = [(i + 1, place + 1) for i, place in self._turns]
        # Behind the arrays lies the arena, and then how many rounds there were.
        tested = (self._left[0] + 1, arrays + 2) if self._is_tested else (0, 0)
        found = self._several[number] = RoundsOfCalls(calls, number, moves, turns, tested)
        return found


def _with_results_apart(graph: Graph) -> Graph:
    """The graph with results that have memory of their own in row-major order: no views, nor what it is
    given, nor one twice.
    """
    made = {v: e for e in graph.equations for v in e.outputs}
    names = graph.names()
    equations, outputs = list(graph.equations), []
    for value in graph.outputs:
        if value in outputs or value not in made or isinstance(made[value].op, View):
            copy = Value(identifier(f"{value.name}_handed_on", names), value.type)
            names.add(copy.name)
            equations.append(Equation(clone_op, (value,), {}, (copy,)))
            value = copy
        outputs.append(value)
    return Graph(graph.inputs, tuple(equations), tuple(outputs))
