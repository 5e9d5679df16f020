"""What a library's function does: a graph goes in; its pieces come out, in order.

    t: bool[] = gt(m, 1.0)                                   stretch  (m) -> (t)
    z: f32[3] = branch(t, x, then=side1, otherwise=side2)    choice   (t, x) -> (z), of two parts
    r: f32[3] = exp(z)                                       stretch  (z) -> (r)

Between two pieces values lie in memory, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusegrad.compiler.library.plan import Functions, Plan, plan, refusal
from fusegrad.tracer.ir.branch import BRANCH
from fusegrad.tracer.ir.graph import Equation, Graph, Value, free_values
from fusegrad.tracer.ir.rolled import ROLLED
from fusegrad.tracer.ir.tested import AT_COUNT, TESTED

_CONTROL = (BRANCH, ROLLED, TESTED, AT_COUNT)


class Stretch(NamedTuple):
    """Native functions in a row."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    plan: Plan


class Choice(NamedTuple):
    """One of two parts, by the first input; both take the others."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    then: Part
    otherwise: Part


class Loop(NamedTuple):
    """Calls of a part: see `tracer/ir/rolled.py`, and for those that are tested `tracer/ir/tested.py`.

    rounds: how many; if tested, at the most.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    body: Part
    rounds: int
    carried: int
    rows: int = 0
    backwards: bool = False
    tested: bool = False


Piece = Stretch | Choice | Loop


class Part(NamedTuple):
    """Pieces in order. outputs: values of pieces, or inputs; one may be there twice."""

    inputs: tuple[Value, ...]
    pieces: list[Piece]
    outputs: tuple[Value, ...]

    def straight(self) -> Plan | None:
        """What is done if it is one stretch."""
        piece = self.pieces[0] if len(self.pieces) == 1 else None
        return piece.plan if isinstance(piece, Stretch) else None


def part(name: str, graph: Graph, functions: Functions) -> Part:
    """How a library computes a graph of what was exported as `name`; its native functions join others.

    Raises ExportError for what it cannot compute.
    """
    outputs = tuple([v for v in graph.outputs if isinstance(v, Value)])
    stretches = _divided(graph.equations)
    if not any(isinstance(each, Equation) for each in stretches):
        whole = Graph(graph.inputs, graph.equations, outputs)
        return Part(graph.inputs, [Stretch(graph.inputs, outputs, plan(name, whole, functions))], outputs)
    pieces: list[Piece] = []
    wanted = set(outputs)
    # From the end on, since a stretch gives what later pieces take.
    for each in reversed(stretches):
        if isinstance(each, Equation):
            piece: Piece = _control(name, each, functions)
        else:
            made = dict.fromkeys(v for e in each for v in e.outputs)
            taken = tuple(free_values(each))
            given = tuple([v for v in made if v in wanted])
            piece = Stretch(taken, given, plan(name, Graph(taken, tuple(each), given), functions))
        wanted.update(piece.inputs)
        pieces.insert(0, piece)
    return Part(graph.inputs, pieces, outputs)


def _divided(equations: Sequence[Equation]) -> list[list[Equation] | Equation]:
    """Branches and loops, and the equations between two of them."""
    found: list[list[Equation] | Equation] = [[]]
    for equation in equations:
        if equation.op in _CONTROL:
            found += [equation, []]
        else:
            found[-1].append(equation)  # type: ignore[union-attr]
    return [each for each in found if each]


def _control(name: str, equation: Equation, functions: Functions) -> Choice | Loop:
    """What a branch or a loop does."""
    params, inputs, outputs = equation.params, tuple(equation.values()), equation.outputs
    if equation.op is BRANCH:
        sides = (part(name, params[side].graph, functions) for side in ("then", "otherwise"))
        return Choice(inputs, outputs, *sides)
    if equation.op is AT_COUNT:
        raise refusal(equation, "is a loop of which Python counts the rounds")
    body = part(name, params["body"].graph, functions)
    if equation.op is TESTED:
        return Loop(inputs, outputs, body, params["most"], params["carried"], tested=True)
    return Loop(
        inputs, outputs, body, params["rounds"], params["carried"], params["rows"], params["backwards"]
    )
