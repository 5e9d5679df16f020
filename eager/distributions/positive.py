"""Distributions of positive numbers: exponential, gamma, chi-squared, their ratios; and of tails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager import special
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from fusegrad.eager.distributions.noise import exponential, gamma, log_gamma, uniform

__all__ = ["Chi2", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto"]


class Exponential(ExponentialFamily):
    """Waiting times of mean 1 / `rate`. Source: `torch.distributions.Exponential`.

    >>> import fusegrad as fg
    >>> fg.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return exponential(self._extended_shape(sample_shape), self.rate) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


class Gamma(ExponentialFamily):
    """Gamma numbers of shape `concentration`, divided by `rate`. Source: `torch.distributions.Gamma`.

    >>> import fusegrad as fg
    >>> fg.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        return drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = ops.as_tensor(value, dtype=self.rate.dtype)
        if self._validate_args:
            self._validate_sample(value)
        norm = ops.xlogy(self.concentration, self.rate) - self.concentration.lgamma()
        return norm + ops.xlogy(self.concentration - 1, value) - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """Sums of the squares of `df` normal numbers. Source: `torch.distributions.Chi2`.

    >>> import fusegrad as fg
    >>> fg.distributions.Chi2(3.0).variance
    tensor(6.)
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Chi2, _instance)
        Chi2.__init__(new, self.df.expand(tuple(batch_shape)), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class FisherSnedecor(Distribution):
    """Ratios of chi-squared numbers, each by its degrees. Source: `torch.distributions.FisherSnedecor`.

    >>> import fusegrad as fg
    >>> fg.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        there = self.df2 > 2
        b = ops.where(there, self.df2, 3.0)
        return ops.where(there, b / (b - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        there = self.df2 > 4
        b = ops.where(there, self.df2, 5.0)
        spread = 2 * b.square() * (self.df1 + b - 2) / (self.df1 * (b - 2).square() * (b - 4))
        return ops.where(there, spread, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (log_gamma((0.5 * df).expand(shape)) for df in (self.df1, self.df2))
        drawn = (above - below).exp() * (self.df2 / self.df1)
        return drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log()
        return norm + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


class GeneralizedPareto(Distribution):
    """What is above a threshold `loc`, with a tail of power 1 / `concentration`; exponential if that is 0.

    Source: `torch.distributions.GeneralizedPareto`.

    >>> import fusegrad as fg
    >>> fg.distributions.GeneralizedPareto(1.0, 2.0, 0.5).mean
    tensor(5.)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))

    @property
    def mean(self) -> Tensor:
        there = self.concentration < 1
        a = ops.where(there, self.concentration, 0.5)
        return ops.where(there, self.loc + self.scale / (1 - a), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        there = self.concentration < 0.5
        a = ops.where(there, self.concentration, 0.25)
        spread = self.scale.square() / ((1 - a).square() * (1 - 2 * a))
        return ops.where(there, spread, math.nan)

    def _tail(self) -> tuple[Tensor, Tensor]:
        """Whether the tail is exponential, and the concentration where it is not."""
        exponential_tail = self.concentration == 0
        return exponential_tail, ops.where(exponential_tail, 1.0, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        share = uniform(self._extended_shape(sample_shape))
        return self.icdf(share).to(self.loc.dtype)

    def _above(self, value: Tensor) -> Tensor:
        """How many widths a value lies above the threshold."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        above = self._above(value)
        exponential_tail, a = self._tail()
        falling = special.xlog1py(a.reciprocal() + 1, a * above)
        # The series has the value and the gradient at 0.
        near = above + self.concentration * (above - above.square() / 2)
        return -self.scale.log() - ops.where(exponential_tail, near, falling)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of numbers above `value`."""
        above = self._above(value)
        exponential_tail, a = self._tail()
        near = above - self.concentration * above.square() / 2
        return -ops.where(exponential_tail, near, (a * above).log1p() / a)

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of numbers up to `value`."""
        return self.cdf(value).log()

    def icdf(self, value: Tensor) -> Tensor:
        exponential_tail, a = self._tail()
        rest = (-value).log1p()
        near = self.concentration * rest.square() / 2 - rest
        return self.loc + self.scale * ops.where(exponential_tail, near, (-a * rest).expm1() / a)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


locate("fusegrad.distributions", globals(), __all__)
