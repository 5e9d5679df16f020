"""Loops whose rounds compute with their number: rolled where it only meets tensors, and eager's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from rolled_loops import ROUNDS, Loop, check, check_rolled, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops.induction import Computed

DT = 0.01


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def products(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h * t)
    return h.sum()


def rates(x: Any, w: Any, h: Any) -> Any:
    rate = 0.5
    for t in range(len(x)):
        h = h - fg.tanh(h @ w) * rate / (1 + t) + (DT * t) * x[t]
    return h.sum()


def variables(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        time = t * DT
        later = time + DT / 2
        h = h + (x[t] @ w) * time - later / (h * h + 2)
    return h.sum()


def powers(x: Any, w: Any, h: Any) -> Any:
    for t in range(1, ROUNDS):
        h = h * 0.9**t + x[t - 1] @ w / t - (-t % 3)
    return h.sum()


def down(x: Any, w: Any, h: Any) -> Any:
    n = len(x)
    for t in reversed(range(0, n, 2)):
        h = fg.tanh(h + w[0] * (t / n) + (n - 1 - t) * x[t] * DT)
    return h.sum()


def with_rows(x: Any, w: Any, h: Any) -> Any:
    for t, row in enumerate(x):
        half = row * 0.5
        h = fg.sin(h @ w + half * t * DT + half)
    return h.sum()


def written(x: Any, w: Any, h: Any) -> Any:
    out, states = fg.zeros(ROUNDS, 4, dtype=fg.float64), []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h * t
        states.append(t / 10 - h)
    return (out * fg.stack(states)).sum()


def scalars(x: Any, w: Any, h: Any) -> Any:
    total = h.sum()
    for t in range(ROUNDS):
        total = total * 0.9 + t * 0.1
    return total + (x * x).sum() + (w * w).sum()


def whole_numbers(x: Any, w: Any, h: Any) -> Any:
    count = fg.zeros(4, dtype=fg.int64)
    for t in range(ROUNDS):
        count = count * 3 + t
        h = fg.tanh(x[t] @ w + h + count * DT)
    return h.sum()


def a_variable_of_a_branch_not_taken(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        s = 0.5
        if x.shape[0] == 3:
            s = t * 0.1
        h = fg.tanh(h * s + x[t] @ w)
    return h.sum()


def a_variable_of_a_branch(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        s = 0.5
        if x.shape[0] > 3:
            s = t * 0.1
        h = fg.tanh(h * s + x[t] @ w)
    return h.sum()


ROLLED = [
    products, rates, variables, powers, down, with_rows, written, scalars, whole_numbers,
    a_variable_of_a_branch_not_taken, a_variable_of_a_branch,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_loops_that_compute_with_their_number_are_rolled(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran)


# What must not be left out.


def given_to_a_function(x: Any, w: Any, h: Any) -> Any:
    def scaled(h: Any, s: float) -> Any:
        return h * s if s < 2.5 else h

    for t in range(ROUNDS):
        h = fg.tanh(scaled(h, t * 0.1) + x[t] @ w)
    return h.sum()


def in_a_variable_given_to_a_function(x: Any, w: Any, h: Any) -> Any:
    def scaled(h: Any, s: float) -> Any:
        return h * s if s < 2.5 else h

    for t in range(ROUNDS):
        s = t * 0.1
        h = fg.tanh(scaled(h, s) + x[t] @ w)
    return h.sum()


def carried(x: Any, w: Any, h: Any) -> Any:
    s = 0.1
    for t in range(ROUNDS):
        h = fg.tanh(h * s + x[t] @ w)
        s = t * 0.1
    return h.sum()


def added_up(x: Any, w: Any, h: Any) -> Any:
    s = 0.1
    for t in range(ROUNDS):
        s = s + t * 0.1
        h = fg.tanh(h * s + x[t] @ w)
    return h.sum()


def another_rate(x: Any, w: Any, h: Any) -> Any:
    rate = 0.1
    for t in range(ROUNDS):
        h = fg.tanh(h * (rate * t) + x[t] @ w)
        rate = rate if t < 20 else 0.2
    return h.sum()


def as_an_exponent(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh(h**2 + fg.abs(x[t]) ** t + w[0])
    return h.sum()


def compared(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        h = h + 1 if t * 0.1 < 2.5 else h
    return h.sum()


def as_an_index(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS // 2):
        s = t * 2
        h = fg.tanh(x[s] @ w + h * s + x[t + s if t < 9 else 0])
    return h.sum()


class Odd:
    """What a number meets that is no number."""

    def __mul__(self, t: int) -> float:
        return 0.1 if t < 20 else 0.2


ODD = Odd()


def met_by_an_object(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        h = fg.tanh((ODD * t) * h + x[t] @ w)
    return h.sum()


def divided(x: Any, w: Any, h: Any) -> Any:
    for t in range(ROUNDS):
        try_ = h * (1 if t == 30 else 0)
        h = fg.tanh(try_ + x[t] @ w)
    return h.sum()


def stored(x: Any, w: Any, h: Any) -> Any:
    seen = [0.0]
    for t in range(ROUNDS):
        seen[0] = t * 0.1
        h = fg.tanh(h * seen[0] + x[t] @ w)
    return h.sum()


def kept_by_a_branch_and_divided(x: Any, w: Any, h: Any) -> Any:
    s = 0.1
    for t in range(ROUNDS):
        if x.shape[0] > 3:
            s = max(t, ROUNDS - 10) * 0.01
        if t % 3 == 0:
            h = h * 0.9
        h = fg.tanh(h * s + x[t] @ w)
    return h.sum()


def kept_by_a_branch_and_written(x: Any, w: Any, h: Any) -> Any:
    out, s = x * 0, 0
    for t in range(ROUNDS):
        if x.shape[0] > 3:
            s = t // (ROUNDS - 10)
        h = fg.tanh(h * (s * 0.5 + 0.1) + x[0] @ w)
        out[t] = h
    return (out * x).sum()


def kept_by_both_branches(x: Any, w: Any, h: Any) -> Any:
    for i, row in enumerate(x):
        if x.shape[0] > 3:
            s, q = max(i, ROUNDS - 10), i // (ROUNDS - 10)
        else:
            s, q = 1, 2
        if i % 4 == 1:
            h = h * 0.5
        h = fg.tanh(h * (s * 0.01) + row @ w * q)
    return h.sum()


RUN = [
    kept_by_a_branch_and_divided, kept_by_a_branch_and_written, kept_by_both_branches,
    given_to_a_function, in_a_variable_given_to_a_function, carried, added_up, another_rate, as_an_exponent,
    compared, as_an_index, met_by_an_object, divided, stored,
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", RUN, ids=lambda f: f.__name__)
def test_loops_that_may_use_it_otherwise_run(function: Loop) -> None:
    jitted = check(function, 2)
    if function not in (another_rate, divided):  # they may be rolled in two parts
        assert "rounds of a loop" not in str(jitted.explain()), jitted.explain()


def test_a_round_that_divides_by_zero_raises() -> None:
    def loop(x: fg.Tensor) -> fg.Tensor:
        for t in range(ROUNDS):
            x = fg.tanh(x + x * (1 / (t - 40)))
        return x

    x, _, _ = given()
    with pytest.raises(ZeroDivisionError):
        fg.jit(loop)(x)


def test_numbers_that_are_too_large_for_the_tensor() -> None:
    def loop(x: Any) -> Any:
        for t in range(ROUNDS):
            x = fg.tanh(x + x * 10.0 ** (t - 5))
        return x

    x = given()[0].float()
    np.testing.assert_array_equal(fg.jit(loop)(x).numpy(), loop(x).numpy())


@pytest.mark.one_in(6)
@pytest.mark.parametrize("rounds", [127, 128, 129, 140, 1000])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_values_and_gradients_are_torchs(rounds: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ran = rounds_that_run(monkeypatch, few=False)

    def loop(library: Any, x: Any, w: Any, h: Any, total: Any) -> Any:
        for t in range(rounds):
            rate = 0.5 / (1 + t)
            h = library.tanh(x[t] @ w * (t * DT) - h * rate) + t / 7
            total = total + h[0] * t
        return (h * h).sum() + total * 0.001

    args = [getattr(a, dtype)() for a in given(rounds)]
    theirs = [torch.from_numpy(a.numpy().copy()).requires_grad_() for a in args]
    expected = loop(torch, *theirs, theirs[2].sum())
    expected.backward()
    derived = fg.jit(fg.value_and_grad(lambda x, w, h: loop(fg, x, w, h, h.sum()), (0, 1, 2)))
    exact = dtype == "double"
    for _ in range(3):
        value, gradients = derived(*args)
        np.testing.assert_allclose(float(value), expected.item(), 1e-12 if exact else 2e-5)
        for ours, tensor in zip(gradients, theirs, strict=True):
            limit = (1e-12 if exact else 2e-5) * float(tensor.grad.abs().max())
            np.testing.assert_allclose(ours.numpy(), tensor.grad.numpy(), rtol=0, atol=limit)
    assert len(ran) == rounds if rounds < 140 else len(ran) <= 8, len(ran)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that begin one turn too early."""
    rows = Computed.rows
    monkeypatch.setattr(Computed, "rows", lambda self, after, turns: rows(self, after - 1, turns))
    with pytest.raises(AssertionError):
        check(products)
