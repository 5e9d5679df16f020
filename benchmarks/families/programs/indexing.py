"""Gathers, scatters, embeddings, slices, rolls, pads, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import FORWARD, programs


@programs("indexing", "words width count", "100 8 33 float32", "10000 64 256 float32", "1000 16 5000 float64")
def embedding(ops: Any, draw: Any, words: int, width: int, count: int) -> Any:
    """Rows of a table, by numbers that repeat."""
    look_up, tanh = ops.embedding, ops.tanh

    def loss(index, table):
        return tanh(look_up(index, table)).mean()

    return loss, [draw.integers(words, count), draw.normal(words, width)]


@programs("indexing", "n m", "16 5 float32", "1000 100 float32", "100000 3 float64")
def gather(ops: Any, draw: Any, n: int, m: int) -> Any:
    """One element of each row."""
    take = ops.gather

    def loss(x, index):
        return (take(x, 1, index) ** 2).mean()

    return loss, [draw.normal(n, m), draw.integers(m, n, 1)]


@programs("indexing", "n count", "33 8 float32", "100000 10000 float32", "1000 5000 float64")
def fancy(ops: Any, draw: Any, n: int, count: int) -> Any:
    """`x[index]` with a tensor of numbers."""

    def loss(x, index, weight):
        return (x[index] * weight).sum()

    return loss, [draw.normal(n), draw.integers(n, count), draw.normal(count)]


@programs("indexing", "n m count", "33 33 16 float32", "300 1000 5000 float32")
def points_of_a_field(ops: Any, draw: Any, n: int, m: int, count: int) -> Any:
    """`x[rows, columns]`, and the four neighbours: bilinear interpolation."""

    def loss(field, rows, columns, a, b):
        top = (1 - b) * field[rows, columns] + b * field[rows, columns + 1]
        bottom = (1 - b) * field[rows + 1, columns] + b * field[rows + 1, columns + 1]
        return (((1 - a) * top + a * bottom) ** 2).mean()

    places = [draw.integers(n - 1, count), draw.integers(m - 1, count)]
    return loss, [draw.normal(n, m), *places, draw.uniform(count), draw.uniform(count)]


@programs("indexing", "rows groups width", "33 5 8 float32", "10000 100 16 float32", "100000 1000 1 float64")
def segment_means(ops: Any, draw: Any, rows: int, groups: int, width: int) -> Any:
    """Sums by group, as graph networks have them."""
    summed = ops.segment_sum

    def loss(x, group):
        return (summed(x, group, groups) ** 2).mean()

    return loss, [draw.normal(rows, width), draw.integers(groups, rows)]


@programs("indexing", "nodes edges width", "16 64 8 float32", "1000 10000 16 float32")
def message_passing(ops: Any, draw: Any, nodes: int, edges: int, width: int) -> Any:
    """Two rounds on a graph: gather, product, scatter."""
    summed, relu = ops.segment_sum, ops.relu

    def loss(x, source, target, w):
        for _ in range(2):
            x = relu(summed(x[source] @ w, target, nodes) + x)
        return x.mean()

    ends = [draw.integers(nodes, edges), draw.integers(nodes, edges)]
    return loss, [draw.normal(nodes, width), *ends, draw.normal(width, width, scale=0.2)]


@programs("indexing", "n m", "16 33 float32", "1000 1000 float32")
def scatter_add(ops: Any, draw: Any, n: int, m: int) -> Any:
    """Values added at places of each row."""
    add, tanh = ops.scatter_add, ops.tanh

    def loss(x, index, y):
        return tanh(add(x, 1, index, y)).sum()

    return loss, [draw.normal(n, m), draw.integers(m, n, m), draw.normal(n, m)]


@programs("indexing", "n", "16 float32", "1000 float64", "1000000 float32")
def slices(ops: Any, draw: Any, n: int) -> Any:
    """Neighbours by slices: total variation and curvature of a line."""
    absolute, sqrt = ops.abs, ops.sqrt

    def loss(x):
        first = x[1:] - x[:-1]
        second = x[2:] - 2 * x[1:-1] + x[:-2]
        return sqrt(first * first + 0.01).sum() + (second * second).sum() + absolute(x[::2]).mean()

    return loss, [draw.normal(n)]


@programs("indexing", "n m", "33 33 float32", "500 1000 float32", "100 100 float64")
def image_gradients(ops: Any, draw: Any, n: int, m: int) -> Any:
    """Total variation of an image, in two axes."""
    sqrt = ops.sqrt

    def loss(x):
        down, right = x[1:, :-1] - x[:-1, :-1], x[:-1, 1:] - x[:-1, :-1]
        return sqrt(down * down + right * right + 1e-3).mean()

    return loss, [draw.normal(n, m)]


@programs("indexing", "n m", "8 16 float32", "300 1000 float32", "1000 100 float64")
def rolls(ops: Any, draw: Any, n: int, m: int) -> Any:
    """The Ising energy on a torus."""
    roll, tanh = ops.roll, ops.tanh

    def loss(x):
        spin = tanh(x)
        return -(spin * (roll(spin, 1, 0) + roll(spin, -1, 1))).mean()

    return loss, [draw.normal(n, m)]


@programs("indexing", "mode shape", "constant 4x3x16x16 float32", "reflect 4x3x33x33 float32")
def pads(ops: Any, draw: Any, mode: str, shape: Any) -> Any:
    """An image with a border, blurred by slices."""
    pad = ops.pad

    def loss(x):
        y = pad(x, (1, 1, 1, 1), mode=mode)
        blurred = (y[..., :-2, 1:-1] + y[..., 2:, 1:-1] + y[..., 1:-1, :-2] + y[..., 1:-1, 2:]) / 4
        return ((blurred - x) ** 2).mean()

    return loss, [draw.normal(*shape)]


@programs("indexing", "batch length width", "8 16 8 float32", "64 100 33 float32")
def masked_mean(ops: Any, draw: Any, batch: int, length: int, width: int) -> Any:
    """The mean of sequences of different lengths."""
    arange, where = ops.arange, ops.where

    def loss(x, lengths):
        mask = (arange(length)[None, :] < lengths[:, None])[:, :, None]
        return ((where(mask, x, 0.0).sum(1) / lengths[:, None]) ** 2).mean()

    return loss, [draw.normal(batch, length, width), 1 + draw.integers(length, batch)]


@programs("indexing", "n", "33 float32", "300 float64")
def triangles(ops: Any, draw: Any, n: int) -> Any:
    """A causal mask, and the diagonal."""
    tril, diagonal = ops.tril, ops.diagonal

    def loss(x):
        return (tril(x) @ x.T).mean() + (diagonal(x) ** 2).sum()

    return loss, [draw.normal(n, n)]


@programs("indexing", "n", "100 float32", "10000 float32")
def set_and_add(ops: Any, draw: Any, n: int) -> Any:
    """Boundary values written, and a row incremented."""
    index_set, index_increment = ops.index_set, ops.index_increment

    def loss(x, edge):
        y = index_set(x, 0, edge * 2)
        y = index_increment(y, slice(1, n // 2), x[n // 2 + 1 :][: n // 2 - 1] * edge)
        return (y * y).mean()

    return loss, [draw.normal(n), draw.normal()]


@programs("indexing", "n m", "16 8 float32", "256 100 float32")
def concatenated(ops: Any, draw: Any, n: int, m: int) -> Any:
    """Parts joined, stacked, flipped, repeated."""
    cat, stack, flip, repeat = ops.cat, ops.stack, ops.flip, ops.repeat_interleave

    def loss(x, y):
        wide = cat([x, flip(y, (1,)), x * y], dim=1)
        return (stack([wide, repeat(wide[:, :m], 3, dim=1)], 0) ** 2).mean()

    return loss, [draw.normal(n, m), draw.normal(n, m)]


@programs("indexing", "n bins", "1000 16 float32", "100000 64 float32", kind=FORWARD)
def histogram(ops: Any, draw: Any, n: int, bins: int) -> Any:
    """Counts by bin: an index that is computed. Forward only: counts have no gradient."""
    floor, clamp, summed, ones_like, cast = ops.floor, ops.clamp, ops.segment_sum, ops.ones_like, ops.cast
    integer = ops.int64

    def count(x):
        bin_of = cast(clamp(floor(x * bins), 0, bins - 1), integer)
        return summed(ones_like(x), bin_of, bins)

    return count, [draw.floats(np.round(draw.uniform(n) * 4096) / 4096)]


@programs("indexing", "patches width", "4 16 float32", "14 64 float32")
def patches(ops: Any, draw: Any, patches: int, width: int) -> Any:
    """An image cut into patches by reshape and permute, and projected."""
    permute = ops.permute

    def loss(x, w):
        cut = permute(x.reshape(8, 3, patches, 4, patches, 4), (0, 2, 4, 1, 3, 5))
        return ((cut.reshape(8, patches * patches, 48) @ w) ** 2).mean()

    return loss, [draw.normal(8, 3, 4 * patches, 4 * patches), draw.normal(48, width)]
