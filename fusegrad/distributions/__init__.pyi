"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

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
from fusegrad.eager.distributions.classes import (
    Categorical as Categorical,
    Multinomial as Multinomial,
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from fusegrad.eager.distributions.composed import (
    Independent as Independent,
    MixtureSameFamily as MixtureSameFamily,
    TransformedDistribution as TransformedDistribution,
)
from fusegrad.eager.distributions.constraint_registry import (
    ConstraintRegistry as ConstraintRegistry,
    ConstraintRegistry as _ConstraintRegistry,
)
from fusegrad.eager.distributions.counts import (
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    Geometric as Geometric,
    NegativeBinomial as NegativeBinomial,
    Poisson as Poisson,
)
from fusegrad.eager.distributions.distribution import (
    Distribution as Distribution,
    ExponentialFamily as ExponentialFamily,
)
from fusegrad.eager.distributions.event_transforms import (
    CatTransform as CatTransform,
    CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    ReshapeTransform as ReshapeTransform,
    SoftmaxTransform as SoftmaxTransform,
    StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform,
)
from fusegrad.eager.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
from fusegrad.eager.distributions.multivariate import (
    LKJCholesky as LKJCholesky,
    LowRankMultivariateNormal as LowRankMultivariateNormal,
    MultivariateNormal as MultivariateNormal,
    Wishart as Wishart,
)
from fusegrad.eager.distributions.number_transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    ExpTransform as ExpTransform,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
)
from fusegrad.eager.distributions.positive import (
    Chi2 as Chi2,
    Exponential as Exponential,
    FisherSnedecor as FisherSnedecor,
    Gamma as Gamma,
    GeneralizedPareto as GeneralizedPareto,
)
from fusegrad.eager.distributions.real_line import (
    Cauchy as Cauchy,
    Gumbel as Gumbel,
    Laplace as Laplace,
    Normal as Normal,
    StudentT as StudentT,
    Uniform as Uniform,
    VonMises as VonMises,
)
from fusegrad.eager.distributions.relaxed import (
    RelaxedBernoulli as RelaxedBernoulli,
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from fusegrad.eager.distributions.shares import (
    Beta as Beta,
    ContinuousBernoulli as ContinuousBernoulli,
    Dirichlet as Dirichlet,
)
from fusegrad.eager.distributions.transformed import (
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    InverseGamma as InverseGamma,
    Kumaraswamy as Kumaraswamy,
    LogisticNormal as LogisticNormal,
    LogNormal as LogNormal,
    Pareto as Pareto,
    Weibull as Weibull,
)
from fusegrad.eager.distributions.transforms import (
    ComposeTransform as ComposeTransform,
    ComposeTransform as _ComposeTransform,
    IndependentTransform as IndependentTransform,
    Transform as Transform,
)

identity_transform: _ComposeTransform
biject_to: _ConstraintRegistry
transform_to: _ConstraintRegistry
