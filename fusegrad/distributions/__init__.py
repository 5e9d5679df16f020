"""Distributions of random numbers, as `torch.distributions`."""

from fusegrad.distributions import (
    bernoulli as bernoulli,
    beta as beta,
    categorical as categorical,
    constraints as constraints,
    dirichlet as dirichlet,
    distribution as distribution,
    gamma as gamma,
    independent as independent,
    kl as kl,
    laplace as laplace,
    multivariate_normal as multivariate_normal,
    normal as normal,
    one_hot_categorical as one_hot_categorical,
    relaxed_bernoulli as relaxed_bernoulli,
    relaxed_categorical as relaxed_categorical,
    transformed_distribution as transformed_distribution,
    transforms as transforms,
    uniform as uniform,
    utils as utils,
)
from fusegrad.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
from fusegrad.distributions.transforms import *
from fusegrad.distributions.transforms import __all__ as _transforms
from fusegrad.eager.distributions.classes import *
from fusegrad.eager.distributions.classes import __all__ as _classes
from fusegrad.eager.distributions.composed import *
from fusegrad.eager.distributions.composed import __all__ as _composed
from fusegrad.eager.distributions.constraint_registry import (
    ConstraintRegistry as ConstraintRegistry,
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
    "ConstraintRegistry",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "bernoulli",
    "beta",
    "categorical",
    "constraints",
    "dirichlet",
    "distribution",
    "gamma",
    "independent",
    "kl",
    "laplace",
    "multivariate_normal",
    "normal",
    "one_hot_categorical",
    "relaxed_bernoulli",
    "relaxed_categorical",
    "transformed_distribution",
    "transforms",
    "uniform",
    "utils",
]
