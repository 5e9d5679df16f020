"""Distributions that are transforms of others: log-normal, half-normal, Gumbel, Weibull, Pareto and kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.composed import TransformedDistribution
from fusegrad.eager.distributions.distribution import broadcast_all
from fusegrad.eager.distributions.event_transforms import StickBreakingTransform
from fusegrad.eager.distributions.number_transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
)
from fusegrad.eager.distributions.positive import Exponential, Gamma
from fusegrad.eager.distributions.real_line import EULER, Cauchy, Normal, Uniform

__all__ = [
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]


class _Made(TransformedDistribution):
    """A transformed distribution that is made anew from its parameters to be expanded."""

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(None, _instance)
        own = [self._parameter(name).expand(tuple(batch_shape)) for name in self.arg_constraints]
        new.__init__(*own, validate_args=False)
        new._validate_args = self._validate_args
        return new


class LogNormal(_Made):
    """Numbers whose logarithm is normal. Source: `torch.distributions.LogNormal`.

    >>> import fusegrad as fg
    >>> fg.distributions.LogNormal(0.0, 1.0).mode
    tensor(0.3679)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        spread = self.scale.square()
        return spread.expm1() * (2 * self.loc + spread).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(_Made):
    """Shares whose stick-breaking logits are normal. Source: `torch.distributions.LogisticNormal`.

    >>> import fusegrad as fg
    >>> fg.distributions.LogisticNormal(fg.zeros(2), fg.ones(2)).event_shape
    torch.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return TransformedDistribution.expand(self, batch_shape, _instance)

    @property
    def loc(self) -> Tensor:
        """The means of the logits."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the logits."""
        return self.base_dist.base_dist.scale


class _Half(_Made):
    """The absolute value of draws around 0."""

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    kind: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self.kind(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The width of the draws around 0."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of normal numbers around 0. Source: `torch.distributions.HalfNormal`.

    >>> import fusegrad as fg
    >>> fg.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    kind = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of Cauchy numbers around 0. Source: `torch.distributions.HalfCauchy`.

    >>> import fusegrad as fg
    >>> fg.distributions.HalfCauchy(1.0).icdf(fg.tensor([0.5]))
    tensor([1.])
    """

    kind = Cauchy

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)


class InverseGamma(_Made):
    """The reciprocal of gamma numbers. Source: `torch.distributions.InverseGamma`.

    >>> import fusegrad as fg
    >>> fg.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        reciprocal = PowerTransform(-ops.ones((), dtype=base.rate.dtype))
        super().__init__(base, reciprocal, validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma numbers."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """What the gamma numbers are divided by."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        finite = self.concentration > 1
        return ops.where(finite, self.rate / ops.where(finite, self.concentration - 1, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        finite = self.concentration > 2
        a = ops.where(finite, self.concentration, 3.0)
        return ops.where(finite, (self.rate / (a - 1)).square() / (a - 2), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Weibull(_Made):
    """Powers of exponential numbers, widened. Source: `torch.distributions.Weibull`.

    >>> import fusegrad as fg
    >>> fg.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args)
        power = PowerTransform(exponent=self.concentration.reciprocal())
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args)

    def _moment(self, times: int) -> Tensor:
        """The mean of a power of the draws, as of scale 1."""
        return (1 + times / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        a = self.concentration
        return self.scale * ((a - 1) / a) ** a.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        a = self.concentration
        return EULER * (1 - a.reciprocal()) + (self.scale / a).log() + 1


class Pareto(_Made):
    """Numbers above `scale` with a tail of power `alpha`. Source: `torch.distributions.Pareto`.

    >>> import fusegrad as fg
    >>> fg.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Pareto, _instance)
        shape = tuple(batch_shape)
        Pareto.__init__(new, self.scale.expand(shape), self.alpha.expand(shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite from there on
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Kumaraswamy(_Made):
    """Numbers from 0 to 1, much like Beta's. Source: `torch.distributions.Kumaraswamy`.

    >>> import fusegrad as fg
    >>> fg.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # noqa: RUF012
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(ops.zeros_like(self.concentration0), ops.ones_like(self.concentration0), validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args)

    def _moment(self, times: int) -> Tensor:
        """The mean of a power of the draws."""
        b, more = self.concentration0, 1 + times / self.concentration1
        return (b.log() + more.lgamma() + b.lgamma() - (more + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        return ops.where(inside, ((a - 1) / (a * b - 1)) ** a.reciprocal(), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        rest = (1 - a.reciprocal()) * ((b + 1).digamma() + EULER)
        return 1 - b.reciprocal() + rest - a.log() - b.log()


locate("fusegrad.distributions", globals(), __all__)
