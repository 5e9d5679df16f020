"""Small tests of what drills, threads and random worlds found: gradients, and higher derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

pytestmark = pytest.mark.usefixtures("unmeasured")


def ones(*shape: int) -> fg.Tensor:
    return fg.ones(*shape, requires_grad=True)


@pytest.mark.parametrize("open_run", [False, True])
def test_a_higher_derivative_does_not_go_through_an_input_twice(open_run: bool):
    # One input is made of the other: the call's own gradients end at both.
    log: list[Any] = []

    def product(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        if open_run:
            log.append("called")
        return (x * y).sum()

    jitted = fg.jit(product)
    for _ in range(4):
        x = ones(2)
        (slope,) = fg.autograd.grad(jitted(x, x * 2), x, create_graph=True)
        assert slope.tolist() == [4, 4]
        assert fg.autograd.grad(slope.sum(), x)[0].tolist() == [4, 4]
    assert jitted.stats.compiled_calls >= 2


def test_a_higher_derivative_through_two_stretches():
    log: list[float] = []

    def program(x: fg.Tensor) -> fg.Tensor:
        y = x.flip(-1) - x.tanh()
        log.insert(99, y.detach().sum().item())
        return (x + y * 0.5).sum()

    jitted = fg.jit(program)
    for _ in range(5):
        mine, reference = ones(3), ones(3)
        slopes = [
            fg.autograd.grad(f(x), x, create_graph=True)[0] for f, x in ((jitted, mine), (program, reference))
        ]
        np.testing.assert_allclose(slopes[0].detach(), slopes[1].detach(), rtol=1e-5)
    assert jitted.stats.compiled_calls >= 3


def test_a_number_that_is_an_input_of_a_stretch_is_not_freed_by_a_backward():
    def two(x: fg.Tensor, factor: float) -> tuple[fg.Tensor, fg.Tensor]:
        y = x * factor
        return y.sin().sum(), (y * y).sum()

    jitted = fg.jit(two)
    for factor in (0.5, 0.7, 0.3, 0.6, 0.9, 0.2):
        x = ones(3)
        for result in jitted(x, factor):
            result.backward()
        expected = factor * np.cos(factor) + 2 * factor**2
        np.testing.assert_allclose(x.grad, [expected] * 3, rtol=1e-5)
    assert jitted.stats.compiled_calls >= 2


def test_a_derivative_may_be_derived_after_a_write_that_eager_does_not_mind():
    jitted = fg.jit(lambda x: (x * 3 - x.flip(0)).sum())
    for _ in range(3):
        x = ones(2)
        loss = jitted(x)
        x.detach().add_(1)
        (slope,) = fg.autograd.grad(loss, x, create_graph=True)
        assert slope.tolist() == [2, 2]


def test_a_higher_derivative_leaves_out_what_was_made_without_gradients():
    def program(x: fg.Tensor) -> fg.Tensor:
        with fg.no_grad():
            fixed = x * 2
        return (fixed * x * x).sum()

    jitted = fg.jit(program)
    for _ in range(3):
        x = ones(2)
        (slope,) = fg.autograd.grad(jitted(x), x, create_graph=True)
        assert slope.tolist() == [4, 4]
        assert fg.autograd.grad(slope.sum(), x)[0].tolist() == [4, 4]
    assert jitted.stats.compiled_calls == 2


@pytest.mark.parametrize("unused", [False, True])
def test_a_write_that_only_some_backward_minds(unused: bool):
    # x is kept for the first result, which the backward of the second does not go through.
    weight = ones(2)

    def program(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        first = x * weight
        second = x.clone().exp().clamp(max=5)
        return (second.detach() if unused else first), second

    jitted = fg.jit(program)
    for _ in range(4):
        x = ones(2)
        first, second = jitted(x)
        x.detach().add_(1)
        (second * 0.5).sum().backward()
        np.testing.assert_allclose(x.grad, [np.e / 2] * 2, rtol=1e-5)
        if not unused:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                first.sum().backward()
    assert jitted.stats.compiled_calls >= 2


def test_a_result_that_is_the_gradient_too_is_not_the_same_memory():
    def f(x):
        y = x.exp()
        return y.sum(), y.detach()

    g = fg.jit(f)
    x = ones(3)
    for _ in range(8):
        x.grad = None
        loss, y = g(x)
        loss.backward()
        before = y.tolist()
        g(x)[0].backward()
        assert y.tolist() == before
    assert g.kernels().joint


def test_a_tensor_that_is_returned_twice_is_derived_once():
    def twice(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor]:
        y = (x * x).sin()
        return y, x + 1, y

    jitted = fg.jit(twice)
    for _ in range(5):
        slopes = []
        for function in (jitted, twice):
            x = fg.arange(3.0).requires_grad_()
            first, other, second = function(x)
            assert first is second
            (first.sum() + 2 * second.sum()).backward(retain_graph=True)
            first.sum().backward()
            other.sum().backward()
            slopes.append(x.grad)
        np.testing.assert_allclose(*slopes, rtol=1e-5)
    assert jitted.stats.compiled_calls == 4


def test_what_waits_before_a_transform_does_not_hang_its_result_on_the_graph():
    seen: list[int] = []

    def energy(x: fg.Tensor, scale: fg.Tensor) -> fg.Tensor:
        moved = x * 3 + 1
        return (moved.sin() * scale).sum() if moved.sum() > -100 else moved.sum()

    def both(x: fg.Tensor, y: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        seen.insert(99, len(seen))
        before = x.sigmoid() - y
        return before, fg.grad(energy)(y, before.detach())

    jitted = fg.jit(both)
    for _ in range(5):
        x, y = ones(3), fg.randn(3)
        for found, expected in zip(jitted(x, y), both(x, y), strict=True):
            np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-4, atol=1e-5)
            assert (found.requires_grad, found.is_leaf) == (expected.requires_grad, expected.is_leaf)
    assert jitted.stats.compiled_calls >= 3


def test_a_gradient_that_is_zeros_whatever_comes_is_there():
    jitted = fg.jit(lambda x, y: ((x**0).sum(), (y * 2).sum()))
    for _ in range(4):
        x, y = (fg.ones(2, requires_grad=True) for _ in range(2))
        zeros, other = jitted(x, y)
        (zeros + 0).backward()
        assert x.grad.tolist() == [0.0, 0.0] and y.grad is None
        other.backward()
        assert y.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("view", [lambda x: x[:, :2], lambda x: x.flip(0)[::2, 1:3], lambda x: x.T[1:3].T])
def test_a_view_that_is_written_before_backward_is_copied_as_it_lies(view: Callable[[Any], Any]):
    jitted = fg.jit(lambda part, w: fg.cat([part * w, part]).tanh().sum())
    for call in range(8):
        found = []
        for function in (jitted, jitted.__wrapped__):
            x, w = fg.arange(16.0).reshape(4, 4) / 16 + call, fg.full((2,), 0.5, requires_grad=True)
            loss = function(view(x).detach(), w)
            if call % 2:
                with fg.no_grad():
                    x.add_(7)
            try:
                loss.backward()
                found.append(w.grad.tolist())
            except RuntimeError as error:
                found.append("modified by an inplace" in str(error))
        assert found[0] == pytest.approx(found[1], 1e-3)


def test_a_result_whose_backward_eager_refuses_is_refused():
    state = fg.ones(2)

    def f(x):
        first = x * state.add_(1)
        return first + x * state.mul_(2)

    jitted = fg.jit(f)
    for _ in range(4):
        for function in (jitted, f):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                function(fg.ones(2, requires_grad=True)).sum().backward()
    assert "whose backward needs memory written since" in str(jitted.explain())


def test_a_function_may_turn_gradients_on_where_its_caller_has_them_off():
    def f(x):
        with fg.enable_grad():
            y = x * 2
        return y, x * 3

    jitted = fg.jit(f)
    for _ in range(4):
        x = fg.ones(2, requires_grad=True)
        with fg.no_grad():
            y, z = jitted(x)
        assert y.requires_grad and not z.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    assert jitted.stats.compiled_calls == 3
