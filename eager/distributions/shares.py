"""Distributions of shares: Beta and Dirichlet, whose draws are gamma numbers' shares; of one by a power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.chances import Chance, clamp_probs
from fusegrad.eager.distributions.distribution import ExponentialFamily, broadcast_all
from fusegrad.eager.distributions.noise import log_gamma, uniform
from fusegrad.eager.nn import functional as F

__all__ = ["Beta", "ContinuousBernoulli", "Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Shares that sum to 1, by how much each is concentrated. Source: `torch.distributions.Dirichlet`.

    >>> import fusegrad as fg
    >>> fg.distributions.Dirichlet(fg.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise failure(ValueError, "`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        more = (self.concentration - 1).clamp(min=0)
        mode = more / more.sum(-1, True)
        corner = F.one_hot(mode.nan_to_num().argmax(-1), more.shape[-1]).to(mode.dtype)
        return ops.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = log_gamma(self.concentration.expand(self._extended_shape(sample_shape))).softmax(-1)
        kind = dtypes.finfo(drawn.dtype)
        return drawn.clamp(min=kind.tiny, max=1 - kind.eps / 2)  # neither has a logarithm of 0

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        norm = self.concentration.sum(-1).lgamma() - self.concentration.lgamma().sum(-1)
        return ops.xlogy(self.concentration - 1.0, value).sum(-1) + norm

    def entropy(self) -> Tensor:
        a = self.concentration
        total, count = a.sum(-1), a.shape[-1]
        lbeta = a.lgamma().sum(-1) - total.lgamma()
        return lbeta - (count - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """Numbers from 0 to 1, concentrated at 1 and at 0. Source: `torch.distributions.Beta`.

    >>> import fusegrad as fg
    >>> fg.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        one, zero = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(ops.stack([one, zero], -1), validate_args=False)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        new._dirichlet = self._dirichlet.expand(shape)

    @property
    def concentration1(self) -> Tensor:
        """How much the numbers are concentrated at 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """How much the numbers are concentrated at 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self._dirichlet.mean[..., 0]

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class ContinuousBernoulli(Chance, ExponentialFamily):
    """Shares whose density is a power of `probs / (1 - probs)`.

    Source: `torch.distributions.ContinuousBernoulli`.

    lims: between these the functions of `probs`, which are 0 / 0 at a half, are taken from their series.

    >>> import fusegrad as fg
    >>> fg.distributions.ContinuousBernoulli(fg.tensor([0.5, 0.9])).mean
    tensor([0.5000, 0.6699])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._keep(probs, logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._probs is not None:
            self._probs = clamp_probs(self._probs)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        super()._expand_rest(new, shape)
        new._lims = self._lims

    def _of_logits(self, logits: Tensor) -> Tensor:
        """The parameter, from 0 to 1; no chance of anything."""
        return clamp_probs(super()._of_logits(logits))

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """In double precision, since differences are taken: whether the parameter is away from a half, there
        itself and its logit (of another number elsewhere), and how far it is from a half."""
        p = self.probs.double()
        away = (p <= self._lims[0]) | (p > self._lims[1])
        safe = ops.where(away, p, self._lims[0])
        return away, safe, safe.log() - (-safe).log1p(), p - 0.5

    def _log_norm(self) -> Tensor:
        away, p, logit, x = self._parts()
        x = x.square()
        series = math.log(2.0) + (4 / 3 + 104 / 45 * x) * x
        return ops.where(away, (logit / (2 * p - 1)).log(), series).to(self._param.dtype)

    @property
    def mean(self) -> Tensor:
        away, p, logit, x = self._parts()
        series = 0.5 + (1 / 3 + 16 / 45 * x.square()) * x
        return ops.where(away, p / (2 * p - 1) - 1 / logit, series).to(self._param.dtype)

    @property
    def variance(self) -> Tensor:
        away, p, logit, x = self._parts()
        x = x.square()
        series = 1 / 12 - (1 / 15 - 128 / 945 * x) * x
        spread = p * (p - 1) / (1 - 2 * p).square() + logit.square().reciprocal()
        return ops.where(away, spread, series).to(self._param.dtype)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape))).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away, p, logit, _ = self._parts()
        share = ops.where(away, (1 - p) * (logit * value).expm1() / (2 * p - 1), value)
        return share.clamp(0, 1).to(self._param.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        away, p, logit, _ = self._parts()
        share = (value * (2 * p - 1) / (1 - p)).log1p() / logit
        return ops.where(away, share, value).to(self._param.dtype)

    def entropy(self) -> Tensor:
        p = self.probs
        return self.mean * ((-p).log1p() - p.log()) - self._log_norm() - (-p).log1p()


locate("fusegrad.distributions", globals(), __all__)
