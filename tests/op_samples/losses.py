# ruff: noqa: E501  (one call a line reads as the table that it is)
"""Losses and normalisation."""

from __future__ import annotations

from op_samples.table import add, f, i

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
add("layer_norm", lambda fg, x: fg.nn.functional.layer_norm(x, (4,)), f(3, 4))
add(
    "layer_norm_affine",
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
