"""Gradients of loops that test data: of any shape, and whatever is written before they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.program import loop_bodies
from fusegrad.tracer.ir import rolled, tested


def shrinking(x: Any, w: Any) -> Any:
    while x.max() > 1:
        x = x * w
    return x


@pytest.mark.one_in(3)
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


@pytest.mark.parametrize("inside", [False, True])
def test_arguments_that_no_node_keeps_may_be_written(inside: bool) -> None:
    """All rounds read `start`, of which no gradient is taken."""

    def added(start: Any, x: Any) -> Any:
        h = start * 0.5
        for row in x:
            h = fg.tanh(h * 0.9 + start * 0.3 + row)
            if h.sum() > 100:
                break
        if inside:
            with fg.no_grad():
                start.mul_(2)
        return h

    jitted = fg.jit(added)
    for seed in (0, 1, 2, 0, 3):
        found: list[Any] = []
        for function in (jitted, added):
            draw = np.random.default_rng(seed)
            start, x = (fg.from_numpy(draw.normal(size=shape)) for shape in ((3,), (60, 3)))
            x.requires_grad_()
            loss = (function(start, x) ** 2).sum()
            if not inside:
                start.mul_(2)
            loss.backward()
            found.append(x.grad.numpy())
        np.testing.assert_allclose(*found, 1e-6, 1e-12)
    assert "until a test fails" in str(jitted.explain())


def several_ops(x: Any, w: Any) -> Any:
    """What a round makes on the way is kept as it was."""
    x = x * 0.3
    while x.sum() > 0.1:
        x = fg.tanh(x * w) * 0.9
    return x


def several_sides(x: Any, w: Any) -> Any:
    x = x * 0.3
    for _ in range(12):
        x = fg.tanh(x * w) - 0.1 if x.sum() > 0 else fg.sin(x * w) + 0.3
    return x


@pytest.mark.one_in(2)
@pytest.mark.parametrize("loop", [shrinking, several_ops, several_sides])
@pytest.mark.parametrize("write", ["fill", "other memory"])
def test_backward_finds_what_was_written_through_data(loop: Callable[..., Any], write: str) -> None:
    jitted = fg.jit(loop)
    for size in (5.0, 9.0, 3.0, 40.0, 8.0):
        found = []
        for function in (jitted, loop):
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


def _affine(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    while x.sum() > 1:
        x = x * 0.5 + 0.01
    return x * w


def _curved(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    while x.sum() > 1:
        x = fg.tanh(x * w) * 1.2
    return x


def _squared(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    while x.sum() > 1:
        x = x * 0.5
        w = w * w * 0.25
    return w


def _replaced(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    while x.sum() > 1:
        x, w = x * 0.5, fg.tanh(x)
    return w * w


def check_derivatives(function: Callable[..., fg.Tensor], sizes: tuple[float, ...]) -> int:
    """First ones have a graph where they have in eager, and second ones are eager's; the compiled calls."""
    jitted = fg.jit(function)
    for size in sizes:
        found: list[Any] = []
        for run in (jitted, function):
            x, w = (fg.full((2,), n, dtype=fg.float64, requires_grad=True) for n in (size, 0.6))
            slopes = fg.autograd.grad(run(x, w).sum(), [x, w], create_graph=True, allow_unused=True)
            for slope in slopes:
                if slope is None or not slope.requires_grad:
                    found.append([None])
                else:
                    found.append(fg.autograd.grad(slope.sum(), [x, w], retain_graph=True, allow_unused=True))
        ours, theirs = [*found[0], *found[1]], [*found[2], *found[3]]
        assert [t is None for t in ours] == [t is None for t in theirs]
        for a, b in zip(ours, theirs, strict=True):
            if a is not None:
                np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12)
    return jitted.stats.compiled_calls


@pytest.mark.parametrize("function", [_affine, _curved, _squared, _replaced])
def test_first_derivatives_have_a_graph_where_they_have_in_eager(function: Callable[..., fg.Tensor]) -> None:
    assert check_derivatives(function, (5.0, 9.0, 3.5, 40.0, 8.0)) == 4
    # And those of loops that end before their first round, which is left to the same op once that was seen.
    check_derivatives(function, (5.0, 9.0, 3.5, 0.2, 0.3, 0.6, 0.9, 5.0))


def test_second_derivatives_of_no_round_are_known_of_no_other_number(monkeypatch: pytest.MonkeyPatch) -> None:
    leads = rolled.Body.leads
    monkeypatch.setattr(
        rolled.Body,
        "leads",
        lambda self, carried, rounds: leads(self, carried, 1 if rounds is None else rounds),
    )
    with pytest.raises(AssertionError):
        check_derivatives(_replaced, (5.0, 9.0, 3.5, 0.2, 0.3, 0.6, 0.9, 5.0))


@pytest.mark.parametrize("twice", [False, True])
def test_one_graph_and_its_kernels_are_for_all_numbers_of_rounds(
    twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, compiled = list[Any](), list[Any]()
    make, compile_ = tested.Backward._made, loop_bodies.CompiledBody.__init__
    monkeypatch.setattr(rolled, "MANY", 20)
    monkeypatch.setattr(tested.Backward, "_made", lambda *args: graphs.append(args) or make(*args))
    monkeypatch.setattr(
        loop_bodies.CompiledBody, "__init__", lambda *args: compiled.append(args) or compile_(*args)
    )

    def growing(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
        while x.sum() < 2:
            x = x + 0.01 * w * fg.cos(x)
        return (x * w).sum()

    jitted = fg.jit(growing)
    for number in range(2, 102, 7 if twice else 1):
        found = []
        for function in (jitted, growing):
            x, w = (fg.full((2,), n, dtype=fg.float64, requires_grad=True) for n in (0.0, 100 / number))
            slopes = fg.autograd.grad(function(x, w), [x, w], create_graph=twice)
            if twice:
                slopes = fg.autograd.grad(sum((s * s).sum() for s in slopes), [x, w])
            found.append([s.numpy() for s in slopes])
        np.testing.assert_allclose(*found, 1e-9)
    assert len(graphs) == 1
    # Rounds with a test, those that keep what is needed, those back; and the same of these for second ones.
    assert len(compiled) <= (7 if twice else 3)


def test_results_have_the_node_that_made_them_in_a_round() -> None:
    jitted = fg.jit(_curved)
    for size in (5.0, 9.0, 3.0):
        x, w = (fg.full((2,), n, requires_grad=True) for n in (size, 0.6))
        assert "MulBackward0" in repr(jitted(x, w))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "measure",
    [
        lambda h: h.max(), lambda h: h.min(), lambda h: h.norm(), lambda h: h.std(), lambda h: h.prod(),
        lambda h: h.logsumexp(0), lambda h: (h * h).sum().sqrt(), lambda h: 1 / (h * h).sum(),
        lambda h: fg.tanh(h).sum(), lambda h: h.max(0)[0], lambda h: h.median(),
    ],
)  # fmt: skip
def test_what_nodes_keep_of_a_round_before_is_in_nobodys_way(measure: Callable[..., Any]) -> None:
    """Its last value is read behind the loop, so variables hold it from round to round."""

    def measured(h: Any, row: Any) -> Any:
        size = h.sum()
        for _ in range(200):
            h = h * 0.99 + row * 0.001
            size = measure(h)
            if size > 300:
                break
        return (h * size).sum()

    jitted = fg.jit(measured)
    for seed in (0, 0, 1, 2):
        found = []
        for function in (jitted, measured):
            draw = np.random.default_rng(seed)
            h, row = (fg.from_numpy(draw.normal(size=3)).requires_grad_() for _ in range(2))
            function(h, row).backward()
            assert h.grad is not None and row.grad is not None
            found.append([h.grad.numpy(), row.grad.numpy()])
        np.testing.assert_allclose(*found, 1e-8)
    assert "rounds of a loop" in str(jitted.explain())
