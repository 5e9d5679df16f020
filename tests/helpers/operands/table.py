"""Every function that takes a number, with a number that is another one at each call.

A row is a function of a library (fusegrad or torch), a matrix `x`, another `y`, and the number `k`, which
goes from `first` in equal steps. What steers a structure (a size, a dimension, a count) is in no row: that is
guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One function with one number. oracle: whether torch has the same, and draws no numbers."""

    function: Callable[..., Any]
    first: float = 0.3
    step: float = 0.01
    oracle: bool = True


def _f(fg: Any) -> Any:
    return fg.nn.functional


ROWS: dict[str, Row] = {
    # Operators and pointwise ops.
    "add": Row(lambda fg, x, y, k: x + k),
    "rsub": Row(lambda fg, x, y, k: k - x),
    "mul": Row(lambda fg, x, y, k: x * k),
    "div": Row(lambda fg, x, y, k: k / x),
    "mod": Row(lambda fg, x, y, k: x % k),
    "floor_divide": Row(lambda fg, x, y, k: x.detach() // k + x),
    "fmod": Row(lambda fg, x, y, k: fg.fmod(x, k)),
    "compare": Row(lambda fg, x, y, k: fg.where(x > k, x, y)),
    "compare ne": Row(lambda fg, x, y, k: fg.where(x != k, x, y)),
    "isclose": Row(lambda fg, x, y, k: fg.where(fg.isclose(x, y, rtol=k), x, y)),
    "isclose atol": Row(lambda fg, x, y, k: fg.where(fg.isclose(x, y, atol=k), x, y)),
    "power": Row(lambda fg, x, y, k: fg.abs(x) ** k),
    "power of a number": Row(lambda fg, x, y, k: k**x),
    "pow": Row(lambda fg, x, y, k: fg.pow(fg.abs(x), k), 1.51),
    "pow method": Row(lambda fg, x, y, k: fg.abs(x).pow(k + 1)),
    "float_power": Row(lambda fg, x, y, k: fg.float_power(fg.abs(x), k)),
    "xlogy": Row(lambda fg, x, y, k: fg.xlogy(k, fg.abs(x) + 1)),
    "xlogy second": Row(lambda fg, x, y, k: fg.xlogy(x, k)),
    "copysign": Row(lambda fg, x, y, k: fg.copysign(x, k)),
    "add alpha": Row(lambda fg, x, y, k: fg.add(x, y, alpha=k)),
    "sub alpha": Row(lambda fg, x, y, k: x.sub(y, alpha=k)),
    "rsub alpha": Row(lambda fg, x, y, k: fg.rsub(x, y, alpha=k)),
    "lerp": Row(lambda fg, x, y, k: fg.lerp(x, y, k)),
    "addcmul": Row(lambda fg, x, y, k: fg.addcmul(x, x, y, value=k)),
    "addcdiv": Row(lambda fg, x, y, k: fg.addcdiv(x, x, y, value=k)),
    "clamp": Row(lambda fg, x, y, k: fg.clamp(x, -k, k)),
    "clamp min": Row(lambda fg, x, y, k: x.clamp(min=k)),
    "clip": Row(lambda fg, x, y, k: fg.clip(x, max=k)),
    "clamp_min": Row(lambda fg, x, y, k: fg.clamp_min(x, k)),
    "where": Row(lambda fg, x, y, k: fg.where(x > 0, x, k)),
    "where both": Row(lambda fg, x, y, k: fg.where(x > 0, k, 2 * k) * x),
    "masked_fill": Row(lambda fg, x, y, k: x.masked_fill(x > 0.5, k)),
    "nan_to_num": Row(lambda fg, x, y, k: fg.nan_to_num(x / 0.0 * y, k, posinf=k, neginf=-k) + x),
    "logit": Row(lambda fg, x, y, k: fg.logit(fg.sigmoid(x), k), 0.1),
    "heaviside": Row(lambda fg, x, y, k: fg.heaviside(x.detach(), fg.full((), k)) * x),
    "hypot": Row(lambda fg, x, y, k: fg.hypot(x, fg.tensor(k))),
    "maximum": Row(lambda fg, x, y, k: fg.maximum(x, fg.tensor(k))),
    "renorm": Row(lambda fg, x, y, k: fg.renorm(x, 2, 0, k)),
    "renorm p": Row(lambda fg, x, y, k: fg.renorm(x, k, 0, 1.0), 1.3),
    # Written in place.
    "add_": Row(lambda fg, x, y, k: (x * 1).add_(k)),
    "add_ alpha": Row(lambda fg, x, y, k: (x * 1).add_(y, alpha=k)),
    "mul_": Row(lambda fg, x, y, k: (x * 1).mul_(k)),
    "pow_": Row(lambda fg, x, y, k: fg.abs(x).pow_(k)),
    "clamp_": Row(lambda fg, x, y, k: (x * 1).clamp_(-k, k)),
    "lerp_": Row(lambda fg, x, y, k: (x * 1).lerp_(y, k)),
    "fill_": Row(lambda fg, x, y, k: (y * 1).fill_(k) * x),
    "masked_fill_": Row(lambda fg, x, y, k: (x * 1).masked_fill_(y > 0.5, k)),
    "fill_diagonal_": Row(lambda fg, x, y, k: (x * 1).fill_diagonal_(k)),
    "addcmul_": Row(lambda fg, x, y, k: (x * 1).addcmul_(x, y, value=k)),
    "addcdiv_": Row(lambda fg, x, y, k: (x * 1).addcdiv_(x, y, value=k)),
    # Filled, and filled in.
    "full": Row(lambda fg, x, y, k: fg.full((3, 4), k) * x),
    "full_like": Row(lambda fg, x, y, k: fg.full_like(x, k) * x),
    "new_full": Row(lambda fg, x, y, k: x.new_full((3, 4), k) * x),
    "tensor": Row(lambda fg, x, y, k: fg.tensor(k) * x),
    "tensor of a list": Row(lambda fg, x, y, k: fg.tensor([k, 1.0, 2 * k, 3.0]) * x),
    "linspace": Row(lambda fg, x, y, k: fg.linspace(k, 1, 4) * x),
    "linspace end": Row(lambda fg, x, y, k: fg.linspace(0, k, 4) * x),
    "logspace": Row(lambda fg, x, y, k: fg.logspace(0, k, 4) * x),
    "logspace base": Row(lambda fg, x, y, k: fg.logspace(0, 1, 4, base=k) * x, 2.3),
    "pad": Row(lambda fg, x, y, k: _f(fg).pad(x, (1, 1), value=k) * 2),
    "index_fill": Row(lambda fg, x, y, k: fg.index_fill(x, 0, fg.tensor([0, 2]), k)),
    "index_add": Row(lambda fg, x, y, k: fg.index_add(x, 0, fg.tensor([0, 2, 1]), y, alpha=k)),
    "scatter": Row(lambda fg, x, y, k: x.scatter(1, fg.tensor([[0], [2], [1]]), k)),
    "item set": Row(lambda fg, x, y, k: _set(x * 1, k)),
    # Products.
    "addmm": Row(lambda fg, x, y, k: fg.addmm(x, x, fg.ones(4, 4), beta=k, alpha=0.5)),
    "addmm alpha": Row(lambda fg, x, y, k: fg.addmm(x, x, fg.ones(4, 4), alpha=k)),
    "addmv": Row(lambda fg, x, y, k: fg.addmv(x[:, 0], x, y[0], beta=k, alpha=k)),
    "addr": Row(lambda fg, x, y, k: fg.addr(x, x[:, 0], y[0], beta=k, alpha=k)),
    "baddbmm": Row(lambda fg, x, y, k: fg.baddbmm(x[None], x[None], fg.ones(1, 4, 4), beta=k, alpha=k)),
    # Activations.
    "hardtanh": Row(lambda fg, x, y, k: _f(fg).hardtanh(x, -k, k)),
    "softplus": Row(lambda fg, x, y, k: _f(fg).softplus(x, k)),
    "softplus threshold": Row(lambda fg, x, y, k: _f(fg).softplus(x, 1.0, k)),
    "elu": Row(lambda fg, x, y, k: _f(fg).elu(x, k)),
    "celu": Row(lambda fg, x, y, k: _f(fg).celu(x, k)),
    "leaky_relu": Row(lambda fg, x, y, k: _f(fg).leaky_relu(x, k)),
    "leaky_relu by name": Row(lambda fg, x, y, k: _f(fg).leaky_relu(x, negative_slope=k)),
    "softshrink": Row(lambda fg, x, y, k: _f(fg).softshrink(x, k)),
    "hardshrink": Row(lambda fg, x, y, k: _f(fg).hardshrink(x, k)),
    "threshold": Row(lambda fg, x, y, k: _f(fg).threshold(x, k, 0.25)),
    "threshold value": Row(lambda fg, x, y, k: _f(fg).threshold(x, 0.2, k)),
    "rrelu": Row(lambda fg, x, y, k: _f(fg).rrelu(x, k, 0.9)),
    "rrelu training": Row(lambda fg, x, y, k: _f(fg).rrelu(x, k, 0.9, training=True), oracle=False),
    # Norms.
    "norm": Row(lambda fg, x, y, k: fg.norm(x, k), 1.3),
    "vector_norm": Row(lambda fg, x, y, k: fg.linalg.vector_norm(x, k), 2.3),
    "dist": Row(lambda fg, x, y, k: fg.dist(x, y, k), 1.3),
    "cdist": Row(lambda fg, x, y, k: fg.cdist(x, y, k), 1.3),
    "normalize": Row(lambda fg, x, y, k: _f(fg).normalize(x, k), 1.3),
    "normalize eps": Row(lambda fg, x, y, k: _f(fg).normalize(x, eps=k)),
    "layer_norm": Row(lambda fg, x, y, k: _f(fg).layer_norm(x, (4,), eps=k)),
    "layer_norm weight": Row(lambda fg, x, y, k: _f(fg).layer_norm(x, (4,), y[0], y[1], k)),
    "rms_norm": Row(lambda fg, x, y, k: _f(fg).rms_norm(x, (4,), y[0], k)),
    "group_norm": Row(lambda fg, x, y, k: _f(fg).group_norm(x, 2, eps=k)),
    "instance_norm": Row(lambda fg, x, y, k: _f(fg).instance_norm(x[None], eps=k)),
    "batch_norm": Row(lambda fg, x, y, k: _f(fg).batch_norm(x, None, None, training=True, eps=k)),
    "batch_norm momentum": Row(lambda fg, x, y, k: _running(fg, x, y, k)),
    "batch_norm not training": Row(
        lambda fg, x, y, k: _f(fg).batch_norm(x, y[0], fg.abs(y[1]), training=False, eps=k)
    ),
    "local_response_norm": Row(lambda fg, x, y, k: _f(fg).local_response_norm(x[None], 2, alpha=k)),
    "local_response_norm beta": Row(lambda fg, x, y, k: _f(fg).local_response_norm(x[None], 2, beta=k)),
    "local_response_norm k": Row(lambda fg, x, y, k: _f(fg).local_response_norm(x[None], 2, k=k)),
    "lp_pool1d": Row(lambda fg, x, y, k: _f(fg).lp_pool1d(fg.abs(x[None]), k, 2), 1.3),
    "std": Row(lambda fg, x, y, k: fg.std(x, correction=k)),
    "var": Row(lambda fg, x, y, k: fg.var(x, dim=1, correction=k)),
    "cosine_similarity": Row(lambda fg, x, y, k: fg.cosine_similarity(x, y, eps=k)),
    "pairwise_distance": Row(lambda fg, x, y, k: _f(fg).pairwise_distance(x, y, eps=k)),
    "pairwise_distance p": Row(lambda fg, x, y, k: _f(fg).pairwise_distance(x, y, k), 1.3),
    "quantile": Row(lambda fg, x, y, k: fg.quantile(x, k)),
    # Losses.
    "smooth_l1_loss": Row(lambda fg, x, y, k: _f(fg).smooth_l1_loss(x, y, beta=k)),
    "huber_loss": Row(lambda fg, x, y, k: _f(fg).huber_loss(x, y, delta=k)),
    "cross_entropy": Row(
        lambda fg, x, y, k: _f(fg).cross_entropy(x, fg.tensor([0, 3, 1]), label_smoothing=k)
    ),
    "cross_entropy of shares": Row(
        lambda fg, x, y, k: _f(fg).cross_entropy(x, fg.softmax(y, 1), label_smoothing=k)
    ),
    "margin_ranking_loss": Row(lambda fg, x, y, k: _f(fg).margin_ranking_loss(x, y, fg.ones(3, 4), margin=k)),
    "hinge_embedding_loss": Row(
        lambda fg, x, y, k: _f(fg).hinge_embedding_loss(x, fg.sign(y.detach()), margin=k)
    ),
    "cosine_embedding_loss": Row(
        lambda fg, x, y, k: _f(fg).cosine_embedding_loss(x, y, fg.tensor([1.0, -1.0, 1.0]), margin=k)
    ),
    "triplet_margin_loss": Row(lambda fg, x, y, k: _f(fg).triplet_margin_loss(x, y, x * 2, margin=k)),
    "triplet_margin_loss p": Row(lambda fg, x, y, k: _f(fg).triplet_margin_loss(x, y, x * 2, p=k), 1.3),
    "triplet_margin_loss eps": Row(lambda fg, x, y, k: _f(fg).triplet_margin_loss(x, y, x * 2, eps=k)),
    "multi_margin_loss": Row(lambda fg, x, y, k: _f(fg).multi_margin_loss(x, fg.tensor([0, 3, 1]), margin=k)),
    "gaussian_nll_loss": Row(lambda fg, x, y, k: _f(fg).gaussian_nll_loss(x, y, fg.abs(y), eps=k)),
    "poisson_nll_loss": Row(lambda fg, x, y, k: _f(fg).poisson_nll_loss(fg.abs(x), y, False, eps=k)),
    "attention scale": Row(
        lambda fg, x, y, k: _f(fg).scaled_dot_product_attention(x[None], y[None], x[None], scale=k)
    ),
    # Draws.
    "dropout": Row(lambda fg, x, y, k: _f(fg).dropout(x, k), oracle=False),
    "dropout1d": Row(lambda fg, x, y, k: _f(fg).dropout1d(x[None], k), oracle=False),
    "alpha_dropout": Row(lambda fg, x, y, k: _f(fg).alpha_dropout(x, k, True), oracle=False),
    "feature_alpha_dropout": Row(
        lambda fg, x, y, k: _f(fg).feature_alpha_dropout(x[None], k, True), oracle=False
    ),
    "bernoulli": Row(lambda fg, x, y, k: fg.bernoulli(fg.full((3, 4), k)) * x, oracle=False),
    "bernoulli p": Row(lambda fg, x, y, k: fg.bernoulli(x, k) * x, oracle=False),
    "bernoulli_": Row(lambda fg, x, y, k: (y * 1).bernoulli_(k) * x, oracle=False),
    "normal": Row(lambda fg, x, y, k: fg.normal(0.0, k, (3, 4)) * x, oracle=False),
    "normal_": Row(lambda fg, x, y, k: (y * 1).normal_(k, 2 * k) * x, oracle=False),
    "uniform_": Row(lambda fg, x, y, k: (y * 1).uniform_(-k, k) * x, oracle=False),
    "exponential_": Row(lambda fg, x, y, k: (y * 1).exponential_(k) * x, oracle=False),
    "gumbel_softmax": Row(lambda fg, x, y, k: _f(fg).gumbel_softmax(x, k), oracle=False),
    "attention dropout": Row(
        lambda fg, x, y, k: _f(fg).scaled_dot_product_attention(x[None], y[None], x[None], dropout_p=k),
        oracle=False,
    ),
}


def _set(x: Any, k: float) -> Any:
    x[0, 1:] = k
    return x


def _running(fg: Any, x: Any, y: Any, k: float) -> Any:
    mean, variance = y[0] * 1, fg.abs(y[1])
    made = _f(fg).batch_norm(x, mean, variance, training=True, momentum=k)
    return made.sum() + (mean * variance).sum()
