"""Rounds may take tensors off the graph: running means, recurrent networks that are derived in pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 200
Loop = Callable[[fg.Tensor, fg.Tensor], tuple[fg.Tensor, fg.Tensor]]


def running_mean(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    mean = h.detach() * 0
    for t in range(ROUNDS):
        h = fg.tanh(h + x[t])
        mean = 0.9 * mean + 0.1 * h.detach()
    return ((h - mean) ** 2).sum() + mean.sum(), mean


def in_pieces(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    for t in range(ROUNDS):
        h = fg.tanh(h + x[t])
        if t % 20 == 0:
            h = h.detach()
    return h.sum(), h


def one_step_back(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    total = h.sum() * 0
    for t in range(ROUNDS):
        h = fg.tanh(h.detach() * 0.5 + x[t])
        total = total + (h**2).sum()
    return total, h


def rows_off_the_graph(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    mean = h
    for t in range(ROUNDS):
        mean = 0.9 * mean + x[t].detach()
    return mean.sum(), mean


def all_off_the_graph(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    mean = h.detach()
    for t in range(ROUNDS):
        mean = 0.9 * mean + x[t].detach()
    return (mean * h).sum(), mean


def kept(h: fg.Tensor, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    """What lies in the memory of others: not rolled."""
    out = []
    for t in range(ROUNDS):
        h = fg.tanh(h + x[t])
        out.append(h.detach())
    out[-1].add_(1)
    return h.sum() + fg.stack(out).sum(), out[-1]


def results(function: Loop, seed: int) -> list[np.ndarray | bool | str]:
    draw = np.random.default_rng(seed)
    h, x = (fg.tensor(draw.standard_normal(shape)).requires_grad_() for shape in ((3,), (ROUNDS, 3)))
    loss, shown = function(h, x)
    error = ""
    try:
        loss.backward()
    except RuntimeError as refusal:
        error = str(refusal).split(" ")[0]
    gradients = [np.zeros(0) if t.grad is None else t.grad.numpy() for t in (h, x)]
    return [loss.detach().numpy(), shown.detach().numpy(), shown.requires_grad, error, *gradients]


@pytest.mark.parametrize(
    "function",
    [running_mean, in_pieces, one_step_back, rows_off_the_graph, all_off_the_graph, kept],
)
def test_it_is_eagers(function: Loop) -> None:
    jitted = fg.jit(function)
    for seed in range(4):
        for ours, theirs in zip(results(jitted, seed), results(function, seed), strict=True):
            if isinstance(theirs, np.ndarray):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
            else:
                assert ours == theirs
    assert ("was not rolled" in str(jitted.explain())) == (function is kept), jitted.explain()
