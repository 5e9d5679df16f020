"""Weights and biases of another count or dtype than what they are of: refused where PyTorch refuses them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg


def classes(t: Any, *rest: int) -> Any:
    return t.zeros(10, *rest, dtype=t.int64)


TAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "nll_loss": lambda t, w: t.nn.functional.nll_loss(t.ones(10, 3), classes(t), weight=w),
    "nll_loss of one row": lambda t, w: t.nn.functional.nll_loss(t.ones(3), t.tensor(0), weight=w),
    "nll_loss of images": lambda t, w: t.nn.functional.nll_loss(
        t.ones(10, 3, 2, 2), classes(t, 2, 2), weight=w
    ),
    "cross_entropy": lambda t, w: t.nn.functional.cross_entropy(t.ones(10, 3), classes(t), weight=w),
    "cross_entropy, smoothed": lambda t, w: t.nn.functional.cross_entropy(
        t.ones(10, 3), classes(t), weight=w, label_smoothing=0.1
    ),
    "cross_entropy of chances": lambda t, w: t.nn.functional.cross_entropy(
        t.ones(10, 3), t.ones(10, 3), weight=w
    ),
    "multi_margin_loss": lambda t, w: t.nn.functional.multi_margin_loss(t.ones(10, 3), classes(t), weight=w),
    "bilinear": lambda t, w: t.nn.functional.bilinear(t.ones(4, 2), t.ones(4, 2), t.ones(3, 2, 2), w),
    "linear": lambda t, w: t.nn.functional.linear(t.ones(4, 2), t.ones(3, 2), w),
    "conv1d": lambda t, w: t.nn.functional.conv1d(t.ones(1, 2, 5), t.ones(3, 2, 2), w),
    "conv_transpose1d": lambda t, w: t.nn.functional.conv_transpose1d(t.ones(1, 2, 5), t.ones(2, 3, 2), w),
    "batch_norm": lambda t, w: t.nn.functional.batch_norm(t.ones(10, 3), None, None, weight=w, training=True),
    "group_norm": lambda t, w: t.nn.functional.group_norm(t.ones(10, 3), 3, weight=w),
    "layer_norm": lambda t, w: t.nn.functional.layer_norm(t.ones(10, 3), (3,), weight=w),
    "instance_norm": lambda t, w: t.nn.functional.instance_norm(t.ones(10, 3, 5), weight=w),
    "rms_norm": lambda t, w: t.nn.functional.rms_norm(t.ones(10, 3), (3,), weight=w),
    "bincount": lambda t, w: t.bincount(t.tensor([0, 1, 1]), weights=w),
    "cov": lambda t, w: t.cov(t.ones(2, 3), aweights=w),
}
COUNTS = {"as many": (3,), "one": (1,), "fewer": (2,), "more": (4,)}


def is_taken(taker: Callable[[Any, Any], Any], t: Any, weight: Any) -> bool:
    try:
        taker(t, weight)
    except (RuntimeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("name", "count"), list(itertools.product(TAKERS, COUNTS)))
def test_counts_of_weights(name: str, count: str):
    ours, theirs = (is_taken(TAKERS[name], t, t.ones(COUNTS[count])) for t in (fg, torch))
    assert ours == theirs


@pytest.mark.parametrize(
    "name", ["nll_loss", "nll_loss of images", "cross_entropy", "cross_entropy of chances"]
)
def test_dtypes_of_weights(name: str):
    ours, theirs = (is_taken(TAKERS[name], t, t.ones(3, dtype=t.float64)) for t in (fg, torch))
    assert ours == theirs
