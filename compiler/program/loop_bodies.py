"""Loop bodies: rolled loops go in; ones whose round is compiled once, or written out rounds, come out.

Where there are few rounds that could share a kernel they are written out instead: then they are compiled like
any other equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.native.calls import Calls
from fusegrad.compiler.native.rounds import RoundsOfCalls
from fusegrad.compiler.placement.memory_plan import Placed
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.loop_distribution import distributed
from fusegrad.compiler.program.periodic_plan import rounds_apart
from fusegrad.compiler.program.pipeline import clone_op
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import Params
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.branch import flattened
from fusegrad.tracer.ir.graph import Equation, Graph, Value, identifier
from fusegrad.tracer.ir.rolled import ROLLED, Body, unrolled
from fusegrad.tracer.loops.rolling import TURN

# Rounds of no more equations than this, in all, are written out where they could share kernels; and of no
# more when they are lowered, of which sorting a row takes a dozen.
MOST_WRITTEN_OUT, MOST_LOWERED = 2000, 5000
# So many rounds run in one native call: in between, Python sees to signals and other threads.
ROUNDS_AT_ONCE = 1 << 14


def with_compiled_loops(graph: Graph, program_of: Callable[[Graph], Any]) -> Graph:
    """The graph with the bodies of its loops compiled, or the rounds written out.

    program_of: divides a graph into the steps of a program, which is yet to be compiled.
    """
    graph = _without_branches(graph)
    loops = [e for e in graph.equations if e.op is ROLLED and not e.params["body"].is_compiled]
    if not loops:
        return graph
    apart: dict[Any, bool] = {}
    for loop in loops:
        key = loop.params["body"], loop.params["rounds"]
        if key not in apart:
            apart[key] = _pays_to_write_out(loop, program_of)
    graph = unrolled(graph, lambda loop: apart.get((loop.params["body"], loop.params["rounds"]), False))
    graph = distributed(graph)
    known: dict[Any, CompiledBody] = {}
    equations = []
    for equation in graph.equations:
        if equation.op is ROLLED and not equation.params["body"].is_compiled:
            body, carried = equation.params["body"], equation.params["carried"]
            if (body, carried) not in known:
                known[body, carried] = CompiledBody(body.graph, carried, program_of)
            params = {**equation.params, "body": known[body, carried]}
            equation = Equation(ROLLED, equation.inputs, params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _without_branches(graph: Graph) -> Graph:
    """The graph, whose rounds compute both sides of branches, and choose: so they are native code."""
    known: dict[Body, Body] = {}
    equations = []
    for equation in graph.equations:
        if equation.op is ROLLED and not (body := equation.params["body"]).is_compiled:
            flat = flattened(body.graph)
            if flat is not body.graph:
                params = {**equation.params, "body": known.setdefault(body, Body(flat))}
                equation = replace(equation, params=params)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs) if known else graph


def _pays_to_write_out(loop: Equation, program_of: Callable[[Graph], Any]) -> bool:
    """Whether rounds that only hand on tensors are few, and could share kernels."""
    params, body = loop.params, loop.params["body"]
    has_rows = params["rows"] or len(loop.outputs) > params["carried"]
    if has_rows or params["rounds"] * len(body.graph.equations) > MOST_WRITTEN_OUT:
        return False
    program = program_of(passes.optimise(body.graph))
    if params["rounds"] * len(program.graph.equations) > MOST_LOWERED:
        return False
    return not rounds_apart(program.steps, TURN)


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
        # What calls the kernels of a round so often, by what changes from round to round.
        self.prepared: dict[Any, RoundsOfCalls] = {}
        # What runs all rounds in one native call, by what is known of them; None where nothing does.
        self.in_one_call: dict[Any, Any] = {}

    def repeat(self, tensors: Sequence[Tensor], params: Params) -> tuple[np.ndarray, ...]:
        """The arrays that all rounds give."""
        return self.repeat_on([t.array for t in tensors], params)

    def repeat_on(self, arrays: Sequence[np.ndarray], params: Params) -> tuple[np.ndarray, ...]:
        """The arrays that all rounds give, of those of the loop's tensors."""
        rounds, carried = params["rounds"], params["carried"]
        now, given = in_rows(arrays, carried)
        made = [np.empty((rounds, *v.shape), v.dtype) for v in self.graph.outputs[carried:]]
        key = rounds, params["rows"], params["backwards"]
        if key not in self.in_one_call:
            memory = MemoryOfRounds(self, now, given, made, params)
            self.in_one_call[key] = _OneCall.of(memory) if rounds <= ROUNDS_AT_ONCE else None
        one: _OneCall | None = self.in_one_call[key]
        if one is not None and one.memory.is_alone:
            one.run(now, given, made)
            return (*now, *made)
        return (*MemoryOfRounds(self, now, given, made, params).run(), *made)


def in_rows(arrays: Sequence[np.ndarray], carried: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The arrays of a loop's tensors, row-major: copies of what it carries on, and what its rounds read."""
    now = [np.array(array, order="C") for array in arrays[:carried]]
    return now, [np.asarray(array, order="C") for array in arrays[carried:]]


class MemoryOfRounds:
    """The rounds of one call and the memory that they work on.

    now: what is handed to the next round, which it may write over; spare: where a round puts what it hands
    on, if that is somewhere else: afterwards they change places. given: what all rounds read, of the first
    `rows` of which each reads a row; made: where each puts one.
    """

    def __init__(
        self,
        body: CompiledBody,
        now: list[np.ndarray],
        given: list[np.ndarray],
        made: list[np.ndarray],
        params: Params,
    ) -> None:
        self.placed: Placed = body.program.placed()
        self.prepared = body.prepared
        self.now, self.given, self.made = now, given, made
        self.rounds, self.rows, self.backwards = params["rounds"], params["rows"], params["backwards"]
        self.on, self.left = body.places[: len(now)], body.places[len(now) :]
        inputs = len(now) + len(given)
        self.turns = [i for i, place in enumerate(self.on) if place >= inputs]
        self.spare = {i: np.empty_like(now[i]) for i in self.turns}

    def run(self) -> list[np.ndarray]:
        """Run all rounds; what the last one hands on."""
        calls = self.placed.calls
        if calls is None:
            self._step_by_step()
        elif not (self.turns or self.rows or self.made):
            self.placed.repeat([*self.now, *self.given], self.rounds)
        else:
            arena = self.placed.take_arena()
            if calls.shared and threads.pool_size() > 1:
                self._round_by_round(calls, arena)
            else:
                self._at_once(calls, arena)
            self.placed.arenas.append(arena)
        return self.now

    def _row(self, number: int) -> int:
        """The row of a round."""
        return self.rounds - 1 - number if self.backwards else number

    def _step_by_step(self) -> None:
        """Rounds in which NumPy has part."""
        for number in range(self.rounds):
            row = self._row(number)
            parts = [x[row, ...] for x in self.given[: self.rows]]
            arrays = self.placed.run([*self.now, *parts, *self.given[self.rows :]])
            self.now = [arrays[place] for place in self.on]
            for array, place in zip(self.made, self.left, strict=True):
                array[row] = arrays[place]

    def _round_by_round(self, calls: Calls, arena: np.ndarray) -> None:
        """Rounds that are shared by several threads each."""
        for number in range(self.rounds):
            calls.run(*self.arrays(self._row(number)), arena)
            self.take_turns()

    def _at_once(self, calls: Calls, arena: np.ndarray) -> None:
        """Rounds that are little to do."""
        for first in range(0, self.rounds, ROUNDS_AT_ONCE):
            number = min(self.rounds - first, ROUNDS_AT_ONCE)
            self.several(calls, number).run(*self.arrays(self._row(first)), arena)
            if number % 2:
                self.take_turns()

    def several(self, calls: Calls, number: int) -> RoundsOfCalls:
        """What runs so many rounds."""
        parts = {i: self.given[i - len(self.now)] for i in self._read()}
        parts |= dict(zip(self.left, self.made, strict=True))
        sign = -1 if self.backwards else 1
        moves = tuple([(place + 1, sign * array[0].nbytes) for place, array in parts.items()])
        turns = tuple([(i + 1, self.on[i] + 1) for i in self.turns])
        found = self.prepared.get((number, moves, turns))
        if found is None:
            found = self.prepared[number, moves, turns] = RoundsOfCalls(calls, number, moves, turns)
        return found

    def _read(self) -> range:
        """The places of the arrays of which each round reads a row."""
        return range(len(self.now), len(self.now) + self.rows)

    def arrays(self, row: int) -> list[np.ndarray]:
        """The memory of a round."""
        parts = [x[row, ...] for x in self.given[: self.rows]]
        arrays = [*self.now, *parts, *self.given[self.rows :], *self.placed.rest]
        for i, array in self.spare.items():
            arrays[self.on[i]] = array
        for place, array in zip(self.left, self.made, strict=True):
            arrays[place] = array[row, ...]
        return arrays

    def take_turns(self) -> None:
        """What was put beside is handed on."""
        for i in self.turns:
            self.now[i], self.spare[i] = self.spare[i], self.now[i]


class MemoryOfOneCall(NamedTuple):
    """The memory of rounds that are little to do, of which all is known but where it lies.

    turns: which arrays of those that are handed on take turns, where the others lie, and what these are.
    left: where what rounds leave lies. shared: whether a round has tasks that several threads can share.
    """

    placed: Placed
    turns: Sequence[tuple[int, int, tuple[int, ...], np.dtype]]
    left: Sequence[int]
    shared: bool

    @classmethod
    def of(cls, memory: MemoryOfRounds, calls: Calls) -> MemoryOfOneCall:
        now, on = memory.now, memory.on
        turns = [(i, on[i], now[i].shape, now[i].dtype) for i in memory.turns]
        return cls(memory.placed, turns, memory.left, calls.shared)

    @property
    def is_alone(self) -> bool:
        """Whether one thread runs a round."""
        return not self.shared or threads.pool_size() <= 1

    def arrays(self, given: Sequence[np.ndarray], left: Sequence[np.ndarray]) -> list[np.ndarray]:
        """All arrays. given: what a round is handed, and reads; left: what it leaves."""
        arrays = [*given, *self.placed.rest]
        for _, beside, shape, dtype in self.turns:
            arrays[beside] = np.empty(shape, dtype)
        for place, array in zip(self.left, left, strict=True):
            arrays[place] = array
        return arrays

    def take_turns(self, now: list[np.ndarray], arrays: list[np.ndarray]) -> None:
        """What was put beside is handed on."""
        for i, beside, _, _ in self.turns:
            now[i], arrays[beside] = arrays[beside], now[i]
            arrays[i] = now[i]


class _OneCall(NamedTuple):
    """Rounds of a known number that are little to do.

    rows: how much of what rounds read gives each a row. last: whether they begin with the last one.
    """

    memory: MemoryOfOneCall
    several: RoundsOfCalls
    rows: int
    last: bool
    is_odd: bool

    @classmethod
    def of(cls, of: MemoryOfRounds) -> _OneCall | None:
        """None where there is more to do."""
        calls = of.placed.calls
        if calls is None or not (of.turns or of.rows or of.made):
            return None
        memory, several = MemoryOfOneCall.of(of, calls), of.several(calls, of.rounds)
        return cls(memory, several, of.rows, of.backwards, of.rounds % 2 == 1)

    def run(self, now: list[np.ndarray], given: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> None:
        """Run them: what they hand on is in `now`."""
        placed, parts, left = self.memory.placed, given[: self.rows], made
        if self.last:  # only where an array begins is read
            parts, left = [x[-1:] for x in parts], [x[-1:] for x in made]
        arrays = self.memory.arrays([*now, *parts, *given[self.rows :]], left)
        arena = placed.take_arena()
        self.several.run(*arrays, arena)
        placed.arenas.append(arena)
        if self.is_odd:
            self.memory.take_turns(now, arrays)


def _with_results_apart(graph: Graph) -> Graph:
    """The graph with results that have memory of their own in row-major order: no views, nor what it is
    given, nor one twice.
    """
    made = {v: e for e in graph.equations for v in e.outputs}
    names = {v.name for v in (*graph.inputs, *made)}
    equations, outputs = list(graph.equations), []
    for value in graph.outputs:
        if value in outputs or value not in made or isinstance(made[value].op, View):
            copy = Value(identifier(f"{value.name}_handed_on", names), value.type)
            names.add(copy.name)
            equations.append(Equation(clone_op, (value,), {}, (copy,)))
            value = copy
        outputs.append(value)
    return Graph(graph.inputs, tuple(equations), tuple(outputs))
