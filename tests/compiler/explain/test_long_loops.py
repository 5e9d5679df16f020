"""What `explain()` tells of long loops of which every round runs: the line, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg


def with_values(x: Any) -> Any:
    for _ in range(200):  # here: values
        x = x * x.tolist()[0]
    return x


def with_its_number(x: Any) -> Any:
    for t in range(200):  # here: number
        x = (x * 0.5).roll(t)
    return x


def while_something(x: Any) -> Any:
    t = 200
    while t > 0:  # here: while
        x = x * 0.5
        t -= 1
    return x


def over_a_list(x: Any) -> Any:
    for scale in [0.5] * 200:  # here: list
        x = x * scale
    return x


def with_a_with(x: Any) -> Any:
    for _ in range(200):  # here: with
        with fg.no_grad():
            x = x * 0.5
    return x


def with_a_count(x: Any) -> Any:
    scale = 1.0
    for _ in range(200):  # here: count
        x = x.clamp(max=scale)
        scale = scale * 0.99
    return x


LOOPS = [
    (with_values, "values", "in its rounds values are looked at (line {})", 1),
    (with_its_number, "number", "its rounds use their number, and not only to find rows (line {})", 1),
    (while_something, "while", "what its variables hold does not go on from round to round", 0),
    (over_a_list, "list", "it does not go over a range, or over rows of tensors", 0),
    (with_a_with, "with", "its rounds have a `with` (line {})", 1),
    (with_a_count, "count", "compute with other numbers, sizes or tensors from round to round (line {})", 1),
]


@pytest.mark.parametrize(
    ("function", "name", "reason", "below"), LOOPS, ids=[name for _, name, _, _ in LOOPS]
)
def test_long_loops_that_were_not_rolled_are_named(
    function: Callable[..., Any], name: str, reason: str, below: int
) -> None:
    compiled = fg.jit(function)
    compiled(fg.ones(3))
    with open(__file__) as source:
        line = next(i for i, text in enumerate(source, 1) if text.rstrip().endswith(f"# here: {name}"))
    (entry,) = compiled.explain().as_dict()["entries"]
    (loop,) = entry["not_rolled"] or entry["paths"][0]["not_rolled"]
    assert loop["line"] == line
    assert loop["reason"].startswith("a loop of at least 128 rounds was not rolled: ")
    assert reason.format(line + below) in loop["reason"], loop["reason"]
    assert loop["reason"] in str(compiled.explain()) and loop["at"] in str(compiled.explain())


def test_short_loops_and_rolled_ones_are_not_named() -> None:
    def short(x: Any) -> Any:
        for t in range(100):
            x = (x * 0.5).roll(t)
        return x

    def plain(x: Any) -> Any:
        for t in range(len(x)):
            x = x * 0.5 + x[t]
        for _ in range(200):
            x = fg.tanh(x)
        return x

    for function in (short, plain):
        compiled = fg.jit(function)
        compiled(fg.ones(100))
        assert "not rolled" not in str(compiled.explain()), compiled.explain()
