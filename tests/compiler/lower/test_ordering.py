"""Order in short rows and tables: no step is NumPy's, and the values and indices are eager's, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.lower import ordering

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0, 2.0, -3.0, np.nan, 0.0, -0.0, np.inf, -np.inf]


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> fg.Tensor:
    """Numbers of which many are equal, and some are none."""
    draw = np.random.default_rng(seed)
    if dtype.startswith("int"):
        return fg.tensor(draw.integers(-4, 4, shape).astype(dtype))
    values = draw.normal(size=shape).round(1)
    special = draw.choice(SPECIAL, shape)
    return fg.tensor(np.where(draw.random(shape) < 0.4, special, values).astype(dtype))


def compared(function: Any, *given: fg.Tensor, numpy: bool = False) -> None:
    jitted = fg.jit(function)
    for _ in range(3):
        found = jitted(*given)
    expected = function(*given)
    assert jitted.stats.compiled_calls == 2
    for one, other in zip(parts(found), parts(expected), strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        assert one.numpy().tobytes() == other.numpy().tobytes()
    assert ("NumPy: " in str(jitted.explain())) is numpy


def parts(result: Any) -> tuple[fg.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((7,), 0), ((40, 10), 1), ((33, 5), 0), ((3, 100, 2), 1)])
def test_sorted_rows(shape: tuple[int, ...], dim: int, descending: bool, dtype: str):
    x = drawn(shape, dtype, sum(shape))
    compared(lambda x: tuple(fg.sort(x, dim=dim, descending=descending)), x)
    compared(lambda x: fg.argsort(x, dim=dim, descending=descending), x)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "k"), [((16,), 3), ((64, 10), 1), ((25, 100), 5), ((2, 3, 9), 9)])
def test_the_first_few(shape: tuple[int, ...], k: int, largest: bool):
    compared(lambda x: tuple(fg.topk(x, k, largest=largest)), drawn(shape, "float32", k))


def test_gradients_go_to_what_was_picked():
    def loss(x: fg.Tensor) -> fg.Tensor:
        values, indices = fg.topk(x, 3)
        return (values**2 * (1 + indices)).sum() + (fg.sort(x, dim=0)[0] * fg.arange(20.0)[:, None]).sum()

    x = fg.tensor(np.random.default_rng(0).normal(size=(20, 8)))
    jitted = fg.jit(fg.grad(loss))
    for _ in range(3):
        slopes = jitted(x)
    np.testing.assert_allclose(slopes.numpy(), fg.grad(loss)(x).numpy(), 1e-12)
    assert "NumPy: " not in str(jitted.explain())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 16, 100, 1000])
def test_sorted_tables(size: int, right: bool, dtype: str):
    table = fg.sort(drawn((size,), dtype, size))[0]
    values = fg.cat([drawn((5, 31), dtype, 1), table[:31].expand(5, -1)], dim=1)
    compared(lambda t, x: fg.searchsorted(t, x, right=right), table, values)
    compared(lambda t, x: fg.bucketize(x, t, right=right), table, values)
    compared(lambda t, x: fg.searchsorted(t, x, right=right), table, values[0, 0])


def test_long_rows_are_left_to_numpy():
    compared(lambda x: tuple(fg.sort(x)), drawn((2, ordering.LONGEST_ROW + 1), "float32", 0), numpy=True)
    compared(lambda x: fg.sort(x)[0], drawn((5, 1), "float32", 0), numpy=True)
