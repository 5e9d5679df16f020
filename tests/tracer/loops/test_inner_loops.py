"""Loops in rounds: of the stages of a step, of layers, of a few sweeps; they are written out in the round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rolled_loops import check_over_rows

import fusegrad as fg

Loop = Callable[..., Any]


STAGES = (0.25,), (0.1, 0.3)


def stages(x: fg.Tensor, w: fg.Tensor) -> Any:
    y = w
    for t in range(200):
        ks = (y.sin() * 0.1,)
        for row in STAGES:
            yi = y
            for a, k in zip(row, ks):  # noqa: B905
                yi = yi + a * k
            ks = ks + (fg.sin(yi) * 0.1,)  # noqa: RUF005
        for k in ks:
            y = y + k * 0.1 + x[t] * 0.01
    return y.sum()


def layers(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    ws = [w * 0.1, w * 0.2, w * 0.3]
    for t in range(200):
        z = x[t]
        for v in ws:
            z = fg.tanh(z * v + h)
        h = z
    return h.sum()


def counted(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        for k in range(3):
            z = fg.tanh(h + x[t] * (0.1 * k))
            h = h * 0.5 + z
    return h.sum()


def appending(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    out = []
    for t in range(200):
        for _ in range(2):
            h = fg.tanh(h * 0.9 + x[t])
            out.append(h)
    return fg.stack(out).sum()


def long_inside(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for _ in range(3):
        for t in range(len(x)):
            h = fg.tanh(h * 0.9 + x[t])
    return h.sum()


def long_in_both(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for e in range(30):
        for t in range(150):
            h = fg.tanh(h * 0.9 + x[t] * e)
    return h.sum()


def adding_up(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    loss = 0.0
    for t in range(200):
        for _ in range(2):
            h = fg.tanh(h * 0.9 + x[t])
            loss += (h * h).sum()
    return loss


def with_the_number(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        q = t * 0.01
        for k in range(2):
            h = fg.tanh(h * q + x[t] * k)
    return h.sum()


def which_may_be_none(x: fg.Tensor, w: fg.Tensor) -> Any:
    h, z = w, w
    for t in range(200):
        for k in range(t // 150):
            z = (h + x[t] * k).tanh()
        h = h * 0.5 + z
    return h.sum()


def left_early(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        for k in range(3):
            if k == 2:
                break
            h = (h * 0.9 + x[t]).tanh()
    return h.sum()


def rows_of_both(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        for k in range(3):
            h = (h * 0.9 + x[t, k]).tanh()
    return h.sum()


def numbers_of_both(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        for k in range(2):
            h = (h * 0.9 + x[t] * (t * k * 0.01)).tanh()
    return h.sum()


def a_number_that_inner_rounds_change(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        q = t * 0.01
        for _ in range(3):
            h = (h * q + x[t]).tanh()
            q = q * 0.5
    return h.sum()


def a_number_that_inner_rounds_replace(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w
    for t in range(200):
        q = t * 0.5
        for _ in range(2):
            h = h * 0.9 + x[t] * q
            q = 3.0
    return h.sum()


def a_number_that_inner_rounds_find(x: fg.Tensor, w: fg.Tensor) -> Any:
    h, q = w, 2.0
    for t in range(200):
        p = t
        for k in (0, 1):
            h = h * 0.9 + x[t] * q - p
            p, q = 3.0 + k, t * 0.5
    return h.sum()


def a_function_of_the_number(x: fg.Tensor, w: fg.Tensor) -> Any:
    def scale(number: int) -> float:
        return 2.0 if number > 150 else 0.5

    h = w
    for t in range(200):
        for k in range(2):
            h = (h * scale(t * k) + x[t]).tanh()
    return h.sum()


ROLLED = [stages, layers, counted, appending, long_inside, long_in_both, adding_up, with_the_number]
RUN = [
    which_may_be_none, left_early, rows_of_both, numbers_of_both, a_number_that_inner_rounds_change,
    a_number_that_inner_rounds_replace, a_number_that_inner_rounds_find, a_function_of_the_number,
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("function", [*ROLLED, *RUN], ids=lambda f: f.__name__)
@pytest.mark.parametrize("derived", [False, True])
def test_they_have_eagers_values(function: Loop, derived: bool) -> None:
    jitted = check_over_rows(function, derived, 200, 1e-8)
    if function in ROLLED:
        assert "rounds of a loop" in str(jitted.explain()), jitted.explain()
