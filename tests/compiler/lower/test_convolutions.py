"""Convolutions by kernels and products: no step is left to NumPy, where there is room for the columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.llvm.target import host
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


@pytest.mark.parametrize("side", [1, 3, 5, 7, 9])
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
    nests = side**2 <= convolutions.LARGEST_NEST
    assert bool(products(alone)) is not nests
    if nests:
        # The weights' gradient is a nest, too, and the image's where windows do not jump.
        assert len(products(jitted)) == (stride > 1)


def products(jitted: Any) -> list[Any]:
    """The matrix products of the compiled forward programs."""
    return [s for seg in jitted.segments() for s in seg.code.program.steps if s.kind == "product"]


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((5, 4, 3, 3), {}),
        ((5, 4, 3, 3), {"padding": 1}),
        ((5, 4, 3, 3), {"padding": 3}),  # further than the kernels reach
        ((4, 4, 2, 5), {"padding": (0, 2), "dilation": (2, 1)}),
        ((6, 2, 3, 1), {"groups": 3, "padding": (1, 0)}),
        ((4, 1, 3, 3), {"groups": 4, "padding": 2}),
        ((4, 1, 3, 3), {"groups": 4, "dilation": 2}),
        ((5, 4, 3, 3), {"stride": 2, "output_padding": 1, "padding": 1}),
        ((5, 4, 3, 3), {"dilation": 2, "output_padding": 1}),
        ((9, 2, 3, 3), {}),  # more channels than columns are worth
        ((5, 4, 1, 1), {"padding": 1}),
    ],
    ids=str,
)
def test_transposed_convolutions_and_their_gradients(size: tuple[int, ...], options: dict[str, Any]):
    def transposed(x: fg.Tensor, weight: fg.Tensor, bias: fg.Tensor) -> fg.Tensor:
        return F.conv_transpose2d(x, weight, bias, **options)

    draw = np.random.default_rng(0)
    shapes = [(2, size[0], 8, 7), size, (size[1] * options.get("groups", 1),)]
    tensors = [fg.tensor(draw.normal(size=shape)) for shape in shapes]
    for function in (
        transposed,
        fg.value_and_grad(lambda *args: transposed(*args).square().sum(), (0, 1, 2)),
    ):
        jitted = fg.jit(function)
        jitted(*tensors)
        found, expected = flat(jitted(*tensors)), flat(function(*tensors))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)
        assert jitted.stats.compiled_calls == 1 and "NumPy: " not in str(jitted.explain())


def flat(value: Any) -> list[fg.Tensor]:
    """The tensors of nested tuples."""
    return [value] if isinstance(value, fg.Tensor) else [t for part in value for t in flat(part)]


@pytest.mark.parametrize("channels", [3, 6, 12, 24])
def test_the_gradient_of_an_image_is_a_convolution_where_that_reads_less(channels: int):
    """Adding up windows that overlap is a fetch for each place in the kernel."""

    def loss(x: fg.Tensor, weight: fg.Tensor) -> fg.Tensor:
        return F.conv2d(x, weight, padding=2).square().sum()

    x, weight = fg.randn(2, channels, 9, 9), fg.randn(12, channels, 5, 5)
    jitted = fg.jit(fg.grad(loss))
    for _ in range(2):
        jitted(x, weight)
    fetches = [s for k in jitted.kernels().forward for s in k.kernel.text.splitlines() if " if t" in s]
    assert (len(fetches) > 20) is (convolutions.COLUMNS_READ * channels < 12)


@pytest.mark.parametrize(("options", "numpy"), [({}, False), ({"padding": 1}, False), ({"groups": 2}, True)])
def test_columns_that_take_too_much_room_are_left_to_numpy(
    options: dict[str, Any], numpy: bool, monkeypatch: pytest.MonkeyPatch
):
    """Windows that are multiplied where they lie take no room."""
    monkeypatch.setattr(convolutions, "LARGEST_COLUMNS", 1000)
    if numpy or host().multiplies_by_tiles:
        assert ("NumPy: conv_weight" in compared(options)) is numpy


@pytest.mark.parametrize("kind", [F.conv2d, F.conv_transpose2d])
@pytest.mark.parametrize(
    ("image", "kernel", "options"),
    [
        ((5, 4, 4, 4), (4, 4, 3, 3), {"stride": 2, "padding": 1}),
        ((5, 4, 4, 4), (4, 4, 4, 4), {}),
        ((5, 4, 2, 3), (4, 4, 2, 2), {"stride": 2, "padding": 1, "dilation": 2}),
        ((5, 4, 2, 2), (4, 4, 4, 3), {"padding": (2, 1)}),
        ((5, 4, 1, 1), (4, 7, 1, 1), {}),
        ((5, 4, 1, 1), (4, 7, 4, 3), {}),
    ],
    ids=str,
)
def test_images_of_few_windows_are_one_product(
    kind: Any, image: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]
):
    if kind is F.conv2d:
        kernel = (kernel[1], kernel[0], *kernel[2:])
        reach = [2 * options.get("padding", 0)] * 2 if type(options.get("padding", 0)) is int else [4, 2]
        if any(n + p < k for n, p, k in zip(image[2:], reach, kernel[2:], strict=True)):
            image = (*image[:2], *kernel[2:])

    def loss(*given: fg.Tensor) -> fg.Tensor:
        return kind(*given, **options).square().sum()

    draw = np.random.default_rng(0)
    channels = kernel[0] if kind is F.conv2d else kernel[1]
    tensors = [fg.tensor(draw.normal(size=shape)) for shape in (image, kernel, (channels,))]
    derive = fg.value_and_grad(loss, (0, 1, 2))
    jitted = fg.jit(derive)
    jitted(*tensors)
    for one, other in zip(flat(jitted(*tensors)), flat(derive(*tensors)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)
    told = str(jitted.explain())
    assert jitted.stats.compiled_calls == 1 and "NumPy: " not in told
    assert not re.search(r"matmul -> \[\d+, \d+, ", told), "a product for each image"
