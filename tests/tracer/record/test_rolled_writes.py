"""Loops whose rounds write rows of what the function has made: rolled where rounds are alike, and eager's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from rolled_loops import ROUNDS, Loop, check, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.record.rows import RowRead

F64 = fg.float64


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few rounds are enough; the numbers of those that ran to their end."""
    return rounds_that_run(monkeypatch)


def rows(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(len(x), 4, dtype=F64)
    for t in range(len(x)):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
    return (out * x).sum()


def columns(x: Any, w: Any, h: Any) -> Any:
    out = fg.ones(4, ROUNDS, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[:, t] = h * 2
    return (out.T * x).sum() + out[0].prod() * 0


def backwards(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS + 3, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[ROUNDS - 1 - t] @ w + h)
        out[ROUNDS - t] = h
    return (out[:-3] * x).sum() + (out[3:] ** 2).sum()


def parts_of_rows(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 2, 4, dtype=F64)
    for t, row in enumerate(x):
        h = fg.tanh(row @ w + h)
        out[t, 0] = h
        out[t, 1, 1:3] = h[:2]
        out[t, 1, 2] = h.sum()
    return (out[:, 0] * out[:, 1] * x).sum()


def two_of_them(x: Any, w: Any, h: Any) -> Any:
    total, kept = fg.zeros(ROUNDS, dtype=F64), x * 0.5
    for t in range(ROUNDS - 1):
        h = fg.tanh(x[t] @ w + h)
        total[t + 1] = h.sum()
        kept[t] = h * x[t + 1]
    return (total * total).sum() + (kept * x).sum()


def by_twos(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS // 2):
        h = fg.tanh(x[t] @ w + h)
        out[2 * t] = h
        out[2 * t + 1] = h * 0.5
    return (out * x).sum()


def from_the_end(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[-1 - t] = h
    return (out * x).sum()


def narrower(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=fg.float32)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
    return (out.double() * x).sum()


def what_is_the_same(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        out[t] = h * x[t]
    return (out * out).sum() + w.sum()


def listed_as_well(x: Any, w: Any, h: Any) -> Any:
    out, states = fg.zeros(ROUNDS, 4, dtype=F64), []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        states.append(h)
        out[t] = h
    return (out * fg.stack(states)).sum()


def without_gradients(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    now = h.detach()
    for t in range(ROUNDS):
        now = fg.tanh(x.detach()[t] + now)
        out[t] = now
    return (out * x).sum() + (h @ w).sum()


ROLLED = [
    rows, columns, backwards, parts_of_rows, two_of_them, by_twos, from_the_end, narrower, what_is_the_same,
    listed_as_well,
]  # fmt: skip


@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_loops_that_write_rows_are_rolled(function: Loop, ran: list[int]) -> None:
    jitted = check(function)
    assert "rounds of a loop" in str(jitted.explain()), jitted.explain()
    assert "not rolled" not in str(jitted.explain()), jitted.explain()
    ran.clear()
    fg.jit(fg.value_and_grad(function, (0, 1, 2)))(*given())
    assert len(ran) <= 8, ran


def test_rows_of_what_needs_no_gradients() -> None:
    check(without_gradients)


# What must not be left out.


def read_again(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS - 2):
        h = fg.tanh(x[t] @ w + h + out[ROUNDS - 3 - t])
        out[t] = h
    return (out * x).sum()


def read_whole(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h + out.sum(0) * 0.01)
        out[t] = h
    return (out * x).sum()


def read_through_a_view(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    turned = out.T
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h + turned[:, 3] * 0.1)
        out[t] = h
    return (out * x).sum()


def through_a_view(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(4, ROUNDS, dtype=F64)
    turned = out.T
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        turned[t] = h
    return (out.T * x).sum()


def twice(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS + 1, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
        out[t + 1] = h * 0.5
    return (out[1:] * x).sum()


def crossing(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
        out[ROUNDS - 1 - t] = h * 0.5
    return (out * x).sum()


def one_row_as_well(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
        out[30] = h * 0.5
    return (out * x).sum()


def two_that_change_places(x: Any, w: Any, h: Any) -> Any:
    one, other = fg.zeros(ROUNDS, 4, dtype=F64), fg.ones(ROUNDS, 4, dtype=F64)
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        one[t] = h
        one, other = other, one
    return (one * x).sum() + (other**2).sum()


def lent_to_numpy(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS, 4, dtype=F64)
    seen = out.numpy()
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h.detach()
    return (x * float(seen.sum())).sum() + h.sum()


def in_a_list(x: Any, w: Any, h: Any) -> Any:
    out = [h] * ROUNDS
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t] = h
    return (fg.stack(out) * x).sum()


def too_far(x: Any, w: Any, h: Any) -> Any:
    out = fg.zeros(ROUNDS - 20, 4, dtype=F64)
    try:
        for t in range(ROUNDS):
            h = fg.tanh(x[t] @ w + h)
            out[t] = h
    except IndexError:
        pass
    return (out * x[20:]).sum() + h.sum()


def offset_that_changes(x: Any, w: Any, h: Any) -> Any:
    out, k = fg.zeros(2 * ROUNDS, 4, dtype=F64), 0
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h)
        out[t + k] = h
        k = k + 1
    return (out[::2] * x).sum()


RUN = [
    read_again, read_whole, read_through_a_view, through_a_view, twice, crossing, one_row_as_well,
    two_that_change_places, lent_to_numpy, in_a_list, too_far, offset_that_changes,
]  # fmt: skip


@pytest.mark.parametrize("function", RUN, ids=lambda f: f.__name__)
def test_loops_that_may_write_otherwise_run(function: Loop) -> None:
    jitted = check(function, 2)
    if function is not two_that_change_places:
        assert "rounds of a loop" not in str(jitted.explain()), jitted.explain()


def test_an_argument_is_written_in_each_round() -> None:
    def loop(x: fg.Tensor, out: fg.Tensor) -> fg.Tensor:
        h = x[0]
        for t in range(ROUNDS):
            h = fg.tanh(x[t] + h)
            out[t] = h
        return h

    x, _, _ = given()
    jitted = fg.jit(loop)
    for _ in range(3):
        ours, theirs = fg.zeros(ROUNDS, 4, dtype=F64), fg.zeros(ROUNDS, 4, dtype=F64)
        np.testing.assert_allclose(jitted(x, ours).numpy(), loop(x, theirs).numpy())
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_versions_count_each_write() -> None:
    def loop(x: fg.Tensor) -> Any:
        out = x * 0
        for t in range(ROUNDS):
            out[t] = x[t] * 2
        return out, out._version

    x, _, _ = given()
    assert fg.jit(loop)(x)[1] == loop(x)[1] == ROUNDS


def test_a_value_that_backward_keeps_was_written_since() -> None:
    def loop(x: fg.Tensor) -> fg.Tensor:
        out = x * 1
        squares = out * out
        for t in range(ROUNDS):
            out[t] = x[t] * 2
        return squares.sum() + out.sum()

    x, _, _ = given()
    for function in (loop, fg.jit(loop)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            fg.value_and_grad(function)(x)


@pytest.mark.parametrize("rounds", [127, 128, 129, 140, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_torchs(rounds: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ran = rounds_that_run(monkeypatch, few=False)

    def loop(library: Any, x: Any, w: Any, h: Any) -> Any:
        out = library.zeros(rounds, 4, dtype=x.dtype)
        turned = library.ones(4, rounds, dtype=x.dtype)
        for t in range(rounds):
            h = library.tanh(x[t] @ w + h)
            out[t] = h
            turned[:, rounds - 1 - t] = h * x[t]
        return (out * x).sum() + (turned[0] * turned[1]).sum()

    args = [
        getattr(a, dtype.replace("float32", "float").replace("float64", "double"))() for a in given(rounds)
    ]
    theirs = [torch.from_numpy(a.numpy().copy()).requires_grad_() for a in args]
    loop(torch, *theirs).backward()
    derived = fg.jit(fg.value_and_grad(lambda *a: loop(fg, *a), (0, 1, 2)))
    for call in range(3):
        _, gradients = derived(*args)
        for ours, tensor in zip(gradients, theirs, strict=True):
            scale = float(tensor.grad.abs().max())
            limit = (1e-12 if dtype == "float64" else 2e-5) * scale
            np.testing.assert_allclose(
                ours.numpy(), tensor.grad.numpy(), rtol=0, atol=limit, err_msg=str(call)
            )
    assert len(ran) == rounds if rounds < 140 else len(ran) <= 8, len(ran)


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are written one turn too early; writes that are taken to lie apart whatever they do."""
    put = RowRead.put
    with monkeypatch.context() as patch:
        patch.setattr(
            RowRead, "put", lambda self, x, rows, after, turns: put(self, x, rows, after - 1, turns)
        )
        with pytest.raises(AssertionError):
            check(rows)
    monkeypatch.setattr(RowRead, "is_apart", lambda self, other: True)
    with pytest.raises(AssertionError):
        check(twice)


# Rows that are read when they are written.


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


READ_BACK = [steps_of_euler, of_copies, two_steps, steps_back, read_in_the_same_round]


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


def rows_of_before(x: Any, w: Any, h: Any) -> Any:
    u = x * 0.5
    for t in range(ROUNDS):
        h = fg.tanh(u[t] @ w + h)
        u[t] = h * 2
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


@pytest.mark.parametrize(
    "function",
    [
        three_steps,
        rows_of_before,
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
