"""Loops whose rounds read rows that they write: what was written last is handed on, all else runs as ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from rolled_loops import ROUNDS, Loop, check, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops import affine
from fusegrad.tracer.loops.affine import RowRead

F64 = fg.float64


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def steps_of_euler(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(ROUNDS, 4, dtype=F64)
    u[0] = h
    for t in range(ROUNDS - 1):
        u[t + 1] = u[t] * 0.9 + x[t] @ w
    return (u * x).sum()


def of_copies(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(ROUNDS, 4, dtype=F64)
    u[0] = h
    for t in range(1, ROUNDS):
        u[t] = fg.tanh(u[t - 1].clone() + x[t] @ w) + 0.1 * u[t - 1]
    return (u * x).sum()


def two_steps(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(ROUNDS, 4, dtype=F64)
    u[0], u[1] = h, h @ w
    for t in range(2, ROUNDS):
        u[t] = 1.2 * u[t - 1] - 0.3 * u[t - 2] + x[t] * 0.1
    return (u * x).sum()


def steps_back(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(4, ROUNDS, dtype=F64)
    u[:, -1] = h
    for t in reversed(range(ROUNDS - 1)):
        u[:, t] = u[:, t + 1] * 0.9 + x[t] @ w
    return (u.T * x).sum()


def read_in_the_same_round(x: Any, w: Any, h: Any) -> Any:
    u, v = fg.zeros(ROUNDS, 4, dtype=F64), fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        u[t] = x[t] @ w
        h = fg.tanh(h + u[t] * 0.5)
        v[t] = u[t]
    return (u * v * x).sum() + h.sum()


def added_to(x: Any, w: Any, h: Any) -> Any:
    u = x * 0.5
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        u[t] += h
    return (u * x).sum()


def changed_in_several_ways(x: Any, w: Any, h: Any) -> Any:
    u, v = x * 0.5, fg.ones(4, ROUNDS, dtype=F64)
    for t in range(ROUNDS):
        u[t] -= x[t] @ w
        v[1:, t] /= 2 + h[1:] * h[1:]
        u[t] *= 0.5
        h = fg.tanh(h + u[t] * 0.1)
    return (u * x).sum() + (v.T * x).sum()


def weighted(x: Any, w: Any, h: Any) -> Any:
    u = x * 0.5
    for t in range(ROUNDS):
        h = fg.tanh(u[t].clone() @ w + h)
        u[t] = u[t] * 0.9 + h
    return (u * x).sum()


def of_rows_to_come(x: Any, w: Any, h: Any) -> Any:
    u = fg.sin(x)
    for t in range(1, ROUNDS - 1):
        u[t] = u[t] * 0.5 + u[t + 1] * 0.1 + u[t - 1] * 0.2 + h
    return (u * x).sum() + w.sum()


def every_other_row(x: Any, w: Any, h: Any) -> Any:
    u = fg.sin(x)
    for t in range(ROUNDS // 2):
        h = fg.tanh(h + u[2 * t + 1])
        u[2 * t] = h
    return (u * x).sum() + w.sum()


def rows_of_before(x: Any, w: Any, h: Any) -> Any:
    u = x * 0.5
    for t in range(ROUNDS):
        h = fg.tanh(u[t].clone() @ w + h)
        u[t] = h * 2
    return (u * x).sum()


READ_BACK = [
    steps_of_euler, of_copies, two_steps, steps_back, read_in_the_same_round,
    added_to, changed_in_several_ways, weighted, of_rows_to_come, every_other_row, rows_of_before,
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", READ_BACK, ids=lambda f: f.__name__)
def test_rows_that_were_written_just_before_are_handed_on(function: Loop, ran: list[int]) -> None:
    jitted = check(function)
    assert "not rolled" not in str(jitted.explain()), jitted.explain()
    ran.clear()
    fg.jit(fg.value_and_grad(function, (0, 1, 2)))(*given())
    assert len(ran) <= 8, ran


def three_steps(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(ROUNDS, 4, dtype=F64)
    u[0], u[1], u[2] = h, h @ w, h * 2
    for t in range(3, ROUNDS):
        u[t] = 0.8 * u[t - 1] - 0.3 * u[t - 3] + x[t] * 0.1
    return (u * x).sum()


def another_part_of_the_row(x: Any, w: Any, h: Any) -> Any:
    u = x * 0.5
    for t in range(1, ROUNDS):
        u[t, 1:] = u[t - 1, :3] + h[1:]
    return (u * x).sum() + w.sum()


def listed_rows(x: Any, w: Any, h: Any) -> Any:
    u, rows = x * 1, []
    for t in range(1, ROUNDS):
        u[t] = u[t - 1] * 0.5 + h
        rows.append(u[t])
    u.mul_(2)
    return (fg.stack(rows) * x[1:]).sum() + w.sum()


def windows_of_rows(x: Any, w: Any, h: Any) -> Any:
    u = x * 1
    for t in range(2, ROUNDS):
        u[t] = u[t - 2 : t].sum(0) * 0.5 + h
    return (u * x).sum() + w.sum()


def rows_across(x: Any, w: Any, h: Any) -> Any:
    u = fg.zeros(ROUNDS, ROUNDS, dtype=F64)
    for t in range(1, ROUNDS):
        u[t, 3] = u[2, t - 1] * 0.5 + h.sum()
    return u.sum() * (x.sum() + w.sum())


def held_rows(x: Any, w: Any, h: Any) -> Any:
    u = x * 1
    row = u[0]
    for t in range(1, ROUNDS):
        u[t] = row * 0.5 + h
        row = u[t]
    return (u * x).sum() + (row * w).sum()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "function",
    [
        three_steps,
        another_part_of_the_row,
        listed_rows,
        windows_of_rows,
        rows_across,
        held_rows,
    ],
    ids=lambda f: f.__name__,
)
def test_rows_that_may_be_others_are_read_in_each_round(function: Loop) -> None:
    try:
        fg.value_and_grad(function, (0, 1, 2))(*given())
    except RuntimeError:  # backward needs what was written over
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            fg.jit(fg.value_and_grad(function, (0, 1, 2)))(*given())
        return
    assert "rounds of a loop" not in str(check(function, 2).explain())


def test_rows_that_backward_needs_were_written_over() -> None:
    """As in PyTorch: a view that is kept counts the writes into what it is a view of."""

    def loop(x: fg.Tensor) -> fg.Tensor:
        u = x * 1
        for t in range(1, ROUNDS):
            u[t] = fg.tanh(u[t - 1] * u[t - 1]) + x[t]
        return u.sum()

    x, _, _ = given()
    jitted = fg.jit(fg.value_and_grad(loop))
    for _ in range(2):
        for function in (fg.value_and_grad(loop), jitted):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                function(x)
    plain = fg.jit(loop)
    for _ in range(3):
        np.testing.assert_allclose(plain(x).item(), loop(x).item(), rtol=1e-12)
    assert "rounds of a loop" in str(plain.explain())


@pytest.mark.parametrize("rounds", [128, 140, 1000])
def test_steps_are_torchs(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ran = rounds_that_run(monkeypatch, few=False)

    def loop(library: Any, x: Any, w: Any, h: Any) -> Any:
        u = library.zeros(rounds, 4, dtype=x.dtype)
        u[0] = h
        for t in range(rounds - 1):
            u[t + 1] = u[t] + 0.1 * (x[t] @ w - u[t] * (t * 0.001))
        return (u * x).sum()

    args = given(rounds)
    theirs = [torch.from_numpy(a.numpy().copy()).requires_grad_() for a in args]
    loop(torch, *theirs).backward()
    derived = fg.jit(fg.value_and_grad(lambda *a: loop(fg, *a), (0, 1, 2)))
    for _ in range(2):
        _, gradients = derived(*args)
        for ours, tensor in zip(gradients, theirs, strict=True):
            limit = 1e-12 * float(tensor.grad.abs().max())
            np.testing.assert_allclose(ours.numpy(), tensor.grad.numpy(), rtol=0, atol=limit)
    assert len(ran) == rounds - 1 if rounds < 140 else len(ran) <= 8, len(ran)


def test_a_row_of_the_wrong_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = RowRead.row
    monkeypatch.setattr(RowRead, "row", lambda self, tensor, after: row(self, tensor, after - 1))
    with pytest.raises(AssertionError):
        check(steps_of_euler)


def test_rows_that_are_taken_to_be_still_to_come_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "_forward", lambda *_: None)
    with pytest.raises(AssertionError):
        check(steps_of_euler)


def test_versions_count_both_writes() -> None:
    def loop(x: fg.Tensor) -> Any:
        u = x * 0
        for t in range(ROUNDS):
            u[t] += x[t]
        return u, u._version

    x, _, _ = given()
    ours, theirs = fg.jit(loop)(x), loop(x)
    assert ours[1] == theirs[1] == 2 * ROUNDS
    np.testing.assert_allclose(ours[0].numpy(), theirs[0].numpy())
