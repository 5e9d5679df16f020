"""What is certain of a truth by those that are known: a loop is over because its test fails.

The test of a rolled loop (`ir/tested.py`) is asked once more behind it, as Python does. What it then says
follows from the end of the loop; so does a truth that was asked before. Truths are put together of others by
`and`, `or`, `not` and `==`, down to some that are not, and all their values are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.tracer.ir.branch import BRANCH
from fusegrad.tracer.ir.graph import GUARD, Equation, Value
from fusegrad.tracer.ir.tested import FAR, TESTED

# Truths of so many parts are not looked into.
MOST_PARTS = 10
_JOINED: dict[str, Callable[..., bool]] = {
    "logical_and": lambda x, y: x and y, "bitwise_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y, "bitwise_or": lambda x, y: x or y,
    "logical_not": lambda x: not x, "bitwise_not": lambda x: not x,
    "logical_xor": lambda x, y: x != y, "bitwise_xor": lambda x, y: x != y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "True": lambda: True, "False": lambda: False, "chosen": lambda test, x, y: x if test else y,
}  # fmt: skip


class Known:
    """The truths that are known where a run has come to, equation by equation.

    Values that are computed alike are one: an expression is a number, its parts and how these are joined.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._parts: dict[int, tuple[str, tuple[int, ...]]] = {}
        self._of: dict[Value, int] = {}
        self._facts: list[tuple[int, bool]] = []

    def goes_on(self, equation: Equation) -> None:
        """Note an equation that is computed, or a guard that holds."""
        if equation.op is GUARD:
            if type(equation.params["expected"]) is bool:
                self._facts.append((self._number(equation.inputs[0], self._of), equation.params["expected"]))
            return
        self._compute(equation, self._of)
        if equation.op is TESTED and equation.params["most"] >= FAR:
            self._loop_is_over(equation)

    def implies(self, value: Value, expected: bool) -> bool:
        """Whether a truth can be no other."""
        asked = self._number(value, self._of)
        parts, facts = {*self._leaves(asked)}, list[tuple[int, bool]]()
        left = [(fact, {*self._leaves(fact[0])}) for fact in self._facts]
        while near := [fact for fact, leaves in left if leaves & parts]:
            facts += near
            parts.update(*(leaves for _, leaves in left if leaves & parts))
            left = [(fact, leaves) for fact, leaves in left if fact not in near]
        if len(parts) > MOST_PARTS:
            return False
        for values in itertools.product((False, True), repeat=len(parts)):
            given = dict(zip(parts, values, strict=True))
            holds = all(self._value(number, given) is fact for number, fact in facts)
            if holds and self._value(asked, given) is not expected:
                return False
        return True

    def _loop_is_over(self, loop: Equation) -> None:
        """Another round, of what the loop has handed on, would fail its test."""
        body, carried = loop.params["body"].graph, loop.params["carried"]
        operands = (*loop.outputs[:carried], *loop.inputs[carried : len(body.inputs)])
        known = {inner: self._number(x, self._of) for inner, x in zip(body.inputs, operands, strict=True)}
        for equation in body.equations:
            self._compute(equation, known)
        self._facts.append((known[body.outputs[-1]], False))

    def _compute(self, equation: Equation, known: dict[Value, int]) -> None:
        operands = tuple([self._number(x, known) for x in equation.inputs])
        if equation.op is BRANCH:
            return self._choose(equation, operands, known)
        key = equation.op.name, operands, repr(sorted(equation.params.items(), key=str))
        for place, output in enumerate(equation.outputs):
            known[output] = self._numbers.setdefault((place, *key), len(self._numbers))
            truths = all(isinstance(x, Value) and _is_truth(x) for x in equation.inputs)
            if equation.op.name == "full" and _is_truth(output):
                self._parts[known[output]] = str(bool(equation.params["value"])), ()
            elif equation.op.name in _JOINED and _is_truth(output) and truths:
                self._parts[known[output]] = equation.op.name, operands

    def _choose(self, branch: Equation, operands: tuple[int, ...], known: dict[Value, int]) -> None:
        """A branch gives what one of its sides gives."""
        results = []
        for graph in (branch.params[side].graph for side in ("then", "otherwise")):
            inside = dict(zip(graph.inputs, operands[1:], strict=True))
            for equation in graph.equations:
                self._compute(equation, inside)
            results.append([self._number(x, inside) for x in graph.outputs])
        for output, *given in zip(branch.outputs, *results, strict=True):
            parts = (operands[0], *given)
            known[output] = self._numbers.setdefault(("chosen", parts), len(self._numbers))
            if _is_truth(output):
                self._parts[known[output]] = "chosen", parts

    def _number(self, operand: Any, known: Mapping[Value, int]) -> int:
        if isinstance(operand, Value) and operand in known:
            return known[operand]
        key = operand if isinstance(operand, Value) else ("number", type(operand), repr(operand))
        return self._numbers.setdefault(key, len(self._numbers))

    def _leaves(self, number: int) -> Sequence[int]:
        if number not in self._parts:
            return [number]
        return [leaf for part in self._parts[number][1] for leaf in self._leaves(part)]

    def _value(self, number: int, given: Mapping[int, bool]) -> bool:
        if number not in self._parts:
            return given[number]
        name, parts = self._parts[number]
        return bool(_JOINED[name](*[self._value(part, given) for part in parts]))


def _is_truth(value: Value) -> bool:
    return value.dtype == np.dtype(bool) and value.shape == ()
