"""`LowRankMultivariateNormal`, as `torch.distributions.lowrank_multivariate_normal`."""

from fusegrad.eager.distributions.multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal

__all__ = ["LowRankMultivariateNormal"]
