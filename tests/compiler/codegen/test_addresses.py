"""Where buffers are: of few, found one by one; of many, by a loop, whose result is the same."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen.emit import MOST_FOUND_APART
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.llvm.target import host

MANY = 2 * MOST_FOUND_APART


def weighted(*given: fg.Tensor) -> list[fg.Tensor]:
    """A kernel of as many buffers as are given, and more."""
    total = given[0] * 0.5
    made = []
    for number, x in enumerate(given[1:], 2):
        total = total + number * x
        if number % 5 == 0:
            made.append(total)
    return [total, *made, total.sum(0), total.sum()]


@pytest.mark.parametrize("count", [3, MOST_FOUND_APART, MANY])
def test_each_buffer_is_read_and_written_where_it_is(count: int) -> None:
    draw = np.random.default_rng(count)
    whole = fg.tensor(draw.normal(size=(count + 7, 40)))
    given = [whole[i : i + 7] if i % 3 else whole[i] if i % 2 else whole[:7, i : i + 1] for i in range(count)]
    jitted = fg.jit(weighted)
    for _ in range(3):
        for ours, eagers in zip(jitted(*given), weighted(*given), strict=True):
            np.testing.assert_allclose(ours.numpy(), eagers.numpy(), rtol=1e-12, atol=1e-12)
    assert jitted.stats.compiled_calls == 2


@pytest.mark.parametrize("count", [3, MANY])
def test_many_are_found_by_a_loop(count: int) -> None:
    """LLVM's time goes by how much there is."""
    given = [fg.ones(7, 40) * number for number in range(count)]
    jitted = fg.jit(weighted)
    for _ in range(2):
        jitted(*given)
    kernel = max((bound.kernel for bound in jitted.kernels().forward), key=lambda k: len(k.inputs))
    assert len(kernel.inputs) == count
    text = module_text(kernel, "kernel", host())
    assert ("call void @fusegrad_find(" in text) == (count == MANY)
    apart, buffers = text.count("ptr %slots, i64"), len(kernel.inputs + kernel.outputs)
    assert apart < buffers if count == MANY else apart >= buffers
