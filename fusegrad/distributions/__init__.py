"""Distributions of random numbers, as `torch.distributions`."""

from fusegrad.distributions import (
    bernoulli as bernoulli,
    beta as beta,
    binomial as binomial,
    categorical as categorical,
    cauchy as cauchy,
    chi2 as chi2,
    constraint_registry as constraint_registry,
    constraints as constraints,
    continuous_bernoulli as continuous_bernoulli,
    dirichlet as dirichlet,
    distribution as distribution,
    exp_family as exp_family,
    exponential as exponential,
    fishersnedecor as fishersnedecor,
    gamma as gamma,
    generalized_pareto as generalized_pareto,
    geometric as geometric,
    gumbel as gumbel,
    half_cauchy as half_cauchy,
    half_normal as half_normal,
    independent as independent,
    inverse_gamma as inverse_gamma,
    kl as kl,
    kumaraswamy as kumaraswamy,
    laplace as laplace,
    lkj_cholesky as lkj_cholesky,
    log_normal as log_normal,
    logistic_normal as logistic_normal,
    lowrank_multivariate_normal as lowrank_multivariate_normal,
    mixture_same_family as mixture_same_family,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
    negative_binomial as negative_binomial,
    normal as normal,
    one_hot_categorical as one_hot_categorical,
    pareto as pareto,
    poisson as poisson,
    relaxed_bernoulli as relaxed_bernoulli,
    relaxed_categorical as relaxed_categorical,
    studentT as studentT,
    transformed_distribution as transformed_distribution,
    transforms as transforms,
    uniform as uniform,
    utils as utils,
    von_mises as von_mises,
    weibull as weibull,
    wishart as wishart,
)
from fusegrad.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
from fusegrad.distributions.transforms import *
from fusegrad.distributions.transforms import __all__ as _transforms
from fusegrad.eager.distributions.classes import *
from fusegrad.eager.distributions.classes import __all__ as _classes
from fusegrad.eager.distributions.composed import *
from fusegrad.eager.distributions.composed import __all__ as _composed
from fusegrad.eager.distributions.constraint_registry import (
    biject_to as biject_to,
    transform_to as transform_to,
)
from fusegrad.eager.distributions.counts import *
from fusegrad.eager.distributions.counts import __all__ as _counts
from fusegrad.eager.distributions.distribution import *
from fusegrad.eager.distributions.distribution import __all__ as _distribution
from fusegrad.eager.distributions.multivariate import *
from fusegrad.eager.distributions.multivariate import __all__ as _multivariate
from fusegrad.eager.distributions.positive import *
from fusegrad.eager.distributions.positive import __all__ as _positive
from fusegrad.eager.distributions.real_line import *
from fusegrad.eager.distributions.real_line import __all__ as _real_line
from fusegrad.eager.distributions.relaxed import (
    RelaxedBernoulli as RelaxedBernoulli,
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from fusegrad.eager.distributions.shares import *
from fusegrad.eager.distributions.shares import __all__ as _shares
from fusegrad.eager.distributions.transformed import *
from fusegrad.eager.distributions.transformed import __all__ as _transformed

__all__ = [
    *_classes,
    *_composed,
    *_counts,
    *_distribution,
    *_multivariate,
    *_positive,
    *_real_line,
    *_shares,
    *_transformed,
    *_transforms,
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chi2",
    "constraint_registry",
    "wishart",
    "von_mises",
    "lkj_cholesky",
    "generalized_pareto",
    "fishersnedecor",
    "continuous_bernoulli",
    "constraints",
    "dirichlet",
    "distribution",
    "exp_family",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "half_cauchy",
    "half_normal",
    "independent",
    "inverse_gamma",
    "kl",
    "kumaraswamy",
    "laplace",
    "log_normal",
    "logistic_normal",
    "lowrank_multivariate_normal",
    "mixture_same_family",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "one_hot_categorical",
    "pareto",
    "poisson",
    "relaxed_bernoulli",
    "relaxed_categorical",
    "studentT",
    "transformed_distribution",
    "transforms",
    "uniform",
    "utils",
    "weibull",
]
