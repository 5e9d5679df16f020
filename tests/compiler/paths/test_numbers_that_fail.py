"""Errors of what Python computes of numbers that vary: replays have them, also where nothing comes of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.observe import numbers

WAYS: dict[str, Callable[[Any], Any]] = {
    "int": lambda a: int(a * 2),
    "round": lambda a: round(a),
    "reciprocal": lambda a: 1 / a,
    "remainder": lambda a: 5.0 % a,
    "whole quotient": lambda a: 5.0 // a,
    "divmod": lambda a: divmod(5.0, a),
    "power": lambda a: (a - 2.0) ** -1,
    "large power": lambda a: a**2000.0,
    "log": lambda a: math.log(a),
    "sqrt": lambda a: math.sqrt(a) + 1,
    "acos": lambda a: math.acos(a / 10),
    "exp": lambda a: math.exp(a * 300),
    "floor": lambda a: math.floor(a),
    "sine": lambda a: math.sin(a),
    "of a whole number": lambda a: 1 / (int(a) - 9) if a == a and abs(a) < 99 else 0,
}
NUMBERS = [1.5, 2.5, 3.5, 0.5, 4.5, 2.25, 0.0, 3.25, -1.0, math.inf, 1.25, math.nan, 2.0, 9.5, 1.75]
# What becomes of the number: nothing, an attribute, an exception that is caught, an operand.
USES = ("nothing", "attribute", "caught", "operand")


class Owner:
    def __init__(self) -> None:
        self.weight, self.kept = fg.zeros(2), 0


def program(way: Callable[[Any], Any], use: str, owner: Owner) -> Callable[..., Any]:
    def nothing(x: Any, a: Any) -> Any:
        y = x * 3
        owner.weight.add_(1)
        way(a)
        owner.weight.add_(1)
        return y

    def attribute(x: Any, a: Any) -> Any:
        owner.weight.add_(1)
        owner.kept = way(a)
        return x * 3

    def caught(x: Any, a: Any) -> Any:
        try:
            way(a)
        except (ArithmeticError, ValueError):
            return x * 7
        return x * 3

    def operand(x: Any, a: Any) -> Any:
        found = way(a)
        return x * (found[0] if type(found) is tuple else found)

    return {"nothing": nothing, "attribute": attribute, "caught": caught, "operand": operand}[use]


def outcomes(way: Callable[[Any], Any], use: str, jitted: bool) -> list[str]:
    owner = Owner()
    function = program(way, use, owner)
    call = fg.jit(function) if jitted else function
    found = []
    for a in NUMBERS:
        try:
            result: Any = call(fg.ones(2), a).tolist()
        except (ArithmeticError, ValueError) as error:
            result = repr(error)
        found.append(f"{a}: {result}, {owner.weight.tolist()}, {owner.kept}")
    return found


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", WAYS)
def test_errors_are_those_of_eager(name: str, use: str):
    assert outcomes(WAYS[name], use, True) == outcomes(WAYS[name], use, False)


def test_errors_that_nobody_asks_for_are_found(monkeypatch: pytest.MonkeyPatch):
    """A planted fault: all of Python counts as never failing."""
    monkeypatch.setattr(numbers, "never_fails", lambda *asked: True)
    assert outcomes(WAYS["reciprocal"], "caught", True) != outcomes(WAYS["reciprocal"], "caught", False)
