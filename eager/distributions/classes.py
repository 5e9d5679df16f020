"""Distributions of classes: one class by its number or its indicator, and counts of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.chances import Classes, along_first
from fusegrad.eager.distributions.counts import Binomial
from fusegrad.eager.distributions.distribution import sized
from fusegrad.eager.nn import functional as F
from fusegrad.eager.random.classes import drawn_class

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]
_CLASSES = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Classes):
    """The number of a class, by the classes' chances. Source: `torch.distributions.Categorical`.

    >>> import fusegrad as fg
    >>> fg.distributions.Categorical(fg.tensor([1.0, 3.0])).log_prob(fg.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = _CLASSES
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._keep(probs, logits)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        super()._expand_rest(new, shape)
        new._num_events = self._num_events

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return drawn_class(self.probs, self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = value.long().unsqueeze(-1), self.logits
        given, batch = value.shape, logits.shape[:-1]
        if given != batch:
            shape = ops.broadcast_shapes(given, batch)
            index, logits = index.expand(*shape, 1), logits.expand(*shape, -1)
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=dtypes.finfo(self._param.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = along_first(ops.arange(self._num_events), len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Classes):
    """A class as a vector with one 1, by the classes' chances.

    Source: `torch.distributions.OneHotCategorical`.

    >>> import fusegrad as fg
    >>> fg.distributions.OneHotCategorical(fg.tensor([1.0, 3.0])).mode
    tensor([0., 1.])
    """

    arg_constraints = _CLASSES
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._keep(probs, logits)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    @property
    def _categorical(self) -> Categorical:
        """The class by its number."""
        return Categorical(self._probs, self._logits, validate_args=False)

    def _indicator(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._event_shape[0]).to(self._param.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._indicator(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._indicator(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        size = self._event_shape[0]
        values = ops.eye(size, dtype=self._param.dtype)
        values = values.reshape((size, *[1] * len(self._batch_shape), size))
        return values.expand(sized((size,), self._batch_shape, (size,))) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws pass gradients on to the chances.

    Source: `torch.distributions.OneHotCategoricalStraightThrough`.
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Classes):
    """How often each class comes in `total_count` draws. Source: `torch.distributions.Multinomial`.

    >>> import fusegrad as fg
    >>> fg.distributions.Multinomial(4, fg.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    arg_constraints = _CLASSES

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        given = self._keep(probs, logits)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        super()._expand_rest(new, shape)
        new.total_count = self.total_count

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def _categorical(self) -> Categorical:
        """One draw."""
        return Categorical(self._probs, self._logits, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample(sized((self.total_count,), sample_shape))
        return F.one_hot(drawn, self._event_shape[0]).sum(0).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0.0)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        one = Binomial(n, self.probs, validate_args=False)
        counts = one.enumerate_support(False)[1:]
        shared = (one.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + shared


locate("fusegrad.distributions", globals(), __all__)
