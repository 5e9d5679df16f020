"""Tensors that a step only reads may share memory; one that it writes shares it with none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.paths import commit

KINDS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "apart": lambda x: (x.clone(), x.clone()),
    "a view": lambda x: (x, x[1:]),
    "the same": lambda x: (x, x),
    "rows beside each other": lambda x: (x[:2], x[2:]),
    "a view by another shape": lambda x: (x, x.unsqueeze(-1)),
}


def answers(kind: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What a step gives and leaves that has two tensors from outside, one as an argument, and writes a third;
    at last that one is in the memory of the others.
    """
    first, second = KINDS[kind](fg.arange(4.0))
    world = {"written": fg.ones(3)}

    @wrap
    def step(given: Any) -> Any:
        found = first.sum() * second.mean() + given.sum()
        world["written"].mul_(2).add_(found)
        return found + first.max()

    found = []
    for number in range(9):
        if number == 6:
            world["written"] = first[:2] if number == 6 else second[-2:]
        result = step(first[:1] if kind != "apart" else fg.ones(1))
        found.append([result.tolist(), first.tolist(), second.tolist(), world["written"].tolist()])
    return found, step


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_as_in_eager_and_replay(kind: str) -> None:
    found, step = answers(kind, fg.jit)
    assert found == answers(kind, lambda f: f)[0]
    assert step.stats.compiled_calls >= 4


def test_memory_that_is_written_and_taken_for_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = [(0, 8), (4, 12)]
    assert commit._apart(bounds, set()) and not commit._apart(bounds, {bounds[0]})
    assert not commit._apart(bounds, {bounds[1]}) and not commit._apart([(0, 8)] * 2, {(0, 8)})
    assert commit._apart([(0, 8), (2, 4), (8, 16)], {(8, 16)})
    assert not commit._apart([(0, 20), (2, 4), (8, 16)], {(8, 16)})
