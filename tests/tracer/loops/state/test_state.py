"""What rounds hand on besides tensors in variables: rows that they keep, numbers, items of dicts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from rolled_loops import ROUNDS, check, check_rolled, given, rounds_that_run

import fusegrad as fg

Loop = Callable[..., fg.Tensor]


def the_row_before(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    before = h
    for t in range(ROUNDS):
        now = x[t]
        h = fg.tanh(h @ w + now - 0.5 * before)
        before = now
    return h.sum() + before.prod()


def two_rows_before(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    x1 = x2 = y1 = y2 = fg.zeros(4, dtype=h.dtype)
    made = []
    for x0 in x:
        y0 = 0.5 * x0 + 0.25 * x1 + 0.1 * x2 - h * (0.3 * y1 - 0.1 * y2)
        x2, x1 = x1, x0
        y2, y1 = y1, y0
        made.append(y0)
    return (fg.stack(made) @ w).pow(2).mean()


def rows_from_both_ends(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    first = last = h
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + first - last)
        first, last = x[t], x[-1 - t]
    return h.sum() + first.sum() * last.sum()


def windows_before(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    before = x[:2]
    for t in range(ROUNDS - 1):
        h = fg.tanh(h @ w + (x[t : t + 2] * before).sum(0))
        before = x[t : t + 2]
    return h.sum() + before.sum()


def counted(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    rounds, twice = 0, 1
    for row in x:
        h = fg.tanh(h @ w + row)
        rounds += 1
        twice = twice + 2
    return h.sum() * rounds + twice


def in_a_dict(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = {"h": h, "c": h * 2}
    for row in x:
        state["h"] = fg.tanh(state["c"] @ w + row)
        state["c"] = state["c"] * 0.9 + state["h"]
    return (state["h"] * state["c"]).sum()


def in_a_tuple(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = h, (h * 0.5, "kept")
    for row in x:
        first, (second, name) = state
        first = fg.tanh(first @ w + row)
        state = first, (second * 0.9 + first, name)
    return state[0].sum() + (state[1][0] ** 2).sum()


class Pair(NamedTuple):
    h: fg.Tensor
    c: fg.Tensor

    def step(self, row: fg.Tensor) -> fg.Tensor:
        return fg.tanh(self.h + row)


def in_a_named_tuple(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = Pair(h, h * 0.5)
    for row in x:
        h = state.step(row) @ w
        state = Pair(h, state.c * 0.9 + h)
    return state.h.sum() + (state.c**2).sum()


def in_a_list_that_is_set(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    layers = [h, h * 2]
    for row in x:
        above = row
        for i in range(2):
            layers[i] = fg.tanh(layers[i] @ w + above)
            above = layers[i]
    return layers[0].sum() + (layers[1] ** 2).sum()


def in_a_list_made_anew(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    layers = [h, h * 2]
    for row in x:
        above, made = row, []
        for layer in layers:
            above = fg.tanh(layer @ w + above)
            made.append(above)
        layers = made
    return layers[0].sum() + (layers[1] ** 2).sum()


def in_a_comprehension(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    layers = [h, h * 2]
    for row in x:
        made = [fg.tanh(layer @ w + row) for layer in layers]
        layers = made
    return layers[0].sum() + (layers[1] ** 2).sum()


def in_a_comprehension_of_itself(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    layers = [h, h * 2]
    for row in x:
        layers = [fg.tanh(layer @ w + row) for layer in layers]
    return layers[0].sum() + (layers[1] ** 2).sum()


def numbered(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t, (row, other) in enumerate(zip(x, x.flip(0), strict=True)):
        h = fg.tanh(h @ w + row * other) * (1 + t * 0.001)
    return h.sum()


def of_the_shorter(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for _t, (row, other) in enumerate(zip(x, x[3:]), 2):  # noqa: B905
        h = fg.tanh(h @ w + row * other)
    return h.sum() * _t


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "function",
    [
        the_row_before,
        two_rows_before,
        rows_from_both_ends,
        windows_before,
        counted,
        in_a_dict,
        in_a_tuple,
        in_a_named_tuple,
        in_a_list_that_is_set,
        in_a_list_made_anew,
        in_a_comprehension,
        in_a_comprehension_of_itself,
        numbered,
        of_the_shorter,
    ],
)
def test_it_goes_on_from_round_to_round(function: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rolled(function, rounds_that_run(monkeypatch), 12)


def test_a_row_that_was_kept_is_a_view_when_the_loop_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        x, before = x * 1, h
        for t in range(ROUNDS):
            h = fg.tanh(h + x[t] * before)
            before = x[t]
        before += 1
        return h.sum() + (x * x).sum() + before.sum()

    x, _, h = given()
    jitted = fg.jit(function)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x, h).numpy(), function(x, h).numpy(), rtol=1e-12)


def test_a_list_that_others_have_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        layers = [h, h * 2]
        names, pairs = [layers], []
        for row in x:
            layers[0] = fg.tanh(layers[1] + row)
            layers[1] = layers[0] * 0.5 + h
        made = [layers[0], layers[1]]
        first = made
        for row in x:
            made = [fg.tanh(made[1] + row), made[0] * 0.5]
        pairs.append(made)
        return names[0][0].sum() + names[0][1].prod() + first[0].sum() + (pairs[0][0] * pairs[0][1]).sum()

    x, _, h = given()
    jitted = fg.jit(function)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x, h).numpy(), function(x, h).numpy(), rtol=1e-12)


def test_a_number_that_something_else_follows_from_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = rounds_that_run(monkeypatch)

    def function(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        steps = 0
        for row in x:
            h = fg.tanh(h @ w + row).clamp(max=1.0 - steps / 1000)
            steps += 1
        return h.sum() * steps

    check(function)
    assert not ran or max(np.diff(ran)) == 1


def test_a_zip_that_ends_too_early_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds_that_run(monkeypatch)

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for row, other in zip(x, x[2:], strict=True):
            h = h + row * other
        return h

    x, _, h = given()
    for called in (function, fg.jit(function)):
        with pytest.raises(ValueError, match="shorter"):
            called(x, h)
