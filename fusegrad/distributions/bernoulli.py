"""`Bernoulli`, as `torch.distributions.bernoulli`."""

from fusegrad.eager.distributions.counts import Bernoulli as Bernoulli

__all__ = ["Bernoulli"]
