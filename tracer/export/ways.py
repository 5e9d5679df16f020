"""The ways that a function can go by the values of tensors: each is captured, and they are one program.

Where Python asks a tensor for a truth, the run goes by what the examples say. It runs once more with the
other answer, whatever the examples hold, and so on for all that was asked behind that; what both ways do from
there on is the two sides of a `branch` (`ir/branch.py`). A way that ends by a `raise` of the user's is none:
what eager refuses is noted as a check.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.interpreter import is_raise
from fusegrad.eager.core.op import REGISTRY, TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.implied import Known
from fusegrad.tracer.export.program import Program, branched, captured_program, captured_way
from fusegrad.tracer.ir.branch import BRANCH, Side
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, free_values, source_text
from fusegrad.tracer.ir.tested import TESTED, at_most

# A function that goes more ways is refused: each of them is written.
MOST_WAYS = 32
# Examples that are sent another way may go there for ever: loops end after so many rounds, and a way that
# asks for so many truths is given up.
MOST_ROUNDS, MOST_ASKED = 100, 200

# A way that was captured, and the guards of all truths that it asked for, in order.
Way = tuple[Program, tuple[Equation, ...]]
Done = tuple[list[Equation], list[Any]]  # equations, and what is given in the end


def whole_program(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
    """All that a function does for arguments of the examples' types, with its loops.

    Raises ExportError as `captured_program` does, for more ways than are written, for those that fail, or
    give something else, and where a number decides.
    """

    def capture(answers: tuple[bool, ...]) -> Way:
        with at_most(MOST_ROUNDS) if answers else contextlib.nullcontext():
            told = functools.partial(_answer, answers) if answers else None
            return captured_way(function, args, kwargs, True, told)

    way = capture(())
    return _Ways(way[0], capture).program(way) if way[0].open_guards("branch") else way[0]


def branching_program(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    """The same for those who have loops written out but where a function branches on data."""
    program = captured_program(function, args, kwargs)
    return whole_program(function, args, kwargs) if program.open_guards("branch") else program


def _answer(
    answers: tuple[bool, ...], recorded: Sequence[Equation], asked: Sequence[Equation], truth: Value
) -> bool | None:
    """The answer that a truth is to have: those that come first are given, others may follow from them."""
    if len(asked) < len(answers):
        return answers[len(asked)]
    if len(asked) > MOST_ASKED:
        raise ExportError(
            f"export: more than {MOST_ASKED} truths are asked for on the way that other data take {answers}"
        )
    known = Known()
    for equation in recorded:
        known.goes_on(equation)
    return next((answer for answer in (True, False) if known.implies(truth, answer)), None)


class _Wider(Exception):
    """A way has met a loop that asks for both answers, which holds for what came before as well."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way = way


class _Ways:
    """The ways of one function on their way to one program.

    Tensors from outside and constants are the same values in all ways; what is computed is another in each.
    """

    def __init__(self, first: Program, capture: Callable[[tuple[bool, ...]], Way]) -> None:
        self.first, self.capture = first, capture
        self.taken = {v.name for v in first.arguments}
        self.captured: dict[Value, Tensor] = {}
        self.constants: dict[Value, np.ndarray] = {}
        self.names: dict[str, tuple[str, ...]] = {}
        self.straight: dict[int, Program] = {}
        self.runs: dict[tuple[bool, ...], Way | None] = {}

    def program(self, way: Way) -> Program:
        """The one program."""
        equations, outputs = self.rest(way, self.begin(way[0]), 0)
        # In the order in which they are used: which way the examples go is nothing to the program.
        used = dict.fromkeys(
            [v for e in equations for v in e.values()] + [v for v in outputs if isinstance(v, Value)]
        )
        captured = {v: self.captured[v] for v in used if v in self.captured}
        constants = {v: self.constants[v] for v in used if v in self.constants}
        return dataclasses.replace(
            self.first,
            graph=Graph((*self.first.arguments, *captured, *constants), tuple(equations), tuple(outputs)),
            captured=captured,
            constants=constants,
            names=self.names,
            ways=tuple([_straight(p) for p in self.straight.values() if not _may_go_on(p)]),
        )

    def begin(self, program: Program) -> dict[Value, Value]:
        """What the inputs of a way are in the one program."""
        self.straight[id(program)] = program
        if (program.result, program.present) != (self.first.result, self.first.present):
            raise ExportError(f"export: what {program.name} returns is made in another way for other data")
        known: dict[Value, Value] = dict(zip(program.arguments, self.first.arguments, strict=True))
        for value, tensor in program.captured.items():
            known[value] = self._met(value, tensor, self.captured, lambda a, b: a is b)
            self.names.setdefault(known[value].name, program.names.get(value.name, ()))
        for value, array in program.constants.items():
            known[value] = self._met(value, array, self.constants, _same_bytes)
        return known

    def _met(self, value: Value, data: Any, met: dict[Value, Any], same: Callable[[Any, Any], bool]) -> Value:
        for found, other in met.items():
            if same(data, other):
                return found
        found = self._fresh(value)
        met[found] = data
        return found

    def _fresh(self, like: Value, type_: TensorType | None = None) -> Value:
        name = like.name
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return Value(name, type_ or like.type)

    def rest(self, way: Way, known: dict[Value, Value], begin: int) -> Done:
        """What a way does from an equation on, and the others that part from it there.

        known: what its values are in the one program.
        """
        before = dict(known)
        try:
            return self._rest(way, known, begin)
        except _Wider as wider:
            found = self._after(way, wider.way, before, begin, begin)
            if found is None:
                raise
            return self.rest(wider.way, found, begin)

    def _rest(self, way: Way, known: dict[Value, Value], begin: int) -> Done:
        program = way[0]
        undecided = set(map(id, program.open_guards("branch")))
        truths, made = Known(), list[Equation]()
        for number, guard in enumerate(program.graph.equations):
            decides = number >= begin and id(guard) in undecided and not _is_implied(guard, truths)
            truths.goes_on(guard)
            if number < begin or (guard.op is GUARD and guard.params["kind"] == "branch" and not decides):
                continue
            if not decides:
                made.append(self._rewritten(guard, known))
                continue
            place = _place(way, guard)
            other = self._other(way, place)
            if other is None:  # it raises an error there
                params = {**guard.params, "kind": "check"}
                made.append(self._rewritten(dataclasses.replace(guard, params=params), known))
                continue
            parted = next((i for i, e in enumerate(other[0].graph.equations) if e is other[1][place]), None)
            if parted is None:
                raise _Wider(other)
            found = self._after(way, other, known, number, parted)
            if found is None:
                raise ExportError(f"export: {program.name} does something else when it is called once more")
            mine = self.rest(way, dict(known), number + 1)
            theirs = self.rest(other, found, parted + 1)
            joined, outputs = self._branch(guard, known[guard.inputs[0]], mine, theirs)
            return [*made, *joined], outputs
        return made, [known[v] if isinstance(v, Value) else v for v in program.graph.outputs]

    def _other(self, way: Way, place: int) -> Way | None:
        """The way that another answer leads; None if that is to a `raise` of the user's."""
        program, asked = way
        *first, last = (guard.params["expected"] for guard in asked[: place + 1])
        answers = (*first, not last)
        if answers not in self.runs and len(self.runs) > MOST_WAYS:
            raise branched(program.name, program.open_guards("branch"), f"in more than {MOST_WAYS} ways")
        try:
            if answers not in self.runs:
                self.runs[answers] = self.capture(answers)
        except ExportError:
            raise
        except Exception as error:
            if not _is_raised(error):
                raise ExportError(
                    f"export: where other data have {program.name} go another way it fails on the examples, "
                    f"{error!r}: {source_text(asked[place].source)}"
                ) from error
            self.runs[answers] = None
        return self.runs[answers]

    def _after(
        self, way: Way, other: Way, known: dict[Value, Value], ours: int, theirs: int
    ) -> dict[Value, Value] | None:
        """What the values of another way are that it computes before they part: so many equations of each.
        None if these do not do the same.
        """
        found = self.begin(other[0])
        one, two = way[0].graph.equations[:ours], other[0].graph.equations[:theirs]
        for mine, same in zip(one, two, strict=False):
            before = [known[x] if isinstance(x, Value) else x for x in mine.inputs]
            after = [found.get(x) if isinstance(x, Value) else x for x in same.inputs]
            if mine.op is not same.op or before != after or repr(mine.params) != repr(same.params):
                return None
            found.update(zip(same.outputs, [known[v] for v in mine.outputs], strict=True))
        return found if len(one) == len(two) else None

    def _rewritten(self, equation: Equation, known: dict[Value, Value]) -> Equation:
        inputs = tuple([known[x] if isinstance(x, Value) else x for x in equation.inputs])
        known.update([(value, self._fresh(value)) for value in equation.outputs])
        outputs = tuple([known[v] for v in equation.outputs])
        return Equation(equation.op, inputs, equation.params, outputs, equation.source)

    def _branch(self, guard: Equation, test: Value, mine: Done, theirs: Done) -> Done:
        """The equations that say what either way gives, and that."""
        outputs, differing = [*mine[1]], list[int]()
        for place, (x, y) in enumerate(zip(mine[1], theirs[1], strict=True)):
            if x is not y and (isinstance(x, Value) or type(x) is not type(y) or repr(x) != repr(y)):
                differing.append(place)
        both = (mine, theirs) if guard.params["expected"] else (theirs, mine)
        sides = [self._side(way, differing) for way in both]
        types = [[v.type for v in side.outputs] for side in sides]
        if types[0] != types[1]:
            raise ExportError(
                "export: the two ways that other data take give results of other types, or shapes: "
                f"{source_text(guard.source)}"
            )
        if not differing:
            return [], outputs
        read = (v for side in sides for v in free_values(side.equations, side.outputs))
        operands = tuple(dict.fromkeys(read))
        then, otherwise = (Side(Graph(operands, side.equations, side.outputs)) for side in sides)
        made = tuple([self._fresh(v) for v in sides[0].outputs])
        for place, value in zip(differing, made, strict=True):
            outputs[place] = value
        params = {"then": then, "otherwise": otherwise}
        return [Equation(BRANCH, (test, *operands), params, made, guard.source)], outputs

    def _side(self, way: Done, places: Sequence[int]) -> Graph:
        """What one way gives at some places, numbers as tensors."""
        equations, outputs = [*way[0]], list[Value]()
        for operand in [way[1][place] for place in places]:
            if not isinstance(operand, Value):
                dtype = dtypes.number_dtype(operand)
                value = self._fresh(Value("number", TensorType((), dtype.numpy)))
                params = {"shape": (), "value": operand, "dtype": dtype}
                equations.append(Equation(REGISTRY["full"], (), params, (value,)))
                operand = value
            outputs.append(operand)
        return Graph((), tuple(equations), tuple(outputs))


def _may_go_on(program: Program) -> bool:
    """Whether there are loops that might go on for ever on a way that the examples do not go."""
    return any(e.op is TESTED for e in program.graph.equations)


def _straight(program: Program) -> Program:
    """A way by itself, whatever the examples hold."""
    graph = program.graph
    unguarded = tuple([e for e in graph.equations if e.op is not GUARD])
    return dataclasses.replace(program, graph=Graph(graph.inputs, unguarded, graph.outputs))


def _is_implied(guard: Equation, truths: Known) -> bool:
    expected = guard.params["expected"]
    return type(expected) is bool and truths.implies(guard.inputs[0], expected)


def _place(way: Way, guard: Equation) -> int:
    """The number of a guard among the truths that were asked for. Raises ExportError for a number's."""
    for place, asked in enumerate(way[1]):
        if asked is guard:
            return place
    raise branched(way[0].name, [guard])


def _same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _is_raised(error: Exception) -> bool:
    """Whether a `raise` or an `assert` has made the error, and no op."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_globals.get("__name__", "").startswith("fusegrad."):
        return False
    return is_raise(trace.tb_frame.f_code, trace.tb_lasti)
