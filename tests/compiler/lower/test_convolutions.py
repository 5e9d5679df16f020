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


@pytest.mark.parametrize("side", [1, 3, 5, 7])
@pytest.mark.parametrize(("padding", "stride", "dilation"), [(0, 1, 1), (2, 1, 1), (1, 2, 1), (2, 1, 2)])
def test_channels_with_kernels_of_their_own(side: int, padding: int, stride: int, dilation: int):
    def depthwise(x: fg.Tensor, weight: fg.Tensor, bias: fg.Tensor) -> fg.Tensor:
        options = {"padding": padding, "stride": stride, "dilation": dilation, "groups": 6}
        return F.conv2d(x, weight, bias, **options)

    draw = np.random.default_rng(0)
    shapes = [(2, 6, 15, 17), (6, 1, side, side), (6,)]
    tensors = [fg.tensor(draw.normal(size=shape)) for shape in shapes]
    jitted = fg.jit(fg.value_and_grad(lambda *args: depthwise(*args).square().sum(), (0, 1, 2)))
    for _ in range(2):
        value, slopes = jitted(*tensors)
    expected, wanted = fg.value_and_grad(lambda *args: depthwise(*args).square().sum(), (0, 1, 2))(*tensors)
    for found, sought in zip((value, *slopes), (expected, *wanted), strict=True):
        np.testing.assert_allclose(found.numpy(), sought.numpy(), rtol=1e-10, atol=1e-10)
    alone = fg.jit(depthwise)
    for _ in range(2):
        np.testing.assert_allclose(alone(*tensors).numpy(), depthwise(*tensors).numpy(), 1e-10, 1e-10)
    products = [s for seg in alone.segments() for s in seg.code.program.steps if s.kind == "product"]
    assert bool(products) == (side**2 > convolutions.LARGEST_NEST)


def test_columns_that_take_too_much_room_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(convolutions, "LARGEST_COLUMNS", 1000)
    assert "NumPy: conv_weight" in compared({})
