"""Rows that branches on data keep are parts of their tensor, as eager's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg

ROUNDS = 60


def row_by_number(h: Any, x: Any, w: Any) -> Any:
    kept = h * 2
    for t in range(len(x)):
        h = h * 0.9
        if h.sum() < 0.1:
            kept = x[t]
    return kept, h


def row_of_the_loop(h: Any, x: Any, w: Any) -> Any:
    kept, before = h * 2, h
    for row in x:
        before, h = h, h * 0.9
        if before.sum() < 0.1:
            kept = row
    return kept, h


def part_of_a_row(h: Any, x: Any, w: Any) -> Any:
    kept = h * 2
    for t in range(len(x)):
        h = h * 0.9
        if h.sum() < 0.1:
            kept = x[t, :2]
    return kept, h


def row_that_values_choose(h: Any, x: Any, w: Any) -> Any:
    kept = h * 2
    for t in range(len(x)):
        h = h * 0.9 + x[t]
        if h.sum() < 0.1:
            kept = w[h.argmax()]
    return kept, h


def written_in_the_call(h: Any, x: Any, w: Any) -> Any:
    kept = h * 2
    for t in range(len(x)):
        h = h * 0.9
        if h.sum() < 0.1:
            kept = x[t]
    kept.fill_(3.0)
    return h, x * 1


def owner_written_in_the_call(h: Any, x: Any, w: Any) -> Any:
    kept = h * 2
    for t in range(len(x)):
        h = h * 0.9
        if h.sum() < 0.1:
            kept = x[t]
    x.add_(1.0)
    return kept * 1, h


def of_what_the_call_has_made(h: Any, x: Any, w: Any) -> Any:
    out, kept = x * 1, h * 2
    for t in range(len(x)):
        h = h * 0.9
        if h.sum() < 0.1:
            kept = out[t]
    kept.fill_(3.0)
    return out, kept


LOOPS = [
    row_by_number, row_of_the_loop, part_of_a_row, row_that_values_choose, written_in_the_call,
    owner_written_in_the_call, of_what_the_call_has_made,
]  # fmt: skip


def left_by(function: Callable[..., Any], begin: float) -> list[Any]:
    """What is in memory after a call, and a write into the first result."""
    h, x, w = fg.full((3,), begin), fg.zeros(ROUNDS, 3), fg.ones(3, 3)
    first, second = function(h, x, w)
    is_part = [first._base is tensor for tensor in (x, w)]
    first.fill_(5.0)
    return [is_part, *(t.tolist() for t in (h, x, w, first, second))]


@pytest.mark.parametrize("function", LOOPS)
def test_kept_rows_are_views(function: Callable[..., Any]) -> None:
    jitted = fg.jit(function)
    for begin in (1.0, 1.0, 1.0, 0.2, 4.0, 1.0):
        found, expected = left_by(jitted, begin), left_by(function, begin)
        assert found[0] == expected[0]
        for ours, theirs in zip(found[1:], expected[1:], strict=True):
            assert fg.allclose(fg.tensor(ours), fg.tensor(theirs), 1e-5)
