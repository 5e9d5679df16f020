"""State in tuples, lists and dicts of loops that test values: one path for all numbers of rounds."""

from collections.abc import Callable

import numpy as np
import pytest

import fusegrad as fg

Loop = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]
ROUNDS = 40


def left_early(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state, steps = (h, h * 0.5), 0
    for t in range(ROUNDS):
        a, b = state
        a = fg.tanh(a * 0.9 + x[t])
        state = a, b * 0.95 + a * 0.1
        steps += 1
        if state[1].sum() > 100:
            break
    return state[0].sum() + state[1].sum() * steps


def until_it_is_small(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = h, h * 2
    while state[0].abs().max() > 1e-3:
        first, second = state
        state = first * 0.8, second * 0.99 + first
    return state[1].sum() + x.sum()


def with_a_number(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = h, 0
    while state[0].abs().max() > 1e-3:
        state = state[0] * 0.8, state[1] + 1
    return state[0].sum() * state[1] + x.sum()


def in_a_list(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    state = [h, h * 2]
    for t in range(ROUNDS):
        a, b = state
        state = [a * 0.9 + b * 0.1, b * 0.9 + x[t]]
        if a.sum() > 1e9:
            break
    return state[0].sum() + state[1].prod()


@pytest.mark.parametrize("function", [left_early, until_it_is_small, with_a_number, in_a_list])
@pytest.mark.parametrize("derived", [False, True])
def test_one_path_answers_for_other_data(function: Loop, derived: bool) -> None:
    called = fg.value_and_grad(function, (0, 1)) if derived else function
    jitted = fg.jit(called)
    for seed in range(4):
        draw = np.random.default_rng(seed)
        args = [fg.tensor(draw.standard_normal(shape) * (1 + seed)) for shape in ((ROUNDS, 3), (3,))]
        expected, found = called(*args), jitted(*args)
        pairs = [(expected, found)]
        if derived:
            pairs = [(expected[0], found[0]), *zip(expected[1], found[1], strict=True)]
        for theirs, ours in pairs:
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-9, 1e-12)
    assert jitted.stats.compiles == 1 and jitted.stats.compiled_calls >= 3


def test_a_branch_that_makes_another_list() -> None:
    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        state = [h, h * 2]
        for t in range(ROUNDS):
            a, b = state
            if a.sum() > 0:
                state = [a - b * 0.1, b + x[t]]
            else:
                state = [a + b * 0.1, b * 0.9 + x[t]]
        return state[0].sum() + state[1].prod()

    jitted = fg.jit(function)
    for seed in range(6):
        draw = np.random.default_rng(seed)
        args = [fg.tensor(draw.standard_normal(shape)) for shape in ((ROUNDS, 3), (3,))]
        np.testing.assert_allclose(jitted(*args).numpy(), function(*args).numpy(), 1e-9)
    assert jitted.stats.compiles < 6


def test_a_round_that_was_alike_only_behind_another_test_is_not_taken_for_others() -> None:
    """What a round does is known of those alone whose comparisons come out so, also of those before it."""

    def function(x: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(ROUNDS):
            if x[t].mean() > h.mean() and t == 1:
                h = h * 0.9
        return (h * h).sum()

    jitted = fg.jit(function)
    for seed in range(8):
        draw = np.random.default_rng(seed)
        args = [fg.tensor(draw.standard_normal(shape)) for shape in ((ROUNDS, 3), (3,))]
        np.testing.assert_allclose(jitted(*args).numpy(), function(*args).numpy(), 1e-9)
