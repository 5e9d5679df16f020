"""Draws: their distribution by Kolmogorov and Smirnov's test or by frequencies, moments, and gradients."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import fusegrad as fg
from fusegrad.eager.ops.pointwise import gamma_draws as gammas

D = fg.distributions
COUNT = 20_000


@pytest.fixture(autouse=True)
def seeded():
    fg.manual_seed(3)


def wrapped(loc, concentration):
    """The probability of angles from -pi up to a number."""
    angle = stats.vonmises(concentration, loc=loc)
    return lambda x: angle.cdf(x) - angle.cdf(-math.pi)


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
    "von mises": (lambda: D.VonMises(1.0, 2.0), wrapped(1.0, 2.0)),
    "von mises, all but uniform": (lambda: D.VonMises(1.0, 1e-6), wrapped(1.0, 1e-6)),
    "von mises, close": (lambda: D.VonMises(-3.0, 300.0), wrapped(-3.0, 300.0)),
    "fisher": (lambda: D.FisherSnedecor(3.0, 5.0), stats.f(3, 5)),
    "generalized pareto": (lambda: D.GeneralizedPareto(1.0, 2.0, 0.3), stats.genpareto(0.3, 1, 2)),
    "generalized pareto, ending": (lambda: D.GeneralizedPareto(1.0, 2.0, -0.7), stats.genpareto(-0.7, 1, 2)),
    "generalized pareto, exponential": (lambda: D.GeneralizedPareto(1.0, 2.0, 0.0), stats.expon(1, 2)),
    "continuous bernoulli": (
        lambda: D.ContinuousBernoulli(0.9),
        lambda x: (0.9**x * 0.1 ** (1 - x) - 0.1) / 0.8,
    ),
    "continuous bernoulli, a half": (lambda: D.ContinuousBernoulli(0.5), stats.uniform()),
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
    "wishart": lambda: D.Wishart(4.0, fg.tensor([[2.0, 0.5], [0.5, 1.0]])),
    "wishart, batch": lambda: D.Wishart(
        fg.tensor([2.5, 4.0]), scale_tril=fg.tensor([[2.0, 0.0], [0.5, 1.0]])
    ),
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


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("concentration", [0.6, 1.0, 3.0])
def test_factors_of_correlations(size, concentration):
    """Each correlation is a beta number, stretched to -1 to 1 (Lewandowski, Kurowicka and Joe, 2009)."""
    lower = D.LKJCholesky(size, fg.tensor([concentration, 7.0])).sample((COUNT // 4,))
    assert D.constraints.corr_cholesky.check(lower).all()
    correlations = (lower @ lower.mT)[:, 0].double().numpy()
    half = concentration - 1 + size / 2
    for i in range(size):
        for j in range(i):
            drawn = (correlations[:, i, j] + 1) / 2
            assert stats.kstest(drawn, stats.beta(half, half).cdf).pvalue > 1e-4, (i, j)


@pytest.mark.parametrize("what", ["log_prob", "log_survival_function", "cdf", "icdf"])
@pytest.mark.parametrize("concentration", [0.0, -1.0])
def test_tails_change_smoothly_with_their_power(concentration, what):
    """Where PyTorch takes another formula, values and gradients are those of numbers close by."""
    found = []
    for near in (0.0, 1e-6, -1e-6):
        numbers = fg.tensor([0.5, 2.0, concentration + near], dtype=fg.float64)
        parameters = [number.requires_grad_() for number in numbers.unbind()]
        value = getattr(D.GeneralizedPareto(*parameters), what)(fg.tensor(0.7).double())
        slopes = fg.grad(value, parameters, allow_unused=True, materialize_grads=True)
        found.append([value.item(), *[slope.item() for slope in slopes]])
    np.testing.assert_allclose(found[0], np.mean(found[1:], axis=0), atol=1e-9)


@pytest.mark.parametrize("concentration", [1e-9, 0.3, 2.0, 40.0, 1e4])
def test_angles_have_their_density(concentration):
    """PyTorch's is good to six digits."""
    values = np.linspace(-7, 7, 9)
    mine = D.VonMises(fg.tensor(1.0, dtype=fg.float64), concentration)
    expected = stats.vonmises(concentration, loc=1.0)
    np.testing.assert_allclose(mine.log_prob(fg.tensor(values)).numpy(), expected.logpdf(values), rtol=1e-10)
    bessel = special.i1e(concentration) / special.i0e(concentration)
    np.testing.assert_allclose(mine.variance.numpy(), 1 - bessel, rtol=1e-12)
    assert mine.sample((9,)).abs().max() <= math.pi


def test_wishart_matrices_have_their_entropy_and_divergence():
    p = D.Wishart(fg.tensor([4.0, 3.5]), fg.tensor([[2.0, 0.5], [0.5, 1.0]]).double())
    q = D.Wishart(5.0, precision_matrix=fg.tensor([[1.0, 0.2], [0.2, 1.5]]).double())
    drawn = p.sample((COUNT,))
    density = p.log_prob(drawn)
    pairs = ((p.entropy(), -density), (D.kl_divergence(p, q), density - q.log_prob(drawn)))
    for exact, found in pairs:
        assert ((found.mean(0) - exact).abs() < 4 * found.std(0) / math.sqrt(COUNT)).all()
    assert D.kl_divergence(p, p).abs().max() < 1e-9


def test_a_continuous_bernoulli_and_the_uniform_numbers_around_it():
    chance = D.ContinuousBernoulli(fg.tensor(0.8).double())
    for low, high, finite in ((0.0, 1.0, True), (-1.0, 2.0, True), (0.1, 2.0, False), (0.0, 0.9, False)):
        found = D.kl_divergence(chance, D.Uniform(low, high)).item()
        exact = math.log(high - low) - chance.entropy().item() if finite else math.inf
        assert found == pytest.approx(exact), (low, high)


def test_drawing_with_a_loop_replays_or_runs():
    """What is rejected differs from call to call: draws are eager's, whatever was recorded."""

    def draw(a):
        return D.VonMises(a, a + 1).sample((50,)).sum() + D.Wishart(3.0, a * fg.eye(2)).sample().sum()

    drawing = fg.jit(draw)
    for seed in (0, 1, 2, 3, 0, 1):
        a = fg.tensor(0.5 + seed)
        fg.manual_seed(seed)
        found, state = drawing(a), fg.rand(3)
        fg.manual_seed(seed)
        assert fg.allclose(found, draw(a)) and fg.equal(state, fg.rand(3))


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
    "fisher": (lambda a, b: D.FisherSnedecor(a, b), [6.0, 12.0]),
    "generalized pareto": (lambda a, b: D.GeneralizedPareto(a, b, 0.1 * b), [0.5, 2.0]),
    "continuous bernoulli": (lambda a, b: D.ContinuousBernoulli(logits=a * b), [0.5, 2.0]),
    "wishart": (lambda a, b: D.Wishart(a, b * fg.eye(2).double()), [5.0, 2.0]),
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


def test_the_inverse_of_a_transform_is_one() -> None:
    transforms = fg.distributions.transforms
    exp = transforms.ExpTransform()
    both = transforms.ComposeTransform([exp, transforms.AffineTransform(1.0, 2.0)])
    for transform in (exp, both, exp.inv, both.inv):
        assert transform.inv.inv is transform and transform.inv is transform.inv
