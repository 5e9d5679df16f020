"""Distributions of whole numbers: one trial, many trials, trials up to the first success, rare events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager import special
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.chances import Chance, along_first, whole_numbers
from fusegrad.eager.distributions.distribution import ExponentialFamily, broadcast_all
from fusegrad.eager.distributions.noise import gamma, uniform
from fusegrad.eager.nn import functional as F

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


class Bernoulli(Chance, ExponentialFamily):
    """1 with a chance, else 0. Source: `torch.distributions.Bernoulli`.

    >>> import fusegrad as fg
    >>> fg.distributions.Bernoulli(0.25).log_prob(fg.tensor(1.0)).exp()
    tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = along_first(whole_numbers(1, self._param), len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Binomial(Chance):
    """How many of `total_count` trials succeed. Source: `torch.distributions.Binomial`.

    >>> import fusegrad as fg
    >>> fg.distributions.Binomial(4, fg.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, count = self._keep(probs, logits, total_count)
        self.total_count = count.to(given.dtype)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits + n * F.logsigmoid(-self.logits)

    def _most(self, asking: str) -> int:
        """The count of trials, which must be one for all."""
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asking}`.")
        return most

    def entropy(self) -> Tensor:
        self._most("entropy")
        logarithms = self.log_prob(self.enumerate_support(False))
        return -(logarithms.exp() * logarithms).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = self._most("enumerate_support")
        values = along_first(whole_numbers(most, self._param), len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(Chance):
    """How many trials fail before the first success. Source: `torch.distributions.Geometric`.

    >>> import fusegrad as fg
    >>> fg.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            value = self.probs
            wrong = value.detach()[~(value > 0)]
            raise failure(
                ValueError,
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{wrong}",
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            noise = ops.log1p(-uniform(self._extended_shape(sample_shape)))
            return (noise / ops.log1p(-self.probs.double())).floor().to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return special.xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(Chance):
    """How many trials succeed before `total_count` fail. Source: `torch.distributions.NegativeBinomial`.

    >>> import fusegrad as fg
    >>> fg.distributions.NegativeBinomial(4.0, fg.tensor(0.5)).mean
    tensor(4.)
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, count = self._keep(probs, logits, total_count)
        self.total_count = count.to(given.dtype)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            count = self.total_count.expand(self._extended_shape(sample_shape))
            return ops.poisson(gamma(count) * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        ways = ways.masked_fill(n + value == 0.0, 0.0)
        return ways + n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)


class Poisson(ExponentialFamily):
    """How many rare events come, `rate` on the average. Source: `torch.distributions.Poisson`.

    >>> import fusegrad as fg
    >>> fg.distributions.Poisson(4.0).variance
    tensor(4.)
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - (value + 1).lgamma()


locate("fusegrad.distributions", globals(), __all__)
