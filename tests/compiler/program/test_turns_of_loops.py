"""Some rounds of a Python loop are divided into groups, and the others have the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fuse import turns
from fusegrad.compiler.fuse.fusion import Fusion

Loop = Callable[..., Any]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many equations each stretch has that is divided; turns may be short."""
    counts: list[int] = []
    divided = Fusion._divided

    def counting(self: Fusion, numbers: range) -> Any:
        counts.append(len(numbers))
        return divided(self, numbers)

    monkeypatch.setattr(Fusion, "_divided", counting)
    monkeypatch.setattr(turns, "SMALLEST_TURN", 8)
    return counts


def compiled(function: Loop, *args: Any) -> Any:
    """The jitted function, which gives eager's values."""
    jitted = fg.jit(function)
    for _ in range(3):
        expected, found = function(*args), jitted(*args)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6, atol=1e-6)
    assert jitted.stats.compiled_calls >= 2, str(jitted.explain())
    return jitted


def kernels(jitted: Any) -> Counter[str]:
    """The texts of its kernels, and how often each runs."""
    return Counter(bound.kernel.text for bound in jitted.kernels().forward)


def wave(count: int) -> Loop:
    """Steps of the wave equation, which write slices in place."""

    def simulate(start: fg.Tensor) -> list[fg.Tensor]:
        now, before = start.clone(), start.clone()
        for _ in range(count):
            inner = now[1:-1]
            before[1:-1] = 2 * inner - before[1:-1] + 0.25 * (now[2:] + now[:-2] - 2 * inner)
            now, before = before, now
        return [now, before]

    return simulate


def test_a_loop_is_planned_by_some_of_its_rounds(planned: list[int]):
    short, long = compiled(wave(30), fg.randn(40)), compiled(wave(90), fg.randn(40))
    assert len(planned) == 6  # before, one turn, behind
    assert sum(planned[3:]) <= sum(planned[:3]) + 2 * turns.SMALLEST_TURN
    assert sum(kernels(long).values()) == 90
    assert kernels(long).keys() == kernels(short).keys()


def test_kernels_and_memory_are_those_of_planning_all_rounds(
    planned: list[int], monkeypatch: pytest.MonkeyPatch
):
    x = fg.randn(40)
    turned = compiled(wave(50), x)
    monkeypatch.setattr(turns, "SMALLEST_TURN", 1 << 30)
    whole = compiled(wave(50), x)
    assert len(planned) == 4
    assert kernels(turned) == kernels(whole)
    assert turned.memory_bytes() == whole.memory_bytes()


def test_a_kernel_has_several_rounds(planned: list[int], monkeypatch: pytest.MonkeyPatch):
    def settle(x: fg.Tensor) -> list[fg.Tensor]:
        for _ in range(150):
            x = x - 0.1 * fg.sin(x)
        return [x]

    monkeypatch.setattr(turns, "SMALLEST_TURN", 100)
    loop = compiled(settle, fg.randn(40))
    assert len(planned) == 3 and sum(planned) < 300
    assert sum(kernels(loop).values()) <= 6


def test_turns_that_would_keep_large_values_are_soon_given_up(monkeypatch: pytest.MonkeyPatch):
    looked: list[bool] = []
    is_kept = Fusion._is_kept_in_vain

    def noted(self: Fusion, found: turns.Turns) -> bool:
        looked.append(is_kept(self, found))
        return looked[-1]

    monkeypatch.setattr(Fusion, "_is_kept_in_vain", noted)

    def settle(x: fg.Tensor) -> fg.Tensor:
        for _ in range(60):
            a, b = x * x, x + 1
            x = x + 0.1 * (a * b - x) * a + 0.01 * b
        return (x * x).sum()

    # Of large tensors backward makes again what is cheap, and no round keeps all of that.
    fg.jit(fg.value_and_grad(settle))(fg.rand(10_000))
    assert 0 < len(looked) <= 6 and all(looked)
    looked.clear()
    fg.jit(fg.value_and_grad(settle))(fg.rand(100))
    assert looked and not any(looked)


def test_gradients_of_a_loop_keep_no_more_than_without_turns(
    planned: list[int], monkeypatch: pytest.MonkeyPatch
):
    def energy(start: fg.Tensor, speed: fg.Tensor) -> fg.Tensor:
        now, before = start, start
        for _ in range(60):
            inner = now[1:-1]
            # Backward needs the bracket, and makes it again.
            after = 2 * inner - before[1:-1] + speed * (now[2:] + now[:-2] - 2 * inner)
            now, before = fg.nn.functional.pad(after, (1, 1)), now
        return (now * now).sum()

    def derived(start: fg.Tensor, speed: fg.Tensor) -> list[fg.Tensor]:
        value, gradients = fg.value_and_grad(energy, (0, 1))(start, speed)
        return [value, *gradients]

    x = fg.rand(1000, dtype=fg.float64), fg.tensor(0.2, dtype=fg.float64)
    monkeypatch.setattr(turns, "SMALLEST_TURN", 100)
    turned = compiled(derived, *x)
    monkeypatch.setattr(turns, "SMALLEST_TURN", 1 << 30)
    whole = compiled(derived, *x)
    assert sum(kernels(turned).values()) <= 1.05 * sum(kernels(whole).values())
    assert turned.memory_bytes() <= 1.05 * whole.memory_bytes()


def every_state(x: fg.Tensor) -> list[fg.Tensor]:
    states = [x]
    for _ in range(40):
        states.append(fg.tanh(states[-1].flip(0)) + 0.5 * x.cumsum(0))
    return [fg.stack(states), states[7], states[-1]]


def last_row_of_a_matrix(x: fg.Tensor) -> list[fg.Tensor]:
    rows = x.reshape(4, 10)
    for _ in range(40):
        rows = fg.cat([rows[1:], (rows[:1] * 0.5 + rows[-1:]).sin()])
    return [rows.T]


def other_from_some_turn_on(x: fg.Tensor) -> list[fg.Tensor]:
    total = x * 0
    for turn in range(60):
        x = (x * (0.5 if turn < 31 else 0.25)).cos()
        total = total + x.sum() * x
    return [x, total]


def counted(x: fg.Tensor) -> list[fg.Tensor]:
    for turn in range(40):
        x = fg.where(x > turn / 40, x * 0.5, x + fg.arange(len(x)) * 0.01)
    return [x]


def indexed(x: fg.Tensor) -> list[fg.Tensor]:
    place = (x.abs() * 10).long() % len(x)
    for _ in range(40):
        x = x[place] * 0.5 + 0.1
        place = place[place]
    return [x, place]


@pytest.mark.parametrize(
    "function", [every_state, last_row_of_a_matrix, other_from_some_turn_on, counted, indexed]
)
def test_loops_have_eagers_values(function: Loop, planned: list[int]):
    compiled(function, fg.randn(40, dtype=fg.float64))


def test_an_index_out_of_range_in_any_round_is_found(planned: list[int]):
    def walk(x: fg.Tensor, places: fg.Tensor) -> list[fg.Tensor]:
        total = x[places]
        for _ in range(60):
            places = places + 1
            total = total * 0.5 + x[places]
        return [total]

    jitted = compiled(walk, fg.randn(63), fg.tensor([0, 1, 2]))
    assert len(planned) > 1
    for first in (-70, 1, 30):
        with pytest.raises(IndexError):
            jitted(fg.randn(63), fg.tensor([0, first, 2]) + 1)


@pytest.mark.parametrize("rounds", [30, 41])
def test_a_gradient_that_is_what_came_in_goes_through(rounds: int, planned: list[int]):
    """What is added last has the gradient of the result, which no round computes."""

    def walk(a: fg.Tensor, added: list[fg.Tensor]) -> fg.Tensor:
        h = added[0]
        for t in range(rounds):
            h = fg.logsumexp(h[:, None] + a, 0) + added[t]
        return h

    jitted, g = fg.jit(walk), fg.arange(5, dtype=fg.float64)
    start = fg.randn(5, 5, dtype=fg.float64)
    added = [fg.randn(5, dtype=fg.float64, requires_grad=True) for _ in range(rounds)]
    expected = fg.autograd.grad(walk(start, added), added, g)
    for _ in range(4):
        found = fg.autograd.grad(jitted(start, added), added, g)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9)
    assert len(planned) > 2 and jitted.stats.compiled_calls >= 3


def test_rounds_with_products_are_planned_by_some_of_them(
    planned: list[int], monkeypatch: pytest.MonkeyPatch
):
    def powers(x: fg.Tensor) -> list[fg.Tensor]:
        y = x
        for _ in range(40):
            y = fg.tanh(y @ x)
        return [y]

    x = fg.randn(8, 8, dtype=fg.float64) * 0.1
    turned = compiled(powers, x)
    assert len(planned) == 3 and max(planned) < 80
    monkeypatch.setattr(turns, "SMALLEST_TURN", 1 << 30)
    assert kernels(turned) == kernels(compiled(powers, x))


def test_products_of_all_rounds_are_gathered_before_rounds_are_looked_for(planned: list[int]):
    def layers(rows: fg.Tensor, weights: fg.Tensor) -> list[fg.Tensor]:
        state = rows[0] * 0
        for row in rows:
            state = fg.tanh(row @ weights + state)
        return [state]

    jitted = compiled(layers, fg.randn(40, 3, 6, dtype=fg.float64), fg.randn(6, 6, dtype=fg.float64) * 0.3)
    assert len(planned) > 1
    (segment,) = jitted.segments()
    assert sum(step.kind == "product" for step in segment.code.program.steps) == 1


# Loops over parts of tensors. Each gives what it is called with besides.


def rows(x: fg.Tensor) -> list[fg.Tensor]:
    state = x[0]
    for row in x:
        state = fg.sin(state * row) + 0.1
    return [state]


def rows_from_the_end(x: fg.Tensor) -> list[fg.Tensor]:
    state = x[0]
    for turn in range(len(x)):
        state = fg.sin(state * x[-1 - turn]) + x[turn]
    return [state]


def pairs_of_rows(x: fg.Tensor) -> list[fg.Tensor]:
    state = x[:2]
    for turn in range(len(x) // 2):
        state = fg.cos(state * x[2 * turn : 2 * turn + 2])
    return [state]


def columns(x: fg.Tensor) -> list[fg.Tensor]:
    state = x[:, 0]
    for column in range(5):
        for _ in range(10):
            state = fg.sin(state * x[:, column])
    return [state]


def rows_of_what_was_made(x: fg.Tensor) -> list[fg.Tensor]:
    made = (x @ x.T).softmax(0)
    state = made[0]
    for row in made:
        state = fg.tanh(state + row)
    return [state, made]


def rows_that_stay(x: fg.Tensor) -> list[fg.Tensor]:
    state, kept = x[0], []
    for row in x:
        state = fg.tanh(state + row)
        kept.append(row)
    return [state, kept[7] * 1, fg.stack(kept[3:9])]


def elements(x: fg.Tensor) -> list[fg.Tensor]:
    state = x[0]
    for turn in range(len(x)):
        state = fg.sin(state * x[turn, 2] + x[turn])
    return [state]


LOOPS_OVER_PARTS = [
    rows,
    rows_from_the_end,
    pairs_of_rows,
    columns,
    rows_of_what_was_made,
    rows_that_stay,
    elements,
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("function", LOOPS_OVER_PARTS)
def test_loops_over_parts_have_eagers_values(function: Loop, transposed: bool, planned: list[int]):
    x = fg.randn(5, 60, dtype=fg.float64).T if transposed else fg.randn(60, 5, dtype=fg.float64)
    compiled(function, x)


@pytest.mark.parametrize("function", LOOPS_OVER_PARTS)
def test_loops_over_parts_have_eagers_gradients(function: Loop, planned: list[int]):
    def derived(x: fg.Tensor) -> list[fg.Tensor]:
        value, gradient = fg.value_and_grad(lambda x: sum((y * y).sum() for y in function(x)))(x)
        return [value, gradient]

    compiled(derived, fg.randn(60, 5, dtype=fg.float64))


@pytest.mark.parametrize("function", [rows, rows_from_the_end, pairs_of_rows, rows_of_what_was_made])
def test_a_loop_over_parts_is_planned_by_some_of_its_rounds(function: Loop, planned: list[int]):
    compiled(function, fg.randn(120, 5, dtype=fg.float64))
    assert len(planned) >= 3 and sum(planned) < 120


def test_recurrent_networks_are_planned_by_some_of_their_steps(planned: list[int]):
    def network(steps: fg.Tensor, weights: fg.Tensor, bias: fg.Tensor) -> list[fg.Tensor]:
        h = c = bias[:4] * 0
        for step in steps:
            i, f, g, o = (fg.cat([step, h]) @ weights + bias).chunk(4)
            c = fg.sigmoid(f) * c + fg.sigmoid(i) * fg.tanh(g)
            h = fg.sigmoid(o) * fg.tanh(c)
        return [h]

    def derived(*given: fg.Tensor) -> list[fg.Tensor]:
        value, gradients = fg.value_and_grad(lambda *given: network(*given)[0].sum(), (0, 1, 2))(*given)
        return [value, *gradients]

    given = [fg.randn(*shape, dtype=fg.float64) * 0.5 for shape in ((60, 3), (7, 16), (16,))]
    compiled(network, *given)
    assert len(planned) >= 3 and sum(planned) < 60 * 10
    compiled(derived, *given)
