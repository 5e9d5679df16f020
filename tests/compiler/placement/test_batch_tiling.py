"""Steps that run entry by entry of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.placement import batch_tiling
from fusegrad.compiler.runtime import threads


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is handed on."""
    monkeypatch.setattr(batch_tiling, "WORTH", 1)


def placed(jitted: Any) -> Any:
    (segment,) = jitted.segments()
    return segment.code.program.placed()


def steps(jitted: Any) -> list[tuple[int, int]]:
    """How many steps each batch has, and how many values of its own."""
    return [(b.last - b.first, len(b.own)) for b in placed(jitted).batches]


@pytest.fixture(autouse=True)
def seed() -> None:
    fg.manual_seed(0)


def random(*shape: int, dtype: Any = fg.float32) -> fg.Tensor:
    return fg.randn(*shape, dtype=dtype) * 0.5


def same(function: Callable[..., Any], *args: fg.Tensor, tolerance: float = 2e-5) -> Any:
    """The jitted function, after its results have been compared with eager's."""
    jitted = fg.jit(function)
    expected = function(*args)
    for _ in range(3):
        found = jitted(*args)
        for x, y in zip(flat(found), flat(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    return jitted


def flat(results: Any) -> list[np.ndarray]:
    if isinstance(results, fg.Tensor):
        return [results.numpy()]
    return [array for result in results for array in flat(result)]


def attention(q: fg.Tensor, k: fg.Tensor, v: fg.Tensor) -> fg.Tensor:
    return fg.softmax(q @ k.mT * 0.25, -1) @ v


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("shape", [(8, 5, 3), (2, 3, 33, 17), (64, 1, 1), (4, 2, 70, 64)])
def test_attention_and_its_gradients_run_head_by_head(shape: tuple[int, ...], dtype: Any):
    q, k, v = (random(*shape, dtype=dtype) for _ in range(3))

    def function(q: fg.Tensor, k: fg.Tensor, v: fg.Tensor) -> Any:
        return fg.value_and_grad(lambda *given: (attention(*given) ** 2).sum(), (0, 1, 2))(q, k, v)

    jitted = same(function, q, k, v)
    if shape[-2] > 1:
        # Forward the scores are the batch's own, backward the gradients before and after the softmax.
        assert [own for _, own in steps(jitted)] == [1, 2]


def test_what_is_made_between_has_room_for_one_entry_a_thread():
    q, k, v = (random(64, 48, 16) for _ in range(3))
    jitted = fg.jit(attention)
    with fg.no_grad():
        for _ in range(3):
            jitted(q, k, v)
    entry = 48 * 48 * 4
    assert steps(jitted) == [(3, 2)]
    assert placed(jitted).arena_bytes <= 64 + min(64, threads.cores()) * 2 * entry


def test_a_step_that_reads_other_entries_begins_another_batch():
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = fg.tanh(x @ y) * 2  # by entries
        return fg.exp(z.flip(0) @ y) @ z  # the last entry first

    x, y = random(6, 9, 9) * 0.1, random(6, 9, 9) * 0.1
    jitted = same(function, x, y)
    assert all(first >= 2 or last <= 3 for first, last in [(b.first, b.last) for b in placed(jitted).batches])


@pytest.mark.parametrize(
    "between",
    [
        lambda z: z.transpose(0, 1).contiguous(),
        lambda z: z - z.mean(0, keepdim=True),
        lambda z: z.cumsum(0),
        lambda z: z.roll(1, 0),
        lambda z: z[[1, 0, 2, 3]],
        lambda z: fg.cat([z[2:], z[:2]]),
        lambda z: z.reshape(4, 4, 5).mT,
        lambda z: z.softmax(0),
        lambda z: fg.where(z > 0, z, z.sum()),
        lambda z: z * z[0],
        lambda z: z * z[:, :1, :1],
        lambda z: z.softmax(-1).softmax(-2),
        lambda z: z + fg.arange(4.0).reshape(4, 1, 1),
    ],
)
def test_between_products_anything_is_right(between: Callable[[fg.Tensor], fg.Tensor]):
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = between(fg.sin(x @ y))
        return fg.cos(z @ z.mT) @ z

    same(function, random(4, 4, 5), random(4, 5, 5))
    same(function, random(4, 4, 5)[:, :, :], random(5, 5).expand(4, 5, 5))


def test_operands_that_are_views_of_what_the_batch_made():
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = fg.tanh(x @ y)  # (2, 3, 6, 6)
        return z[:, :, :3, 1:4] @ z[:, :, 3:, :3] + z[..., :3, :3].mT @ z[..., 3:, 3:]

    jitted = same(function, random(2, 3, 6, 4), random(2, 3, 4, 6))
    assert steps(jitted)


def test_the_same_for_any_number_of_threads():
    q, k, v = (random(16, 30, 20) for _ in range(3))
    jitted = fg.jit(attention)
    several = [jitted(q, k, v).numpy().tobytes() for _ in range(3)]
    threads = fg.get_num_threads()
    fg.set_num_threads(1)
    try:
        assert jitted(q, k, v).numpy().tobytes() == several[-1]
    finally:
        fg.set_num_threads(threads)


def test_little_is_left_to_run_step_by_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_tiling, "WORTH", 1 << 20)
    q, k, v = (random(8, 20, 10) for _ in range(3))
    assert steps(same(attention, q, k, v)) == []


def test_the_steps_are_told():
    (segment,) = same(attention, *(random(8, 20, 10) for _ in range(3))).segments()
    assert [line.split(" -> ")[1] for line in segment.code.program.describe()] == [
        "[8, 20, 20], entry by entry",
        "[8, 20, 20], entry by entry",
        "[8, 20, 10], entry by entry",
    ]


# Blocks of rows.


def recurrent(x: fg.Tensor, w: fg.Tensor, u: fg.Tensor, b: fg.Tensor) -> fg.Tensor:
    h = fg.zeros(x.shape[1], u.shape[0])
    for row in x:
        h = fg.tanh(row @ w + h @ u + b)
    return (h * h).mean()


@pytest.fixture(params=[2, 3, 4])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many cores, whatever the machine has, and no work too little to be shared."""
    monkeypatch.setattr(threads, "cores", lambda: request.param)
    monkeypatch.setattr(batch_tiling, "WORTH_WORK", 1)
    monkeypatch.setattr(batch_tiling, "FEWEST_ROWS", 1)
    count: int = request.param
    return count


@pytest.mark.parametrize("inputs, width", [(6, 5), (16, 16), (1, 33)])
def test_a_recurrent_network_runs_by_blocks_of_rows(cores: int, inputs: int, width: int):
    def function(*given: fg.Tensor) -> Any:
        return fg.value_and_grad(recurrent, (0, 1, 2, 3))(*given)

    x, w = random(7, 12, inputs), random(inputs, width)
    jitted = same(function, x, w, random(width, width), random(width))
    found = placed(jitted).batches
    # Forward and backward; between them all rows are added up.
    assert [(b.entries, b.rows) for b in found][:2] == [(cores, True)] * 2
    # A state and what comes of it for each element of the input, and as many gradients.
    assert sum(b.last - b.first for b in found) >= 2 * 2 * 6


def test_a_whole_is_read_when_all_rows_of_its_parts_are_there(cores: int):
    def joined(x: fg.Tensor, *weights: fg.Tensor) -> fg.Tensor:
        parts = [fg.tanh(x @ w) @ w for w in weights]
        return fg.cat(parts) * 2

    weights = [random(6, 6) for _ in range(5)]
    jitted = same(joined, random(12, 6), *weights)
    assert steps(jitted)  # the products share rows; what reads the whole has other ones


def test_rows_that_cannot_be_divided_run_step_by_step(cores: int):
    x, w = random(7, 12 * cores + 1, 4), random(4, 5)
    jitted = same(recurrent, x, w, random(5, 5), random(5))
    assert steps(jitted) == []


@pytest.mark.parametrize(
    "between",
    [
        lambda z: z - z.mean(0),
        lambda z: z.flip(0),
        lambda z: z.roll(1, 0),
        lambda z: z.cumsum(0),
        lambda z: z.softmax(1),
        lambda z: z[fg.arange(11, -1, -1)],
        lambda z: fg.cat([z[6:], z[:6]]),
        lambda z: z.T.reshape(12, 8),
        lambda z: z.T.contiguous().T,
        lambda z: z.reshape(24, 4).tanh().reshape(12, 8),
        lambda z: z * z[0],
        lambda z: z * z[:, :1],
        lambda z: z + fg.arange(12.0)[:, None],
        lambda z: fg.where(z.sum(1, keepdim=True) > 0, z, -z),
        lambda z: (z @ z.T)[:, :8],
        lambda z: z.T @ z,
        lambda z: z[:6] @ z[6:].T @ z[6:],
    ],
)
def test_between_products_of_rows_anything_is_right(cores: int, between: Callable[[fg.Tensor], fg.Tensor]):
    def function(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
        z = fg.sin(x @ w)
        z = between(fg.cos(z @ w)) @ w
        return fg.tanh(z) @ w

    same(function, random(12, 8), random(8, 8))


def test_what_the_batch_made_may_be_its_right_operand(cores: int):
    def function(x: fg.Tensor) -> fg.Tensor:
        z = x
        for _ in range(4):
            z = fg.tanh(z @ x) @ z
        return z

    same(function, random(12, 12) * 0.3)


def test_what_is_joined_of_rows_is_read_whole(cores: int):
    def function(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
        states = [x]
        for _ in range(4):
            states.append(fg.tanh(states[-1] @ w))
        whole = fg.cat(states[1:])
        return fg.tanh(whole.flip(0) @ w) @ w

    same(function, random(12, 8), random(8, 8))


def test_blocks_of_rows_give_the_same_for_any_number_of_threads(cores: int):
    given = random(9, 12, 6), random(6, 20), random(20, 20), random(20)
    jitted = fg.jit(recurrent)
    several = [jitted(*given).numpy().tobytes() for _ in range(3)]
    threads = fg.get_num_threads()
    fg.set_num_threads(1)
    try:
        assert jitted(*given).numpy().tobytes() == several[-1]
    finally:
        fg.set_num_threads(threads)
