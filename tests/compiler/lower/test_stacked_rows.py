"""Stacks that are computed row by row where rows are looked up: the same values, in fewer kernels."""

from __future__ import annotations

import random
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.lower import stacked_rows
from fusegrad.compiler.lower.stacked_rows import with_rows_apart
from fusegrad.compiler.paths import path
from fusegrad.compiler.program import program
from fusegrad.tracer.ir.graph import Graph, check


def lorenz(state: Any, dim: int = 0, steps: int = 6) -> Any:
    """Some steps of Euler's method for Lorenz's system, whose three numbers lie along `dim`."""
    for _ in range(steps):
        x, y, z = state.unbind(dim)
        slope = fg.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6 * z], dim)
        state = state + 0.01 * slope
    return state


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Graph, Graph]]:
    """What paths and programs were made of, before and after rows were taken apart; each is checked."""
    found: list[tuple[Graph, Graph]] = []

    def taken_apart(graph: Graph) -> Graph:
        apart = with_rows_apart(graph)
        found.append((graph, check(apart)))
        return apart

    for module in (path, program):
        monkeypatch.setattr(module, "with_rows_apart", taken_apart)
    return found


def agree(function: Any, *arguments: fg.Tensor) -> Any:
    """The jitted function, after some calls with gradients that were eager's."""
    jitted = fg.jit(function)
    for _ in range(3):
        found = []
        for call in (function, jitted):
            leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in arguments]
            result = call(*leaves)
            (result * result).sum().backward()
            found.append([result.detach(), *(x.grad for x in leaves if x.grad is not None)])
        fg.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls == 2
    return jitted


def names(graph: Graph) -> list[str]:
    return [e.op.name for e in graph.equations]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_steps_of_a_small_system_share_a_kernel(dim: int, graphs: list[tuple[Graph, Graph]]) -> None:
    shape = [50, 7]
    shape.insert(dim if dim >= 0 else 2, 3)
    jitted = agree(lambda s: lorenz(s, dim), fg.randn(*shape, dtype=fg.float64))
    assert len(jitted.kernels().forward) <= 2
    before, after = graphs[0]
    assert names(before).count("cat") == 6 and names(after).count("cat") == 2  # the result, and its gradient


def moved(x: Any, y: Any) -> Any:
    """Rows of a stack and a whole that something else reads."""
    for _ in range(4):
        s = fg.stack([x.sin(), y])
        t = s * 2.0 + s.mean()
        x, y = t[0], t[1] * 0.5
    return fg.stack([x, y])


def with_zeros(x: Any) -> Any:
    """What gradients of rows are: a row among zeros."""
    for _ in range(3):
        a = fg.zeros_like(x)
        a[1] = x[0] * 2
        x = fg.stack([a[0] + x[1], a[1]]) * 0.5
    return x


def beside_others(x: Any, w: Any) -> Any:
    """Operands that are no stacks: of all rows, of one for each, of one for all."""
    for _ in range(3):
        s = fg.stack([x[0] + 1, x[1] * x[0]])
        x = fg.where(s > 0.1, s * w, s + w[:, :1]) - w[0]
    return x


def parts_of_rows(x: Any) -> Any:
    for _ in range(3):
        s = fg.stack([x[0], x[1], x[0] + x[1]]) * 0.5
        x = fg.stack([s[0, 1:], s[2, :-1]]) + s[1, :1]
    return x


def in_both_directions(x: Any) -> Any:
    """Stacks along one dimension of stacks along another."""
    for _ in range(3):
        rows = fg.stack([x[0] * 0.5, x[1] + 0.1])
        columns = fg.stack([rows[:, 0], rows[:, 1]], 1)
        x = rows + columns.sin().sum(1, keepdim=True)
    return x


def in_other_dtypes(x: Any) -> Any:
    for _ in range(3):
        s = fg.stack([x[0] > x[1], x[0] < 0.5])
        x = fg.stack([x[1], x[0]]) * s.to(x.dtype) + 0.25
    return x


@pytest.mark.parametrize(
    "function", [moved, with_zeros, beside_others, parts_of_rows, in_both_directions, in_other_dtypes]
)
def test_values_and_gradients_are_eagers(function: Any, graphs: list[tuple[Graph, Graph]]) -> None:
    fg.manual_seed(0)
    x = fg.randn(2, 9)
    given = [x[0], x[1]] if function is moved else [x, fg.randn(2, 9)]
    agree(function, *given[: function.__code__.co_argcount])
    assert any(before is not after for before, after in graphs)


def never_looked_up(x: Any) -> Any:
    return (fg.stack([x[0], x[1]]) * 2).sum(1)


def in_many_rows(x: Any) -> Any:
    s = fg.stack([x[0] + n for n in range(stacked_rows.MOST_ROWS + 1)]) * 2
    return s[0] + s[1]


def needed_as_a_whole(x: Any) -> Any:
    for _ in range(3):
        s = fg.stack([x[0], x[1]])
        x = (s @ s.T) @ x + (s * 2).cumsum(1) + (s * 3).flip(0).roll(1) + s[0]
    return x


def in_complex_numbers(x: Any) -> Any:
    z = fg.complex(x, x)
    s = fg.stack([z[0], z[1]]) * 2
    return (s[0] * s[1]).real


@pytest.mark.parametrize("function", [never_looked_up, in_many_rows, needed_as_a_whole, in_complex_numbers])
def test_other_stacks_stay_as_they_are(function: Any, graphs: list[tuple[Graph, Graph]]) -> None:
    fg.manual_seed(0)
    jitted = fg.jit(function)
    x = fg.randn(2, 9)
    for _ in range(2):
        fg.testing.assert_close(jitted(x), function(x))
    assert graphs and all(before is after for before, after in graphs)


def drawn(seed: int) -> Any:
    """A function of a small system, put together at random."""
    choose = random.Random(seed)
    rows, dim, steps = choose.randint(2, 4), choose.choice([0, 1, -1]), choose.randint(2, 4)
    plan: list[Any] = []
    for _ in range(choose.randint(2, 5)):
        kind = choose.choice(["stack", "stack", "scale", "add", "whole", "where", "part"])
        plan.append((kind, [choose.randrange(rows) for _ in range(rows)], choose.random() + 0.25))

    def function(state: Any, other: Any) -> Any:
        for _ in range(steps):
            kept = state
            for kind, order, number in plan:
                at = [state.select(dim, i) for i in order]
                if kind == "stack":
                    state = fg.stack([(a * number).tanh() for a in at], dim)
                elif kind == "scale":
                    state = state * number - kept
                elif kind == "add":
                    state = state + other * number
                elif kind == "whole":
                    state = state * 0.5 + state.mean(dim, keepdim=True)
                elif kind == "where":
                    state = fg.where(state > at[0].mean(), state, kept * number)
                else:
                    state = fg.stack([a + at[0].flip(0) for a in at], dim)
        return state

    shape = [5, 3]
    shape.insert(dim if dim >= 0 else 2, rows)
    return function, shape


def check_drawn(seed: int) -> None:
    """One drawn function against eager."""
    fg.manual_seed(seed)
    function, shape = drawn(seed)
    agree(function, fg.randn(*shape, dtype=fg.float64), fg.randn(*shape, dtype=fg.float64))


@pytest.mark.parametrize("seed", range(24))
def test_drawn_systems_agree(seed: int, graphs: list[tuple[Graph, Graph]]) -> None:
    check_drawn(seed)


def test_a_row_looked_up_in_the_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    number = stacked_rows._number
    monkeypatch.setattr(stacked_rows, "_number", lambda entry: 0 if number(entry) == 1 else number(entry))
    with pytest.raises(AssertionError):
        for seed in range(24):
            check_drawn(seed)
