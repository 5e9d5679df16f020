"""Distributions beside PyTorch's: densities, moments, entropies, `expand`, gradients, divergences.

`CASES` has each distribution with parameters of a batch, some values of its support, and what it lacks.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

A = [0.5, 1.5, 3.0]
B = [0.7, 2.0, 1.2]
L = [-1.0, 0.3, 2.0]
CHANCES = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
COVARIANCE = [[[2.0, 0.3], [0.3, 1.0]], [[1.0, -0.2], [-0.2, 0.5]]]
LOWER = [[[1.5, 0.0], [0.3, 1.0]], [[1.0, 0.0], [-0.2, 0.5]]]
LINE = [-2.0, 0.1, 3.0]
ABOVE = [0.2, 1.0, 4.0]
SHARE = [0.1, 0.5, 0.8]
BITS = [0.0, 1.0, 1.0]
WHOLE = [0.0, 2.0, 3.0]
# name: distribution, its parameters, values. More than one line where there is more than one way to say it.
CASES = {
    "Normal": ("Normal", {"loc": L, "scale": B}, LINE),
    "Laplace": ("Laplace", {"loc": L, "scale": B}, LINE),
    "Cauchy": ("Cauchy", {"loc": L, "scale": B}, LINE),
    "Gumbel": ("Gumbel", {"loc": L, "scale": B}, LINE),
    "StudentT": ("StudentT", {"df": [0.8, 1.7, 4.0], "loc": L, "scale": B}, LINE),
    "Uniform": ("Uniform", {"low": L, "high": [1.0, 1.3, 5.0]}, [0.0, 0.5, 4.0]),
    "Exponential": ("Exponential", {"rate": B}, ABOVE),
    "Gamma": ("Gamma", {"concentration": A, "rate": B}, ABOVE),
    "Chi2": ("Chi2", {"df": A}, ABOVE),
    "InverseGamma": ("InverseGamma", {"concentration": A, "rate": B}, ABOVE),
    "Weibull": ("Weibull", {"scale": B, "concentration": [1.5, 2.0, 3.0]}, ABOVE),
    "Pareto": ("Pareto", {"scale": [0.1, 0.5, 2.0], "alpha": [0.8, 1.5, 3.0]}, ABOVE),
    "HalfNormal": ("HalfNormal", {"scale": B}, ABOVE),
    "HalfCauchy": ("HalfCauchy", {"scale": B}, ABOVE),
    "LogNormal": ("LogNormal", {"loc": L, "scale": B}, ABOVE),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": A, "concentration0": B}, SHARE),
    "Beta": ("Beta", {"concentration1": A, "concentration0": B}, SHARE),
    "Dirichlet": ("Dirichlet", {"concentration": [A, B]}, CHANCES),
    "Dirichlet below 1": ("Dirichlet", {"concentration": [[0.5, 0.9, 0.3], A]}, CHANCES),
    "LogisticNormal": ("LogisticNormal", {"loc": [[0.1, 0.4]], "scale": [[0.5, 1.0]]}, CHANCES),
    "VonMises": ("VonMises", {"loc": L, "concentration": [0.3, 2.0, 40.0]}, LINE),
    "FisherSnedecor": ("FisherSnedecor", {"df1": [0.8, 2.0, 5.0], "df2": [1.5, 3.0, 7.0]}, ABOVE),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {"loc": L, "scale": B, "concentration": [0.3, -0.2, 0.7]},
        [-0.5, 0.9, 4.0],
    ),
    "GeneralizedPareto, special": (
        "GeneralizedPareto",
        {"loc": L, "scale": [3.0, 2.0, 1.5], "concentration": [0.0, -1.0, 1.5]},
        [-0.5, 0.9, 4.0],
    ),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": SHARE}, [0.3, 0.0, 1.0]),
    "ContinuousBernoulli, near a half": ("ContinuousBernoulli", {"probs": [0.4989, 0.5005, 0.5011]}, SHARE),
    "ContinuousBernoulli, logits": ("ContinuousBernoulli", {"logits": L}, SHARE),
    "Bernoulli": ("Bernoulli", {"probs": SHARE}, BITS),
    "Bernoulli, logits": ("Bernoulli", {"logits": L}, BITS),
    "Binomial": ("Binomial", {"total_count": 4, "probs": SHARE}, WHOLE),
    "Binomial, logits": ("Binomial", {"total_count": 3, "logits": L}, WHOLE),
    "Geometric": ("Geometric", {"probs": SHARE}, WHOLE),
    "Geometric, logits": ("Geometric", {"logits": L}, WHOLE),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": A, "probs": SHARE}, WHOLE),
    "NegativeBinomial, logits": ("NegativeBinomial", {"total_count": A, "logits": L}, WHOLE),
    "Poisson": ("Poisson", {"rate": B}, WHOLE),
    "Categorical": ("Categorical", {"probs": CHANCES}, [2, 0]),
    "Categorical, logits": ("Categorical", {"logits": [L, B]}, [1, 2]),
    "OneHotCategorical": ("OneHotCategorical", {"probs": CHANCES}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "OneHotCategorical, logits": (
        "OneHotCategorical",
        {"logits": [L, B]},
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    ),
    "OneHotCategoricalStraightThrough": (
        "OneHotCategoricalStraightThrough",
        {"probs": CHANCES},
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    ),
    "Multinomial": ("Multinomial", {"total_count": 5, "probs": CHANCES}, [[1.0, 2.0, 2.0], [0.0, 0.0, 5.0]]),
    "Multinomial, logits": (
        "Multinomial",
        {"total_count": 5, "logits": [L, B]},
        [[1.0, 2.0, 2.0], [0.0, 0.0, 5.0]],
    ),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": 0.7, "probs": SHARE}, SHARE),
    "RelaxedBernoulli, logits": ("RelaxedBernoulli", {"temperature": 0.7, "logits": L}, SHARE),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": CHANCES}, CHANCES),
    "RelaxedOneHotCategorical, logits": (
        "RelaxedOneHotCategorical",
        {"temperature": 0.7, "logits": [L, B]},
        CHANCES,
    ),
    "MultivariateNormal": (
        "MultivariateNormal",
        {"loc": [[0.1, 0.4]], "covariance_matrix": COVARIANCE},
        [[0.0, 1.0], [2.0, -1.0]],
    ),
    "MultivariateNormal, precision": (
        "MultivariateNormal",
        {"loc": [0.1, 0.4], "precision_matrix": COVARIANCE},
        [[0.0, 1.0], [2.0, -1.0]],
    ),
    "MultivariateNormal, lower": (
        "MultivariateNormal",
        {"loc": [[0.1, 0.4]], "scale_tril": LOWER},
        [[0.0, 1.0], [2.0, -1.0]],
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {"loc": [[0.1, 0.4]], "cov_factor": [[0.5], [1.0]], "cov_diag": [[0.5, 1.0], [2.0, 0.3]]},
        [[0.0, 1.0], [2.0, -1.0]],
    ),
}
CASES |= {
    "Wishart": (
        "Wishart",
        {"df": [2.5, 6.0], "covariance_matrix": COVARIANCE},
        [[[1.0, 0.2], [0.2, 3.0]], [[2.0, -0.3], [-0.3, 0.7]]],
    ),
    "Wishart, precision": (
        "Wishart",
        {"df": 4.0, "precision_matrix": COVARIANCE},
        [[[1.0, 0.2], [0.2, 3.0]], [[2.0, -0.3], [-0.3, 0.7]]],
    ),
    "Wishart, lower": (
        "Wishart",
        {"df": 3.0, "scale_tril": LOWER},
        [[[1.0, 0.2], [0.2, 3.0]], [[2.0, -0.3], [-0.3, 0.7]]],
    ),
    "LKJCholesky": (
        "LKJCholesky",
        {"dim": 3, "concentration": [0.7, 2.0]},
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]],
    ),
}
MOMENTS = ("mean", "variance", "stddev", "mode")
SHAPES = ("batch_shape", "event_shape")
# PyTorch's text of these has no parameters, as its own expressions are.
WRONG_THERE = {
    ("GeneralizedPareto, special", "log_prob"): "PyTorch has no gradients to a concentration of 0 or -1",
    ("Kumaraswamy", "mode"): "PyTorch gives NaN: its logarithm is of a negative number",
}
# To a uniform distribution that just covers it PyTorch's divergence is infinite.
WRONG_PAIRS_THERE = {("ContinuousBernoulli", "Uniform")}
# PyTorch has Bessel functions from polynomials of six digits; SciPy says the rest in test_drawing.py.
ROUGH_THERE = {"VonMises": 5e-5}


@pytest.fixture(autouse=True)
def doubles():
    """PyTorch's GeneralizedPareto takes parameters of its default dtype alone."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def made(lib, case, validate=None, grad=False):
    """The distribution of a case, in double precision, and its parameters that are tensors."""
    name, given, _ = case
    parameters = {
        key: lib.tensor(value, dtype=lib.float64, requires_grad=grad and key != "temperature")
        if not isinstance(value, int)
        else value
        for key, value in given.items()
    }
    leaves = [p for p in parameters.values() if not isinstance(p, int) and p.requires_grad]
    return getattr(lib.distributions, name)(**parameters, validate_args=validate), leaves


def valued(lib, case):
    values = case[2]
    whole = case[0] == "Categorical"
    return lib.tensor(values, dtype=lib.int64 if whole else lib.float64)


def result(function):
    """What a function gives as an array, or the name of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function().detach().numpy()
        except (NotImplementedError, ValueError, AttributeError) as error:
            return type(error).__name__


def agree(mine, other, rtol=1e-9):
    if isinstance(other, str):
        assert isinstance(mine, str), f"PyTorch raises {other}, we give {mine}"
        return
    assert not isinstance(mine, str), mine
    assert mine.shape == other.shape
    np.testing.assert_allclose(mine, other, rtol=rtol, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_log_prob_and_its_gradients(name):
    if (name, "log_prob") in WRONG_THERE:
        pytest.skip(WRONG_THERE[name, "log_prob"])
    case = CASES[name]
    found = []
    for lib in (fg, torch):
        distribution, leaves = made(lib, case, grad=True)
        density = distribution.log_prob(valued(lib, case))
        density.sum().backward()
        found.append([density.detach().numpy(), *[p.grad.numpy() for p in leaves]])
    for mine, other in zip(*found, strict=True):
        agree(mine, other, rtol=ROUGH_THERE.get(name, 1e-7))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", CASES)
def test_moments(name, moment):
    if (name, moment) in WRONG_THERE:
        pytest.skip(WRONG_THERE[name, moment])
    found = [result(lambda lib=lib: getattr(made(lib, CASES[name])[0], moment)) for lib in (fg, torch)]
    agree(*found, rtol=ROUGH_THERE.get(name, 1e-9))


@pytest.mark.parametrize("name", CASES)
def test_entropy_and_its_gradients(name):
    found = []
    for lib in (fg, torch):
        distribution, leaves = made(lib, CASES[name], grad=True)
        entropy = result(distribution.entropy)
        found.append([entropy])
        if not isinstance(entropy, str):
            total = distribution.entropy().sum()
            if total.requires_grad:
                total.backward()
            zeros = [np.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy() for p in leaves]
            found[-1] += zeros
    for mine, other in zip(*found, strict=True):
        agree(mine, other, rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_cdf_and_icdf(name):
    case = CASES[name]
    agree(*[result(lambda lib=lib: made(lib, case)[0].cdf(valued(lib, case))) for lib in (fg, torch)])
    for lib in (fg, torch):
        lib.shares = lib.tensor([0.1, 0.5, 0.9], dtype=lib.float64)
    agree(*[result(lambda lib=lib: made(lib, case)[0].icdf(lib.shares)) for lib in (fg, torch)], rtol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_expand(name):
    case = CASES[name]
    found = []
    for lib in (fg, torch):
        distribution, _ = made(lib, case)
        wide = distribution.expand((4, *distribution.batch_shape))
        again = wide.expand((2, *wide.batch_shape))
        assert type(again) is type(distribution)
        shapes = [tuple(getattr(again, s)) for s in SHAPES]
        found.append((shapes, again.log_prob(valued(lib, case)).numpy(), result(lambda d=again: d.mean)))
        assert tuple(again.sample((5,)).shape) == (5, *shapes[0], *shapes[1])
    assert found[0][0] == found[1][0]
    agree(found[0][1], found[1][1], rtol=ROUGH_THERE.get(name, 1e-7))
    agree(found[0][2], found[1][2])


@pytest.mark.parametrize("name", CASES)
def test_support_and_what_it_has(name):
    mine, other = made(fg, CASES[name])[0], made(torch, CASES[name])[0]
    assert mine.has_rsample == other.has_rsample
    assert mine.has_enumerate_support == other.has_enumerate_support
    assert mine.support.event_dim == other.support.event_dim
    assert mine.support.is_discrete == other.support.is_discrete
    agree(result(mine.enumerate_support), result(other.enumerate_support))
    agree(result(mine.perplexity), result(other.perplexity), rtol=1e-6)
    if "Bernoulli" in name or "Categorical" in name or "inomial" in name:
        np.testing.assert_allclose(mine.probs.numpy(), other.probs.numpy(), rtol=1e-9)
        np.testing.assert_allclose(mine.logits.numpy(), other.logits.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_divergences_to_all(name):
    """Of each to each: the same value, or none in both."""
    other_batch = {"Categorical", "Dirichlet", "OneHotCategorical", "Multinomial", "MultivariateNormal"}
    for second in CASES:
        if (CASES[name][0], CASES[second][0]) in WRONG_PAIRS_THERE:
            continue
        found = []
        for lib in (fg, torch):
            p, q = made(lib, CASES[name])[0], made(lib, CASES[second])[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(lib.distributions.kl_divergence(p, q).numpy())
                except NotImplementedError:
                    found.append("NotImplementedError")
                except (ValueError, RuntimeError) as error:
                    found.append(type(error).__name__)
        if isinstance(found[1], str) and not isinstance(found[0], str):
            assert name.split(",")[0] not in other_batch
            continue
        try:
            agree(*found, rtol=1e-7)
        except AssertionError as error:
            raise AssertionError(f"{name} to {second}: {error}") from None


# What PyTorch keeps to draw by, or to compute by in another way than here.
ITS_WAY = {
    *"_gamma1 _gamma2 _beta _binomial _chi2 _dist_chi2 _batch_dims concentration_reciprocal".split(),
    *"base_dist transforms".split(),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_classes_of_users_read(case):
    """Libraries derive their classes from these, and read what PyTorch's keep, by its names."""
    mine, _ = made(fg, case, validate=False)
    other, _ = made(torch, case, validate=False)
    for name, value in vars(other).items():
        if name not in ITS_WAY:
            found = getattr(mine, name)
            if isinstance(value, torch.Tensor):
                agree(found.detach().numpy(), value.numpy())
    if hasattr(other, "_new"):
        assert mine._new(2, 3).shape == (2, 3)
        assert mine._new(2, 3).dtype == fg.float64


def test_a_class_that_keeps_its_own_factor():
    """gpytorch's normal vectors skip `__init__`, and have the factor of the covariance as a property."""

    class Lazy(fg.distributions.MultivariateNormal):
        def __init__(self, loc, covariance):
            self.loc, self.covariance = loc, covariance
            fg.distributions.Distribution.__init__(self, loc.shape[:-1], loc.shape[-1:], validate_args=False)

        @property
        def _unbroadcasted_scale_tril(self):
            return fg.linalg.cholesky(self.covariance)

    loc, covariance, value = fg.zeros(2), fg.tensor(COVARIANCE[0]), fg.tensor([0.3, -1.0])
    usual = fg.distributions.MultivariateNormal(loc, covariance)
    assert Lazy(loc, covariance).log_prob(value).item() == usual.log_prob(value).item()


def test_parameters_are_set():
    """Classes of users' set `probs` or `logits`, after which the other follows."""
    chosen = fg.distributions.Categorical(fg.tensor([0.5, 0.5]))
    chosen.logits = fg.tensor([0.0, 0.0, 0.0])
    np.testing.assert_allclose(chosen.probs.numpy(), [1 / 3] * 3, rtol=1e-6)
