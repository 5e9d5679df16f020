"""Where a program puts its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.placement.memory_plan import Placed
from fusegrad.compiler.runtime.allocator import ALIGNMENT, PAGE, SMALLEST_POOLED, Pool, data_address

SIDE = 48
FIELD = SIDE * SIDE * 4


def simulated(start: fg.Tensor, reads: Callable[[fg.Tensor, fg.Tensor], fg.Tensor]) -> fg.Tensor:
    """Twelve steps of a wave, each from the two fields before it; `reads` is what it takes of the older."""
    now, before = start.clone(), start * 2
    for _ in range(12):
        around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
        before[1:-1, 1:-1] = around * 0.25 - reads(now, before)
        now, before = before, now
    return now * 2


def placed_after_runs(function: Callable[[fg.Tensor], fg.Tensor]) -> Placed:
    """How a function's program lies in memory, after its results have been compared with eager's."""
    # Whole numbers, of which products are exact.
    numbers = np.random.default_rng(0).integers(-3, 4, (SIDE, SIDE))
    start, jitted = fg.tensor(numbers, dtype=fg.float32), fg.jit(function)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(start).numpy(), function(start).numpy())
    (segment,) = jitted.segments()
    return segment.code.program.placed()


def test_a_field_is_written_over_the_one_that_is_read_for_the_last_time_where_it_is_written():
    placed = placed_after_runs(lambda start: simulated(start, lambda now, before: before[1:-1, 1:-1]))
    assert placed.arena_bytes == 2 * FIELD


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(lambda now, before: before[2:, 1:-1], id="rows further on"),
        pytest.param(lambda now, before: before.T[1:-1, 1:-1], id="the other way round"),
        pytest.param(lambda now, before: before[1:-1, :-2] + before[1:-1, 1:-1], id="neighbours"),
    ],
)
def test_a_field_of_which_other_elements_are_read_is_not_written_over(reads: Any):
    placed = placed_after_runs(lambda start: simulated(start, reads))
    assert placed.arena_bytes == 3 * FIELD


def test_elements_of_another_size_are_not_written_over():
    def function(x: fg.Tensor) -> fg.Tensor:
        y = x @ x
        z = y.double() * 0.5  # as many elements, twice the bytes
        return z @ z

    placed = placed_after_runs(function)
    assert placed.arena_bytes == 3 * FIELD


def test_only_one_of_two_results_is_written_over_what_both_are_made_from():
    def function(x: fg.Tensor) -> fg.Tensor:
        y = x @ x
        return (y * 0.5) @ (y + 1)

    placed_after_runs(function)


def test_large_results_start_on_a_cache_line_in_a_block_that_nobody_looks_at():
    pool, shape = Pool(), (SMALLEST_POOLED,)
    view = pool.array(shape, np.dtype(np.uint8))[1:]
    other = pool.array(shape, np.dtype(np.uint8))
    assert not np.shares_memory(view, other)
    assert data_address(other) % ALIGNMENT == 0
    assert (data_address(other) - data_address(view) + 1) % PAGE, "both start at the same place in a page"
    where = data_address(other)
    del other
    assert data_address(pool.array(shape, np.dtype(np.uint8))) == where
