"""Distributions of positive numbers: exponential, gamma, chi-squared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager import special
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import ExponentialFamily, broadcast_all
from fusegrad.eager.distributions.noise import exponential, gamma

__all__ = ["Chi2", "Exponential", "Gamma"]


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


locate("fusegrad.distributions", globals(), __all__)
