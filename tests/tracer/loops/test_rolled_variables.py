"""Variables that only some rounds of a loop assign: what they hold when it is over, or is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled_loops import ROUNDS, Loop, check, check_rolled, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops import rolling
from fusegrad.tracer.observe import loops
from fusegrad.tracer.twin import scopes


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def until_some_round(x: Any, w: Any, h: Any) -> Any:
    last = h
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 30:
            last = h * 2
    return h.sum() + (last**2).sum()


def of_two(x: Any, w: Any, h: Any) -> Any:
    early = late = h
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 30:
            early = h * 2
        else:
            late = fg.sin(h)
    return h.sum() + (early * late).sum()


def from_some_round(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if t >= 2:
            h = fg.tanh(x[t] @ w + h)
    return h.sum()


def only_within(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if w.dim() == 2:
            product = x[t] @ w
            h = h + product * 0.1
    return fg.tanh(h).sum()


@pytest.mark.parametrize(
    "function", [until_some_round, of_two, from_some_round, only_within], ids=lambda f: f.__name__
)
def test_variables_that_some_rounds_assign(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran, 16)


def unset_at_first(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 40:
            last = h * 2
    return h.sum() + (last**2).sum()


def deleted_before(x: Any, w: Any, h: Any) -> Any:
    last = h
    del last
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        if t < 40:
            last = h * 2
    return h.sum() + (last**2).sum()


@pytest.mark.parametrize("function", [unset_at_first, deleted_before], ids=lambda f: f.__name__)
def test_variables_without_a_value(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LONG", ROUNDS)
    assert "do not all give `last` a value" in str(check(function, 2).explain())


# Loops that are left, and rounds that go on with the next one.


def left_at_some_round(x: Any, w: Any, h: Any) -> Any:
    last = h
    for t in range(ROUNDS):
        if t == 50:
            break
        h = fg.tanh(x[t] @ w + h)
        last = h * 2
    return (h * last).sum() * t


def left_behind_some_round(x: Any, w: Any, h: Any) -> Any:
    outs = []
    for t, row in enumerate(x):
        h = fg.tanh(row @ w + h)
        outs.append(h)
        if len(x) - 8 <= t:
            break
        last = h * 2
    return (fg.stack(outs) ** 2).sum() + last.sum() + len(outs)


def never_left(x: Any, w: Any, h: Any) -> Any:
    for row in x:
        h = fg.tanh(row @ w + h)
        if w.dim() == 3:
            break
    return h.sum()


def some_go_on(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if t < 2:
            continue
        h = h * 1.1
        if w.dim() == 2:
            h = h * 0.9
        else:
            continue
        if t >= 2:
            if t < 2:
                continue
            h = fg.tanh(x[t] @ w + h)
            continue
        h = h + 100
    return h.sum()


def one_goes_on_in_the_middle(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        if w.dim() == 3:
            h = h * 2
        elif t == 30:
            h = h * 0.9
            continue
        h = fg.tanh(x[t] @ w + h)
    return h.sum()


def counted_up(x: Any, w: Any, h: Any) -> Any:
    i, outs = 0, []
    while i < len(x):
        h = fg.tanh(x[i] @ w + h)
        outs.append(h * i)
        i += 1
    return (fg.stack(outs) * x).sum() + h.sum() * i


def counted_by_twos(x: Any, w: Any, h: Any) -> Any:
    i, n, last = 2, ROUNDS, h
    while n - 2 > i:
        last = fg.sin(h)
        h = fg.tanh(x[i] @ w + h * x[i + 1])
        i += 1
    return (h * last).sum() + i


def counted_until_left(x: Any, w: Any, h: Any) -> Any:
    i, k = 0, 3
    while k < 5:
        h = fg.tanh(x[i] @ w + h)
        if i >= 44:
            break
        i += 1
    return h.sum() * i


LEFT = [
    left_at_some_round, left_behind_some_round, never_left, some_go_on, counted_up, counted_by_twos,
    counted_until_left,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", LEFT, ids=lambda f: f.__name__)
def test_loops_that_are_left_are_rolled(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran, 16 if function is some_go_on else 8)


@pytest.mark.parametrize("rounds", [0, 1, 5, 7, 21, 40, 41, 200])
def test_loops_that_count_up(rounds: int) -> None:
    def loop(x: Any, h: Any, start: int, end: int) -> Any:
        i, last = start, h
        while i < end:
            h = fg.tanh(x[i] + h)
            last = h * 2
            i += 1
        return h, last, i

    x, _, h = given(250)
    jitted = fg.jit(loop)
    for start in (0, 3, 3):
        ours, theirs = jitted(x, h, start, start + rounds), loop(x, h, start, start + rounds)
        assert ours[2] == theirs[2]
        for a, b in zip(ours[:2], theirs[:2], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def an_end_that_moves(x: Any, w: Any, h: Any) -> Any:
    i, n = 0, 30
    while i < n:
        h = fg.tanh(x[i] @ w + h)
        if i == 25:
            n = 50
        i += 1
    return h.sum() * i


def ends_that_move_on(x: Any, w: Any, h: Any) -> Any:
    i, n = 0, 30
    while i < n:
        h = fg.tanh(x[i] @ w + h)
        n = n + (1 if i % 3 == 0 else 0)
        i += 1
    return h.sum() * i


def a_number_that_is_no_whole_one(x: Any, w: Any, h: Any) -> Any:
    i = 0.5
    while i < 40:
        h = fg.tanh(h @ w + i * 0.01)
        i += 1
    return h.sum() * i + x.sum()


def a_tensor(x: Any, w: Any, h: Any) -> Any:
    i = fg.zeros((), dtype=fg.int64)
    same = i
    while i < 40:
        h = fg.tanh(x[i] @ w + h)
        i += 1
    return h.sum() * same


def what_values_say(x: Any, w: Any, h: Any) -> Any:
    for row in x:
        h = h * 0.9 + row * 0.01
        if h.abs().max() < 0.05:
            break
    return (h @ w).sum()


MAY_RUN = [
    one_goes_on_in_the_middle,
    an_end_that_moves,
    ends_that_move_on,
    a_number_that_is_no_whole_one,
    a_tensor,
    what_values_say,
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", MAY_RUN, ids=lambda f: f.__name__)
def test_loops_that_are_left_at_any_time(function: Loop) -> None:
    check(function, 2)


def test_a_comparison_that_is_taken_to_last_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = rolling.alike_for
    monkeypatch.setattr(rolling, "alike_for", lambda *asked: alike(*asked) + 2)
    with pytest.raises(AssertionError):
        check(left_at_some_round, 1)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are taken to be used nowhere else."""
    monkeypatch.setattr(scopes.Scope, "is_used_elsewhere", lambda *_: False)

    def loop(x: Any, w: Any, h: Any) -> Any:  # `until_some_round` has its twin by now
        last = h
        for t in range(ROUNDS):
            h = fg.tanh(x[t] @ w + h)
            if t < 30:
                last = h * 2
        return h.sum() + (last**2).sum()

    with pytest.raises(AssertionError):
        check(loop, 1)


def test_bfloat16_is_rounded_op_by_op() -> None:
    def loop(x: Any) -> Any:
        for _ in range(300):
            y = x * 0.7
            x = x - y * 0.01 + 0.001
        return x

    jitted = fg.jit(loop)
    for size in (5.0, 4.0, 1.0):
        x = fg.full((3,), size, dtype=fg.bfloat16)
        assert jitted(x).tolist() == loop(x).tolist()
    assert "rounds of a loop" in str(jitted.explain())
