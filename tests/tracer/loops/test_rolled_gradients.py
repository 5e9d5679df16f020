"""Rounds that are left out of loops on tensors that need gradients: values and gradients are eager's."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.placement import nontemporal_stores
from fusegrad.eager.core.op import bind
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir import passes, rolled
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop
from fusegrad.tracer.loops import rolling


@pytest.fixture(autouse=True)
def short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds are enough, and few ops to have them compiled."""
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    monkeypatch.setattr(rolled, "MANY", 100)
    monkeypatch.setattr(passes, "CHECK", True)


def tensors(count: int, *shape: int) -> list[fg.Tensor]:
    draw = np.random.default_rng(0)
    return [fg.from_numpy(draw.standard_normal(shape) * 0.5) for _ in range(count)]


# The op.


def cell(h: fg.Tensor, x: fg.Tensor, w: fg.Tensor, b: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    new = fg.tanh(h @ w + x * b)
    return new, new * x


def written_out(h: fg.Tensor, x: fg.Tensor, w: fg.Tensor, b: fg.Tensor, backwards: bool) -> Any:
    rows: list[Any] = [None] * len(x)
    for t in reversed(range(len(x))) if backwards else range(len(x)):
        h, rows[t] = cell(h, x[t], w, b)
    return h, fg.stack(rows)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_first_and_second_derivatives_of_loops_with_rows(
    backwards: bool, keeps: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(rolled, "compiled_rounds", None)
    h, w = tensors(2, 4, 4)
    (x,), (b,) = tensors(1, 9, 4, 4), tensors(1, 4)
    body = Body(capture(cell, (h, x[0].clone(), w, b)).graph)

    def derivatives(run: Any) -> list[fg.Tensor]:
        args = [t.clone().requires_grad_() for t in (h, x, w, b)]
        last, rows = run(*args)
        first = fg.autograd.grad(last.sum() * 2 + (rows**2).sum(), args, create_graph=True)
        second = fg.autograd.grad(sum((g * g).sum() for g in first), args)
        return [last, rows, *first, *second]

    def at_once(*args: fg.Tensor) -> Any:
        made = bind(ROLLED, args, loop(body, 9, 1, 1, backwards, keeps))
        return (made[0], made[-1])

    expected = derivatives(lambda *args: written_out(*args, backwards))
    for ours, theirs in zip(derivatives(at_once), expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_what_nobody_needs_of_a_loop_is_left_out() -> None:
    def round_(h: fg.Tensor, other: fg.Tensor, x: fg.Tensor, w: fg.Tensor) -> tuple[fg.Tensor, ...]:
        return h * w + 1, other * 2, x * 3

    h, other, x, w = tensors(4, 3)
    body = Body(capture(round_, (h, other, x, w)).graph)
    made = capture(
        lambda h, other, x, w: bind(ROLLED, (h, other, x, w), loop(body, 5, 2, 1))[0],
        (h, other, x.repeat(5, 1), w),
    )
    (equation,) = [e for e in passes.dead_code(made.graph).equations if e.op is ROLLED]
    assert [v.name for v in equation.inputs] == [made.graph.inputs[0].name, made.graph.inputs[3].name]
    assert len(equation.outputs) == 1 and len(equation.params["body"].graph.equations) == 2


# Loops.


def lorenz(state: fg.Tensor, steps: int) -> fg.Tensor:
    x, y, z = state[0], state[1], state[2]
    for _ in range(steps):
        dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.5 * z
        x, y, z = x + 0.005 * dx, y + 0.005 * dy, z + 0.005 * dz
    return x + 2 * y * z


def derived(function: Any, *args: fg.Tensor) -> list[np.ndarray]:
    value, gradients = fg.value_and_grad(function, tuple(range(len(args))))(*args)
    return [t.detach().numpy().copy() for t in (value, *gradients)]


def count_loops(jitted: Any) -> int:
    return str(jitted.explain()).count("rounds of a loop")


@pytest.mark.parametrize("steps", [40, 41, 57])
def test_values_and_gradients_of_a_long_loop(steps: int) -> None:
    def loss(state: fg.Tensor) -> fg.Tensor:
        return lorenz(state, steps).sum()

    (state,) = tensors(1, 3, 4)
    expected, jitted = derived(loss, state), fg.jit(fg.value_and_grad(loss))
    for _ in range(7):
        value, gradient = jitted(state)
        np.testing.assert_allclose(value.numpy(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient.numpy(), expected[1], rtol=1e-12)
    assert count_loops(jitted) >= 2 and jitted.stats.compiles <= 2, jitted.explain()


class Rates:
    """What a round calls: a method that reads attributes, and a function that gives several tensors."""

    def __init__(self) -> None:
        self.sigma, self.step, self.calls = 10.0, 0.005, 0

    def lorenz(self, x: fg.Tensor, y: fg.Tensor, z: fg.Tensor) -> tuple[fg.Tensor, ...]:
        return self.sigma * (y - x), x * (28.0 - z) - y, x * y - 2.5 * z

    def counted(self, x: fg.Tensor) -> fg.Tensor:
        self.calls += 1
        return x * 0.5 if self.calls == 20 else x

    def set(self, x: fg.Tensor) -> fg.Tensor:
        self.calls = self.calls + 1
        return x * 0.5 if self.calls == 20 else x


def moved(rates: Rates, *state: fg.Tensor) -> tuple[fg.Tensor, ...]:
    x, y, z = state
    dx, dy, dz = rates.lorenz(x, y, z)
    return x + rates.step * dx, y + rates.step * dy, z + rates.step * dz


def by_functions(state: fg.Tensor) -> fg.Tensor:
    rates = Rates()
    x, y, z = state
    for _ in range(40):
        x, y, z = moved(rates, x, y, z)
    return (x + 2 * y * z).sum()


def by_closures(state: fg.Tensor) -> fg.Tensor:
    rate = 0.1

    def decayed(x: fg.Tensor) -> fg.Tensor:
        return fg.tanh(x - rate * x)

    for _ in range(40):
        state = decayed(state)
    return state.sum()


def hidden_count(state: fg.Tensor) -> fg.Tensor:
    """The 20th round differs, as something knows that looks the same."""
    rates = Rates()
    for _ in range(40):
        state = fg.tanh(rates.counted(state))
    return state.sum()


def hidden_attribute(state: fg.Tensor) -> fg.Tensor:
    rates = Rates()
    for _ in range(40):
        state = fg.tanh(rates.set(state))
    return state.sum()


def hidden_list(state: fg.Tensor) -> fg.Tensor:
    left = [1.0] * 20 + [0.5] + [1.0] * 20

    def scaled(x: fg.Tensor) -> fg.Tensor:
        factor = left[0]
        del left[0]
        return x * factor

    for _ in range(40):
        state = fg.tanh(scaled(state))
    return state.sum()


def count_around(state: fg.Tensor) -> fg.Tensor:
    count = 0

    def scaled(x: fg.Tensor) -> fg.Tensor:
        nonlocal count
        count += 1
        return x * 0.5 if count == 20 else x

    for _ in range(40):
        state = fg.tanh(scaled(state))
    return state.sum()


def variable_around(state: fg.Tensor) -> fg.Tensor:
    count = 0

    def next_() -> int:
        return count + 1

    def scaled(x: fg.Tensor) -> fg.Tensor:
        return x * 0.5 if count == 20 else x

    for _ in range(40):
        count = next_()
        state = fg.tanh(scaled(state))
    return state.sum()


def generated(state: fg.Tensor) -> fg.Tensor:
    def factors() -> Any:
        for i in range(100):
            yield 0.5 if i == 20 else 1.0

    def scaled(x: fg.Tensor) -> fg.Tensor:
        for factor in made:
            return x * factor
        return x

    made = factors()
    for _ in range(40):
        state = fg.tanh(scaled(state))
    return state.sum()


HELPED = [
    by_functions,
    by_closures,
    hidden_count,
    hidden_attribute,
    hidden_list,
    count_around,
    variable_around,
    generated,
]


@pytest.mark.parametrize("function", HELPED, ids=lambda f: f.__name__)
def test_rounds_that_call_functions(function: Any) -> None:
    (state,) = tensors(1, 3, 4)
    expected, jitted = derived(function, state), fg.jit(fg.value_and_grad(function))
    for _ in range(3):
        value, gradient = jitted(state)
        np.testing.assert_allclose(value.numpy(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient.numpy(), expected[1], rtol=1e-10, atol=1e-14)
    assert bool(count_loops(jitted)) == (function in (by_functions, by_closures)), jitted.explain()


def test_backward_outside_of_the_compiled_call() -> None:
    (start,) = tensors(1, 3, 4)
    jitted = fg.jit(lambda state: lorenz(state, 60).sum())
    for _ in range(6):
        state, other = start.clone().requires_grad_(), start.clone().requires_grad_()
        jitted(state).backward()
        lorenz(other, 60).sum().backward()
        assert state.grad is not None and other.grad is not None
        np.testing.assert_allclose(state.grad.numpy(), other.grad.numpy(), rtol=1e-12)
    assert count_loops(jitted), jitted.explain()


def test_values_that_are_looked_at_behind_a_loop() -> None:
    def loss(state: fg.Tensor) -> fg.Tensor:
        result = lorenz(state, 50).sum()
        return result * 2 if result.item() > 0 else result * 3

    (state,) = tensors(1, 3, 4)
    expected, jitted = derived(loss, state), fg.jit(fg.value_and_grad(loss))
    for _ in range(3):
        np.testing.assert_allclose(jitted(state)[1].numpy(), expected[1], rtol=1e-12)


def test_second_derivatives_through_a_loop() -> None:
    def curvature(state: fg.Tensor) -> fg.Tensor:
        state = state.detach().requires_grad_()
        (first,) = fg.autograd.grad(lorenz(state, 40).sum(), state, create_graph=True)
        (second,) = fg.autograd.grad((first * first).sum(), state)
        return second

    (state,) = tensors(1, 3, 4)
    expected, jitted = curvature(state).numpy(), fg.jit(curvature)
    for _ in range(3):
        np.testing.assert_allclose(jitted(state).numpy(), expected, rtol=1e-9)


def test_rows_are_not_stored_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """That wants memory which begins where a line does."""
    monkeypatch.setattr(nontemporal_stores, "host", lambda: Target(16, cache_bytes=1000))

    def loss(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        for _ in range(40):
            x, y = x + 0.1 * y, y - 0.1 * x
        return (x + y).sum()

    args = tensors(2, 20_001)
    expected, jitted = derived(loss, *args), fg.jit(fg.value_and_grad(loss, (0, 1)))
    for _ in range(3):
        _, gradients = jitted(*args)
        np.testing.assert_allclose(gradients[1].numpy(), expected[2], rtol=1e-12)
    assert count_loops(jitted), jitted.explain()


# What must not be left out.


def kept_everywhere(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    seen = []
    for _ in range(40):
        x = fg.tanh(x * w)
        seen.append(x)
    return fg.stack(seen).sum()


def without_gradient(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    def scaled(x: fg.Tensor) -> fg.Tensor:
        with fg.no_grad():
            return x * w

    for _ in range(40):
        x = fg.tanh(x) + scaled(x) * w
    return x.sum()


def detached(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    y = x
    for _ in range(40):
        y = y * 0.5 + x.detach()
        x = fg.tanh(x * w) + y.detach()
    return (x * y).sum()


def hooked(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    for _ in range(40):
        x = fg.tanh(x * w)
        x.register_hook(lambda g: g * 1.5)
    return x.sum()


def written(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    x = x * 1
    for _ in range(40):
        x.mul_(w)
        x.add_(0.25)
    return x.sum()


def summed(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    total = (x * w).sum()
    for _ in range(40):
        x = fg.tanh(x * w)
        total = total + (x * x).sum() * 0.1
    return total


def shared(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    y = x
    for _ in range(40):
        x = fg.sin(x * w) + y * 0.1
        y = x
    return (x * y).sum()


FUNCTIONS = [kept_everywhere, without_gradient, detached, hooked, written, summed, shared]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_loops_that_keep_or_change_what_they_hand_on(function: Any) -> None:
    args = tensors(2, 5)
    expected, jitted = derived(function, *args), fg.jit(fg.value_and_grad(function, (0, 1)))
    for _ in range(4):
        value, gradients = jitted(*args)
        for ours, theirs in zip((value, *gradients), expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-10, atol=1e-12)
    assert bool(count_loops(jitted)) == (function in (kept_everywhere, detached, summed, shared))


# Random bodies.


def random_loop(seed: int) -> Any:
    """A function of three tensors with a drawn loop: some keep, detach or write what they make."""
    draw = random.Random(seed)
    names = "abcd"

    def lines() -> Any:
        for _ in range(draw.randint(1, 5)):
            x, y, z = (draw.choice(names) for _ in range(3))
            term = draw.choice(
                [f"{y} * {z}", f"{y} + 0.5 * {z}", f"fg.sin({y})", f"{y} @ w", f"{y}.flip(0) * {z}"]
            )
            yield draw.choice(
                [f"{x} = fg.tanh({term})"] * 16
                + [
                    f"{x}, {y} = {y}, {x}",
                    f"{x} = {y}",
                    f"{x} = {y}.detach() * {z}",
                    f"{x} = {y}[:, :1] + {z}",
                ]
                + [
                    f"{x} = {x} * 0.5; {x} += {y}",
                    f"{x} = no_gradient({y})",
                    f"kept.append({y})",
                    f"{x} = {y}.T",
                ]
            )

    text = [
        "import fusegrad as fg",
        "def no_gradient(x):",
        "    with fg.no_grad():",
        "        return x * 0.5",
    ]
    text += ["def function(a, b, w):", "    kept = []", "    c, d = a + b, a * 0.5"]
    text += [f"    for _ in range({draw.randint(24, 50)}):", *(f"        {line}" for line in lines())]
    text += ["    total = (a * a).sum() + (b * c).sum() + (d * d * w).sum()", "    for x in kept[:3]:"]
    text += ["        total = total + x.sum()", "    return total", ""]
    source, name = "\n".join(text), f"<random loop with gradients {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return namespace["function"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_loops(first: int) -> None:
    found = 0
    for seed in range(first, first + 20):
        function, args = random_loop(seed), tensors(3, 4, 4)
        expected, jitted = derived(function, *args), fg.jit(fg.value_and_grad(function, (0, 1, 2)))
        for _ in range(2):
            value, gradients = jitted(*args)
            for ours, theirs in zip((value, *gradients), expected, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-8, atol=1e-10, err_msg=str(seed))
        found += bool(count_loops(jitted))
    assert found > 2, found


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that go back with what the wrong round was handed."""
    original = rolled.all_rounds

    def planted(
        round_: Any, tensors: Any, rounds: int, carried: int, rows: int, backwards: bool, keeps: bool = False
    ) -> Any:
        return original(round_, tensors, rounds, carried, rows, False, keeps)

    monkeypatch.setattr(rolled, "compiled_rounds", None)
    monkeypatch.setattr(rolled, "all_rounds", planted)
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    (state,) = tensors(1, 3, 4)
    right = derived(lambda s: lorenz(s, 40).sum(), state)
    wrong = capture(fg.value_and_grad(lambda s: lorenz(s, 40).sum()), (state,), puts_off=True)
    wrong.later.settle()
    assert not np.allclose(wrong.result[1].numpy(), right[1])
