"""The Kullback-Leibler divergence of different families: minus p's entropy, minus the mean of log q under p.

For most q that mean follows from a few means under p: of x, of its square, its logarithm, an exponential.
"""

from __future__ import annotations

import math
from typing import Any

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions.counts import Bernoulli, Binomial, Poisson
from fusegrad.eager.distributions.kl import _impossible, _start, kl_divergence, register_kl
from fusegrad.eager.distributions.positive import Exponential, Gamma
from fusegrad.eager.distributions.real_line import EULER, Gumbel, Laplace, Normal, Uniform
from fusegrad.eager.distributions.shares import Beta, ContinuousBernoulli
from fusegrad.eager.distributions.transformed import Pareto

# What users import comes from here, so that these rules are there, too.
__all__ = ["kl_divergence", "register_kl"]


def _rules(function: Any, q: type, *kinds: type) -> None:
    for p in kinds:
        register_kl(p, q)(function)


# Where p has draws that q has not, whatever the parameters.


def _infinite(p: Any, q: Any) -> Tensor:
    wide = broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    return ops.full(wide, math.inf, dtype=p.mean.dtype)


_rules(_infinite, Beta, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)
_rules(_infinite, Exponential, Gumbel, Laplace, Normal)
_rules(_infinite, Gamma, Gumbel, Laplace, Normal)
_rules(_infinite, Pareto, Beta, Exponential, Gamma, Gumbel, Laplace, Normal)
_rules(_infinite, Uniform, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)
_rules(_infinite, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)
_rules(_infinite, Pareto, ContinuousBernoulli)
_rules(_infinite, Bernoulli, Poisson)
_rules(_infinite, Binomial, Poisson)


def _below(p: Any, bound: Any) -> Any:
    """Whether p has draws below a bound; None if it certainly has none."""
    return p.low < bound if isinstance(p, Uniform) else None


def _within(divergence: Tensor, below: Any) -> Tensor:
    return divergence if below is None else _impossible(divergence, below)


# By the mean and the variance.


def _to_normal(p: Any, q: Normal) -> Tensor:
    spread = q.scale.square()
    away = p.variance + (p.mean - q.loc).square()
    return 0.5 * (2 * math.pi * spread).log() + away / (2 * spread) - p.entropy()


_rules(_to_normal, Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return _within(q.rate * p.mean - q.rate.log() - p.entropy(), _below(p, 0))


_rules(_to_exponential, Exponential, Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    divergence = -p.entropy() - p.mean * q.logits - _start(q)
    if isinstance(p, Beta):
        return divergence
    return _impossible(divergence, (p.low < 0) | (p.high > 1))


_rules(_to_continuous_bernoulli, ContinuousBernoulli, Beta, Uniform)


# By the mean of the logarithm.


def _log_integral(x: Tensor) -> Tensor:
    """The integral of the logarithm from 0 to `x`."""
    return ops.xlogy(x, x) - x


def _mean_log(p: Any) -> Tensor:
    """The mean of the logarithm of draws."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_log_integral(p.high) - _log_integral(p.low)) / (p.high - p.low)


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    cross = a.lgamma() - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean
    return _within(cross - p.entropy(), _below(p, 0))


_rules(_to_gamma, Gamma, Beta, Exponential, Pareto, Uniform)


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p: Uniform, q: Pareto) -> Tensor:
    cross = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()
    return _impossible(cross - p.entropy(), p.low < q.scale)


@register_kl(Uniform, Beta)
def _uniform_to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    other = (_log_integral(1 - p.low) - _log_integral(1 - p.high)) / (p.high - p.low)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    divergence = norm - (a - 1) * _mean_log(p) - (b - 1) * other - p.entropy()
    return _impossible(divergence, (p.low < 0) | (p.high > 1))


@register_kl(ContinuousBernoulli, Uniform)
@register_kl(Beta, Uniform)
def _shares_to_uniform(p: Any, q: Uniform) -> Tensor:
    return _impossible((q.high - q.low).log() - p.entropy(), (q.low > 0) | (q.high < 1))


# By the mean of an exponential, of an absolute value, of a count.


def _mean_exp(p: Any, slope: Tensor) -> Tensor:
    """The mean of exp(slope * x) under p, where the slope is negative."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate - slope)
    if isinstance(p, Gamma):
        return (1 - slope / p.rate) ** -p.concentration
    if isinstance(p, Normal):
        return (slope * p.loc + 0.5 * (slope * p.scale).square()).exp()
    return ((slope * p.high).exp() - (slope * p.low).exp()) / (slope * (p.high - p.low))


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    tail = _mean_exp(p, -q.scale.reciprocal()) * (q.loc / q.scale).exp()
    return (p.mean - q.loc) / q.scale + tail + q.scale.log() - p.entropy()


_rules(_to_gumbel, Gumbel, Exponential, Gamma, Normal, Uniform)


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Normal, q: Laplace) -> Tensor:
    away = (p.loc - q.loc) / (math.sqrt(2) * p.scale)
    folded = math.sqrt(2) * p.scale * ((-away.square()).exp() / math.sqrt(math.pi) + away * away.erf())
    return folded / q.scale + (2 * q.scale).log() - p.entropy()


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()
