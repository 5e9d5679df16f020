"""Gradients of loops that test data: of any shape, and whatever is written before they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg


def shrinking(x: Any, w: Any) -> Any:
    while x.max() > 1:
        x = x * w
    return x


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 1), (1, 3), (5, 2)])
def test_second_derivatives_of_any_shape(shape: tuple[int, ...]) -> None:
    def halving(x: Any) -> Any:
        while x.max() > 1:
            x = x * x * 0.1
        return x

    jitted = fg.jit(halving)
    for size in (5.0, 9.0, 3.0, 1.5, 8.0):
        found = []
        for function in (jitted, halving):
            x = fg.full(shape, size, requires_grad=True)
            (first,) = fg.autograd.grad(function(x).sum(), [x], create_graph=True)
            (first * first).sum().backward()
            found.append(None if x.grad is None else x.grad.numpy())
        np.testing.assert_allclose(*found, 1e-5)


def test_results_may_be_written() -> None:
    def written(x: Any) -> Any:
        x = x * 1
        while x.max() > 1:
            x = x * 0.5
        x.add_(1)
        return x

    jitted = fg.jit(written)
    for size in (5.0, 9.0, 3.0, 40.0, 8.0):
        found = []
        for function in (jitted, written):
            x = fg.full((2,), size, requires_grad=True)
            y = function(x)
            y[0] = 0
            y.view(-1).mul_(3)
            y.sum().backward()
            found.append((y.tolist(), x.grad.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("write", ["fill", "other memory"])
def test_backward_finds_what_was_written_through_data(write: str) -> None:
    jitted = fg.jit(shrinking)
    for size in (5.0, 9.0, 3.0, 40.0, 8.0):
        found = []
        for function in (jitted, shrinking):
            x, w = (fg.full((2,), n, dtype=fg.float64, requires_grad=True) for n in (size, 0.6))
            y = function(x, w)
            if write == "fill":
                w.data.fill_(2.0)
            else:
                w.data = fg.full((2,), 3.0, dtype=fg.float64)
            y.sum().backward()
            found.append((x.grad.numpy(), w.grad.numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-12)
