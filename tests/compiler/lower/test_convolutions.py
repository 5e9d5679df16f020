"""Convolutions by kernels and products: no step is left to NumPy, where there is room for the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.lower import convolutions

F = fg.nn.functional

OPTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": (0, 2)},
    {"dilation": 2, "groups": 2},
    {"stride": (2, 3), "padding": 1, "dilation": (1, 2), "groups": 4},
]


def loss(x: fg.Tensor, weight: fg.Tensor, bias: fg.Tensor, options: dict[str, Any]) -> fg.Tensor:
    return F.relu(F.conv2d(x, weight, bias, **options)).square().sum()


def inputs(groups: int, seed: int) -> list[fg.Tensor]:
    draw = np.random.default_rng(seed)
    shapes = [(3, 4, 9, 11), (8, 4 // groups, 3, 3), (8,)]
    return [fg.tensor(draw.normal(size=shape), requires_grad=True) for shape in shapes]


def compared(options: dict[str, Any]) -> Any:
    derive = fg.value_and_grad(loss, (0, 1, 2))
    jitted = fg.jit(derive)
    for seed in range(3):
        tensors = inputs(options.get("groups", 1), seed)
        (value, slopes), (expected, wanted) = jitted(*tensors, options), derive(*tensors, options)
        for found, sought in zip((value, *slopes), (expected, *wanted), strict=True):
            np.testing.assert_allclose(found.detach(), sought.detach(), rtol=1e-10, atol=1e-10)
    assert jitted.stats.compiled_calls == 2
    return str(jitted.explain())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_convolution_and_its_gradients_are_kernels_and_products(options: dict[str, Any]):
    told = compared(options)
    assert "NumPy: " not in told


def test_columns_that_take_too_much_room_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(convolutions, "LARGEST_COLUMNS", 1000)
    assert "NumPy: conv_weight" in compared({})
