"""Draws: their distribution by Kolmogorov and Smirnov's test or by frequencies, moments, and gradients."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import fusegrad as fg
from fusegrad.eager.ops.pointwise import gamma_draws as gammas

D = fg.distributions
COUNT = 20_000


@pytest.fixture(autouse=True)
def seeded():
    fg.manual_seed(3)


CONTINUOUS = {
    "normal": (lambda: D.Normal(1.0, 2.0), stats.norm(1, 2)),
    "laplace": (lambda: D.Laplace(1.0, 2.0), stats.laplace(1, 2)),
    "cauchy": (lambda: D.Cauchy(1.0, 2.0), stats.cauchy(1, 2)),
    "gumbel": (lambda: D.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2)),
    "student": (lambda: D.StudentT(3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "uniform": (lambda: D.Uniform(1.0, 4.0), stats.uniform(1, 3)),
    "exponential": (lambda: D.Exponential(2.0), stats.expon(scale=0.5)),
    "gamma": (lambda: D.Gamma(3.0, 2.0), stats.gamma(3, scale=0.5)),
    "gamma, small": (lambda: D.Gamma(0.1, 2.0), stats.gamma(0.1, scale=0.5)),
    "gamma, large": (lambda: D.Gamma(300.0, 2.0), stats.gamma(300, scale=0.5)),
    "chi2": (lambda: D.Chi2(3.0), stats.chi2(3)),
    "inverse gamma": (lambda: D.InverseGamma(3.0, 2.0), stats.invgamma(3, scale=2)),
    "beta": (lambda: D.Beta(2.0, 0.5), stats.beta(2, 0.5)),
    "beta, small": (lambda: D.Beta(0.3, 0.4), stats.beta(0.3, 0.4)),
    "half normal": (lambda: D.HalfNormal(2.0), stats.halfnorm(scale=2)),
    "half cauchy": (lambda: D.HalfCauchy(2.0), stats.halfcauchy(scale=2)),
    "log normal": (lambda: D.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
    "weibull": (lambda: D.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2)),
    "pareto": (lambda: D.Pareto(2.0, 1.5), stats.pareto(1.5, scale=2)),
    "kumaraswamy": (lambda: D.Kumaraswamy(2.0, 1.5), lambda x: 1 - (1 - x**2) ** 1.5),
}
COUNTS = {
    "bernoulli": (lambda: D.Bernoulli(0.3), stats.bernoulli(0.3)),
    "binomial": (lambda: D.Binomial(5, fg.tensor(0.3)), stats.binom(5, 0.3)),
    "geometric": (lambda: D.Geometric(0.3), stats.geom(0.3, loc=-1)),
    "poisson": (lambda: D.Poisson(2.5), stats.poisson(2.5)),
    "negative binomial": (lambda: D.NegativeBinomial(3.0, fg.tensor(0.4)), stats.nbinom(3, 0.6)),
    "categorical": (
        lambda: D.Categorical(fg.tensor([0.0, 0.2, 0.5, 0.3, 0.0])),
        stats.rv_discrete(values=([1, 2, 3], [0.2, 0.5, 0.3])),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_follow_their_distribution(name):
    make, expected = CONTINUOUS[name]
    drawn = make().sample((COUNT,)).double().numpy()
    cdf = expected if callable(expected) and not hasattr(expected, "cdf") else expected.cdf
    assert stats.kstest(drawn, cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_counts_follow_their_distribution(name):
    make, expected = COUNTS[name]
    drawn = make().sample((COUNT,)).long().numpy()
    top = 8
    found = np.bincount(np.minimum(drawn, top), minlength=top + 1)
    chances = np.array([*expected.pmf(np.arange(top)), 1 - expected.cdf(top - 1)])
    kept = chances * COUNT > 5
    assert not found[chances == 0].any()
    assert stats.chisquare(found[kept], chances[kept] / chances[kept].sum() * found[kept].sum()).pvalue > 1e-3


VECTORS = {
    "dirichlet": lambda: D.Dirichlet(fg.tensor([0.5, 2.0, 3.0])),
    "multinomial": lambda: D.Multinomial(6, fg.tensor([0.2, 0.5, 0.3])),
    "one hot": lambda: D.OneHotCategorical(fg.tensor([0.2, 0.5, 0.3])),
    "normal vectors": lambda: D.MultivariateNormal(
        fg.tensor([1.0, 2.0]), fg.tensor([[2.0, 0.5], [0.5, 1.0]])
    ),
    "low rank": lambda: D.LowRankMultivariateNormal(
        fg.tensor([1.0, 2.0]), fg.tensor([[0.5], [1.0]]), fg.tensor([0.5, 1.0])
    ),
    "mixture": lambda: D.MixtureSameFamily(
        D.Categorical(fg.tensor([0.3, 0.7])),
        D.Independent(D.Normal(fg.tensor([[0.0, 1.0], [3.0, -2.0]]), fg.ones(2, 2)), 1),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_have_their_moments(name):
    distribution = VECTORS[name]()
    drawn = distribution.sample((COUNT,)).double()
    deviation = distribution.stddev.double()
    assert ((drawn.mean(0) - distribution.mean).abs() < 4 * deviation / math.sqrt(COUNT)).all()
    assert (drawn.var(0) / distribution.variance - 1).abs().max() < 0.1


def test_normal_vectors_have_their_covariance():
    for name in ("normal vectors", "low rank"):
        distribution = VECTORS[name]()
        drawn = distribution.sample((COUNT,)).double()
        assert (fg.cov(drawn.T) - distribution.covariance_matrix).abs().max() < 0.08


# Gradients of the mean of draws to the parameters, from many draws, beside those of the mean itself.
PATHS = {
    "normal": (lambda a, b: D.Normal(a, b), [1.0, 2.0]),
    "laplace": (lambda a, b: D.Laplace(a, b), [1.0, 2.0]),
    "gumbel": (lambda a, b: D.Gumbel(a, b), [1.0, 2.0]),
    "uniform": (lambda a, b: D.Uniform(a, b), [1.0, 2.0]),
    "gamma": (lambda a, b: D.Gamma(a, b), [1.7, 2.0]),
    "gamma, small": (lambda a, b: D.Gamma(a, b), [0.2, 2.0]),
    "beta": (lambda a, b: D.Beta(a, b), [1.5, 0.4]),
    "log normal": (lambda a, b: D.LogNormal(a, b), [0.2, 0.5]),
    "weibull": (lambda a, b: D.Weibull(a, b), [1.2, 2.0]),
    "dirichlet": (lambda a, b: D.Dirichlet(fg.stack([a, b, a * b])), [0.6, 2.0]),
}


@pytest.mark.parametrize("name", PATHS)
def test_gradients_of_draws(name):
    make, values = PATHS[name]
    parameters = [fg.tensor(v, dtype=fg.float64, requires_grad=True) for v in values]
    weight = fg.tensor([1.0, 2.0, 4.0], dtype=fg.float64) if name == "dirichlet" else 1.0
    total = (make(*parameters).mean * weight).sum()
    means = fg.grad(total, parameters, allow_unused=True, materialize_grads=True)
    drawn = (make(*parameters).rsample((COUNT,)) * weight).sum() / COUNT
    for mine, exact in zip(fg.grad(drawn, parameters), means, strict=True):
        assert abs(mine - exact) < 0.03 * max(1.0, abs(exact.item()))


@pytest.mark.parametrize("concentration", [1e-3, 0.05, 0.6, 1.0, 1.5, 4.0, 19.0, 21.0, 200.0])
def test_the_gradient_of_gamma_draws_is_exact(concentration):
    """Beside the derivative of the distribution function in 40 digits."""
    shares = np.array([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9])
    drawn = gammas._log_quantile(np.full(7, concentration), shares)
    found = gammas._gradient(np.full(7, concentration), drawn)
    with mpmath.workdps(40):
        for log_x, mine in zip(drawn, found, strict=True):
            a, log_x = mpmath.mpf(concentration), mpmath.mpf(log_x)
            x, step = mpmath.exp(log_x), a * mpmath.mpf(10) ** -12
            after, before = (mpmath.gammainc(a + s, 0, x, regularized=True) for s in (step, -step))
            density = mpmath.exp(a * log_x - x - mpmath.loggamma(a))  # of the logarithm
            assert abs(mine / float(-(after - before) / (2 * step) / density) - 1) < 1e-7


def test_small_concentrations_do_not_vanish():
    share = D.Beta(fg.tensor([1e-3, 1e-3]), 1e-3).sample((2000,))
    assert ((share < 1e-3) | (share > 1 - 1e-3)).float().mean() > 0.98
    assert abs(share.mean() - 0.5) < 0.05
    drawn = D.Gamma(1e-3, 1.0).rsample((100,))
    assert (drawn > 0).all()
    rows = D.Dirichlet(fg.full((3,), 1e-3)).sample((500,))
    assert fg.allclose(rows.sum(-1), fg.ones(500)) and rows.isfinite().all()


def test_draws_are_off_the_graph_and_of_the_dtype():
    loc = fg.zeros(2, dtype=fg.float64, requires_grad=True)
    assert not D.Normal(loc, 1.0).sample().requires_grad
    assert D.Normal(loc, 1.0).rsample().requires_grad
    for make in (D.Exponential, D.HalfCauchy, D.Poisson, D.Chi2):
        assert make(fg.ones(2, dtype=fg.float64)).sample().dtype is fg.float64
        assert make(fg.ones(2)).sample((3,)).shape == (3, 2)
    with pytest.raises(NotImplementedError):
        D.Bernoulli(0.5).rsample()
    with pytest.warns(UserWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_the_same_seed_gives_the_same_draws():
    def drawn():
        fg.manual_seed(7)
        return D.Gamma(fg.tensor([0.5, 3.0]), 1.0).sample((4,)).tolist()

    assert drawn() == drawn()


def test_straight_through_and_relaxed_draws_have_gradients():
    logits = fg.tensor([0.1, 0.5, -0.3], requires_grad=True)
    hard = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(hard.detach().round().tolist()) == [0, 0, 1]
    soft = D.RelaxedOneHotCategorical(fg.tensor(0.5), logits=logits).rsample((500,))
    assert fg.allclose(soft.sum(-1), fg.ones(500))
    (hard[0] + soft.mean(0)[1]).backward()
    assert logits.grad.abs().sum() > 0
    cold = D.RelaxedBernoulli(fg.tensor(0.05), fg.tensor(0.3)).sample((4000,))
    assert abs((cold > 0.5).float().mean() - 0.3) < 0.03
