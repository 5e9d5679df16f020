"""Functions of `torch` itself whose arguments come in another order than in `nn.functional`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

x = np.random.default_rng(0).normal(size=(4, 6, 5)).astype("f4")
six = np.random.default_rng(1).uniform(0.5, 1.5, 6).astype("f4")
CALLS = {
    "layer_norm": lambda t, x, c: t.layer_norm(x, (5,), c[:5], c[1:], 1e-4, False),
    "rms_norm": lambda t, x, c: t.rms_norm(x, (5,), c[:5]),
    "group_norm": lambda t, x, c: t.group_norm(x, 3, c, c, 1e-4),
    "batch_norm": lambda t, x, c: t.batch_norm(
        x, c, c + 1, (c + 2).detach(), (c + 3).detach(), False, 0.1, 1e-4, False
    ),
    "batch_norm, training": lambda t, x, c: t.batch_norm(
        x, c, c, (c + 2).detach(), (c + 3).detach(), True, 0.1, 1e-4, False
    ),
    "instance_norm": lambda t, x, c: t.instance_norm(
        x, c, c + 1, (c + 2).detach(), (c + 3).detach(), True, 0.1, 1e-4, False
    ),
    "instance_norm, running": lambda t, x, c: t.instance_norm(
        x, c, c, (c + 2).detach(), (c + 3).detach(), False, 0.1, 1e-4, False
    ),
    "dropout": lambda t, x, c: t.dropout(x, 0.5, False),
    "dropout, all": lambda t, x, c: t.dropout(x, 1.0, True),
    "feature_dropout": lambda t, x, c: t.feature_dropout(x, 1.0, True),
    "alpha_dropout": lambda t, x, c: t.alpha_dropout(x, 0.5, False),
    "feature_alpha_dropout": lambda t, x, c: t.feature_alpha_dropout(x, 0.5, False),
    "embedding": lambda t, x, c: t.embedding(x[0], t.tensor([1, 0, 5])),
    "embedding, padded": lambda t, x, c: t.embedding(x[0], t.tensor([1, 0, 5]), 5),
    "affine_grid_generator": lambda t, x, c: t.affine_grid_generator(c.reshape(1, 2, 3), (1, 1, 2, 2), True),
    "kl_div": lambda t, x, c: t.kl_div(x.log_softmax(-1), x.softmax(-1) * 2),
    "kl_div, sum": lambda t, x, c: t.kl_div(x.log_softmax(-1), x, 2, log_target=True),
    "kl_div, each": lambda t, x, c: t.kl_div(x.log_softmax(-1), x.softmax(-1), 0),
    "binary_cross_entropy_with_logits": lambda t, x, c: t.binary_cross_entropy_with_logits(
        x[:, :, 0], x[:, :, 1].sigmoid(), c.detach(), c.detach(), 2
    ),
    "cosine_embedding_loss": lambda t, x, c: t.cosine_embedding_loss(x[0], x[1], t.ones(6), 0.1, 0),
    "hinge_embedding_loss": lambda t, x, c: t.hinge_embedding_loss(x, t.ones(4, 6, 5), 0.5, 2),
    "margin_ranking_loss": lambda t, x, c: t.margin_ranking_loss(x[0], x[1], t.ones(6, 5), 0.1, 0),
    "triplet_margin_loss": lambda t, x, c: t.triplet_margin_loss(x[0], x[1], x[2], 0.5, 2, 1e-6, True, 0),
    "poisson_nll_loss": lambda t, x, c: t.poisson_nll_loss(x, x.abs(), True, True, 1e-8, 1),
    "ctc_loss": lambda t, x, c: t.ctc_loss(x.log_softmax(-1), t.tensor([[1, 2]] * 6), [4] * 6, [2] * 6, 0, 0),
    "bilinear": lambda t, x, c: t.bilinear(x[0], x[1], x[:, :5]),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name):
    found = []
    for lib in (fg, torch):
        values = [lib.tensor(x, requires_grad=True), lib.tensor(six, requires_grad=True)]
        result = CALLS[name](lib, *values)
        result.square().sum().backward()
        found.append([result.detach().numpy(), *[v.grad.numpy() for v in values if v.grad is not None]])
    assert len(found[0]) == len(found[1])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["dropout_", "alpha_dropout_"])
def test_written_in_place(name):
    for lib in (fg, torch):
        value = lib.ones(100)
        assert getattr(lib, name)(value, 0.5, True) is value
        assert len(set(value.tolist())) == 2


def test_a_reduction_that_is_none():
    with pytest.raises(ValueError, match="7 is not a valid value for reduction"):
        fg.hinge_embedding_loss(fg.ones(2), fg.ones(2), 1.0, 7)


@pytest.mark.parametrize("data", [
    lambda one: [one(1)],
    lambda one: [[one(1)], [one(1, 1)]],
    lambda one: [2.0, one(1)],
    lambda one: [[one(()), 1], [3, one(1)]],
    lambda one: (one(1, 1),),
])  # fmt: skip
def test_tensors_of_one_element_are_numbers_in_lists(data: Callable[[Any], Any]):
    ours, theirs = (library.tensor(data(library.ones)) for library in (fg, torch))
    assert (tuple(ours.shape), ours.tolist()) == (tuple(theirs.shape), theirs.tolist())
