"""Rounds that test data may find rows by their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 60
Loop = Callable[[fg.Tensor, fg.Tensor], Any]


def clipped(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h + x[t]
        if h.norm() > 1:
            h = h / h.norm()
    return h


def over_rows(x: fg.Tensor, h: fg.Tensor) -> Any:
    for row in x:
        h = h * 0.9 + row
        if (h > 1).any():
            h = h * 0.5
    return h


def over_pairs(x: fg.Tensor, h: fg.Tensor) -> Any:
    for a, b in zip(x, x.flip(0)):  # noqa: B905
        h = h * 0.9 + a * b
        if h.sum() > 0.2:
            h = h * 0.5 - b
    return h


def enumerated(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t, row in enumerate(x):
        if h.sum() > row.sum():
            h = h * 0.9
        else:
            h = h + x[-t - 1]
    return h


def enumerated_from_one(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t, row in enumerate(x, 1):
        h = h * 0.9 + row / t + x[t - 1]
        if h.norm() > 1:
            h = h * 0.5
    return h


def columns(x: fg.Tensor, h: fg.Tensor) -> Any:
    x = x.T.contiguous()
    for t in range(x.shape[1]):
        if x[0, t] > 0:
            h = fg.tanh(h + x[:, t])
    return h


def parts_of_rows(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h * 0.9 + x[t, 1:].sum() * 0.1
        if x[t, 0] > 0.3:
            h = h - x[t, -1]
    return h


def the_next_one(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x) - 1):
        d = x[t + 1] - x[t]
        h = h + d if d.norm() < 1 else h * 0.5
    return h


def backwards(x: fg.Tensor, h: fg.Tensor) -> Any:
    total = h.sum() * 0
    for t in reversed(range(len(x))):
        h = h * 0.9 + x[t]
        if h.max() > 0.5:
            total = total + h.max()
    return h.sum() + total


def every_other(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(0, len(x) - 1, 2):
        if h.norm() < 2:
            h = h * 1.1 + x[t] * x[t + 1]
    return h


def until_it_is_large(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h + x[t].abs() * 0.3
        if h.sum() > 3:
            break
    return h, t


def while_it_is_small(x: fg.Tensor, h: fg.Tensor) -> Any:
    i = 0
    while i < len(x):
        h = h + x[i].abs() * 0.1
        if h.max() > 1.5:
            break
        i += 1
    return h


def returned(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h * 0.95 + x[t]
        if h.norm() > 1.8:
            return h * 2
    return h


def counted(x: fg.Tensor, h: fg.Tensor) -> Any:
    n = 0
    for t in range(len(x)):
        h = h * 0.8 + x[t]
        if h[0] > 0:
            h = h * 0.5
            n += 1
    return h, n


def accepted(x: fg.Tensor, h: fg.Tensor) -> Any:
    """Metropolis."""
    energy = (h * h).sum()
    for t in range(len(x)):
        proposal = h + x[t] * 0.5
        other = (proposal * proposal).sum()
        if other - energy < x[t, 0].abs():
            h, energy = proposal, other
    return h + energy


LOOPS: list[Loop] = [
    clipped, over_rows, over_pairs, enumerated, enumerated_from_one, columns, parts_of_rows,
    the_next_one, backwards, every_other, until_it_is_large,
    while_it_is_small, returned, counted, accepted,
]  # fmt: skip


def given(seed: int, rounds: int = ROUNDS) -> tuple[fg.Tensor, fg.Tensor]:
    draw = np.random.default_rng(seed)
    return fg.tensor(draw.standard_normal((rounds, 3)) * 0.4), fg.tensor(draw.standard_normal(3) * 0.1)


def first(result: Any) -> fg.Tensor:
    return result[0] if isinstance(result, tuple) else result


def check(function: Loop, calls: int = 6) -> tuple[Any, Any]:
    """The jitted function, and its gradients, which have eager's results for other numbers each time."""
    derived = fg.value_and_grad(lambda x, h: (first(function(x, h)) ** 2).sum(), (0, 1))
    plain, jitted = fg.jit(function), fg.jit(derived)
    for seed in range(calls):
        expected, found = function(*given(seed)), plain(*given(seed))
        np.testing.assert_allclose(first(found).numpy(), first(expected).numpy(), rtol=1e-9, atol=1e-12)
        if isinstance(expected, tuple):
            assert found[1:] == expected[1:]
        (value, gradients), (a, b) = derived(*given(seed)), jitted(*given(seed))
        for ours, theirs in zip((a, *b), (value, *gradients), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)
    return plain, jitted


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", LOOPS)
def test_they_are_rolled(function: Loop) -> None:
    for jitted in check(function):
        assert "until a test fails" in str(jitted.explain()), jitted.explain()
        assert "was not rolled" not in str(jitted.explain()), jitted.explain()


def test_no_row_is_left() -> None:
    """Where rows end before rounds do, the error comes in the round that eager has it in."""

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(1000):
            h = h * 0.9 + x[t]
            if h.sum() > 3:
                h = h * 0.5
        return h

    jitted = fg.jit(function)
    for seed in range(4):
        with pytest.raises(
            IndexError, match=f"index {ROUNDS} is out of bounds for dimension 0 with size {ROUNDS}"
        ):
            jitted(*given(seed))


def test_windows_are_found_where_they_are() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(len(x) - 2):
            h = h * 0.9 + x[t : t + 2].sum(0)
            if h.norm() > 1:
                h = h * 0.5
        return h

    check(function, calls=2)


def test_rows_that_the_loop_changes() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        x = x.clone()
        for t in range(len(x) - 1):
            h = h * 0.9 + x[t]
            if h.norm() > 1:
                x = x * 0.9
        return h

    check(function)


def test_other_numbers_of_rows() -> None:
    jitted = fg.jit(clipped)
    for rounds in (60, 61, 5, 0, 1, 2, 3, 200):
        x = given(rounds, rounds)
        np.testing.assert_allclose(jitted(*x).numpy(), clipped(*x).numpy(), rtol=1e-9)


def scheduled(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h * 1.1 + 0.1 / (t + 1)
        if h.norm() > 1:
            h = h / h.norm() * 0.5
    return h


def scheduled_steps(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(1, len(x)):
        g = h * x[t] + x[t - 1]
        if g.norm() > 0.5:
            g = g / g.norm()
        rate = 0.5 * 0.9 * t / 7
        h = h - rate * 0.01 * g
    return h


def scheduled_where_it_is_large(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h * 0.9 + x[t]
        if h.sum() > 0.5:
            h = h - t * 0.01
        elif h.sum() < -1.5:
            h = h + 2.0 / (t + 3)
    return h


@pytest.mark.parametrize("function", [scheduled, scheduled_steps, scheduled_where_it_is_large])
def test_numbers_that_follow_from_the_round(function: Loop) -> None:
    for jitted in check(function, 8):
        assert "until a test fails" in str(jitted.explain()), jitted.explain()


def test_numbers_that_one_round_does_not_have() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(len(x)):
            h = h * 0.9 + x[t]
            if h.norm() > 0.5:
                h = h + 1 / (t - 50)
        return h

    jitted = fg.jit(function)
    for seed in range(4):
        x = given(seed)
        x[0][50] = 10.0
        with pytest.raises(ZeroDivisionError):
            jitted(*x)


def with_an_else(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(len(x)):
        h = h + x[t].abs() * 0.1
        if h.sum() > 3:
            break
    else:
        h, t = h * 10, -1
    return h * t, t


def with_an_else_and_no_break(x: fg.Tensor, h: fg.Tensor) -> Any:
    last = h
    for row in x:
        h = fg.tanh(h + row)
        last = h * row
    else:
        h = h + last
    return h


def test_an_else_runs_where_nothing_has_left() -> None:
    for jitted in (*check(with_an_else, 8), *check(with_an_else_and_no_break)):
        assert "was not rolled" not in str(jitted.explain()), jitted.explain()
    function = fg.jit(with_an_else)
    for scale in (0.01, 2.0, 0.01):
        x, h = given(0)
        found, expected = function(x * scale, h), with_an_else(x * scale, h)
        np.testing.assert_allclose(found[0].numpy(), expected[0].numpy(), rtol=1e-9)
        assert found[1] == expected[1]


def counted_from_the_end_at_first(x: fg.Tensor, h: fg.Tensor) -> Any:
    g = h * 0.5
    for t in range(len(x)):
        h, g = g * 0.9, h * 0.7 + x[t - 3]
        if h.sum() > 1:
            h = h * 0.5
    return h + g


def two_rows(x: fg.Tensor, h: fg.Tensor) -> Any:
    g = h * 0.5
    for t in range(len(x)):
        h, g = g * 0.9, h * 0.7 + x[t] + x[t - 20]
        if h.sum() > 1:
            h = h * 0.5
    return h + g


def from_the_other_end(x: fg.Tensor, h: fg.Tensor) -> Any:
    for t in range(20):
        h = h * 0.9 + x[10 - t]
        if h.sum() > 1:
            h = h * 0.5
    return h


@pytest.mark.parametrize("function", [counted_from_the_end_at_first, two_rows, from_the_other_end])
def test_rows_whose_number_comes_past_zero(function: Loop) -> None:
    check(function, 10)


def written_after(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x = x.clone()
    for t in range(len(x)):
        h = h * 0.9 + x[t]
        if h.sum() > 1:
            h = h * 0.5
    x += 1
    return h.sum()


def written_after_a_plain_loop(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x, w = x.repeat(3, 1), x[0].clone()
    for t in range(len(x)):
        h = h * 0.9 + x[t] - w
    x += 1
    w += 1
    return h.sum()


def written_within(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x = x.clone()
    for row in x:
        h = h * 0.9 + row
        if h.sum() > 1:
            x += 0.01
    return h.sum()


@pytest.mark.parametrize("function", [written_after, written_after_a_plain_loop, written_within])
def test_backward_needs_no_more_than_eagers(function: Callable[..., fg.Tensor]) -> None:
    jitted = fg.jit(function)
    for seed in range(5):
        found = []
        for called in (function, jitted):
            x, h = given(seed)
            called(x, h.requires_grad_()).backward()
            found.append(h.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-9)


def test_what_backward_needs_must_not_be_written() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        x = x.repeat(3, 1)
        for t in range(len(x)):
            h = h * 0.9 * x[t]
        x += 1
        return h.sum()

    jitted = fg.jit(function)
    for seed in range(4):
        x, h = given(seed)
        with pytest.raises(RuntimeError, match="at version"):
            jitted(x, h.requires_grad_()).backward()
