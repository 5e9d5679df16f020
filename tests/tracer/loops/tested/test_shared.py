"""What variables hold one tensor in loops that test data, after some rounds and not after others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

ROUNDS = 60


def step(h: Any, row: Any) -> Any:
    return 0.9 * h + 0.3 * fg.sin(row * 2 + h)


def best_so_far(h: Any, x: Any) -> Any:
    best, kept = fg.tensor(-1e9, dtype=h.dtype), h
    for t in range(len(x)):
        h = step(h, x[t])
        score = h.sum()
        if score > best:
            best = score
            kept = h
    return kept, h, best


def least_number(h: Any, x: Any) -> Any:
    least, kept = 1e9, h * 1
    for row in x:
        h = step(h, row)
        loss = (h * h).sum().item()
        if loss < least:
            least, kept = loss, h
    return kept, h, least


def back_to_the_best(h: Any, x: Any) -> Any:
    best, kept = fg.tensor(1e9, dtype=h.dtype), h * 1
    for row in x:
        h = step(h, row)
        loss = (h * h).sum()
        if loss < best:
            best, kept = loss, h
        elif loss > best * 1.5:
            h = kept
    return kept, h, best


def best_two(h: Any, x: Any) -> Any:
    best = fg.tensor(1e9, dtype=h.dtype)
    second, a, b = best * 1, h * 1, h * 2
    for row in x:
        h = step(h, row)
        loss = (h * h).sum()
        if loss < best:
            second, b = best, a
            best, a = loss, h
        elif loss < second:
            second, b = loss, h
    return a, b, h, best, second


def the_one_before(h: Any, x: Any) -> Any:
    before, kept = h * 1, h * 2
    for row in x:
        new = step(h, row)
        if new.sum() > h.sum():
            before = h
        if new.mean() < 0.1:
            kept = before
        h = new
    return before, kept, h


def used_in_rounds(h: Any, x: Any) -> Any:
    kept = h * 1
    for row in x:
        h = step(h, row) + kept * 0.1
        if h.sum() > 0.7:
            kept = h
        elif h.sum() < -0.5:
            h = kept
    return kept, h


def asked_in_rounds(h: Any, x: Any) -> Any:
    kept, times = h * 1, 0
    for row in x:
        if kept is h:
            times += 1
        h = step(h, row)
        if h.sum() > 0.5:
            kept = h
    return kept, h, times


def written_behind(h: Any, x: Any) -> Any:
    kept, h, best = best_so_far(h, x)
    with fg.no_grad():
        kept.mul_(2)
    return kept, h * 1, best


LOOPS = [
    best_so_far, least_number, back_to_the_best, best_two, the_one_before, used_in_rounds, asked_in_rounds,
    written_behind,
]  # fmt: skip


def given(seed: int, derived: bool) -> list[fg.Tensor]:
    draw = np.random.default_rng(seed)
    tensors = [fg.from_numpy(draw.normal(size=3) * 0.5), fg.from_numpy(draw.normal(size=(ROUNDS, 3)))]
    return [t.requires_grad_(derived) for t in tensors]


def called(function: Callable[..., Any], seed: int, derived: bool) -> Any:
    """The results, which of them are one tensor, and the gradients."""
    args = given(seed, derived)
    results = function(*args)
    tensors = [r for r in results if isinstance(r, fg.Tensor)]
    if derived:
        fg.stack([(k + 2) * r.sum() for k, r in enumerate(tensors) if r.requires_grad]).sum().backward()
    same = [[a is b for a in tensors] for b in tensors]
    values = [t.detach().numpy().copy() if isinstance(t, fg.Tensor) else t for t in results]
    return same, values, [t.grad for t in args]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("function", LOOPS)
def test_variables_hold_one_tensor_where_they_do_in_eager(
    function: Callable[..., Any], derived: bool
) -> None:
    jitted, ends = fg.jit(function), set()
    for seed in (0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 4, 5):
        same, results, gradients = called(function, seed, derived)
        found = called(jitted, seed, derived)
        assert found[0] == same
        ends.add(str(same))
        for ours, theirs in zip(found[1], results, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)
        for mine, other in zip(found[2], gradients, strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-7, 1e-10)
    assert "rounds of a loop" in str(jitted.explain())
    assert jitted.stats.compiled_calls >= 5
    assert len(ends) > 1 or function not in (best_so_far, least_number, best_two)


def test_the_tensor_that_goes_on_is_the_one_that_was_given() -> None:
    """What no round has changed is the user's tensor, not a copy."""

    def kept(h: Any, x: Any) -> Any:
        best = fg.tensor(1e9, dtype=h.dtype)
        last = h
        for row in x:
            new = step(last, row)
            loss = (new * new).sum()
            if loss < best - 1e6:
                best, last = loss, h
            else:
                last = new
        return h, last, best

    jitted = fg.jit(kept)
    for seed in (0, 1, 0, 1):
        args = given(seed, False)
        assert jitted(*args)[0] is args[0]


def test_few_rounds_are_recorded() -> None:
    jitted = fg.jit(best_so_far)
    h, x = given(0, False)
    jitted(h, x)
    told = str(jitted.explain())
    assert told.count("rounds of a loop") <= 2  # `kept` is a parameter at first
    assert told.count("forward ") < 10


def test_two_variables_hold_one_number() -> None:
    """Also in the call that finds out that somebody asks for that, which is left to eager from then on."""

    def best_and_last(h: Any, x: Any) -> Any:
        best = last = 1e9
        for row in x:
            h = step(h, row)
            loss = (h * h).sum().item()
            if loss < best:
                best = last = loss
        return h * (2 if best is last else 3)

    jitted = fg.jit(best_and_last)
    for seed in (0, 1, 2, 0):
        np.testing.assert_allclose(
            jitted(*given(seed, False)).numpy(), best_and_last(*given(seed, False)).numpy()
        )
