"""`GeneralizedPareto`, as `torch.distributions.generalized_pareto`."""

from fusegrad.eager.distributions.positive import GeneralizedPareto as GeneralizedPareto

__all__ = ["GeneralizedPareto"]
