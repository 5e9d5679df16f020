"""Resizing by whole factors is kernels; by others it stays with NumPy; both say what eager says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional

# What is done to an image [2, 3, 6, 8], and whether kernels can.
RESIZED: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "mean of all": (lambda x: F.adaptive_avg_pool2d(x, 1), True),
    "means": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), True),
    "means along one": (lambda x: F.adaptive_avg_pool2d(x, (3, None)), True),
    "as it is": (lambda x: F.adaptive_avg_pool2d(x, (None, None)), True),
    "means that overlap": (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), False),
    "area": (lambda x: F.interpolate(x, size=(2, 4), mode="area"), True),
    "a row": (lambda x: F.adaptive_avg_pool1d(x[0], 4), True),
    "a solid": (lambda x: F.adaptive_avg_pool3d(x[None], (1, 2, 4)), True),
    "twice": (lambda x: F.interpolate(x, scale_factor=2), True),
    "three and seven times": (lambda x: F.interpolate(x, scale_factor=(3, 7)), True),
    "exactly three times": (lambda x: F.interpolate(x, scale_factor=3, mode="nearest-exact"), True),
    "a pixel": (lambda x: F.interpolate(x[..., :1, :1], size=(5, 4)), True),
    "half": (lambda x: F.interpolate(x, scale_factor=0.5), False),
    "one and a half": (lambda x: F.interpolate(x, scale_factor=1.5), False),
    "up and down": (lambda x: F.interpolate(x, size=(12, 4)), False),
    "between": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), False),
    "turned": (lambda x: F.adaptive_avg_pool2d(x.transpose(2, 3), (4, 1)), True),
}


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("name", RESIZED)
def test_resized_and_derived(name: str, dtype: Any):
    resize, by_kernels = RESIZED[name]
    x = fg.tensor(np.random.default_rng(0).normal(size=(2, 3, 6, 8)), dtype=dtype)

    def loss(x: fg.Tensor) -> fg.Tensor:
        return (resize(x) * 3).square().sum()

    tolerance = 1e-5 if dtype is fg.float32 else 1e-12
    for function in (resize, fg.value_and_grad(loss)):
        jitted = fg.jit(function)
        jitted(x)
        found, expected = jitted(x), function(x)
        for one, other in zip(*(t if isinstance(t, tuple) else (t,) for t in (found, expected)), strict=True):
            assert one.dtype == other.dtype and one.stride() == other.stride()
            np.testing.assert_allclose(one.numpy(), other.numpy(), tolerance, tolerance)
        assert jitted.stats.compiled_calls == 1
        assert ("NumPy: resample" not in str(jitted.explain())) is by_kernels


def test_pixels_that_are_whole_numbers_are_repeated():
    pixels = fg.arange(12, dtype=fg.uint8).view(1, 1, 3, 4)
    jitted = fg.jit(lambda x: F.interpolate(x, scale_factor=2))
    for _ in range(2):
        assert jitted(pixels).tolist() == F.interpolate(pixels, scale_factor=2).tolist()


def test_infinite_pixels_spread_as_in_eager():
    x = fg.tensor([[[1.0, float("inf"), 2.0, float("nan")]]])
    jitted = fg.jit(lambda x: F.adaptive_avg_pool1d(x, 2))
    for _ in range(2):
        np.testing.assert_array_equal(jitted(x).numpy(), F.adaptive_avg_pool1d(x, 2).numpy())
