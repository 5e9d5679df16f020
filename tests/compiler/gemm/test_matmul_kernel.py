"""The product kernel for vectors of any width: what the machine lacks LLVM makes of shorter ones."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from fusegrad.compiler.gemm.matmul_kernel import (
    PACKED_ROWS,
    TALL,
    Tile,
    all_tiles,
    depth,
    product_functions,
    tiles_for,
)
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.llvm.tasks import module

SIZE, ADDRESS = ctypes.c_int64, ctypes.c_void_p


@functools.cache
def functions_of(
    dtype: str, target: Target, tiles: tuple[Tile, ...]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What turns columns over, and the product, for a dtype (as the IR names it), a width, and tiles."""
    name, declared = "_".join(map(str, ("product", dtype, target.vector_bytes, *sum(tiles, ())))), set[str]()
    texts = product_functions(name, dtype, target, tiles, declared)
    text = module(declared, [text.replace("define internal", "define", 1) for text in texts])
    turn, product = llvm_jit.compile_module(text, [f"{name}.turn", name])
    operand = (ADDRESS, SIZE, SIZE)
    return (
        ctypes.CFUNCTYPE(None, ADDRESS, SIZE, ADDRESS, SIZE, SIZE, SIZE)(turn),
        ctypes.CFUNCTYPE(None, SIZE, SIZE, SIZE, *operand, *operand, ADDRESS, SIZE)(product),
    )


@pytest.mark.parametrize("target", [Target(16), Target(32), Target(64, avx512=True)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@settings(max_examples=60, deadline=None)
@given(
    m=st.sampled_from([1, 3, 4, 6, PACKED_ROWS - 1, PACKED_ROWS, PACKED_ROWS + 3, TALL, TALL + 4]),
    n=st.integers(1, 200),
    parts=st.sampled_from([0, 1, 2]), more=st.sampled_from([-1, 0, 1, 5]),
    left=st.booleans(), right=st.booleans(), every=st.booleans(),
)  # fmt: skip
def test_products_for_vectors_of_any_width(target, dtype, m, n, parts, more, left, right, every):
    draw, itemsize = np.random.default_rng(0), DTYPES[dtype].size
    k = max(parts * depth(target) + more, 1)
    x, y = (draw.normal(size=shape).astype(f"f{itemsize}") for shape in ((m, k), (k, n)))
    a = np.asfortranarray(x) if left else x
    b = np.asfortranarray(y) if right else y
    made = np.full((m + 1, n + 1), 7, x.dtype)
    (a_row, a_column), (b_row, b_column) = ((1, m) if left else (k, 1)), ((1, k) if right else (n, 1))
    # With no other tiles than are said to be needed, or with all that there are.
    tiles = all_tiles(target) if every else tiles_for(m, n, dtype, target)
    functions_of(dtype, target, tuple(sorted(tiles)))[1](
        m, n, k, a.ctypes.data, a_row, a_column, b.ctypes.data, b_row, b_column, made.ctypes.data, n + 1
    )
    tolerance = 1e-3 if dtype == "f32" else 1e-11
    np.testing.assert_allclose(made[:m, :n], x @ y, rtol=tolerance, atol=tolerance)
    assert (made[m] == 7).all() and (made[:, n] == 7).all()


@pytest.mark.parametrize("target", [Target(16), Target(32), Target(64, avx512=True)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("columns", [1, 5, 16, 33])
def test_a_turned_strip_is_written_to_its_end(target: Target, dtype: str, columns: int):
    """Tiles read all of it: what nobody wrote might be numbers that a processor is slow with."""
    depth, width = 19, 64
    y = np.random.default_rng(0).normal(size=(columns, depth)).astype(f"f{DTYPES[dtype].size}")
    room = np.full((depth + 32, width), np.nan, y.dtype)  # rows are written in blocks, too
    turn = functions_of(dtype, target, (Tile(1, 8),))[0]
    turn(room.ctypes.data, width, y.ctypes.data, depth, depth, columns)
    np.testing.assert_array_equal(room[:depth], np.pad(y, ((0, width - columns), (0, 0)), "edge").T)
