"""`MultivariateNormal`, as `torch.distributions.multivariate_normal`."""

from fusegrad.eager.distributions.multivariate import MultivariateNormal as MultivariateNormal

__all__ = ["MultivariateNormal"]
