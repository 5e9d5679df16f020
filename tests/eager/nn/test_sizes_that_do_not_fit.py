"""Tensors of other sizes than functions ask for, beside PyTorch: what it refuses is refused, and no more."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

Size = tuple[int, ...]
# What is called, and sizes that fit.
CALLS: dict[str, tuple[Callable[..., Any], list[Size]]] = {
    "linear": (lambda L, x, w, b: L.nn.functional.linear(x, w, b), [(2, 3), (4, 3), (4,)]),
    "conv1d": (lambda L, x, w, b: L.nn.functional.conv1d(x, w, b), [(2, 3, 8), (4, 3, 3), (4,)]),
    "conv2d": (lambda L, x, w, b: L.nn.functional.conv2d(x, w, b), [(2, 3, 6, 6), (4, 3, 3, 3), (4,)]),
    "convT": (
        lambda L, x, w, b: L.nn.functional.conv_transpose2d(x, w, b),
        [(2, 3, 6, 6), (3, 4, 3, 3), (4,)],
    ),
    "batch_norm": (
        lambda L, x, m, v, w, b: L.nn.functional.batch_norm(x, m, v, w, b),
        [(2, 3, 4), (3,), (3,), (3,), (3,)],
    ),
    "batch_norm_t": (
        lambda L, x, m, v, w, b: L.nn.functional.batch_norm(x, m, v, w, b, training=True),
        [(2, 3, 4), (3,), (3,), (3,), (3,)],
    ),
    "instance_norm": (
        lambda L, x, w, b: L.nn.functional.instance_norm(x, weight=w, bias=b),
        [(2, 3, 4), (3,), (3,)],
    ),
    "group_norm": (lambda L, x, w, b: L.nn.functional.group_norm(x, 3, w, b), [(2, 6, 4), (6,), (6,)]),
    "layer_norm": (lambda L, x, w, b: L.nn.functional.layer_norm(x, (4,), w, b), [(2, 3, 4), (4,), (4,)]),
    "rms_norm": (lambda L, x, w: L.nn.functional.rms_norm(x, (4,), w), [(2, 3, 4), (4,)]),
    "prelu": (lambda L, x, w: L.nn.functional.prelu(x, w), [(2, 3, 4), (3,)]),
    "bilinear": (
        lambda L, x, y, w, b: L.nn.functional.bilinear(x, y, w, b),
        [(2, 3), (2, 4), (5, 3, 4), (5,)],
    ),
    "nll": (lambda L, x, w: L.nn.functional.nll_loss(x, L.zeros(2, dtype=L.int64), w), [(2, 3), (3,)]),
    "nll_t": (lambda L, x, t: L.nn.functional.nll_loss(x, t.long()), [(2, 3), (2,)]),
    "ce": (lambda L, x, w: L.nn.functional.cross_entropy(x, L.zeros(2, dtype=L.int64), w), [(2, 3), (3,)]),
    "ce_prob": (lambda L, x, t: L.nn.functional.cross_entropy(x, t), [(2, 3), (2, 3)]),
    "bce": (
        lambda L, x, t, w: L.nn.functional.binary_cross_entropy(x * 0.5, t * 0.5, w),
        [(2, 3), (2, 3), (2, 3)],
    ),
    "bcel": (
        lambda L, x, t, w, p: L.nn.functional.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
        [(2, 3), (2, 3), (2, 3), (3,)],
    ),
    "mlsm": (lambda L, x, t, w: L.nn.functional.multilabel_soft_margin_loss(x, t, w), [(2, 3), (2, 3), (3,)]),
    "multi_margin": (
        lambda L, x, t, w: L.nn.functional.multi_margin_loss(x, t.long(), weight=w),
        [(2, 3), (2,), (3,)],
    ),
    "mlm": (lambda L, x, t: L.nn.functional.multilabel_margin_loss(x, t.long()), [(2, 3), (2, 3)]),
    "soft_margin": (lambda L, x, t: L.nn.functional.soft_margin_loss(x, t), [(2, 3), (2, 3)]),
    "hinge": (lambda L, x, t: L.nn.functional.hinge_embedding_loss(x, t), [(2, 3), (2, 3)]),
    "margin_rank": (lambda L, x, y, t: L.nn.functional.margin_ranking_loss(x, y, t), [(3,), (3,), (3,)]),
    "cosine_emb": (lambda L, x, y, t: L.nn.functional.cosine_embedding_loss(x, y, t), [(2, 3), (2, 3), (2,)]),
    "triplet": (lambda L, x, y, z: L.nn.functional.triplet_margin_loss(x, y, z), [(2, 3), (2, 3), (2, 3)]),
    "gauss": (lambda L, x, t, v: L.nn.functional.gaussian_nll_loss(x, t, v), [(2, 3), (2, 3), (2, 3)]),
    "poisson": (lambda L, x, t: L.nn.functional.poisson_nll_loss(x, t), [(2, 3), (2, 3)]),
    "kl": (lambda L, x, t: L.nn.functional.kl_div(x, t), [(2, 3), (2, 3)]),
    "mse": (lambda L, x, t: L.nn.functional.mse_loss(x, t), [(2, 3), (2, 3)]),
    "huber": (lambda L, x, t: L.nn.functional.huber_loss(x, t), [(2, 3), (2, 3)]),
    "ctc": (
        lambda L, x, t, i, o: L.nn.functional.ctc_loss(x, t.long(), (i * 5).long(), (o * 2).long()),
        [(5, 2, 3), (2, 2), (2,), (2,)],
    ),
    "emb_bag": (
        lambda L, w, i, p: L.nn.functional.embedding_bag(i.long(), w, per_sample_weights=p, mode="sum"),
        [(4, 3), (2, 3), (2, 3)],
    ),
    "emb_bag_off": (
        lambda L, w, i, o: L.nn.functional.embedding_bag(i.long(), w, (o * 0).long()),
        [(4, 3), (6,), (2,)],
    ),
    "sdpa": (
        lambda L, q, k, v, m: L.nn.functional.scaled_dot_product_attention(q, k, v, m),
        [(2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5)],
    ),
    "lstm": (lambda L, x, h, c: L.nn.LSTM(3, 4)(x, (h, c))[0], [(5, 2, 3), (1, 2, 4), (1, 2, 4)]),
    "gru": (lambda L, x, h: L.nn.GRU(3, 4)(x, h)[0], [(5, 2, 3), (1, 2, 4)]),
    "rnn": (lambda L, x, h: L.nn.RNN(3, 4)(x, h)[0], [(5, 2, 3), (1, 2, 4)]),
    "lstmcell": (lambda L, x, h, c: L.nn.LSTMCell(3, 4)(x, (h, c))[0], [(2, 3), (2, 4), (2, 4)]),
    "grucell": (lambda L, x, h: L.nn.GRUCell(3, 4)(x, h), [(2, 3), (2, 4)]),
    "rnncell": (lambda L, x, h: L.nn.RNNCell(3, 4)(x, h), [(2, 3), (2, 4)]),
    "grid": (
        lambda L, x, g: L.nn.functional.grid_sample(x, g, align_corners=False),
        [(2, 3, 4, 4), (2, 5, 5, 2)],
    ),
    "affine_grid": (
        lambda L, t: L.nn.functional.affine_grid(t, (2, 3, 4, 4), align_corners=False),
        [(2, 2, 3)],
    ),
    "fold": (lambda L, x: L.nn.functional.fold(x, (4, 4), (2, 2)), [(2, 12, 9)]),
    "maxunpool": (
        lambda L, x, i: L.nn.functional.max_unpool2d(x, (i * 0).long(), 2),
        [(2, 3, 2, 2), (2, 3, 2, 2)],
    ),
    "cosine_sim": (lambda L, x, y: L.nn.functional.cosine_similarity(x, y), [(2, 3), (2, 3)]),
    "pairwise": (lambda L, x, y: L.nn.functional.pairwise_distance(x, y), [(2, 3), (2, 3)]),
    "cdist": (lambda L, x, y: L.cdist(x, y), [(2, 3), (4, 3)]),
    "addmm": (lambda L, a, b, c: L.addmm(a, b, c), [(2, 4), (2, 3), (3, 4)]),
    "baddbmm": (lambda L, a, b, c: L.baddbmm(a, b, c), [(5, 2, 4), (5, 2, 3), (5, 3, 4)]),
    "addmv": (lambda L, a, b, c: L.addmv(a, b, c), [(2,), (2, 3), (3,)]),
    "addr": (lambda L, a, b, c: L.addr(a, b, c), [(2, 3), (2,), (3,)]),
    "dot": (lambda L, a, b: L.dot(a, b), [(3,), (3,)]),
    "mv": (lambda L, a, b: L.mv(a, b), [(2, 3), (3,)]),
    "mm": (lambda L, a, b: L.mm(a, b), [(2, 3), (3, 4)]),
    "bmm": (lambda L, a, b: L.bmm(a, b), [(2, 2, 3), (2, 3, 4)]),
    "outer": (lambda L, a, b: L.outer(a, b), [(3,), (2,)]),
    "cross": (lambda L, a, b: L.linalg.cross(a, b), [(2, 3), (2, 3)]),
    "kron": (lambda L, a, b: L.kron(a, b), [(2, 3), (2, 3)]),
    "tensordot": (lambda L, a, b: L.tensordot(a, b, 1), [(2, 3), (3, 4)]),
    "index_add": (lambda L, x, i, s: x.index_add(0, (i * 0).long(), s), [(4, 3), (2,), (2, 3)]),
    "index_copy": (lambda L, x, i, s: x.index_copy(0, (i * 0).long(), s), [(4, 3), (2,), (2, 3)]),
    "index_select": (lambda L, x, i: x.index_select(0, (i * 0).long()), [(4, 3), (2,)]),
    "gather": (lambda L, x, i: x.gather(0, (i * 0).long()), [(4, 3), (2, 3)]),
    "scatter": (lambda L, x, i, s: x.scatter(0, (i * 0).long(), s), [(4, 3), (2, 3), (2, 3)]),
    "scatter_add": (lambda L, x, i, s: x.scatter_add(0, (i * 0).long(), s), [(4, 3), (2, 3), (2, 3)]),
    "masked_scatter": (lambda L, x, m, s: x.masked_scatter(m > 0, s), [(4, 3), (4, 3), (12,)]),
    "masked_fill": (lambda L, x, m: x.masked_fill(m > 0, 1.0), [(4, 3), (4, 3)]),
    "masked_select": (lambda L, x, m: x.masked_select(m > 0), [(4, 3), (4, 3)]),
    "where": (lambda L, c, a, b: L.where(c > 0, a, b), [(4, 3), (4, 3), (4, 3)]),
    "take_along": (lambda L, x, i: L.take_along_dim(x, (i * 0).long(), 0), [(4, 3), (2, 3)]),
    "bucketize": (lambda L, x, b: L.bucketize(x, b), [(4, 3), (5,)]),
    "searchsorted": (lambda L, b, x: L.searchsorted(b, x), [(4, 5), (4, 3)]),
    "lerp": (lambda L, a, b, w: L.lerp(a, b, w), [(4, 3), (4, 3), (4, 3)]),
    "solve": (
        lambda L, a, b: L.linalg.solve(a + 3 * L.eye(a.shape[-1]) if a.shape[-1] == a.shape[-2] else a, b),
        [(3, 3), (3, 2)],
    ),
    "lstsq": (lambda L, a, b: L.linalg.lstsq(a, b)[0], [(4, 3), (4, 2)]),
    "bincount": (lambda L, x, w: L.bincount((x * 0).long(), w), [(4,), (4,)]),
    "histogram": (lambda L, x, w: L.histogram(x, 5, weight=w)[0], [(4,), (4,)]),
    "cov": (lambda L, x, w: L.cov(x, aweights=w), [(3, 4), (4,)]),
    "trapezoid": (lambda L, y, x: L.trapezoid(y, x), [(3, 4), (3, 4)]),
    "interp": (lambda L, x, y: L.complex(x, y), [(3, 4), (3, 4)]),
    "polar": (lambda L, x, y: L.polar(x, y), [(3, 4), (3, 4)]),
    "copy_": (lambda L, x, y: x.clone().copy_(y), [(3, 4), (3, 4)]),
    "add_": (lambda L, x, y: x.clone().add_(y), [(3, 4), (3, 4)]),
    "addcmul_": (lambda L, x, y, z: x.clone().addcmul_(y, z), [(3, 4), (3, 4), (3, 4)]),
    "weight_norm": (lambda L, v, g: L._weight_norm(v, g) if 0 else v * g, [(3, 4), (3, 4)]),
    "multi_head": (
        lambda L, x, k, m: L.nn.MultiheadAttention(8, 2)(x, k, k, attn_mask=m)[0],
        [(5, 3, 8), (4, 3, 8), (5, 4)],
    ),
}
# Of how many sizes it is otherwise: PyTorch takes weights of one row or column, too; weights of one dimension
# more, and batches of one matrix, spread here.
APART = {"batch_norm": 4, "batch_norm_t": 4, "bce": 1, "bcel": 1, "lstsq": 2}


def others(size: Size) -> Iterator[Size]:
    """Sizes near the one that fits."""
    for dim, n in enumerate(size):
        for other in sorted({n + 1, n - 1, 1, 2 * n} - {0, n}):
            yield (*size[:dim], other, *size[dim + 1 :])
    yield from ((*size, 1), (1, *size))
    if len(size) > 1:
        yield size[1:]


def outcome(lib: Any, call: Callable[..., Any], sizes: list[Size]) -> Size | str:
    try:
        return tuple(call(lib, *(lib.ones(*size) for size in sizes)).shape)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
        return "refused"


def differing(name: str, lib: Any = fg) -> list[Any]:
    call, sizes = CALLS[name]
    tried = [sizes] + [
        [*sizes[:k], size, *sizes[k + 1 :]] for k in range(len(sizes)) for size in others(sizes[k])
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [(s, outcome(lib, call, s), outcome(torch, call, s)) for s in tried]
    assert pairs[0][1] != "refused"
    return [pair for pair in pairs if pair[1] != pair[2]]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CALLS)
def test_sizes_that_do_not_fit(name: str) -> None:
    assert len(differing(name)) == APART.get(name, 0), differing(name)


def test_a_function_that_spreads_what_does_not_fit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fg.nn.functional, "soft_margin_loss", lambda x, t: fg.log1p(fg.exp(-x * t)).mean(), raising=True
    )
    assert len(differing("soft_margin")) > 2
