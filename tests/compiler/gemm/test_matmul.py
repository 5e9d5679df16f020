"""Matrix products on the pool of the loops, and the memory that results come from."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import fusegrad as fg
from fusegrad.compiler.gemm import blas, eager_products, matmul, matmul_kernel
from fusegrad.compiler.llvm.target import Target, host
from fusegrad.compiler.runtime import threads
from fusegrad.compiler.runtime.allocator import SMALLEST_POOLED, Pool
from fusegrad.eager.core import large
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.eager.ops.linalg import contraction

SHAPES = [
    ((4, 5), (5, 6)),
    ((300, 200), (200, 100)),
    ((64, 784), (784, 2000)),
    ((2000, 70), (70, 3)),
    ((5,), (5,)),
    ((400, 50), (50,)),
    ((50,), (50, 400)),
    ((3, 40, 50), (50, 60)),
    ((2, 3, 40, 50), (3, 50, 60)),
    ((2, 1, 40, 50), (3, 50, 60)),
    ((0, 5), (5, 3)),
    ((3, 0), (0, 5)),
]


def lying(shape: tuple[int, ...], how: str, dtype: str, seed: int) -> np.ndarray:
    """Random numbers in row-major order, transposed, or with gaps."""
    generator = np.random.default_rng(seed)
    if how == "transposed":
        return generator.normal(size=shape[::-1]).astype(dtype).T
    if how == "gaps":
        wide = generator.normal(size=(*shape[:-1], shape[-1] * 2)).astype(dtype)
        return wide[..., ::2]
    return generator.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("how", ["usual", "transposed", "gaps"])
def test_equals_numpy(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, how: str):
    x, y = (lying(s, how if len(s) == 2 else "usual", dtype, i) for i, s in enumerate(shapes))
    ours, theirs = eager_products.matmul(x, y), np.matmul(x, y)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-3)


def test_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    x, y = lying((500, 300), "usual", "float32", 0), lying((300, 400), "usual", "float32", 1)
    several = eager_products.matmul(x, y).tobytes()
    monkeypatch.setattr(threads, "threads", lambda: 1)
    assert eager_products.matmul(x, y).tobytes() == several


FEW_ROWS = {
    (20, 1024, 4096): 86, (20, 1024, 500): 11, (2, 4096, 300): 3, (64, 600, 2048): 128, (7, 700, 129): 1,
    (1, 1024, 4096): 2, (65, 1024, 4096): 2, (64, 4096, 4096): 2, (32, 784, 500): 2,
}  # fmt: skip


@pytest.mark.parametrize("sizes, parts", FEW_ROWS.items(), ids=str)
def test_few_rows_times_what_lies_transposed_is_cut_so_that_nothing_is_packed(
    sizes: tuple[int, int, int], parts: int, monkeypatch: pytest.MonkeyPatch
):
    m, k, n = sizes
    monkeypatch.setattr(threads, "cores", lambda: 2)
    operands = Layout((m, k), (k, 1)), Layout((k, n), (1, k))
    for machine, expected in ((Target(64, avx512=True), parts), (Target(32), 2)):
        monkeypatch.setattr(matmul, "host", lambda machine=machine: machine)
        block = matmul.product_block(*operands, 4, ((0, 0), (1, 0), (2, 0)))
        assert block is not None and block[matmul.PARTS] == expected
        assert not block[matmul.BY_ROWS]
        assert block[matmul.PART] * expected >= n > block[matmul.PART] * (expected - 1)


@pytest.mark.parametrize("sizes", FEW_ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_times_what_lies_transposed(sizes: tuple[int, int, int], dtype: str):
    m, k, n = sizes
    x, weight = lying((m, k), "usual", dtype, 0), lying((n, k), "usual", dtype, 1)
    bound = 1e-6 if dtype == "float32" else 1e-14  # by the number of terms of a sum
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(eager_products.matmul(x, weight.T), exact, rtol=0, atol=bound * k)


@pytest.mark.skipif(threads.pool_size() == 1, reason="one thread: there are no two pools to keep apart")
def test_eagers_products_share_the_pool_once_something_was_compiled():
    function = fg.jit(lambda x: x * 2)
    for _ in range(2):
        function(fg.ones(3))
    assert contraction._product is eager_products.matmul


def test_products_are_numpys_until_what_they_need_is_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large.answers, "enabled", True)
    x, y = lying((91, 203), "usual", "float32", 0), lying((203, 77), "usual", "float32", 1)
    begin, asked = threading.Event(), []
    prepare = eager_products._prepared

    def held_up(*key: Any) -> Any:
        assert begin.wait(60)
        asked.append(key)
        return prepare(*key)

    monkeypatch.setattr(eager_products, "_prepared", held_up)
    for _ in range(3):
        assert eager_products.matmul(x, y).tobytes() == np.matmul(x, y).tobytes()
    begin.set()
    eager_products.wait()
    assert len(asked) == 1
    expected = np.matmul(x, y)
    monkeypatch.setattr(eager_products.np, "matmul", None)
    np.testing.assert_allclose(eager_products.matmul(x, y), expected, 1e-4, 1e-4)


def test_a_block_is_used_again_only_when_nobody_looks_at_it():
    pool = Pool()
    size = SMALLEST_POOLED
    first = pool.array((size,), np.dtype(np.float32))
    view = first[5:]
    address = first.__array_interface__["data"][0]
    del first
    second = pool.array((size,), np.dtype(np.float32))
    assert second.__array_interface__["data"][0] != address
    del view
    third = pool.array((size,), np.dtype(np.float32))
    assert third.__array_interface__["data"][0] == address


def test_the_private_blas_has_no_threads_of_its_own():
    pytest.importorskip("scipy_openblas32")
    blas.routines()
    (library,) = blas._keep
    assert library.scipy_openblas_get_num_threads() == 1


def transposed_of(g: object) -> list[bool]:
    """For each product of the compiled function, whether its right operand lies transposed."""
    steps = [(s.code.program.sources, step) for s in g.segments() for step in s.code.program.steps]  # type: ignore[attr-defined]
    rights = [(sources, step.equations[0].inputs[1]) for sources, step in steps if step.kind == "product"]
    return [matmul.can_be_turned(sources.layout(right)) for sources, right in rights]


@pytest.mark.parametrize("times, turned", [(3, False), (30, True)])
def test_what_many_rows_are_multiplied_with_is_turned_over_once(times: int, turned: bool):
    def repeated(h: fg.Tensor, weight: fg.Tensor) -> fg.Tensor:
        for _ in range(times):
            h = fg.tanh(h @ weight.T)
        return h

    h, weight = fg.randn(8, 12), fg.randn(12, 12) * 0.2
    g = fg.jit(repeated)
    g(h, weight)
    np.testing.assert_allclose(g(h, weight).numpy(), repeated(h, weight).numpy(), rtol=1e-5, atol=1e-5)
    assert g.stats.compiled_calls == 1
    assert transposed_of(g) == [not turned] * times


SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 48, 64, 65, 130]


@settings(max_examples=150, deadline=None)
@given(
    m=st.sampled_from(SIZES), n=st.sampled_from(SIZES), k=st.sampled_from([*SIZES, 255, 256, 257, 600]),
    batch=st.sampled_from([(), (3,), (2, 2)]), dtype=st.sampled_from(["float32", "float64"]),
    left=st.booleans(), right=st.booleans(), gap=st.booleans(),
)  # fmt: skip
def test_products_of_all_sizes(m, n, k, batch, dtype, left, right, gap):
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int, transposed: bool) -> np.ndarray:
        shape = (columns, rows) if transposed else (rows, columns)
        made = draw.normal(size=(*batch, shape[0], shape[1] + 5 * gap)).astype(dtype)[..., : shape[1]]
        return made.swapaxes(-1, -2) if transposed else made

    x, y = matrix(m, k, left), matrix(k, n, right)
    g = fg.jit(lambda x, y: x @ y)
    a, b = fg.from_numpy(x), fg.from_numpy(y)
    g(a, b)
    found = g(a, b).numpy()
    tolerance = 1e-3 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(found, np.matmul(x, y), rtol=tolerance, atol=tolerance)
    assert g.stats.compiled_calls == 1


ROWS = [
    (contiguous_layout((7, 5, 3)), (3, 4), 35),
    (contiguous_layout((2, 7, 5, 3)), (3, 4), 70),
    (contiguous_layout((7, 5, 3)), (7, 3, 4), 5),  # each entry has a right operand of its own
    (Layout((7, 1, 3), (3, 1, 1)), (3, 4), 7),
    (Layout((1, 5, 3), (0, 3, 1)), (3, 4), 5),
    (Layout((5, 7, 3), (3, 15, 1)), (3, 4), 7),  # the batch lies between the rows
    (Layout((7, 5, 3), (30, 3, 1)), (3, 4), 5),  # gaps between the entries
    (Layout((7, 5, 3), (5, 1, 35)), (3, 4), 35),  # transposed
]


@pytest.mark.parametrize("x, y, rows", ROWS)
def test_a_batch_times_one_matrix_is_one_product_where_it_lies_so(x: Layout, y: tuple[int, ...], rows: int):
    block = matmul.product_block(x, contiguous_layout(y), 4, ((1, 0), (2, 0), (3, 0)))
    assert block is not None and block[matmul.M] == rows
    memory, right = np.random.default_rng(0).normal(size=1000), np.random.default_rng(1).normal(size=y)
    left = np.lib.stride_tricks.as_strided(memory, x.shape, [s * memory.itemsize for s in x.strides])
    g = fg.jit(lambda x, y: x @ y)
    for _ in range(3):
        found = g(fg.from_numpy(left), fg.from_numpy(right))
    assert g.stats.compiled_calls == 2
    np.testing.assert_allclose(found.numpy(), left @ right, rtol=1e-12, atol=1e-12)


def test_a_weight_gradient_of_a_batch_is_one_product():
    def function(x: fg.Tensor, w: fg.Tensor) -> Any:
        return fg.value_and_grad(lambda w: fg.tanh(x @ w).sum())(w)

    x, w = fg.randn(3, 4, 50, 20), fg.randn(20, 30)
    g = fg.jit(function)
    for _ in range(2):
        gradient = g(x, w)[1]
    np.testing.assert_allclose(gradient.numpy(), function(x, w)[1].numpy(), rtol=1e-4, atol=1e-4)
    (segment,) = g.segments()
    made = [step.made[-1].shape for step in segment.code.program.steps if step.kind == "product"]
    assert made == [(3, 4, 50, 30), (20, 30)]


def test_infinities_and_nans_stay_in_their_rows():
    x = np.ones((9, 300), np.float32)
    x[3, 299], x[5, 0] = np.inf, np.nan
    found = eager_products.matmul(x, np.ones((300, 40), np.float32))
    assert np.isinf(found[3]).all() and np.isnan(found[5]).all() and np.isfinite(found[[0, 4, 6, 8]]).all()


@pytest.mark.skipif(not host().multiplies_by_tiles, reason="products go to BLAS here")
def test_a_dtype_has_two_tiled_kernels_at_most(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(matmul, "_tiled", {})
    every = matmul_kernel.all_tiles(host())
    lanes = host().lanes(4)

    def tiles_after(*sizes: tuple[int, int]) -> list[tuple[Any, ...]]:
        """The tiles of the kernels that there are when products of so many rows and columns have come."""
        dtype, places, blocks = np.dtype("float32"), ((1, 0), (2, 0), (3, 0)), []
        for m, n in sizes:
            block = matmul.product_block(contiguous_layout((m, 32)), contiguous_layout((32, n)), 4, places)
            assert block is not None
            blocks.append(block)
        matmul.compile_together((dtype, block) for block in blocks)
        there = list(matmul._tiled["f32"])
        for block in blocks:
            matmul.product_addresses(dtype, block)
        assert matmul._tiled["f32"] == there  # nothing is compiled after
        return there

    narrow, tall = every[0], every[-1]
    # With AVX-512 the widest tiles are of two heights; products of both are given the shorter.
    wide = next(tile for tile in every if tile.vectors == tall.vectors)
    few, many = 64, 2 * matmul_kernel.TALL
    assert tiles_after((few, lanes), (many, lanes - 1)) == [(narrow,)]
    assert tiles_after((few, 1)) == [(narrow,)]
    assert tiles_after((few, 2 * lanes)) == [(narrow,), every]
    assert tiles_after((many, tall.vectors * lanes), (few, 3 * lanes + 1)) == [(narrow,), every]
    matmul._tiled.clear()
    assert tiles_after((many, tall.vectors * lanes)) == [(tall,)]
    matmul._tiled.clear()
    assert tiles_after((many, tall.vectors * lanes), (few, tall.vectors * lanes)) == [(wide,)]
