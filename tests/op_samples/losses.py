# ruff: noqa: E501  (one call a line reads as the table that it is)
"""Losses and normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, f, i


def _gradient(fg: Any, x: Any, target: Any, reduction: str) -> Any:
    """The gradient of a loss in which some rows do not count."""
    x = x.detach().requires_grad_()
    loss = fg.nn.functional.nll_loss(x, target, ignore_index=2, reduction=reduction)
    return fg.autograd.grad(loss, x, fg.full_like(loss, 1.5))[0]


for _how in ("mean", "sum", "none"):
    for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        add(
            _name,
            lambda fg, x, y, n=_name, how=_how: getattr(fg.nn.functional, n)(x, y, reduction=how),
            f(3, 4),
            f(3, 4),
        )
    add("binary_cross_entropy", lambda fg, x, y, how=_how: fg.nn.functional.binary_cross_entropy(x, y.detach(), reduction=how),
        f(3, 4, low=0.1, high=0.9), f(3, 4, low=0.1, high=0.9))  # fmt: skip
    add("nll_loss", lambda fg, x, t, how=_how: fg.nn.functional.nll_loss(x, t, reduction=how), f(6, 5), i(6))
    add(
        "nll_loss",
        lambda fg, x, t, how=_how: fg.nn.functional.cross_entropy(x, t, ignore_index=2, reduction=how),
        f(6, 5),
        i(6),
    )
    add(
        "nll_loss",
        lambda fg, x, t, how=_how: fg.nn.functional.cross_entropy(x, t, label_smoothing=0.1, reduction=how),
        f(6, 5),
        i(6),
    )
    add(
        "nll_loss_spread",
        lambda fg, x, t, how=_how: _gradient(fg, x, t, how),
        np.linspace(-2.0, 2.0, 30).reshape(6, 5),
        np.array([0, 3, 2, 4, 1, 2]),
        gradients=False,
    )
    add("nll_loss_weighted", lambda fg, x, t, w, how=_how: fg.nn.functional.cross_entropy(x, t, w.detach(), reduction=how, ignore_index=1),
        f(6, 5), i(6), f(5, low=0.5))  # fmt: skip
add("nll_loss", lambda fg, x, t: fg.nn.functional.cross_entropy(x, t), f(2, 5, 3), i(2, 3))
add("nll_loss", lambda fg, x, t: fg.nn.functional.cross_entropy(x, t), f(5), i())
add(
    "nll_loss_weighted",
    lambda fg, x, t, w: fg.nn.functional.cross_entropy(x, t, w.detach(), label_smoothing=0.2),
    f(6, 5),
    i(6),
    f(5, low=0.5),
)
add(
    "log_softmax",
    lambda fg, x, t: fg.nn.functional.cross_entropy(x, t.detach()),
    f(3, 4),
    f(3, 4, low=0, high=1),
)
add("standardize", lambda fg, x: fg.nn.functional.layer_norm(x, (4,)), f(3, 4))
add(
    "standardize_affine",
    lambda fg, x, w, c: fg.nn.functional.layer_norm(x, (2, 4), w, c),
    f(3, 2, 4),
    f(2, 4),
    f(2, 4),
)
add("mean", lambda fg, x, w: fg.nn.functional.rms_norm(x, (4,), w, 1e-5), f(3, 4), f(4))
add(
    "norm",
    lambda fg, x, y: fg.cosine_similarity(x, y) + fg.nn.functional.normalize(x).sum(1),
    f(3, 4),
    f(3, 4),
)

# Losses that are put together from other ops stand with one of these.
for _how in ("mean", "none"):
    add(
        "clamp",
        lambda fg, x, t, how=_how: fg.nn.functional.hinge_embedding_loss(x, t * 2 - 1, 0.5, reduction=how),
        f(3, 4),
        i(3, 4, high=2),
    )
    add(
        "clamp",
        lambda fg, x, y, t, how=_how: fg.nn.functional.margin_ranking_loss(
            x, y, t * 2 - 1, 0.1, reduction=how
        ),
        f(4),
        f(4),
        i(4, high=2),
    )
    add(
        "clamp",
        lambda fg, x, y, t, how=_how: fg.nn.functional.cosine_embedding_loss(
            x, y, t * 2 - 1, 0.1, reduction=how
        ),
        f(3, 4),
        f(3, 4),
        i(3, high=2),
    )
    add(
        "clamp",
        lambda fg, x, y, z, how=_how: fg.nn.functional.triplet_margin_loss(x, y, z, swap=True, reduction=how),
        f(3, 4),
        f(3, 4),
        f(3, 4),
    )
    add(
        "gather",
        lambda fg, x, t, how=_how: fg.nn.functional.multi_margin_loss(x, t, 2, reduction=how),
        f(3, 5),
        i(3),
        second=False,
    )
    add(
        "gather",
        lambda fg, x, t, how=_how: fg.nn.functional.multilabel_margin_loss(x, t - 1, reduction=how),
        f(3, 5),
        i(3, 5),
        second=False,
    )
    add(
        "log_sigmoid",
        lambda fg, x, y, how=_how: fg.nn.functional.multilabel_soft_margin_loss(x, y, reduction=how),
        f(3, 4),
        f(3, 4),
    )
    add(
        "log_sigmoid",
        lambda fg, x, y, w, how=_how: fg.nn.functional.binary_cross_entropy_with_logits(
            x, y, w.detach(), pos_weight=w.detach() + 3, reduction=how
        ),
        f(3, 4),
        f(3, 4),
        f(4),
    )
    add(
        "log",
        lambda fg, x, y, how=_how: fg.nn.functional.kl_div(x, y, reduction=how),
        f(3, 4),
        f(3, 4, low=0.1),
    )
    add(
        "log",
        lambda fg, x, y, how=_how: fg.nn.functional.poisson_nll_loss(x, y, full=True, reduction=how),
        f(3, 4),
        f(3, 4, low=0.1),
    )
    add(
        "log",
        lambda fg, x, y, v, how=_how: fg.nn.functional.gaussian_nll_loss(x, y, v, full=True, reduction=how),
        f(3, 4),
        f(3, 4),
        f(3, 4, low=0.1),
    )
    add("logsumexp", lambda fg, x, t, n, m, how=_how: fg.nn.functional.ctc_loss(fg.log_softmax(x, 2), t, n, m, reduction=how),
        f(5, 2, 4), np.array([[1, 2, 2], [3, 1, 0]]), np.array([5, 4]), np.array([3, 2]), second=False)  # fmt: skip
    add(
        "exp",
        lambda fg, x, t, how=_how: fg.nn.functional.soft_margin_loss(x, t * 2 - 1, reduction=how),
        f(3, 4),
        i(3, 4, high=2),
    )
add("div", lambda fg, x: fg.nn.functional.local_response_norm(x, 3, 0.1), f(2, 5, 3))
add("norm", lambda fg, x, y: fg.nn.functional.pairwise_distance(x, y, 3.0), f(3, 4), f(3, 4))
