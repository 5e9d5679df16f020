"""`Pareto`, as `torch.distributions.pareto`."""

from fusegrad.eager.distributions.transformed import Pareto as Pareto

__all__ = ["Pareto"]
