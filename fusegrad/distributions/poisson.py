"""`Poisson`, as `torch.distributions.poisson`."""

from fusegrad.eager.distributions.counts import Poisson as Poisson

__all__ = ["Poisson"]
