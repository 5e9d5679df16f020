"""The Kullback-Leibler divergence, of two distributions of one family. As `torch.distributions.kl`.

`kl_pairs.py` has that of different families. A rule is found by the classes of both, or by classes of which
they are subclasses: the closest pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fusegrad.eager import linalg
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions.classes import Categorical, OneHotCategorical
from fusegrad.eager.distributions.composed import Independent, TransformedDistribution
from fusegrad.eager.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from fusegrad.eager.distributions.distribution import Distribution, sum_rightmost
from fusegrad.eager.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
    half_log_det,
    mahalanobis,
)
from fusegrad.eager.distributions.positive import Exponential, Gamma
from fusegrad.eager.distributions.real_line import EULER, Cauchy, Gumbel, Laplace, Normal, Uniform
from fusegrad.eager.distributions.shares import Beta, ContinuousBernoulli, Dirichlet
from fusegrad.eager.distributions.transformed import HalfNormal, LogNormal, Pareto
from fusegrad.eager.nn import functional as F

__all__ = ["kl_divergence", "register_kl"]
_RULES: dict[type, dict[type, Callable[[Any, Any], Tensor]]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator of the function that gives the divergence of two classes of distributions.

    Source: `torch.distributions.kl.register_kl`.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a class, as of distributions, but got {kind}")

    def keep(function: Any) -> Any:
        _RULES.setdefault(type_p, {})[type_q] = function
        return function

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """How much q tells less of draws of p than p itself: the mean of log p - log q.

    Raises NotImplementedError where there is no rule for the two.

    Source: `torch.distributions.kl_divergence`.

    >>> import fusegrad as fg
    >>> from fusegrad.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    rule = _RULES.get(type(p), {}).get(type(q))
    if rule is None:
        rule = _closest(type(p), type(q))
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return rule(p, q)


def _closest(p: type, q: type) -> Callable[[Any, Any], Tensor] | None:
    """The rule of the nearest classes of which both are subclasses, p's first."""
    for first in p.__mro__:
        for second in q.__mro__:
            if second in _RULES.get(first, {}):
                return _RULES[first][second]
    return None


def _impossible(divergence: Tensor, where: Tensor) -> Tensor:
    """A divergence, infinite where p has draws that q has not."""
    return divergence.masked_fill(where, math.inf)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (F.logsigmoid(p.logits) - F.logsigmoid(q.logits))
    zero = (1 - p.probs) * (F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits))
    one = _impossible(one, q.probs == 0).masked_fill(p.probs == 0, 0.0)
    zero = _impossible(zero, q.probs == 1).masked_fill(p.probs == 1, 0.0)
    return one + zero


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _impossible(p.total_count * one, p.total_count > q.total_count)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    each = _impossible(each, (q.probs == 0).expand(each.shape))
    return each.masked_fill((p.probs == 0).expand(each.shape), 0.0).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return p.mean * (p.logits - q.logits) + _start(p) - _start(q)


def _start(p: ContinuousBernoulli) -> Tensor:
    """The logarithm of the density at 0."""
    return p._log_norm() + (-p.probs).log1p()


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norms = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return norms + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return apart - ratio.log() + ratio * EULER + ((1 + ratio).lgamma() - apart).exp() - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _normal_vectors(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    lower, other = p.scale_tril, q.scale_tril
    spread = linalg.solve_triangular(other, lower, upper=False).square().sum((-2, -1))
    away = mahalanobis(other, q.loc - p.loc)
    return half_log_det(other) - half_log_det(lower) + 0.5 * (spread + away - p.event_shape[0])


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _impossible(divergence, p.scale < q.scale)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return _impossible(divergence, (q.low > p.low) | (q.high < p.high))


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    size = p.event_shape[-1]
    along = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False).square().sum((-2, -1))
    cross = (p.df - q.df) / 2 * p._mean_log_det() + p.df / 2 * (along - size)
    return cross + q._log_norm() - p._log_norm()


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
@register_kl(LogNormal, LogNormal)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), more)


locate("fusegrad.distributions", globals(), __all__)
