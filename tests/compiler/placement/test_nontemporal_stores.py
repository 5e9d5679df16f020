"""Results too large for the caches, which kernels store past them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.kernel.ir import Kernel
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.placement import memory_plan, nontemporal_stores
from fusegrad.compiler.placement.nontemporal_stores import streaming_kernels
from fusegrad.compiler.runtime.allocator import SMALLEST_POOLED

LEAST = SMALLEST_POOLED // 4  # float32 elements of a result that comes from the pool


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nontemporal_stores, "host", lambda: Target(32, cache_bytes=SMALLEST_POOLED))


def streamed(function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> list[Kernel]:
    """The kernels that a function's program stores past the caches, after its results were compared."""
    jitted = fg.jit(function)
    tensors = [fg.from_numpy(array) for array in arrays]
    for _ in range(3):
        for ours, eager in zip(jitted(*tensors), function(*tensors), strict=True):
            np.testing.assert_allclose(ours.numpy(), eager.numpy(), rtol=1e-6)
    (segment,) = jitted.segments()
    placed = segment.code.program.placed()
    return list(streaming_kernels(placed.blueprint, placed.sizes).values())


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 2, shape).astype(dtype)


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("extra", [0, 1, 7, 64, 1000])
def test_large_results_are_stored_past_the_caches(dtype: Any, extra: int):
    array = (numbers(LEAST + extra) * 100).astype(dtype)
    (kernel,) = streamed(lambda x: (x * 3 + x, x - 5), [array])
    assert kernel.streamed == ("y0", "y1")
    assert kernel.text.splitlines()[0].endswith(":  # y0, y1: past the caches")


@pytest.mark.usefixtures("small_cache")
def test_rows_that_begin_with_a_line_of_memory_are():
    (kernel,) = streamed(lambda x: (x * x.sum(1, keepdim=True),), [numbers(80, 1024)])
    assert kernel.streamed


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        pytest.param(lambda x: (x * x.sum(1, keepdim=True),), [numbers(80, 1027)], id="rows between lines"),
        pytest.param(lambda x: (fg.softmax(x, 1),), [numbers(80, 1024)], id="read again"),
        pytest.param(lambda x: (x > 1, (x * 20).to(fg.int16)), [numbers(4 * LEAST)], id="small elements"),
        pytest.param(lambda x: (x.sum(0),), [numbers(2, 2 * LEAST)], id="sums over all rows"),
        pytest.param(lambda x: (fg.nn.functional.pad(x, (3, 5)),), [numbers(LEAST)], id="parts of a loop"),
        pytest.param(lambda x, y: (x + y,), [numbers(60), numbers(60)], id="small arrays"),
    ],
)
def test_what_is_no_run_of_whole_lines_is_not(function: Callable[..., Any], arrays: list[np.ndarray]):
    assert not streamed(function, arrays)


def test_what_the_caches_hold_is_not():
    assert not streamed(lambda x: (x * 3,), [numbers(LEAST)])


@pytest.mark.usefixtures("small_cache")
def test_what_goes_entry_by_entry_through_several_steps_is_not():
    def attention(q: fg.Tensor, k: fg.Tensor, v: fg.Tensor) -> tuple[fg.Tensor, ...]:
        weights = fg.softmax(q @ k.transpose(-1, -2), -1)
        return weights, weights @ v

    assert not streamed(attention, [numbers(8, 256, 32) / 9 for _ in range(3)])


@pytest.mark.usefixtures("small_cache")
def test_sizes_decide_where_they_were_left_open(monkeypatch: pytest.MonkeyPatch):
    chosen = []

    def noted(*given: Any) -> dict[int, Kernel]:
        chosen.append(streaming_kernels(*given))
        return chosen[-1]

    monkeypatch.setattr(memory_plan, "streaming_kernels", noted)
    jitted = fg.jit(lambda x: fg.exp(x) * 2)
    for size in (100, 300, 300, LEAST, LEAST, 200, 200, 2 * LEAST, 2 * LEAST):
        x = fg.from_numpy(numbers(size))
        np.testing.assert_allclose(jitted(x).numpy(), np.exp(x.numpy()) * 2, rtol=1e-6)
    assert jitted.stats.compiles == 2
    kernels = [kernel for found in chosen for kernel in found.values()]
    assert len(kernels) == 2 and len(set(kernels)) == 1
    assert len(chosen) > len(kernels)


@pytest.mark.usefixtures("small_cache")
def test_vectors_are_aligned_and_a_fence_ends_the_task():
    (kernel,) = streamed(lambda x: (x * 3,), [numbers(LEAST)])
    text = module_text(kernel, "kernel", Target(32))
    (store,) = [line for line in text.splitlines() if "!nontemporal" in line]
    assert "store <8 x float>" in store and "align 32," in store
    assert text.count("fence seq_cst") == 1
