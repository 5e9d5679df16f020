"""`Binomial`, as `torch.distributions.binomial`."""

from fusegrad.eager.distributions.counts import Binomial as Binomial

__all__ = ["Binomial"]
