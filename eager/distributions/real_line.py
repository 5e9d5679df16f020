"""Distributions on the whole line, by a place and a width; the uniform one; and that of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager import special
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from fusegrad.eager.distributions.noise import cauchy, gamma, gumbel, normal, uniform

__all__ = ["Cauchy", "Gumbel", "Laplace", "Normal", "StudentT", "Uniform", "VonMises"]
EULER = 0.57721566490153286060


class _Located(Distribution):
    """A distribution by its place `loc` and its width `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _standard(self, value: Tensor) -> Tensor:
        """How many widths a value lies from the place."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_Located, ExponentialFamily):
    """Normal numbers of mean `loc` and standard deviation `scale`. Source: `torch.distributions.Normal`.

    >>> import fusegrad as fg
    >>> fg.distributions.Normal(0.0, 1.0).log_prob(fg.tensor([0.0, 1.0]))
    tensor([-0.9189, -1.4189])
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(value).square() / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ops.erf(self._standard(value) / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_Located):
    """Numbers on both sides of `loc`, exponential of mean `scale`. Source: `torch.distributions.Laplace`.

    >>> import fusegrad as fg
    >>> fg.distributions.Laplace(0.0, 1.0).cdf(fg.tensor([0.0]))
    tensor([0.5000])
    """

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        either = 2 * uniform(self._extended_shape(sample_shape)) - 1
        noise = ops.sign(either) * ops.log1p(-either.abs())
        return self.loc - self.scale * noise.to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        away = self._standard(value)
        return 0.5 - 0.5 * away.sign() * ops.expm1(-away.abs())

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * ops.log1p(-2 * side.abs())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_Located):
    """The quotient of two normal numbers, moved and widened. Source: `torch.distributions.Cauchy`.

    >>> import fusegrad as fg
    >>> fg.distributions.Cauchy(0.0, 1.0).icdf(fg.tensor([0.5]))
    tensor([0.])
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + cauchy(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._standard(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_Located):
    """The largest of many numbers, in the limit. Source: `torch.distributions.Gumbel`.

    >>> import fusegrad as fg
    >>> fg.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + gumbel(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        down = -self._standard(value)
        return down - down.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class StudentT(_Located):
    """Student's t of `df` degrees of freedom, moved and widened. Source: `torch.distributions.StudentT`.

    >>> import fusegrad as fg
    >>> fg.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, **_Located.arg_constraints}  # noqa: RUF012

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, loc, scale = broadcast_all(df, loc, scale)
        super().__init__(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        spread = self.scale.square() * self.df / ops.where(finite, self.df - 2, 1.0)
        return ops.where(finite, spread, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        half = 0.5 * self.df.expand(shape)
        return self.loc + self.scale * normal(shape, self.loc) * (half / gamma(half)).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        away = self._standard(value)
        half = 0.5 * self.df
        norm = self.scale.log() + 0.5 * (self.df * math.pi).log() + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (away.square() / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        more = half + 0.5
        lbeta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return self.scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * self.df.log() + lbeta


class Uniform(Distribution):
    """Numbers from `low` up to, not including, `high`. Source: `torch.distributions.Uniform`.

    >>> import fusegrad as fg
    >>> fg.distributions.Uniform(0.0, 4.0).log_prob(fg.tensor([1.0])).exp()
    tensor([0.2500])
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return ops.full_like(self.low, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = uniform(self._extended_shape(sample_shape), self.low.dtype)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return ops.where(inside, 0.0, -math.inf) - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class VonMises(Distribution):
    """Angles around `loc`, the closer the larger `concentration`. Source: `torch.distributions.VonMises`.

    Values are taken modulo 2 pi; draws, which have no gradients, lie from -pi to pi. Mean and variance are
    the circular ones.

    >>> import fusegrad as fg
    >>> fg.distributions.VonMises(0.0, 1.0).log_prob(fg.tensor([0.0, 3.0]))
    tensor([-1.0738, -3.0638])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        # The norm is exp(a) times i0e(a): the exponents are taken together, since either may be large.
        return a * (ops.cos(value - self.loc) - 1) - math.log(2 * math.pi) - special.i0e(a).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Best and Fisher's rejection from a wrapped Cauchy distribution (1979), in double precision."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            a = self.concentration.double().expand(shape)
            tau = 1 + (1 + 4 * a.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * a)
            # Where angles are all but uniform, the difference above has no digits left.
            ratio = ops.where(a < 1e-5, a.reciprocal() + a, (1 + rho.square()) / (2 * rho))
            drawn, done = ops.zeros(shape, dtype=a.dtype), ops.zeros(shape, dtype=bool)
            while not done.all():
                u1, u2, u3 = uniform((3, *shape)).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + ratio * z) / (ratio + z)
                c = a * (ratio - f)
                taken = (c * (2 - c) > u2) | ((c / u2).log() + 1 - c >= 0)
                angle = ops.where(u3 < 0.5, -1.0, 1.0) * f.clamp(-1, 1).acos()
                drawn, done = ops.where(taken & ~done, angle, drawn), done | taken
            turned = (drawn + math.pi + self.loc) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)


locate("fusegrad.distributions", globals(), __all__)
