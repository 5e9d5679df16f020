"""Random numbers that replayed calls draw."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg

pytestmark = pytest.mark.usefixtures("answered")


def test_draws_are_eagers_and_leave_the_generator_as_eager_does():
    def f(x: Any) -> Any:
        noise = fg.randn(4)
        if (x + noise).sum() > 0:
            return x * fg.rand(4) + noise
        fg.randint(0, 10, (3,))  # nobody looks at it, but the stream moves on
        return x - noise + fg.bernoulli(fg.full((4,), 0.5))

    def run(function: Any) -> Any:
        fg.manual_seed(3)
        results = [function(fg.full((4,), float(i % 5 - 2))).tolist() for i in range(40)]
        return results, fg.get_rng_state().tolist()

    for function in (f, lambda x: fg.nn.functional.dropout(x, 0.3) * fg.randperm(4)):
        jitted = fg.jit(function)
        assert run(jitted) == run(function)
    assert jitted.stats.compiled_calls == 39


@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 1)])
@pytest.mark.parametrize("count, replacement", [(1, False), (1, True), (3, True), (4, False)])
def test_a_multinomial_draw_from_what_was_computed(shape: Any, count: int, replacement: bool):
    count = min(count, shape[-1]) if not replacement else count

    def f(x: Any) -> Any:
        weights = fg.softmax(x * 2, -1)
        chosen = fg.multinomial(weights, count, replacement)
        return chosen, weights.gather(-1, chosen), fg.rand(2)

    def run(function: Any) -> Any:
        fg.manual_seed(3)
        batches = [
            fg.arange(float(x.numel())).sin().reshape(shape) * i for i, x in enumerate([fg.ones(shape)] * 30)
        ]
        results = [function(batch) for batch in batches]
        return [r[0].tolist() for r in results], [r[1:] for r in results], fg.get_rng_state().tolist()

    jitted = fg.jit(f)
    (chosen, others, state), (theirs, expected, their_state) = run(jitted), run(f)
    assert chosen == theirs and state == their_state
    for ours, eagers in zip(others, expected, strict=True):
        assert [t.tolist() for t in ours][1] == [t.tolist() for t in eagers][1]
    assert jitted.stats.compiled_calls == 29, jitted.explain()


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, 0.0]])
def test_weights_that_are_not_fit_are_refused_by_a_replay_too(weights: list[float]):
    jitted = fg.jit(lambda x: fg.multinomial(x * 2, 2))
    for _ in range(4):
        jitted(fg.tensor([1.0, 3.0]))
    with pytest.raises(RuntimeError, match=r"probability tensor|sum of probabilities|without replacement"):
        jitted(fg.tensor(weights))
    assert sorted(jitted(fg.tensor([1.0, 3.0])).tolist()) == [0, 1]


def test_a_guard_that_fails_takes_back_what_was_drawn():
    scale = [1.0]

    def f(x: Any) -> Any:
        return x * fg.rand(3) * scale[0]

    jitted = fg.jit(f)
    for function in (f, jitted):
        scale[0] = 1.0
        fg.manual_seed(0)
        results = [function(fg.ones(3))]
        for value in (1.0, 2.0, 2.0, 1.0):
            scale[0] = value
            results.append(function(fg.ones(3)))
        results.append(fg.rand(2))
        if function is f:
            expected = results
    assert [r.tolist() for r in results] == [r.tolist() for r in expected]
    assert jitted.stats.guard_failures == 1 and jitted.stats.compiled_calls == 3


def test_gradients_of_dropout_meet_the_same_mask():
    dropout = fg.nn.Dropout(0.5)
    jitted = fg.jit(lambda x: dropout(x) ** 2)
    for seed in range(6):
        found = []
        for function in (jitted, jitted.__wrapped__):
            fg.manual_seed(seed)
            x = fg.full((20,), 3.0, requires_grad=True)
            y = function(x)
            (g,) = fg.autograd.grad(y.sum(), x, create_graph=seed % 2 == 0)
            found.append([y.tolist(), g.tolist()])
        assert found[0] == found[1]
    assert jitted.stats.compiled_calls == 5
