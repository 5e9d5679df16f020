"""`cond`, `while_loop` and `scan` are the plain Python that they stand for, in eager and under jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg


def same(one: Any, other: Any) -> None:
    """Equal structures of equal tensors."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), list(other.values())
    if isinstance(one, (tuple, list)):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, fg.Tensor):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-12)
    else:
        assert one == other


def replayed(function: Callable[..., Any], *args: Any) -> Any:
    """What the jitted function gives at the third call, which is eager's result and replayed."""
    jitted = fg.jit(function)
    for _ in range(3):
        found = jitted(*args)
    same(found, function(*args))
    assert jitted.stats.compiled_calls == 2, str(jitted.explain())
    return found


def rows() -> fg.Tensor:
    return fg.randn(40, 5, dtype=fg.float64)


def decay(carry: fg.Tensor, row: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    carry = fg.tanh(carry * 0.5 + row)
    return carry, carry * row


def by_hand(init: fg.Tensor, xs: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    kept = []
    for row in xs:
        init, y = decay(init, row)
        kept.append(y)
    return init, fg.stack(kept)


def test_scan_is_the_loop_written_by_hand() -> None:
    xs, init = rows(), fg.zeros(5, dtype=fg.float64)
    expected = by_hand(init, xs)
    same(fg.scan(decay, init, xs), expected)
    same(replayed(lambda xs: fg.scan(decay, fg.zeros(5, dtype=fg.float64), xs), xs), expected)


def test_scan_has_the_gradients_of_the_loop() -> None:
    def loss(xs: fg.Tensor) -> fg.Tensor:
        carry, ys = fg.scan(decay, fg.zeros(5, dtype=fg.float64), xs)
        return carry.sum() + (ys * ys).sum()

    def plain(xs: fg.Tensor) -> fg.Tensor:
        carry, ys = by_hand(fg.zeros(5, dtype=fg.float64), xs)
        return carry.sum() + (ys * ys).sum()

    xs = rows()
    same(replayed(fg.value_and_grad(loss), xs), fg.value_and_grad(plain)(xs))


def test_scan_takes_and_gives_structures() -> None:
    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        a, b = a + x["left"], b * x["both"][0] + x["both"][1]
        return (a, b), {"sum": a + b, "parts": [a, (b,)]}

    xs = {"left": rows(), "both": (rows(), rows())}
    zero = fg.zeros(5, dtype=fg.float64)
    (a, b), ys = fg.scan(step, (zero, zero), xs)
    assert ys["sum"].shape == (40, 5) and type(ys["parts"][1]) is tuple
    same(ys["sum"][-1], a + b)
    same(ys["parts"][0][3], xs["left"][:4].sum(0))
    replayed(
        lambda left, right: fg.scan(step, (zero, zero), {"left": left, "both": (left, right)}), rows(), rows()
    )


def test_scan_from_the_end_along_a_dimension_and_without_rows() -> None:
    xs = rows()
    total = fg.zeros(5, dtype=fg.float64)
    add = lambda carry, x: (carry + x, carry)  # noqa: E731
    _, before = fg.scan(add, total, xs, reverse=True)
    same(before[-1], total)
    same(before[0], xs[1:].flip(0).sum(0))
    carry, ys = fg.scan(add, total, xs.T, dim=1)
    assert ys.shape == (5, 40)
    same(carry, xs.sum(0))
    carry, nothing = fg.scan(lambda carry, x: (carry * 2, x), fg.tensor(1.0), length=5)
    assert carry.item() == 32.0 and nothing is None


@pytest.mark.parametrize(
    ("xs", "length"), [((fg.ones(3), fg.ones(4)), None), (fg.ones(3), 4), (None, None), (fg.ones(0), None)]
)
def test_scan_refuses_lengths_that_differ_and_no_rows(xs: Any, length: Any) -> None:
    with pytest.raises(ValueError, match="scan: "):
        fg.scan(lambda carry, x: (carry, None), fg.tensor(0.0), xs, length)


def test_cond_takes_the_branch_that_eager_takes() -> None:
    def step(x: fg.Tensor) -> fg.Tensor:
        return fg.cond(x.sum() > 0, lambda x: fg.sin(x), lambda x: x * x, (x,))

    jitted = fg.jit(step)
    for sign in (1, -1, 1, -1, 1, -1):
        x = fg.rand(4, dtype=fg.float64) * sign
        same(jitted(x), fg.sin(x) if sign > 0 else x * x)
    assert jitted.stats.compiled_calls == 4, str(jitted.explain())
    assert fg.cond(True, lambda: 1, lambda: 2) == 1


def test_while_loop_stops_where_values_say() -> None:
    def halve(x: fg.Tensor) -> Any:
        return fg.while_loop(lambda n, x: x.sum() > 1, lambda n, x: (n + 1, x * 0.5), (0, x))

    for size in (3.0, 20.0):
        n, x = halve(fg.full((4,), size))
        assert x.sum() <= 1 < 2 * x.sum() and n == int(np.ceil(np.log2(4 * size)))
    jitted = fg.jit(halve)
    for size in (3.0, 3.0, 20.0, 20.0):
        same(jitted(fg.full((4,), size)), halve(fg.full((4,), size)))
    assert fg.while_loop(lambda x: x < 100, lambda x: x * x, fg.tensor(3.0)).item() == 6561
    (x,) = fg.while_loop(lambda x: x < 8, lambda x: x + x, [fg.tensor(1.0)])
    assert x.item() == 8
