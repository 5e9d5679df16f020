"""`Wishart`, as `torch.distributions.wishart`."""

from fusegrad.eager.distributions.multivariate import Wishart as Wishart

__all__ = ["Wishart"]
