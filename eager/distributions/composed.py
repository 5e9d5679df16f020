"""Distributions made of others: events of several draws, transformed draws, mixtures."""

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
from fusegrad.eager.distributions.distribution import Distribution, sized, sum_rightmost
from fusegrad.eager.distributions.transforms import ComposeTransform, Transform

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """Draws of another distribution, the last batch dimensions as parts of one event.

    Source: `torch.distributions.Independent`.

    >>> import fusegrad as fg
    >>> from fusegrad.distributions import Independent, Normal
    >>> Independent(Normal(fg.zeros(3), fg.ones(3)), 1).log_prob(fg.zeros(2, 3))
    tensor([-2.7568, -2.7568])
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch_shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch_shape):
            raise failure(
                ValueError,
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch_shape)}",
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        kept = len(batch_shape) - reinterpreted_batch_ndims
        event_shape = sized(batch_shape[kept:], base_distribution.event_shape)
        super().__init__(batch_shape[:kept], event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Independent, _instance)
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(sized(batch_shape, own))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.base_dist.has_enumerate_support and self.reinterpreted_batch_ndims == 0

    @constraints.dependent_property
    def support(self) -> Any:
        result = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            result = constraints.independent(result, self.reinterpreted_batch_ndims)
        return result

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of the draws of another distribution.

    Source: `torch.distributions.TransformedDistribution`.

    >>> import fusegrad as fg
    >>> from fusegrad.distributions import Normal, TransformedDistribution
    >>> from fusegrad.distributions.transforms import ExpTransform
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(fg.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints = {}  # noqa: RUF012
    base_dist: Any

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, (list, tuple)):
            if not all(isinstance(t, Transform) for t in transforms):
                raise failure(ValueError, "transforms must be a Transform or a list of Transforms")
            self.transforms = list(transforms)
        else:
            raise failure(ValueError, f"transforms must be a Transform or list, but was {transforms}")
        base = base_distribution
        base_shape = sized(base.batch_shape, base.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise failure(
                ValueError,
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}, but "
                f"got {base_shape}.",
            )
        shape = transform.forward_shape(base_shape)
        wide = transform.inverse_shape(shape)
        if tuple(base_shape) != tuple(wide):
            base = base.expand(wide[: len(wide) - len(base.event_shape)])
        more = transform.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        event_dim = transform.codomain.event_dim + max(-more, 0)
        start = len(shape) - event_dim
        super().__init__(shape[:start], shape[start:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        shape = sized(batch_shape, self.event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        stretch: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)  # as `inv` does, which keeps an object
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            one = transform.log_abs_det_jacobian(x, y)
            stretch = stretch + sum_rightmost(one, event_dim - transform.domain.event_dim)
            y = x
        inner = self.base_dist.log_prob(y)
        return sum_rightmost(inner, event_dim - len(self.base_dist.event_shape)) - stretch

    def _turned(self, value: Tensor) -> Tensor:
        """A probability, of the other end where the transforms go down."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._turned(value))
        for transform in self.transforms:
            value = transform(value)
        return value


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

    @constraints.dependent_property
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
