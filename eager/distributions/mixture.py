"""Mixtures: a class is drawn, and then a number of its component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.classes import Categorical
from fusegrad.eager.distributions.distribution import Distribution, sized

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws of components that are the last batch dimension of a distribution, chosen by a `Categorical`.

    Source: `torch.distributions.MixtureSameFamily`.

    >>> import fusegrad as fg
    >>> from fusegrad.distributions import Categorical, MixtureSameFamily, Normal
    >>> two = MixtureSameFamily(Categorical(fg.ones(2)), Normal(fg.tensor([-1.0, 3.0]), fg.ones(2)))
    >>> two.mean
    tensor(1.)
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise failure(
                ValueError,
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical",
            )
        if not isinstance(component, Distribution):
            raise failure(
                ValueError,
                "The Component distribution need to be an instance of torch.distributions.Distribution",
            )
        batch_shape = component.batch_shape[:-1]
        for one, other in zip(reversed(mixture.batch_shape), reversed(batch_shape), strict=False):
            if one != 1 and other != 1 and one != other:
                raise failure(
                    ValueError,
                    f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch_shape})",
                )
        count = mixture._num_events
        if component.batch_shape[-1] != count:
            raise failure(
                ValueError,
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({component.batch_shape[-1]})",
            )
        self._mixture_distribution, self._component_distribution = mixture, component
        super().__init__(batch_shape, component.event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        mixture, component = self._mixture_distribution, self._component_distribution
        new._component_distribution = component.expand(sized(batch_shape, (mixture._num_events,)))
        new._mixture_distribution = mixture.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """How components are chosen."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The chances of the components, beside what they give."""
        probs = self._mixture_distribution.probs
        return probs.reshape(sized(probs.shape, [1] * len(self._event_shape)))

    @property
    def _dim(self) -> int:
        """The dimension of components, from the end."""
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Tensor:
        weights, means = self._weights(), self._component_distribution.mean
        within = (weights * self._component_distribution.variance).sum(self._dim)
        away = means - (weights * means).sum(self._dim, keepdim=True)
        return within + (weights * away.square()).sum(self._dim)

    def cdf(self, value: Tensor) -> Tensor:
        chances = self._component_distribution.cdf(value.unsqueeze(self._dim))
        return (chances * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        densities = self._component_distribution.log_prob(value.unsqueeze(self._dim))
        return (densities + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            dim = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(sized(chosen.shape, [1] * (1 + len(self._event_shape))))
            index = index.expand(sized(chosen.shape, (1,), self._event_shape))
            return ops.gather(drawn, dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


locate("fusegrad.distributions", globals(), __all__)
