"""Matrix products: thin, fat, tiny and batched, sides from 1 to 64 and larger ones; einsum patterns."""

from __future__ import annotations

from typing import Any

from families.declare import programs


@programs(
    "products",
    "rows inner columns",
    *(
        "1 1 1 float32",
        "2 2 2 float64",
        "3 3 3 float32",
        "4 4 4 float32",
        "8 8 8 float32",
        "16 16 16 float64",
    ),
    *("64 64 64 float32", "1 64 1 float32", "64 1 64 float32", "1 1000 64 float32", "1000 64 1 float32"),
    *(
        "10000 3 3 float32",
        "3 10000 3 float64",
        "1000 2 1000 float32",
        "8 1000 8 float32",
        "512 512 512 float32",
    ),
)
def plain(ops: Any, draw: Any, rows: int, inner: int, columns: int) -> Any:
    """One product."""

    def loss(x, w):
        return ((x @ w) ** 2).mean()

    return loss, [draw.normal(rows, inner), draw.normal(inner, columns)]


@programs(
    "products",
    "batch rows inner columns",
    *("1000 2 2 2 float32", "1000 3 3 1 float32", "256 4 4 4 float64", "100 8 8 8 float32"),
    *("64 16 64 16 float32", "16 64 64 64 float32", "10000 3 3 3 float32", "33 1 64 8 float64"),
)
def batched(ops: Any, draw: Any, batch: int, rows: int, inner: int, columns: int) -> Any:
    """Many small products."""
    matmul = ops.matmul

    def loss(x, w):
        return (matmul(x, w) ** 2).mean()

    return loss, [draw.normal(batch, rows, inner), draw.normal(batch, inner, columns)]


@programs("products", "n m", "3 3 float32", "64 1000 float32", "1000 64 float64", "1000 1000 float32")
def matrix_vector(ops: Any, draw: Any, n: int, m: int) -> Any:
    """A quadratic form of a vector."""
    tanh = ops.tanh

    def loss(a, x, y):
        return tanh(a @ x) @ y

    return loss, [draw.normal(n, m, scale=0.1), draw.normal(m), draw.normal(n)]


@programs("products", "batch width", "16 8 float32", "256 64 float32", "1000 16 float64")
def dense_chain(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """Four dense layers with bias and relu."""
    relu = ops.relu

    def loss(x, *layers):
        for weight, bias in zip(layers[::2], layers[1::2], strict=True):
            x = relu(x @ weight + bias)
        return x.mean()

    return loss, [draw.normal(batch, width), *draw.layers(*[width] * 5)]


@programs("products", "batch points", "1000 1 float64", "64 100 float32")
def rotations(ops: Any, draw: Any, batch: int, points: int) -> Any:
    """Points turned by angles: 3×3 matrices built of sines and cosines."""
    sin, cos, stack = ops.sin, ops.cos, ops.stack

    def loss(angle, x):
        s, c = sin(angle), cos(angle)
        zero, one = 0 * s, 0 * s + 1
        turn = stack([stack([c, -s, zero], -1), stack([s, c, zero], -1), stack([zero, zero, one], -1)], -2)
        return ((x @ turn) ** 3).mean()

    return loss, [draw.normal(batch), draw.normal(batch, points, 3)]


@programs("products", "rank n m", "2 100 100 float32", "16 1000 300 float32")
def low_rank(ops: Any, draw: Any, rank: int, n: int, m: int) -> Any:
    """A matrix approximated by a thin product."""

    def loss(u, v, a):
        return ((u @ v.T - a) ** 2).mean()

    return loss, [draw.normal(n, rank), draw.normal(m, rank), draw.normal(n, m)]


@programs(
    "einsum",
    "pattern first_shape second_shape",
    *(
        "ij,jk->ik 33x16 16x8 float32",
        "bij,bjk->bik 16x8x8 16x8x8 float32",
        "bij,bkj->bik 8x33x16 8x64x16 float32",
    ),
    *(
        "i,j->ij 100 1000 float32",
        "ij,ij->i 1000x16 1000x16 float64",
        "bhid,bhjd->bhij 4x4x33x16 4x4x33x16 float32",
    ),
    *("bhij,bhjd->bhid 4x4x33x33 4x4x33x16 float32", "ijk,k->ij 16x33x64 64 float64"),
    *(
        "bnd,de->bne 8x100x16 16x64 float32",
        "ij,ji-> 100x64 64x100 float32",
        "bi,bj->bij 64x16 64x33 float32",
    ),
    *("bijc,ijd->bcd 4x8x8x3 8x8x16 float32",),
)
def two(ops: Any, draw: Any, pattern: str, first_shape: Any, second_shape: Any) -> Any:
    """A pattern of two operands."""
    einsum = ops.einsum

    def loss(x, y):
        return (einsum(pattern, x, y) ** 2).mean()

    return loss, [draw.normal(*first_shape), draw.normal(*second_shape)]


@programs("einsum", "batch n m", "100 8 4 float32", "1000 16 16 float64")
def bilinear(ops: Any, draw: Any, batch: int, n: int, m: int) -> Any:
    """Three operands: a bilinear layer."""
    einsum = ops.einsum

    def loss(x, w, y):
        return (einsum("bi,oij,bj->bo", x, w, y) ** 2).mean()

    return loss, [draw.normal(batch, n), draw.normal(4, n, m), draw.normal(batch, m)]
