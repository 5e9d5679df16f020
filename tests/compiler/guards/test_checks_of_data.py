"""What eager checks of data, a replay checks as well: it raises the same error, at the same line.

Each function has been replayed with good data when it meets bad ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.eager.random import random

F, t = fg.nn.functional, fg.tensor
fg.manual_seed(0)
w, table = fg.randn(5, 3), fg.nn.Embedding(5, 3)


def marked(x: fg.Tensor) -> fg.Tensor:
    z = fg.zeros(5)
    z[x] = 1.0
    return z


# A function, good data, bad ones.
CASES: dict[str, tuple[Callable[..., Any], fg.Tensor, fg.Tensor]] = {
    "bernoulli": (lambda x: fg.bernoulli(x), t([0.5, 0.2]), t([0.5, 2.0])),
    "bernoulli nan": (lambda x: fg.bernoulli(x), t([0.5, 0.2]), t([0.5, fg.nan])),
    "normal std": (lambda x: fg.normal(t([0.0, 0.0]), x), t([0.5, 0.2]), t([0.5, -2.0])),
    "normal std const mean": (lambda x: fg.normal(0.0, x), t([0.5, 0.2]), t([0.5, -2.0])),
    "multinomial": (lambda x: fg.multinomial(x, 1), t([0.5, 0.2]), t([-0.5, 0.2])),
    "multinomial zero": (lambda x: fg.multinomial(x, 1), t([0.5, 0.2]), t([0.0, 0.0])),
    "multinomial nan": (lambda x: fg.multinomial(x, 1), t([0.5, 0.2]), t([fg.nan, 0.2])),
    "multinomial few": (lambda x: fg.multinomial(x, 2), t([0.5, 0.2]), t([0.5, 0.0])),
    "multinomial again": (lambda x: fg.multinomial(x, 3, True), t([[0.5, 0.2]]), t([[0.0, 0.0]])),
    "poisson": (lambda x: fg.poisson(x), t([0.5, 0.2]), t([-0.5, 0.2])),
    "index": (lambda x: w[x] * 2, t([0, 1]), t([0, 7])),
    "index neg": (lambda x: w[x] * 2, t([0, 1]), t([0, -7])),
    "index_select": (lambda x: w.index_select(0, x) * 2, t([0, 1]), t([0, 7])),
    "gather": (lambda x: w.gather(0, x) * 2, t([[0, 1, 2]]), t([[0, 7, 1]])),
    "scatter": (lambda x: w.scatter(0, x, 1.0) * 2, t([[0, 1, 2]]), t([[0, 7, 1]])),
    "scatter_add": (lambda x: w.scatter_add(0, x, fg.ones(1, 3)) * 2, t([[0, 1, 2]]), t([[0, 7, 1]])),
    "index_add": (lambda x: w.index_add(0, x, fg.ones(2, 3)) * 2, t([0, 1]), t([0, 7])),
    "index_copy": (lambda x: w.index_copy(0, x, fg.ones(2, 3)) * 2, t([0, 1]), t([0, 7])),
    "index_fill": (lambda x: w.index_fill(0, x, 3.0) * 2, t([0, 1]), t([0, 7])),
    "take": (lambda x: w.take(x) * 2, t([0, 1]), t([0, 77])),
    "put": (lambda x: w.put(x, t([1.0, 2.0])) * 2, t([0, 1]), t([0, 77])),
    "take_along": (lambda x: fg.take_along_dim(w, x, 0) * 2, t([[0, 1, 2]]), t([[0, 7, 1]])),
    "embedding": (lambda x: table(x).sum(), t([0, 1]), t([0, 7])),
    "embedding_bag": (lambda x: F.embedding_bag(x, w), t([[0, 1]]), t([[0, 7]])),
    "offsets that do not begin": (lambda x: F.embedding_bag(t([0, 1, 2]), w, x), t([0, 2]), t([1, 2])),
    "offsets that decrease": (lambda x: F.embedding_bag(t([0, 1, 2]), w, x), t([0, 1, 3]), t([0, 2, 1])),
    "offsets beyond the end": (lambda x: F.embedding_bag(t([0, 1, 2]), w, x), t([0, 2]), t([0, 4])),
    "one_hot": (lambda x: F.one_hot(x, 5), t([0, 1]), t([0, 7])),
    "one_hot neg": (lambda x: F.one_hot(x, 5), t([0, 1]), t([0, -1])),
    "nll": (lambda x: F.nll_loss(w[:2], x), t([0, 1]), t([0, 7])),
    "cross_entropy": (lambda x: F.cross_entropy(w[:2], x), t([0, 1]), t([0, 7])),
    "bce": (lambda x: F.binary_cross_entropy(x, t([0.0, 1.0])), t([0.5, 0.2]), t([0.5, 1.2])),
    "bce target": (lambda x: F.binary_cross_entropy(t([0.5, 0.5]), x), t([0.5, 0.2]), t([0.5, 1.2])),
    "multi_margin": (lambda x: F.multi_margin_loss(w[:2], x), t([0, 1]), t([0, 7])),
    "multilabel_margin": (
        lambda x: F.multilabel_margin_loss(w[:2, :3], x),
        t([[0, 1, -1], [0, -1, 1]]),
        t([[0, 7, -1], [0, -1, 1]]),
    ),
    "cholesky": (lambda x: fg.linalg.cholesky(x), t([[2.0, 0], [0, 2]]), t([[-2.0, 0], [0, 2]])),
    "inv": (lambda x: fg.linalg.inv(x), t([[2.0, 0], [0, 2]]), t([[0.0, 0], [0, 0]])),
    "solve": (lambda x: fg.linalg.solve(x, fg.ones(2)), t([[2.0, 0], [0, 2]]), t([[0.0, 0], [0, 0]])),
    "eigh nan": (lambda x: fg.linalg.eigh(x)[0], t([[2.0, 0], [0, 2]]), t([[fg.nan, 0], [0, 2.0]])),
    "svd nan": (lambda x: fg.linalg.svdvals(x), t([[2.0, 0], [0, 2]]), t([[fg.nan, 0], [0, 2.0]])),
    "repeat_interleave": (lambda x: fg.ones(2).repeat_interleave(x), t([1, 2]), t([1, -2])),
    "bincount": (lambda x: fg.bincount(x, minlength=4), t([1, 2]), t([1, -2])),
    "histc": (lambda x: fg.histc(x, 4), t([1.0, 2]), t([1.0, fg.inf])),
    "int div": (lambda x: t([4, 5]) // x, t([1, 2]), t([1, 0])),
    "int rem": (lambda x: t([4, 5]) % x, t([1, 2]), t([1, 0])),
    "int pow": (lambda x: t([4, 5]) ** x, t([1, 2]), t([1, -1])),
    "item int": (lambda x: fg.zeros(int(x.sum())), t([1, 2]), t([1, -5])),
    "ctc": (lambda x: F.ctc_loss(fg.zeros(4, 1, 3).log_softmax(-1), t([[1, 2]]), t([4]), x), t([2]), t([3])),
    "unravel": (lambda x: fg.unravel_index(x, (2, 2))[0], t([1, 2]), t([1, -9])),
    "gumbel": (lambda x: F.gumbel_softmax(x), t([1.0, 2.0]), t([fg.nan, 1.0])),
    "interp": (lambda x: fg.searchsorted(x, t([1.5])), t([1.0, 2.0]), t([2.0, 1.0])),
    "exponential_": (lambda x: x.exponential_(2.0), t([1.0, 2.0]), t([1.0, 2.0])),
    "weighted bincount": (lambda x: fg.bincount(t([1, 2]), x), t([1.0, 2.0]), t([1.0, 2.0])),
    "dropout": (lambda x: F.dropout(x, 0.5), t([1.0, 2.0]), t([1.0, 2.0])),
    "setitem": (lambda x: marked(x), t([0, 1]), t([0, 7])),
    "max_unpool": (lambda x: F.max_unpool1d(fg.ones(1, 1, 2), x, 2), t([[[0, 2]]]), t([[[0, 9]]])),
    "logdet": (lambda x: fg.logdet(x), t([[2.0, 0], [0, 2]]), t([[-2.0, 0], [0, 2]])),
    "cosine_embedding": (lambda x: F.cosine_embedding_loss(w[:2], w[2:4], x), t([1, -1]), t([1, 0])),
    "gaussian_nll": (lambda x: F.gaussian_nll_loss(w[:2], w[2:4], x), fg.ones(2, 3), -fg.ones(2, 3)),
    "pinv": (lambda x: fg.linalg.matrix_power(x, -1), t([[2.0, 0], [0, 2]]), t([[0.0, 0], [0, 0]])),
    "pack": (lambda x: fg.nn.utils.rnn.pack_padded_sequence(fg.ones(3, 2, 1), x).data, t([3, 2]), t([2, 3])),
}


def outcome(function: Callable[..., Any], x: fg.Tensor) -> Any:
    """The error that a call raises, or None."""
    try:
        function(x.clone())
    except Exception as error:
        return type(error), str(error)
    return None


def replayed(name: str) -> Any:
    function, good, bad = CASES[name]
    jitted = fg.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            jitted(good.clone())
        assert outcome(jitted, bad) == outcome(function, bad)
    return jitted


@pytest.mark.parametrize("name", CASES)
def test_bad_data_raise_what_eager_raises(name: str):
    replayed(name)


def test_most_are_replayed():
    assert sum("(replay)" in str(replayed(name).explain()) for name in CASES) >= 0.6 * len(CASES)


@pytest.mark.parametrize("name", ["bernoulli", "normal std"])
def test_a_check_that_replays_do_not_make_is_found(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(random, "testable", lambda tensor, passed: True)
    with pytest.raises(AssertionError):
        replayed(name)
