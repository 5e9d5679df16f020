"""`x[i]` where `i` is a tensor without dimensions: replays go by what it holds then, and share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

Make = Callable[[np.random.Generator], fg.Tensor]


def numbers(*shape: int) -> Make:
    return lambda draw: fg.tensor(draw.standard_normal(shape))


def places(count: int, *shape: int) -> Make:
    return lambda draw: fg.tensor(draw.integers(0, count, shape))


def check(function: Callable[..., Any], makes: tuple[Make, ...], calls: int = 5) -> Any:
    """The jitted function: with other numbers each time, it gives what eager does, and writes the same."""
    jitted = fg.jit(function)
    for seed in range(calls):
        ours, theirs = ([make(np.random.default_rng(seed)) for make in makes] for _ in range(2))
        found, expected = jitted(*ours), function(*theirs)
        both = zip(_tensors(found) + ours, _tensors(expected) + theirs, strict=True)
        for a, b in both:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)
    return jitted


def _tensors(result: Any) -> list[fg.Tensor]:
    return [*result] if isinstance(result, tuple) else [result]


READS: dict[str, tuple[Callable[..., Any], tuple[Make, ...]]] = {
    "a row": (lambda x, i: x[i] * 2, (numbers(5, 3), places(5))),
    "a column": (lambda x, i: x[:, i].exp(), (numbers(5, 3), places(3))),
    "an element": (lambda x, i, j: x[i, j] + x[j, 1], (numbers(5, 5), places(5), places(5))),
    "among others": (lambda x, i: x[..., None, 1:, i, 0].sum(0), (numbers(2, 3, 4, 2), places(4))),
    "from the end": (lambda x, i: x[i - 5] + x[-i], (numbers(5, 3), places(5))),
    "int32": (lambda x, i: x[i.int()] * 2, (numbers(5, 3), places(5))),
    "of what was computed": (lambda x: x[x.sum(1).argmax()] + 1, (numbers(7, 3),)),
    "of what waits": (lambda x: (x * 2)[(x * 2).sum(1).argmax()] + 1, (numbers(600, 600),)),
    "one by another": (lambda x, i: x[i[i[i[0]]]] * 3, (numbers(5, 3), places(5, 5))),
}


@pytest.mark.parametrize("name", READS)
def test_other_places_are_not_other_paths(name: str) -> None:
    jitted = check(*READS[name])
    assert jitted.stats.compiles == 1 and jitted.stats.guard_failures == 0, jitted.explain()
    assert jitted.stats.compiled_calls >= 4


def test_gradients_go_to_the_place_that_is_read_then() -> None:
    def within(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
        x = x.detach().requires_grad_()
        (found,) = fg.autograd.grad((x[i] ** 2).sum() + x[1, i] ** 3, x)
        return found

    def counted(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
        """What counts the place up does not touch what backward needs of it."""
        x = x.detach().requires_grad_()
        place, total = i.clone(), x.sum() * 0
        for _ in range(3):
            total = total + (x[place] ** 2).sum()
            place += 1
        (found,) = fg.autograd.grad(total, x)
        return found

    assert check(within, (numbers(5, 5), places(5))).stats.compiles == 1
    assert check(counted, (numbers(9, 5), places(5))).stats.compiles == 1
    second = fg.value_and_grad(lambda x, i: (fg.grad(lambda y: (y[i] ** 3).sum())(x) ** 2).sum())
    jitted = fg.jit(second)
    for seed in range(4):
        draw = np.random.default_rng(seed)
        x, i = numbers(5, 3)(draw), places(5)(draw)
        for a, b in zip(jitted(x, i), second(x, i), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_what_is_no_place_is_refused_as_eager_does() -> None:
    jitted = fg.jit(lambda x, i: x[i] * 2)
    x = fg.ones(5, 3)
    for good in (1, 4, -5):
        assert jitted(x, fg.tensor(good)).tolist() == [2, 2, 2]
    for bad in (5, -6):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 5"):
            jitted(x, fg.tensor(bad))


def write_what_it_is_a_part_of(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    y = x.clone()
    row = y[i]
    y += 1
    return row * 2


def write_the_part(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    y = x.clone()
    row = y[i]
    row += 1
    return y * 2


def write_the_argument(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    x[i].zero_()
    return x.sum()


def write_in_place(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    y = x.clone()
    y[i] += 5
    return y


def write_on_the_graph(x: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    leaf = x.clone().requires_grad_()
    y = leaf * 2
    row = y[i]
    row *= 3
    (found,) = fg.autograd.grad((y * y).sum() + row.sum(), leaf)
    return found


def write_what_waits(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    y = fg.cat([x, x]).repeat(100, 200) * 2
    row = y[y.sum(1).argmax()]
    y[0] = 7.0
    row += 1
    return row + 1, y


WRITES = [write_what_it_is_a_part_of, write_the_part, write_the_argument, write_in_place, write_on_the_graph]


@pytest.mark.parametrize("function", WRITES)
def test_who_writes_one_writes_the_other(function: Callable[..., Any]) -> None:
    check(function, (numbers(5, 3), places(5)))
    jitted = fg.jit(function)
    for _ in range(4):  # by the number
        jitted(fg.ones(5, 3), fg.tensor(2))
    assert jitted.stats.compiled_calls >= 2, jitted.explain()


def test_who_writes_what_waits_writes_the_other() -> None:
    check(write_what_waits, (numbers(3, 5),))


def test_results_share_memory_as_eager_has_them() -> None:
    jitted = fg.jit(lambda x, i: x[i])
    for place in range(3):
        x = fg.zeros(5, 3)
        jitted(x, fg.tensor(place)).add_(1)
        assert x.sum().item() == 3 and x[place].sum().item() == 3
