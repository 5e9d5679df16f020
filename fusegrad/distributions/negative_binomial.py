"""`NegativeBinomial`, as `torch.distributions.negative_binomial`."""

from fusegrad.eager.distributions.counts import NegativeBinomial as NegativeBinomial

__all__ = ["NegativeBinomial"]
