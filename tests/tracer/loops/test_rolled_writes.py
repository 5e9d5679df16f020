"""Loops whose rounds write rows of what the function has made: rolled where rounds are alike, and eager's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from rolled_loops import ROUNDS, Loop, check, check_rolled, given, rounds_that_run

import fusegrad as fg
from fusegrad.tracer.loops.affine import RowRead

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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_loops_that_write_rows_are_rolled(function: Loop, ran: list[int]) -> None:
    check_rolled(function, ran)


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


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(6)
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
