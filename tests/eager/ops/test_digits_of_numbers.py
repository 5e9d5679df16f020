"""Python's numbers keep all digits where they meet tensors of more digits than the default dtype has."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

NUMBERS = (0.1, 1e300, -1 / 3)


def written(write: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def function(t: Any, x: Any, number: Any) -> Any:
        made = x.clone()
        write(t, made, number)
        return made

    return function


def place(index: Callable[[Any, Any], Any], change: Callable[[Any], Any] = lambda n: n) -> Any:
    return written(lambda t, x, n: x.__setitem__(index(t, x), change(n)))


# Functions of a tensor [3] and a number.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x[0] =": place(lambda t, x: 0),
    "x[...] =": place(lambda t, x: ...),
    "x[1:] =": place(lambda t, x: slice(1, None)),
    "x[mask] =": place(lambda t, x: t.tensor([True, False, True])),
    "x[list] =": place(lambda t, x: [0, 2]),
    "x[places] =": place(lambda t, x: t.tensor([0, 2])),
    "x[0] = of a row": written(lambda t, x, n: x.view(1, 3).__setitem__((0, 1), n)),
    "fill_": written(lambda t, x, n: x.fill_(n)),
    "masked_fill": lambda t, x, n: x.masked_fill(x == 0, n),
    "index_fill": lambda t, x, n: x.index_fill(0, t.tensor([1]), n),
    "scatter": lambda t, x, n: x.scatter(0, t.tensor([1]), n),
    "where": lambda t, x, n: t.where(x == 0, n, x),
    "where of two numbers": lambda t, x, n: t.where(x == 0, x, n),
    "add": lambda t, x, n: x + n,
    "mul": lambda t, x, n: (x + 1) * n,
    "add, alpha": lambda t, x, n: t.add(x, x + 1, alpha=n),
    "addcmul": lambda t, x, n: t.addcmul(x, x + 1, x + 1, value=n),
    "addcdiv": lambda t, x, n: t.addcdiv(x, x + 1, x + 1, value=n),
    "lerp": lambda t, x, n: t.lerp(x, x + 1, n),
    "eq": lambda t, x, n: t.full_like(x, n) == n,
    "full_like": lambda t, x, n: t.full_like(x, n),
    "new_full": lambda t, x, n: x.new_full((2,), n),
    "new_tensor": lambda t, x, n: x.new_tensor([n]),
    "tensor": lambda t, x, n: t.tensor([n], dtype=x.dtype),
    "pad": lambda t, x, n: t.nn.functional.pad(x, (1, 1), value=n),
    "constant_": written(lambda t, x, n: t.nn.init.constant_(x, n)),
}
REAL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "isin": lambda t, x, n: t.isin(t.full_like(x, n), n),
    "clamp": lambda t, x, n: t.clamp(x, n, n),
    "maximum of a number": lambda t, x, n: t.maximum(x - 1e301, t.tensor(n, dtype=x.dtype)),
    "threshold": lambda t, x, n: t.nn.functional.threshold(x, 1e301, n),
    "hardtanh": lambda t, x, n: t.nn.functional.hardtanh(x, n, abs(n) * 2),
    "nan_to_num": lambda t, x, n: t.nan_to_num(x / 0, nan=n, posinf=n, neginf=n),
    "searchsorted": lambda t, x, n: t.searchsorted(t.full_like(x, n), n),
    "linspace": lambda t, x, n: t.linspace(n, 2 * n, 3, dtype=x.dtype),
    "arange": lambda t, x, n: t.arange(0, 3 * abs(n), abs(n), dtype=x.dtype)[:2],
}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        *itertools.product(["float64"], [*CALLS, *REAL]),
        *itertools.product(["complex128"], CALLS),
    ],
)
def test_digits_are_torchs(dtype: str, name: str):
    call = {**CALLS, **REAL}[name]
    for number in NUMBERS:
        found = []
        for t in (fg, torch):
            made = call(t, t.tensor([0.0, 0.5, 0.0], dtype=getattr(t, dtype)), number)
            found.append((repr(made.dtype), made.numpy()))
        assert found[0][0] == found[1][0]
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-15, atol=1e-15, err_msg=str(number))


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_numbers(part: str):
    for number in NUMBERS:
        x = fg.zeros(2, dtype=fg.complex128)
        setattr(x, part, number)
        assert getattr(x, part).tolist() == [number, number]


@pytest.mark.parametrize("value", [[0.1, 0.2], [[0.1], [0.2]], (0.1, 0.2)])
def test_nested_numbers(value: Any):
    for t in (fg, torch):
        x = t.zeros(2, 2, dtype=t.float64)
        x[:] = t.tensor(value, dtype=t.float64)
        y = fg.zeros(2, 2, dtype=fg.float64)
        y[:] = value
        assert x.tolist() == y.tolist()


def test_jitted_writes():
    def function(x: Any) -> Any:
        y = x.clone()
        y[0] = 0.1
        y[1:] = 1e300
        return y * 1

    jitted = fg.jit(function)
    for _ in range(3):
        assert jitted(fg.zeros(3, dtype=fg.float64)).tolist() == [0.1, 1e300, 1e300]


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes_of_float32_values_at_float64_places_keep_their_digits(edge_order):
    draw = np.random.default_rng(0)
    values, places = draw.standard_normal(400).astype(np.float32), np.cumsum(draw.random(400) + 1e-3)
    slopes = {
        T: T.gradient(T.tensor(values), spacing=[T.tensor(places)], edge_order=edge_order)[0].numpy()
        for T in (fg, torch)
    }
    assert slopes[fg].dtype == slopes[torch].dtype == np.float64
    np.testing.assert_allclose(slopes[fg][1:-1], slopes[torch][1:-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes[fg], slopes[torch], rtol=1e-5)
