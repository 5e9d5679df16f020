"""Smooth stand-ins for draws of classes, which have gradients: the colder, the closer to whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.chances import Chance, Classes, clamp_probs
from fusegrad.eager.distributions.composed import TransformedDistribution
from fusegrad.eager.distributions.noise import gumbel, logistic
from fusegrad.eager.distributions.number_transforms import ExpTransform, SigmoidTransform
from fusegrad.eager.nn import functional as F

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(Chance):
    """The logit of a `RelaxedBernoulli`.

    Source: `torch.distributions.relaxed_bernoulli.LogitRelaxedBernoulli`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        super()._expand_rest(new, shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        noise = logistic(self._extended_shape(sample_shape), probs)
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = self.logits - value * self.temperature
        return _log(self.temperature) + away + 2 * F.logsigmoid(-away)


class _Relaxed(TransformedDistribution):
    """What is made of relaxed draws on another scale: it has their parameters."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """How far from whole numbers the draws are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds, or those of the classes' chances."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The chance of 1, or those of the classes."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """Numbers between 0 and 1, near one of them where the temperature is low.

    Source: `torch.distributions.RelaxedBernoulli`.

    >>> import fusegrad as fg
    >>> logits = fg.zeros(2, requires_grad=True)
    >>> fg.distributions.RelaxedBernoulli(fg.tensor(0.5), logits=logits).rsample().requires_grad
    True
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(Classes):
    """The logarithm of a `RelaxedOneHotCategorical`.

    Source: `torch.distributions.relaxed_categorical.ExpRelaxedCategorical`.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        given = self._keep(probs, logits)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        super()._expand_rest(new, shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        logits = self.logits
        noise = gumbel(self._extended_shape(sample_shape), logits)
        return ((logits + noise) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        count = self._event_shape[0]
        norm = math.lgamma(count) + (count - 1) * _log(self.temperature)
        return (self.logits - value * self.temperature).log_softmax(-1).sum(-1) + norm


class RelaxedOneHotCategorical(_Relaxed):
    """Shares that sum to 1, nearly all for one class where the temperature is low.

    Source: `torch.distributions.RelaxedOneHotCategorical`.

    >>> import fusegrad as fg
    >>> fg.distributions.RelaxedOneHotCategorical(fg.tensor(0.5), logits=fg.zeros(3)).sample().shape
    torch.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)


def _log(temperature: Any) -> Any:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)


locate("fusegrad.distributions", globals(), ["RelaxedBernoulli", "RelaxedOneHotCategorical"])
locate("fusegrad.distributions.relaxed_bernoulli", globals(), ["LogitRelaxedBernoulli"])
locate("fusegrad.distributions.relaxed_categorical", globals(), ["ExpRelaxedCategorical"])
