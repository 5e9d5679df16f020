"""`ContinuousBernoulli`, as `torch.distributions.continuous_bernoulli`."""

from fusegrad.eager.distributions.shares import ContinuousBernoulli as ContinuousBernoulli

__all__ = ["ContinuousBernoulli"]
